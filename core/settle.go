package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errEvicted makes an operation look its queue up again. It never leaves core.
var errEvicted = errors.New("queue was evicted")

// errDecided says that the same call has decided on the message before. It never
// leaves core.
var errDecided = errors.New("message is decided on")

// decision is what a settlement came to.
type decision struct {
	index  int32 // of the lease; -1: nothing is written
	action SettleAction
	until  int64  // extend, release, reject: ready again at this time
	group  uint64 // the answer waits for this group as well
	dead   DeadLetterReason
	rec    []byte // the message, when it is moved
}

// Settle settles deliveries of one queue and appends an error, or nil, for each
// to errs. It answers when all that it did is durable. The second result is an
// error of the whole call: then nothing was settled.
func (c *Client) Settle(ctx context.Context, name string, settlements []Settlement, errs []error) ([]error, error) {
	errs, done, err := c.engine.settleIn(name, settlements, errs, nil)
	if err == nil && done != nil {
		err = wait(ctx, done)
	}
	return errs, err
}

// SettleAsync is Settle without the wait: done is called once, with an error, or
// nil, for each settlement, when all that it did is durable or the node has
// failed. It must not block. Calls come in the order of commits; when there was
// nothing to commit, done is called at once, before SettleAsync returns. When an
// error is returned, done is not called.
func (c *Client) SettleAsync(name string, settlements []Settlement, done func([]error, error)) error {
	errs, pending, err := c.engine.settleIn(name, settlements, nil, done)
	if err == nil && pending == nil {
		done(errs, nil)
	}
	return err
}

// settleIn settles in the queue called name. It returns the commit to wait for,
// nil if there is none. async, if set, is called with the commit.
func (e *Engine) settleIn(name string, settlements []Settlement, errs []error, async func([]error, error)) ([]error, *commit, error) {
	e.seq.admit()
	for {
		q, err := e.queue(name)
		if err != nil {
			return errs, nil, err
		}
		n := len(errs)
		var done *commit
		errs, done, err = e.settle(q, settlements, errs, async)
		if err == errEvicted {
			errs = errs[:n]
			continue
		}
		return errs, done, err
	}
}

// settle decides under the locks of the queue and, if a message may be moved to
// it, of its dead-letter queue.
func (e *Engine) settle(q *queue, settlements []Settlement, errs []error, async func([]error, error)) ([]error, *commit, error) {
	var dlq *queue
	for i := range settlements {
		if a := settlements[i].Action; a == SettleReject || a == SettleDeadLetter {
			dlq = e.deadLetterQueue(q)
			break
		}
	}
	lockBoth(q, dlq)
	defer unlockBoth(q, dlq)
	if err := q.usableLocked(); err != nil {
		return errs, nil, err
	}
	if dlq != nil && dlq != q {
		err := dlq.usableLocked()
		if err == errEvicted {
			return errs, nil, err
		}
		if err != nil {
			dlq = nil
		}
	}
	var room [10]decision
	decisions := room[:0]
	var done *commit
	after, wrote := uint64(0), 0
	for i := range settlements {
		d, err := q.decide(&settlements[i], dlq)
		if err == errDecided {
			// The same message again: what was decided before comes first.
			if done, err = q.carryOut(decisions, dlq); err != nil {
				return errs, nil, err
			}
			decisions = decisions[:0]
			d, err = q.decide(&settlements[i], dlq)
		}
		errs = append(errs, err)
		if err != nil {
			continue
		}
		after = max(after, d.group)
		if d.index >= 0 {
			q.leases.slab[d.index].decided = true
			decisions = append(decisions, d)
			wrote++
		}
	}
	if len(decisions) > 0 {
		var err error
		if done, err = q.carryOut(decisions, dlq); err != nil {
			return errs, nil, err
		}
	}
	if wrote > 0 {
		q.armLocked()
		if q.available() {
			q.wake(wrote)
		}
	} else {
		done = e.seq.commitOf(after)
	}
	q.liftLimit()
	if done == nil || async == nil {
		return errs, done, nil
	}
	return errs, done, e.seq.call(func(err error) {
		if err != nil {
			async(nil, err)
			return
		}
		async(errs, nil)
	})
}

// carryOut writes decisions, each on another message, to the open Change.
func (q *queue) carryOut(decisions []decision, dlq *queue) (*commit, error) {
	g, err := q.engine.seq.begin()
	if err != nil {
		return nil, err
	}
	defer q.engine.seq.end()
	g.slotOf(q)
	for i := range decisions {
		d := &decisions[i]
		le := &q.leases.slab[d.index]
		le.decided = false
		l := le.lane
		q.apply(g, d, dlq)
		if l != nil {
			g.touchLane(q, l)
		}
	}
	q.snapshot(g, &g.slots[q.slotIndex])
	return g.done, nil
}

// decide finds the lease that a settlement names and checks what is asked.
func (q *queue) decide(s *Settlement, dlq *queue) (decision, error) {
	none := decision{index: -1}
	r, err := q.receiptOf(s)
	if err != nil {
		return none, err
	}
	if s.Delay < 0 || s.Delay > VisibilityMax || s.Action > SettleDeadLetter {
		return none, ErrInvalidArgument
	}
	i, err := q.leaseOf(&r, s.Action)
	if err != nil {
		return none, err
	}
	if i < 0 {
		if s.Action == SettleDelete {
			return none, nil
		}
		return none, ErrNoMessage
	}
	le := &q.leases.slab[i]
	if le.decided {
		return none, errDecided
	}
	if le.status == leaseDeleting {
		if s.Action == SettleDelete {
			return decision{index: -1, group: le.group}, nil
		}
		return none, ErrNoMessage
	}
	// A receipt with a higher count than recorded is from a receive whose mark
	// was lost in a crash.
	newest := r.Receives > le.receives || r.Receives == le.receives && r.Nonce == le.nonce
	if q.fifo() && (!newest || le.status != leaseInFlight) {
		return none, ErrReceiptExpired
	}
	if !newest {
		if s.Action == SettleDelete {
			return none, nil // an older receipt: the message stays with its newest holder
		}
		return none, ErrReceiptExpired
	}
	if s.Action != SettleDelete && s.Action != SettleExtend && le.status != leaseInFlight {
		return none, ErrNotInFlight
	}
	return q.decideLease(s, i, dlq)
}

// receiptOf returns the receipt of a settlement, which must be one of q.
func (q *queue) receiptOf(s *Settlement) (Receipt, error) {
	r := s.Receipt
	if s.Handle != "" {
		var err error
		if r, err = q.engine.receipts.parseHandle(s.Handle); err != nil {
			return r, err
		}
	}
	if r.Queue != q.id {
		return r, ErrBadReceipt
	}
	return r, nil
}

// decideLease decides on a lease that the caller holds. A message that ought to
// be dead-lettered, but to a queue that is not there, goes back instead.
func (q *queue) decideLease(s *Settlement, i int32, dlq *queue) (decision, error) {
	now := q.engine.clock.now()
	le := &q.leases.slab[i]
	d := decision{index: i, action: s.Action, until: now + s.Delay.Milliseconds()}
	if le.size < 0 && s.Action == SettleDelete || s.Action >= SettleReject {
		var err error
		if d.rec, err = q.read(le); err != nil {
			return decision{index: -1}, err
		}
	}
	policy := &q.rec.Config.Redelivery
	switch s.Action {
	case SettleExtend:
		// A minute of grace: the full 12 hours may be asked for right after the receive.
		if le.receivedAt != 0 && d.until > le.receivedAt+VisibilityMax.Milliseconds()+minuteMS {
			return decision{index: -1}, fmt.Errorf("%w: invisible for more than %v in all", ErrInvalidArgument, VisibilityMax)
		}
	case SettleReject:
		failures := le.failures
		if le.owner != nil {
			failures++
		}
		if policy.MaxReceives > 0 && int(failures) >= policy.MaxReceives {
			d.dead = DeadLetterMaxReceives
		} else {
			d.until = now + policy.backoff(int(failures), s.Delay).Milliseconds()
		}
	case SettleDeadLetter:
		d.dead = DeadLetterRejected
	}
	if d.dead != DeadLetterNone && dlq == nil && policy.DeadLetterQueue != "" {
		d.dead = DeadLetterNone
	}
	return d, nil
}

// read returns the record of a lease's message, and notes its size.
func (q *queue) read(le *lease) ([]byte, error) {
	if q.memory != nil {
		return q.memory.kept[le.seq], nil
	}
	ref := Ref{QID: q.qid, Place: le.place, Seq: le.seq}
	rec, err := q.engine.store.Message(ref)
	if err == nil {
		err = checkRecord(rec)
	}
	if err != nil {
		return nil, fmt.Errorf("message %v: %w", ref, err)
	}
	le.learn(rec)
	return rec, nil
}

// backoff returns the delay after n failures; other if the policy has none.
func (r *Redelivery) backoff(n int, other time.Duration) time.Duration {
	d := r.InitialDelay
	if d == 0 {
		return min(other, VisibilityMax)
	}
	most := r.MaxDelay
	if most == 0 {
		most = VisibilityMax
	}
	for range n - 1 {
		if r.Multiplier <= 1 || d >= most {
			break
		}
		d = time.Duration(float64(d) * r.Multiplier)
	}
	return min(d, most)
}

// leaseOf finds the lease of a receipt, -1 if its message is gone. When memory
// does not know the message, the state record or the body itself proves that it
// lives: its mark was left to storage, or lost in a crash.
func (q *queue) leaseOf(r *Receipt, action SettleAction) (int32, error) {
	if r.Ref.QID != q.qid {
		return -1, nil // purged since
	}
	if i, le := q.leases.find(r.Ref.Seq); le != nil {
		return i, nil
	}
	if r.Ref.Seq > q.durTail {
		return -1, nil
	}
	l := q.laneOf(r.Ref.Place)
	if l == nil && r.Ref.Place.Kind != PlaceDelayed {
		return -1, nil
	}
	st, marked, err := MessageState{}, false, error(nil)
	if l != nil && l.spill != 0 && r.Ref.Seq >= l.spill {
		if st, marked, err = q.engine.store.State(r.Ref); err != nil {
			return -1, err
		}
	}
	ahead := l != nil && r.Ref.Seq >= l.pos || l == nil && !q.pastDue(r.Ref)
	if !marked && !ahead {
		return -1, nil
	}
	rec, err := q.engine.store.Message(r.Ref)
	if err == nil && rec != nil {
		err = checkRecord(rec)
	}
	if err != nil || rec == nil {
		return -1, err
	}
	switch {
	case marked:
	case q.fifo():
		return -1, ErrReceiptExpired
	case action > SettleExtend:
		return -1, ErrNotInFlight
	}
	return q.adopt(r, l, rec, st, marked), nil
}

// pastDue tells whether the delayed space's cursor has passed r.
func (q *queue) pastDue(r Ref) bool {
	return r.Place.N < q.state.DueCursor || r.Place.N == q.state.DueCursor && r.Seq < q.state.DueSeq
}

// adopt makes a lease for a message that memory did not know.
func (q *queue) adopt(r *Receipt, l *lane, rec []byte, st MessageState, marked bool) int32 {
	i, le := q.leases.add(r.Ref.Seq)
	le.place, le.lane = r.Ref.Place, l
	le.learn(rec)
	if marked {
		le.firstReceived, le.receives, le.failures, le.nonce = st.FirstReceived, st.Receives, st.Failures, st.Nonce
		le.sets, le.marked = setsMany, true
	} else {
		// The cursor has not passed it: take it out of what is to be received.
		le.receives, le.failures, le.nonce = r.Receives, r.Receives, r.Nonce
		le.firstReceived = q.engine.clock.now()
		if l != nil {
			l.win.punch(viewPos{seq: r.Ref.Seq})
			l.recent.punch(viewPos{seq: r.Ref.Seq})
		} else {
			q.due.win.punch(viewPos{due: r.Ref.Place.N, seq: r.Ref.Seq})
			q.state.Delayed--
		}
	}
	q.giveBack(le)
	return i
}

// markDeleting takes a lease out of what is in flight or ready.
func (q *queue) markDeleting(i int32) {
	le := &q.leases.slab[i]
	q.detach(i)
	le.status = leaseDeleting
}

// detach takes a lease out of its status; the caller gives it another.
func (q *queue) detach(i int32) {
	le := &q.leases.slab[i]
	q.leases.unschedule(i)
	switch le.status {
	case leaseInFlight:
		q.inFlight--
	case leaseHidden:
		q.hidden--
	case leaseReturned:
		// The heap's entry is skipped when it comes up.
		if le.lane != nil {
			le.lane.back--
		} else {
			q.due.back--
		}
	}
	if le.owner != nil {
		le.owner.drop(q, le.seq)
		le.owner = nil
	}
}

// apply carries out a decision within g.
func (q *queue) apply(g *group, d *decision, dlq *queue) {
	le := &q.leases.slab[d.index]
	switch {
	case d.action == SettleDelete:
		q.markDeleting(d.index)
		q.putDrop(g, &g.slots[q.slotIndex], le)
		q.unmark(le)
	case d.dead != DeadLetterNone:
		q.markDeleting(d.index)
		q.move(g, le, d.rec, dlq, d.dead)
	default:
		q.applyReturn(g, d, le)
	}
}

// applyReturn changes when a lease's message is ready again.
func (q *queue) applyReturn(g *group, d *decision, le *lease) {
	now := q.engine.clock.now()
	session := le.owner != nil
	if d.action == SettleReject && session {
		le.failures++
	}
	if d.action == SettleExtend && d.until > now {
		q.detach(d.index)
		le.status = leaseInFlight
		q.inFlight++
		if q.fifo() && le.lane != nil {
			le.lane.block(le.seq)
		}
		q.leases.schedule(d.index, d.until)
		q.putState(g, le, le.state())
		q.unmark(le)
		return
	}
	q.detach(d.index)
	q.putState(g, le, le.stateAt(d.until))
	q.unmark(le)
	if d.until > now {
		le.status = leaseHidden
		q.hidden++
		q.leases.schedule(d.index, d.until)
		return
	}
	q.returnLease(d.index)
}
