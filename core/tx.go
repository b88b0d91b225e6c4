package core

import (
	"context"
	"fmt"
)

// TxOpsMax bounds the operations of a transaction.
const TxOpsMax = 10_000

// Tx collects sends, publishes to topics, settlements and records that become one
// Change: all or nothing. It is used by one goroutine, and only once.
type Tx struct {
	client  *Client
	ops     []txOp
	records []txRecord
	size    int // operations
	sends   int // results of Commit
	copies  int // results of Topics
	done    bool
	topics  []TopicResult
}

// txOp is one operation: a send or a settlement, or, without a queue, a publish
// to a topic.
type txOp struct {
	queue  string
	msg    *Message
	settle Settlement
	topic  *TopicPublish
}

// Begin starts a transaction.
func (c *Client) Begin() *Tx { return &Tx{client: c} }

// add adds an operation that counts as n.
func (t *Tx) add(op txOp, n int) error {
	if t.done || t.size+n > TxOpsMax {
		return ErrInvalidArgument
	}
	t.size += n
	t.ops = append(t.ops, op)
	return nil
}

// Publish adds a send. The message must not change before Commit.
func (t *Tx) Publish(queue string, m Message) error {
	if err := t.add(txOp{queue: queue, msg: &m}, 1); err != nil {
		return err
	}
	t.sends++
	return nil
}

// PublishTopic adds a publish to a topic. Its messages must not change before
// Commit. Which queues get copies is decided then.
func (t *Tx) PublishTopic(p TopicPublish) error {
	if err := t.add(txOp{topic: &p}, len(p.Messages)); err != nil {
		return err
	}
	t.copies += len(p.Messages)
	return nil
}

// Settle adds a settlement.
func (t *Tx) Settle(queue string, s Settlement) error {
	if s.Action > SettleDeadLetter {
		return ErrInvalidArgument
	}
	return t.add(txOp{queue: queue, settle: s}, 1)
}

// Topics returns, after Commit, a result for each message that was published to a
// topic, in order.
func (t *Tx) Topics() []TopicResult { return t.topics }

// Rollback forgets the transaction.
func (t *Tx) Rollback() { t.done, t.ops, t.records = true, nil, nil }

// Commit applies all of it as one Change and answers when that is durable, with
// a result for each Publish in order. On an error nothing has happened, unless
// it wraps ErrStopped: then it is unknown.
func (t *Tx) Commit(ctx context.Context) ([]Published, error) {
	out, done, err := t.commit(nil)
	if err == nil && done != nil {
		err = wait(ctx, done)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// CommitAsync is Commit without the wait: done is called once, in the order of
// commits, when the transaction is durable or the node has failed, and at once
// for a transaction without operations. It must not block. When an error is
// returned, nothing has happened, and done is not called.
func (t *Tx) CommitAsync(done func([]Published, error)) error {
	_, pending, err := t.commit(done)
	if err == nil && pending == nil {
		done(nil, nil)
	}
	return err
}

// commit decides the transaction. The commit to wait for is nil if it has no
// operations. async, if set, is called with the commit.
func (t *Tx) commit(async func([]Published, error)) ([]Published, *commit, error) {
	if t.done {
		return nil, nil, ErrInvalidArgument
	}
	t.done = true
	if t.size == 0 {
		return nil, nil, nil // nothing would ever be committed
	}
	e := t.client.engine
	if t.sends+t.copies > 0 {
		if err := e.held(); err != nil {
			return nil, nil, err
		}
	}
	e.seq.admit()
	for {
		out := make([]Published, t.sends)
		parts, retain, err := t.parts(out)
		if err != nil {
			return nil, nil, err
		}
		t.topics = make([]TopicResult, t.copies)
		done, err := e.commitParts(parts, func(g *group) {
			countCopies(parts, t.topics)
			for _, f := range retain {
				f.retain(g)
			}
			for i := range t.records {
				t.records[i].write(g)
			}
			for i := range parts {
				for j := range parts[i].drafts {
					if d := &parts[i].drafts[j]; !d.copy {
						out[d.op] = d.published()
					}
				}
			}
			if async != nil {
				g.answer(async, func() []Published { return out })
			}
		})
		if err != errEvicted {
			return out, done, err
		}
	}
}

// partList finds the part of a queue.
type partList struct {
	parts  []part
	index  map[*queue]int
	retain []*fan // publishes that are to be retained
	bytes  int    // of all messages
}

func newPartList() partList { return partList{index: make(map[*queue]int)} }

// count adds to the bytes of all messages, of which there is a bound.
func (l *partList) count(n int) error {
	if l.bytes += n; l.bytes > fanBytesMax {
		return ErrTooLarge
	}
	return nil
}

// of returns the part of q, which stays valid until the next call.
func (l *partList) of(q *queue) *part {
	i, ok := l.index[q]
	if !ok {
		i = len(l.parts)
		l.index[q] = i
		l.parts = append(l.parts, part{q: q})
	}
	return &l.parts[i]
}

// parts sorts the operations by queue, and returns the publishes that are to be
// retained as well. Sends that go by routes have their ids in out.
func (t *Tx) parts(out []Published) ([]part, []*fan, error) {
	e := t.client.engine
	l := newPartList()
	byName := make(map[string]*queue)
	sends, copies := int32(0), int32(0)
	now := e.clock.now()
	for i := range t.ops {
		op := &t.ops[i]
		if op.topic != nil {
			f, err := e.addCopies(&l, op.topic, copies)
			if err != nil {
				return nil, nil, fmt.Errorf("topic %q: %w", op.topic.Topic, err)
			}
			if op.topic.Retain {
				l.retain = append(l.retain, f)
			}
			copies += int32(len(op.topic.Messages))
			continue
		}
		q := byName[op.queue]
		if q == nil {
			var err error
			if q, err = e.queue(op.queue); err != nil {
				return nil, nil, err
			}
			byName[op.queue] = q
		}
		cfg := q.config()
		if op.msg != nil && !cfg.Routes.Empty() {
			var err error
			if out[sends].ID, err = e.route(&l, q, op.msg, sends); err != nil {
				return nil, nil, err
			}
			sends++
			continue
		}
		p := l.of(q)
		if op.msg == nil {
			p.settle = append(p.settle, op.settle)
			if op.settle.Action >= SettleReject && p.dlq == nil {
				if p.dlq = e.deadLetterQueue(q); p.dlq != nil {
					l.of(p.dlq) // it has to be locked as well; p is not valid any more
				}
			}
			continue
		}
		if err := checkMessage(op.msg, cfg); err != nil {
			return nil, nil, fmt.Errorf("queue %q: %w", q.name, err)
		}
		d := draft{counted: int64(op.msg.countedBytes()), op: sends}
		e.draft(&d, op.msg, cfg, now, nil)
		if err := l.count(len(d.rec)); err != nil {
			return nil, nil, fmt.Errorf("queue %q: %w", q.name, err)
		}
		p.drafts = append(p.drafts, d)
		sends++
	}
	return l.parts, l.retain, nil
}

// addCopies adds the copies of a publish, whose messages have the numbers from
// first on.
func (e *Engine) addCopies(l *partList, p *TopicPublish, first int32) (*fan, error) {
	f, err := e.newFan(p)
	if err != nil {
		return nil, err
	}
	parts, err := f.parts()
	if err != nil {
		return nil, err
	}
	for i := range parts {
		to := l.of(parts[i].q)
		for _, d := range parts[i].drafts {
			if err := l.count(len(d.rec)); err != nil {
				return nil, err
			}
			d.op += first
			to.drafts = append(to.drafts, d)
		}
	}
	return f, nil
}
