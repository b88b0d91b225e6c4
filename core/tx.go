package core

import (
	"context"
	"fmt"
	"slices"
)

// TxOpsMax bounds the operations of a transaction.
const TxOpsMax = 10_000

// Tx collects sends and settlements that become one Change: all or nothing. It
// is used by one goroutine, and only once.
type Tx struct {
	client *Client
	sends  []txSend
	settle []txSettle
	done   bool
}

type txSend struct {
	queue string
	msg   Message
}

type txSettle struct {
	queue string
	s     Settlement
}

// Begin starts a transaction.
func (c *Client) Begin() *Tx { return &Tx{client: c} }

// Publish adds a send. The message must not change before Commit.
func (t *Tx) Publish(queue string, m Message) error {
	if t.done || len(t.sends)+len(t.settle) >= TxOpsMax {
		return ErrInvalidArgument
	}
	t.sends = append(t.sends, txSend{queue: queue, msg: m})
	return nil
}

// Settle adds a settlement.
func (t *Tx) Settle(queue string, s Settlement) error {
	if t.done || len(t.sends)+len(t.settle) >= TxOpsMax || s.Action > SettleDeadLetter {
		return ErrInvalidArgument
	}
	t.settle = append(t.settle, txSettle{queue: queue, s: s})
	return nil
}

// Rollback forgets the transaction.
func (t *Tx) Rollback() { t.done, t.sends, t.settle = true, nil, nil }

// txQueue is what a transaction does to one queue.
type txQueue struct {
	q         *queue
	dlq       *queue // where it may move messages to; nil if it rejects none, or has none
	sends     []Message
	index     []int // of sends, in the transaction
	drafts    []draft
	settle    []Settlement
	decisions []decision
}

// Commit applies all of it as one Change and answers when that is durable, with
// a result for each Publish in order. On an error nothing has happened, unless
// it wraps ErrStopped: then it is unknown.
func (t *Tx) Commit(ctx context.Context) ([]Published, error) {
	parts, done, err := t.commit(nil)
	if err == nil && done != nil {
		err = wait(ctx, done)
	}
	if err != nil {
		return nil, err
	}
	return t.results(parts), nil
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
func (t *Tx) commit(async func([]Published, error)) ([]*txQueue, *commit, error) {
	if t.done {
		return nil, nil, ErrInvalidArgument
	}
	t.done = true
	if len(t.sends)+len(t.settle) == 0 {
		return nil, nil, nil // nothing would ever be committed
	}
	e := t.client.engine
	if len(t.sends) > 0 {
		if err := e.held(); err != nil {
			return nil, nil, err
		}
	}
	e.seq.admit()
	for {
		parts, err := t.parts()
		if err != nil {
			return nil, nil, err
		}
		var call func(error)
		if async != nil {
			call = func(err error) {
				if err != nil {
					async(nil, err)
					return
				}
				async(t.results(parts), nil)
			}
		}
		done, err := e.commitTx(parts, call)
		if err == errEvicted {
			continue
		}
		return parts, done, err
	}
}

func (t *Tx) results(parts []*txQueue) []Published {
	out := make([]Published, len(t.sends))
	for _, p := range parts {
		for i, r := range appendPublished(nil, p.drafts) {
			out[p.index[i]] = r
		}
	}
	return out
}

// parts sorts the operations by queue, in lock order.
func (t *Tx) parts() ([]*txQueue, error) {
	e := t.client.engine
	byName := make(map[string]*txQueue)
	var parts []*txQueue
	part := func(name string) (*txQueue, error) {
		if p := byName[name]; p != nil {
			return p, nil
		}
		q, err := e.queue(name)
		if err != nil {
			return nil, err
		}
		p := &txQueue{q: q}
		byName[name] = p
		parts = append(parts, p)
		return p, nil
	}
	for i := range t.sends {
		p, err := part(t.sends[i].queue)
		if err != nil {
			return nil, err
		}
		p.sends, p.index = append(p.sends, t.sends[i].msg), append(p.index, i)
	}
	for i := range t.settle {
		p, err := part(t.settle[i].queue)
		if err != nil {
			return nil, err
		}
		p.settle = append(p.settle, t.settle[i].s)
		if t.settle[i].s.Action < SettleReject || p.dlq != nil {
			continue
		}
		if dlq := e.deadLetterQueue(p.q); dlq != nil {
			if _, err := part(dlq.name); err != nil {
				return nil, err
			}
			p.dlq = byName[dlq.name].q
		}
	}
	slices.SortFunc(parts, func(a, b *txQueue) int {
		if a.q.id < b.q.id {
			return -1
		}
		return 1
	})
	for _, p := range parts {
		var err error
		if p.drafts, err = e.drafts(p.q, p.sends); err != nil {
			return nil, fmt.Errorf("queue %q: %w", p.q.name, err)
		}
	}
	return parts, nil
}

// commitTx decides everything first and then writes everything.
func (e *Engine) commitTx(parts []*txQueue, call func(error)) (*commit, error) {
	for _, p := range parts {
		p.q.mu.Lock()
		defer p.q.mu.Unlock()
	}
	for _, p := range parts {
		err := p.q.usableLocked()
		if err == nil {
			if err = p.check(); err != nil {
				err = fmt.Errorf("queue %q: %w", p.q.name, err)
			}
		}
		if err != nil {
			for _, p := range parts {
				p.abandon()
			}
			return nil, err
		}
	}
	g, err := e.seq.begin()
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		g.slotOf(p.q)
		p.q.put(g, p.drafts)
		for i := range p.decisions {
			d := &p.decisions[i]
			le := &p.q.leases.slab[d.index]
			le.decided = false
			l := le.lane
			p.q.apply(g, d, p.dlq)
			if l != nil {
				g.touchLane(p.q, l)
			}
		}
		p.q.snapshot(g, &g.slots[p.q.slotIndex])
	}
	if call != nil {
		g.calls = append(g.calls, call)
	}
	done := g.done
	e.seq.end()
	for _, p := range parts {
		p.q.armLocked()
		if p.q.available() {
			p.q.wake(1)
		}
	}
	return done, nil
}

// check decides on the sends and settlements of one queue.
func (p *txQueue) check() error {
	fresh, size := len(p.drafts), int64(0)
	for i := range p.drafts {
		size += p.drafts[i].counted
	}
	var err error
	if p.q.fifo() {
		if fresh, size, _, err = p.q.findDuplicates(p.drafts); err != nil {
			return err
		}
	}
	if err := p.q.overflow(fresh, size); err != nil {
		return err
	}
	decided := make(map[Seq]int, len(p.settle))
	for i := range p.settle {
		if err := p.decide(&p.settle[i], decided); err != nil {
			return err
		}
	}
	return nil
}

// decide decides on one settlement. Of several on one message the last holds,
// but nothing may follow a delete.
func (p *txQueue) decide(s *Settlement, decided map[Seq]int) error {
	q := p.q
	d, err := q.decide(s, p.dlq)
	if err == errDecided {
		r, _ := q.receiptOf(s)
		before := decided[r.Ref.Seq]
		switch {
		case p.decisions[before].action != SettleDelete:
			le := &q.leases.slab[p.decisions[before].index]
			le.decided = false
			d, err = q.decide(s, p.dlq)
			le.decided = true
			if err == nil && d.index >= 0 {
				p.decisions[before] = d
			}
			return err
		case s.Action == SettleDelete:
			return nil
		}
		return ErrNoMessage
	}
	if err != nil || d.index < 0 {
		return err
	}
	le := &q.leases.slab[d.index]
	le.decided = true
	decided[le.seq] = len(p.decisions)
	p.decisions = append(p.decisions, d)
	return nil
}

// abandon takes back what check did when the transaction cannot be committed. A
// message that memory learned of by its receipt alone gets the state record that
// it lacks: the cursor will pass it.
func (p *txQueue) abandon() {
	q := p.q
	var bare []int32
	for i := range p.decisions {
		le := &q.leases.slab[p.decisions[i].index]
		le.decided = false
		if !le.marked && le.owner == nil {
			bare = append(bare, p.decisions[i].index)
		}
	}
	if len(bare) == 0 {
		return
	}
	g, err := q.engine.seq.begin()
	if err != nil {
		return
	}
	defer q.engine.seq.end()
	sl := g.slotOf(q)
	now := q.engine.clock.now()
	for _, i := range bare {
		le := &q.leases.slab[i]
		q.putState(g, le, le.stateAt(now))
		if le.lane != nil {
			g.touchLane(q, le.lane)
		}
	}
	q.snapshot(g, sl)
}
