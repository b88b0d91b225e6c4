package core

import (
	"context"
	"time"
)

// pick is a message that a receive has chosen.
type pick struct {
	ref         Ref
	rec         []byte // nil: to be read from storage
	state       MessageState
	redelivered bool
	index       int32
	setState    bool // its state record is written with the receive
	drop        bool // expired: it is deleted instead
	aside       bool // expired: it goes to the dead-letter queue
	open        bool // visibility timeout 0: ready again at once
	first       bool // of a group that its consumer did not have before
}

// found says what looking for the next message came to.
type found uint8

const (
	foundNone found = iota
	foundOne
	foundPage // storage has to be read first
)

// candidate is the message that a receive would give next.
type candidate struct {
	l     *lane     // nil: the delayed space
	index int32     // of its lease, or -1
	e     entry     // when it has none
	vl    *viewLane // found by a selector
}

// Receive leases up to o.Max messages to the caller and appends them to out. It
// returns as soon as there is one, with as many as are there; after o.Wait it
// returns none. With Options.Wait it parks without cost until a message is
// available or ctx is done.
func (c *Client) Receive(ctx context.Context, name string, o ReceiveOptions, out []Delivery) ([]Delivery, error) {
	if o.Max < 1 || o.Visibility > VisibilityMax || o.Watch != nil && o.Selector != nil {
		return out, ErrInvalidArgument
	}
	for {
		q, err := c.engine.queue(name)
		if err != nil {
			return out, err
		}
		n := len(out)
		out, err = q.receiveFirst(ctx, &o, out)
		if err == errEvicted {
			continue
		}
		if err == nil && len(out) > n {
			err = c.engine.up() // another primary may have given them away by now
		}
		return out, err
	}
}

func (q *queue) receiveFirst(ctx context.Context, o *ReceiveOptions, out []Delivery) ([]Delivery, error) {
	if o.AttemptID == "" || q.config().Kind != KindFIFO {
		return q.receiveOrWait(ctx, o, out)
	}
	out, repeated, err := q.repeat(o, out)
	if repeated || err != nil {
		return out, err
	}
	n := len(out)
	out, err = q.receiveOrWait(ctx, o, out)
	if err == nil && len(out) > n {
		q.rememberAttempt(o.AttemptID, out[n:])
	}
	return out, err
}

func (q *queue) receiveOrWait(ctx context.Context, o *ReceiveOptions, out []Delivery) ([]Delivery, error) {
	n := len(out)
	if o.Watch != nil {
		return q.receiveOrWatch(o, out)
	}
	if o.Wait < 0 {
		o.Wait = q.config().ReceiveWait
	}
	out, err := q.receive(o, nil, out)
	if err != nil || len(out) > n {
		return out, err
	}
	if o.Wait == 0 {
		return out, nil
	}
	return q.receiveLater(ctx, o, o.Wait, out)
}

// receiveLater parks until there is a message, the wait is over, the caller has
// gone or the node drains.
func (q *queue) receiveLater(ctx context.Context, o *ReceiveOptions, wait time.Duration, out []Delivery) ([]Delivery, error) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	w := &waiter{ch: make(chan struct{}, 1), want: o.Max, options: o}
	woken := !q.park(w)
	n := len(out)
	for {
		var over bool
		var err error
		if !woken {
			over, err = q.await(ctx, w, timeout.C)
			if err != nil || over && !w.woken {
				return out, err
			}
			if o.Alive != nil && !o.Alive() {
				q.passOn(w)
				return out, context.Canceled
			}
		}
		again := w
		if over {
			again = nil // one last look, with the token that came with the time-out
		}
		out, err = q.receive(o, again, out)
		if err != nil {
			q.passOn(w)
		}
		if err != nil || len(out) > n || over {
			return out, err
		}
		woken = false
	}
}

// await parks until w is woken. over says that the receive has to end: w is out
// of the list, and w.woken tells whether a token came with it.
func (q *queue) await(ctx context.Context, w *waiter, timeout <-chan time.Time) (over bool, err error) {
	select {
	case <-w.ch:
		return false, nil
	case <-timeout:
		q.leave(w)
		return true, nil
	case <-ctx.Done():
		if q.leave(w) {
			q.passOn(w)
		}
		return true, ctx.Err()
	case <-q.engine.failed:
		q.leave(w)
		return true, q.engine.failure
	case <-q.engine.draining:
		if q.leave(w) {
			q.passOn(w)
			w.woken = false
		}
		return true, nil
	}
}

// park puts w into the list, unless there is something to receive.
func (q *queue) park(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone || q.out {
		return false
	}
	list, available := q.waitersOf(w.options)
	if list == nil || available {
		return false
	}
	list.pushBack(w)
	return true
}

// waitersOf returns where receives of that kind are parked, and whether there may be
// something for them. There is no list when the view of a selector has been
// forgotten.
func (q *queue) waitersOf(o *ReceiveOptions) (list *waiterList, available bool) {
	if to := q.consumerOf(o); to != nil {
		return &q.groups.waiters, q.groups.available(q, to)
	}
	if o.Selector == nil {
		return &q.waiters, q.available()
	}
	v := q.views[o.Selector.Text()]
	if v == nil {
		return nil, true
	}
	return &v.waiters, v.available()
}

// leave takes w out of the list and tells whether it had been woken.
func (q *queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.woken {
		return true
	}
	w.list.remove(w)
	return false
}

// passOn gives the token of a waiter that has gone to the next one.
func (q *queue) passOn(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := w.list
	if w.options.Selector != nil {
		list, _ = q.waitersOf(w.options) // the view may be another
	}
	if list != nil {
		list.wake(1)
	}
}

// available tells whether a receive may find something.
func (q *queue) available() bool {
	if q.dueAvailable() {
		return true
	}
	if q.laned() {
		return len(q.ring) > 0
	}
	_, ok := q.head(q.tail)
	return ok
}

func (q *queue) dueAvailable() bool {
	return q.due.back > 0 || q.due.win.len() > 0 || q.due.hot
}

// receive takes what is there. w is the caller's waiter when it was parked
// before: if nothing is found it is parked again, at its old turn.
func (q *queue) receive(o *ReceiveOptions, w *waiter, out []Delivery) ([]Delivery, error) {
	n := len(out)
	for {
		var again bool
		var err error
		out, again, err = q.receiveOnce(o, w, out)
		if err != nil || len(out) > n || !again {
			return out, err
		}
		// All that was found had expired, was dead-lettered or could not be read.
	}
}

func (q *queue) receiveOnce(o *ReceiveOptions, w *waiter, out []Delivery) ([]Delivery, bool, error) {
	e := q.engine
	dlq := e.deadLetterQueue(q)
	var room [10]pick
	q.mu.Lock()
	picks, dead, err := q.find(o, dlq, room[:0])
	if err != nil {
		q.mu.Unlock()
		return out, false, err
	}
	if len(picks) == 0 && len(dead) == 0 {
		defer q.mu.Unlock()
		if o.Wait == 0 && o.Watch == nil && q.inFlight >= InFlightMax && q.rec.Config.Kind == KindStandard && q.available() {
			return out, false, ErrOverLimit
		}
		if list, _ := q.waitersOf(o); w != nil {
			handOver(w, list)
			list.parkAgain(w)
		}
		return out, false, nil
	}
	commit, err := q.record(picks, o.Owner)
	if err == nil {
		q.wakeNext(o, w)
	}
	q.mu.Unlock()
	if err != nil {
		return out, false, err
	}
	if len(dead) > 0 {
		if err := e.moveDead(q, dlq, dead); err != nil {
			return out, false, err
		}
	}
	if commit != nil {
		if err := commit.wait(); err != nil {
			return out, false, err
		}
	}
	return q.deliver(picks, out), true, nil
}

// wakeNext passes the token of a receive on that has taken something: there may be
// more.
func (q *queue) wakeNext(o *ReceiveOptions, w *waiter) {
	list, available := q.waitersOf(o)
	if g := q.groups; g != nil && list == &g.waiters {
		available = g.available(q, nil) // its own groups are for nobody else
	}
	if available {
		list.wake(1)
	}
	handOver(w, list)
}

// handOver passes on the token of a waiter whose place is in another list now: its
// consumer has begun, or ceased, to have groups to itself.
func handOver(w *waiter, list *waiterList) {
	if w != nil && w.woken && w.list != list {
		w.list.wake(1)
	}
}

// find chooses messages, reading pages until there is one or none is left.
func (q *queue) find(o *ReceiveOptions, dlq *queue, picks []pick) ([]pick, []Seq, error) {
	for {
		if err := q.usableLocked(); err != nil {
			return picks, nil, err
		}
		var v *view
		if o.Selector != nil {
			var err error
			if v, err = q.viewOf(o.Selector); err != nil {
				return picks, nil, err
			}
		}
		if o.Owner != nil && !o.Owner.lock() {
			return picks, nil, context.Canceled // the session has ended
		}
		to := q.consumerOf(o)
		picks, dead, need, page := q.choose(o, v, to, dlq, picks)
		if o.Owner != nil {
			o.Owner.mu.Unlock()
		}
		q.blockGroups(picks)
		if len(picks) > 0 || len(dead) > 0 || need != foundPage {
			return picks, dead, nil
		}
		err := q.readMore(&page)
		if err == nil && v == nil && page.l != nil {
			err = q.readAhead(o.Max, to)
		}
		if err != nil {
			q.degrade(err)
			return picks, nil, err
		}
	}
}

// blockGroups makes what a FIFO queue gives block the rest of its group: only
// now, so that one receive takes as many as it can from a group.
func (q *queue) blockGroups(picks []pick) {
	if !q.fifo() {
		return
	}
	for i := range picks {
		if le := &q.leases.slab[picks[i].index]; le.status == leaseInFlight && le.lane != nil {
			le.lane.block(le.seq)
		}
	}
	if len(q.ring) > 0 && !q.ready(q.ring[0]) {
		q.leaveRing()
	}
}

// readMore reads what choose asked for: what a view needs, a page of a lane or, if
// there is none, of the delayed space.
func (q *queue) readMore(c *candidate) error {
	switch {
	case c.vl != nil:
		return q.readSelected(c)
	case c.l == nil:
		return q.fetchDue()
	}
	return q.fetch(c.l)
}

// readAhead brings the lanes next in turn into memory, as far as a receive of
// most messages comes: it would end at the first that is not there.
func (q *queue) readAhead(most int, to *Consumer) error {
	ring := func() []*lane {
		switch {
		case to == nil:
			return q.ring
		case len(to.ring) > 0 || q.groups == nil:
			return to.ring
		}
		return q.groups.free
	}
	for i, n := 0, 0; i < len(ring()) && i < readAheadLanes && n < most; i++ {
		l := ring()[i]
		if _, f := q.nextInLane(l); f == foundPage && !l.paging {
			if err := q.fetch(l); err != nil {
				return err
			}
		}
		if q.fifo() {
			n += max(1, l.win.len()) // a receive takes all it can from a group
		} else {
			n++
		}
	}
	return nil
}

// deliver reads the bodies that are not in memory and fills out. Messages that
// cannot be read are left leased: they come back, and the queue is degraded.
func (q *queue) deliver(picks []pick, out []Delivery) []Delivery {
	var old []Seq
	for i := range picks {
		p := &picks[i]
		if p.drop || p.aside {
			continue
		}
		returned := p.rec == nil
		if returned {
			rec, err := q.engine.store.Message(p.ref)
			if err != nil || rec == nil {
				if err != nil || q.holds(p) {
					q.lost(p.ref, err)
				}
				continue
			}
			p.rec = rec
		}
		out = append(out, Delivery{})
		d := &out[len(out)-1]
		found, err := true, decodeRecord(p.rec, &d.Stored)
		if err == nil {
			found, err = q.engine.readBody(&d.Stored)
		}
		if err != nil || !found {
			if err != nil || q.holds(p) {
				q.lost(p.ref, err)
			}
			out = out[:len(out)-1]
			continue
		}
		if returned && q.expired(p.rec, q.engine.clock.now()) {
			old = append(old, p.ref.Seq)
			out = out[:len(out)-1]
			continue
		}
		d.Seq, d.State, d.Redelivered, d.FirstOfGroup = p.ref.Seq, p.state, p.redelivered, p.first
		d.Receipt = Receipt{Queue: q.id, Ref: p.ref, Receives: p.state.Receives, Nonce: p.state.Nonce}
	}
	if len(old) > 0 {
		q.dropExpired(old)
	}
	return out
}

// holds tells whether the lease of p is still that of its receive. It may have
// ended while the answer waited for a commit, and the message gone with another.
func (q *queue) holds(p *pick) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, le := q.leases.find(p.ref.Seq)
	return q.qid == p.ref.QID && le != nil && le.nonce == p.state.Nonce && le.status == leaseInFlight
}
