package core

import "context"

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
			OldestAt: q.state.OldestAt, Waiters: q.waiters.n,
		}
		st.Ready = max(st.Messages-st.InFlight-st.Delayed, 0)
		return nil
	})
	return st, err
}

// delayedCountMax bounds what counting due messages may cost.
const delayedCountMax = 100_000

// delayedNow counts the messages that are not due yet.
func (q *queue) delayedNow() (int64, error) {
	n := q.state.Delayed - int64(q.due.win.len())
	if !q.due.hot || n <= 0 {
		return max(n, 0), nil
	}
	counted := 0
	err := q.engine.store.Delayed(q.qid, q.due.due, q.due.seq, q.due.end(q.engine.clock.now()), func(uint64, Seq, []byte) bool {
		counted++
		return counted < delayedCountMax
	})
	return max(n-int64(counted), 0), err
}
