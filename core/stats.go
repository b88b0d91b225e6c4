package core

import (
	"context"
	"fmt"
)

// Stats counts the messages of a queue; asking loads it. Counters include what
// is decided and not yet durable. Delayed is exact up to delayedCountMax due
// messages that nobody has received.
func (c *Client) Stats(_ context.Context, name string) (QueueStats, error) {
	var st QueueStats
	err := c.engine.with(name, func(q *queue) error {
		delayed, err := q.delayedNow()
		if err != nil {
			return err
		}
		st = QueueStats{
			Messages: q.state.Messages, Bytes: q.state.Bytes,
			InFlight: int64(q.inFlight + q.hidden), Delayed: delayed,
			OldestAt: q.state.OldestAt, Waiters: q.parked(),
		}
		st.Ready = max(st.Messages-st.InFlight-st.Delayed, 0)
		return nil
	})
	return st, err
}

// Refused counts the copies, of what was published to topics or sent to queues with
// routes, that did not come into their queues since the node was started.
type Refused struct {
	Full     int64 // the queue was full
	TooLarge int64 // over QueueConfig.MaxMessageBytes
	NoQueue  int64 // a route led to a queue that was not there
}

// Engine.refused, by index.
const (
	refusedFull = iota
	refusedTooLarge
	refusedNoQueue
	refusedReasons
)

// Refused returns the counts of the node.
func (e *Engine) Refused() Refused {
	return Refused{
		Full: e.refused[refusedFull].Load(), TooLarge: e.refused[refusedTooLarge].Load(), NoQueue: e.refused[refusedNoQueue].Load(),
	}
}

func (e *Engine) countRefused(parts []part) {
	for i := range parts {
		for j := range parts[i].drafts {
			switch parts[i].drafts[j].skip {
			case skipFull:
				e.refused[refusedFull].Add(1)
			case skipTooLarge:
				e.refused[refusedTooLarge].Add(1)
			}
		}
	}
}

// Backlog tells how many messages a queue holds.
type Backlog struct {
	Name     string
	Messages int64
}

// Backlogs returns the backlogs of up to max queues whose names sort after the
// given one, by name. Unlike Stats it loads no queue.
func (c *Client) Backlogs(ctx context.Context, after string, max int) ([]Backlog, error) {
	e := c.engine
	if err := e.up(); err != nil {
		return nil, err
	}
	var out []Backlog
	var qids []QID
	err := e.store.Names("", after, func(name string, q QID) bool {
		out, qids = append(out, Backlog{Name: name}), append(qids, q)
		return len(out) < max
	})
	for i := range out {
		if err == nil {
			out[i].Messages, err = e.backlog(ctx, out[i].Name, qids[i])
		}
	}
	return out, err
}

func (e *Engine) backlog(ctx context.Context, name string, qid QID) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	e.tableMu.RLock()
	q := e.byName[name]
	e.tableMu.RUnlock()
	if q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.state.Messages, nil
	}
	b, err := e.store.QueueState(qid)
	if err != nil || b == nil {
		return 0, err
	}
	st, err := decodeQueueState(b)
	if err != nil {
		return 0, fmt.Errorf("queue %q: %w", name, err)
	}
	return st.Messages, nil
}

// delayedCountMax bounds what counting due messages may cost.
const delayedCountMax = 100_000

// delayedNow counts the messages that are not due yet.
func (q *queue) delayedNow() (int64, error) {
	if q.fifo() {
		return q.heldByDelay()
	}
	n := q.state.Delayed - int64(q.due.win.len()-q.due.win.holes)
	if !q.due.hot || n <= 0 {
		return max(n, 0), nil
	}
	counted := 0
	err := q.engine.store.Delayed(q.qid, q.due.due, q.due.seq, q.due.end(q.engine.clock.now()), func(_ uint64, s Seq, _ []byte) bool {
		if !q.known(s) {
			counted++
		}
		return counted < delayedCountMax
	})
	return max(n-int64(counted), 0), err
}
