package core_test

import (
	"slices"

	"github.com/leasemq/broker/core"
)

// received checks what a receive gave at now against the model, and takes it
// over. inOrder is false when others received at the same moment, so that their
// order is not known; alone says that nothing else happened then.
func (r *rig) received(q *mQueue, o *core.ReceiveOptions, owner *mOwner, got []core.Delivery, now int64, inOrder, alone bool) {
	if len(got) > o.Max {
		r.failf("receive of %d from %s gave %d messages", o.Max, q.name, len(got))
	}
	sel := selectorOf(o)
	due := r.deliverable(q, sel, now)
	// A receive may stop where it would have to read on, as for what is due, or
	// behind what came back, which goes first and may have expired.
	whole := alone && sel == nil && !q.cold && !r.p.paged && !slices.ContainsFunc(q.msgs, func(m *mMessage) bool {
		return m.mayBeReady(now) && (m.due != 0 || m.received)
	})
	var given []*mMessage
	for i := range got {
		d := &got[i]
		m := q.bySeq(d.Seq)
		if m == nil {
			m = r.moved(q, &d.Stored, d.Seq, now)
		}
		switch {
		case slices.Contains(given, m):
			r.failf("one receive from %s gave %s twice", q.name, m.body)
		case !sel.selects(m):
			r.failf("%s gave %s, which %s does not select", q.name, m.body, sel.text)
		case m.expired(now):
			r.failf("%s gave %s, which expired at %d, now is %d", q.name, m.body, m.expires, now)
		case !m.mayBeReady(now):
			r.failf("%s gave %s, which is %s until %d by %v, now is %d", q.name, m.body, m.status, m.until, m.owner, now)
		case r.exhausted(m, now):
			r.failf("%s gave %s, which has failed %d times", q.name, m.body, m.state.Failures)
		case m.blocked(given, now):
			r.failf("%s gave %s before another of its group", q.name, m.body)
		}
		if inOrder {
			r.checkOrder(q, sel, m, given, now)
		}
		r.sameContent(m, &d.Stored)
		given = append(given, m)
	}
	for i, m := range given {
		r.lease(m, o, owner, &got[i], now)
	}
	if missing := min(o.Max, len(due)) - len(given); missing > 0 && (len(given) == 0 || whole) {
		r.failf("receive of %d from %s gave %d messages, %d are there: %s; %+v", o.Max, q.name, len(given), len(due), due, q)
	}
}

// lease takes a delivery over.
func (r *rig) lease(m *mMessage, o *core.ReceiveOptions, owner *mOwner, d *core.Delivery, now int64) {
	want := m.state
	want.Receives++
	want.Nonce = d.State.Nonce
	want.Flags = 0
	if !m.received {
		want.FirstReceived = now
	}
	if owner != nil {
		want.VisibleAt, want.Flags = 0, core.StateSession
	} else {
		visibility := o.Visibility
		if visibility < 0 {
			visibility = m.q.cfg().VisibilityTimeout
		}
		want.VisibleAt = now + visibility.Milliseconds()
		want.Failures++
	}
	if d.State != want {
		r.failf("%s: given with state %+v, want %+v", m.body, d.State, want)
	}
	if d.Redelivered != (want.Receives > 1) {
		r.failf("%s: redelivered=%v on receive %d", m.body, d.Redelivered, want.Receives)
	}
	m.state, m.received, m.owner, m.leasedAt = want, true, owner, now
	m.picked = m.picked || o.Selector != nil
	m.status, m.until = mLeased, want.VisibleAt
	if owner == nil {
		m.mark = want
		if want.VisibleAt <= now {
			m.status = mReady
		}
	}
	receipt := d.Receipt
	if h := string(r.n.client.AppendHandle(nil, receipt)); len(h) != core.ReceiptHandleBytes {
		r.failf("receipt handle of %d signs, want %d", len(h), core.ReceiptHandleBytes)
	}
	m.receipts = append(m.receipts, receipt)
}

// checkOrder checks that m may be given next, after given.
func (r *rig) checkOrder(q *mQueue, sel *mSelector, m *mMessage, given []*mMessage, now int64) {
	if q.overflows() {
		return // any of them may be gone
	}
	var ready []*mMessage
	for _, n := range q.msgs {
		if n != m && sel.selects(n) && n.seq != 0 && n.mustBeReady(now) && !n.expired(now) && !r.exhausted(n, now) && !slices.Contains(given, n) && !n.blocked(given, now) {
			ready = append(ready, n)
		}
	}
	for _, n := range ready {
		if n.lane() != m.lane() {
			continue
		}
		// Of what is due, that which came back goes before the rest, by sequence;
		// a selector, and any other lane, has one order for all.
		mixed := sel != nil || m.due == 0
		starves := q.starved(n.lane(), given, now) || sel != nil && n.state.Receives > 3
		switch {
		case !m.received && !n.received && n.before(m), m.received && n.received && n.older(m, sel) && !(sel != nil && starves):
			r.failf("%s gave %s before %s of the same lane", q.name, m.body, n.body)
		case m.received && !n.received && mixed && n.before(m):
			r.failf("%s gave %s, which came back, before %s, which lies before it: %v", q.name, m.body, n.body, q)
		case !m.received && n.received && !starves && (!mixed || n.before(m)):
			r.failf("%s gave %s, which is new, before %s, which came back: %v", q.name, m.body, n.body, q)
		case q.fifo() && n.seq < m.seq:
			r.failf("%s gave %s before %s of the same group", q.name, m.body, n.body)
		}
	}
	if !q.lanes && q.cfg().Kind == core.KindStandard {
		r.checkSteps(q, sel, m, ready, given, now)
	}
	if q.cfg().Kind == core.KindPriority && m.due == 0 {
		for _, n := range ready {
			if n.due == 0 && n.priority > m.priority {
				r.failf("%s gave %s of priority %d before %s of %d", q.name, m.body, m.priority, n.body, n.priority)
			}
			if n.due != 0 {
				r.failf("%s gave %s before %s, which was due", q.name, m.body, n.body)
			}
		}
	}
}

// starved tells whether the first message of the lane that came back keeps
// coming back, so that new ones take turns with it.
func (q *mQueue) starved(lane string, given []*mMessage, now int64) bool {
	if q.cfg().Kind != core.KindStandard {
		return false
	}
	for _, n := range q.msgs {
		if n.lane() == lane && n.received && n.mayBeReady(now) && !slices.Contains(given, n) {
			return n.state.Receives > 3
		}
	}
	return false
}

// step is where a message of a plain queue stands in the order of deliveries:
// what came back, then what is due, then the tail.
func (m *mMessage) step() int {
	switch {
	case m.received && m.due == 0:
		return 0
	case m.received:
		return 1
	case m.due != 0:
		return 2
	}
	return 3
}

// checkSteps checks m against what stands before it, other than in its lane.
func (r *rig) checkSteps(q *mQueue, sel *mSelector, m *mMessage, ready, given []*mMessage, now int64) {
	for _, n := range ready {
		if n.step() >= m.step() || n.lane() == m.lane() {
			continue
		}
		if n.picked && n.due == 0 || sel != nil && n.state.Receives > 3 {
			continue // others of its lane may go before it, and what is due before these
		}
		if n.received && !(m.received && m.state.Receives > 3) && q.starved(n.lane(), given, now) {
			continue
		}
		r.failf("%s gave %s before %s: %v", q.name, m.body, n.body, q)
	}
}

// sameContent compares what a message says with what was sent.
func (r *rig) sameContent(m *mMessage, s *core.Stored) {
	switch {
	case string(s.Body) != m.body || s.ID != m.id:
		r.failf("message %s of id %v: body %q, id %v", m.body, m.id, s.Body, s.ID)
	case string(s.Group) != m.group || string(s.DedupID) != m.dedupID || s.Priority != m.priority:
		r.failf("message %s: group %q id %q priority %d, want %q %q %d", m.body, s.Group, s.DedupID, s.Priority, m.group, m.dedupID, m.priority)
	case s.EnqueuedAt != m.sentAt || s.ExpiresAt != m.expires:
		r.failf("message %s: sent %d expires %d, want %d %d", m.body, s.EnqueuedAt, s.ExpiresAt, m.sentAt, m.expires)
	case s.DeadLetter != m.dead || s.PriorReceives != m.prior:
		r.failf("message %s: dead %+v prior %d, want %+v %d", m.body, s.DeadLetter, s.PriorReceives, m.dead, m.prior)
	case s.AttributeCount() != min(r.p.pad, 1):
		r.failf("message %s has %d attributes", m.body, s.AttributeCount())
	}
}

// movable finds the message that a dead-letter queue shows: of copies, which have
// one id, the one that came from where it says.
func (r *rig) movable(to *mQueue, s *core.Stored) *mMessage {
	fits := []func(m *mMessage) bool{
		func(m *mMessage) bool {
			return m.q == to && m.seq == 0 && m.dead.Source == s.DeadLetter.Source && m.prior == s.PriorReceives
		},
		func(m *mMessage) bool {
			return m.q.name == s.DeadLetter.Source && m.prior+m.state.Receives == s.PriorReceives && r.dlqOf(m.q) == to
		},
		func(m *mMessage) bool { hop := r.dlqOf(m.q); return hop != nil && hop.name == s.DeadLetter.Source },
		func(*mMessage) bool { return true },
	}
	// One that was dead-lettered before says since when; another was since the last look.
	known := func(m *mMessage) bool {
		return m.dead.FirstAt == s.DeadLetter.FirstAt || m.dead.FirstAt == 0 && s.DeadLetter.FirstAt >= r.lookedAt
	}
	for _, fit := range fits {
		if i := slices.IndexFunc(r.byID[s.ID], func(m *mMessage) bool { return known(m) && fit(m) }); i >= 0 {
			return r.byID[s.ID][i]
		}
	}
	return nil
}

// moved finds the message that turned up in a dead-letter queue.
func (r *rig) moved(to *mQueue, s *core.Stored, seq core.Seq, now int64) *mMessage {
	m := r.movable(to, s)
	if m == nil {
		r.failf("%s has %q, which nobody sent or which is gone", to.name, s.Body)
	}
	if m.seq != 0 || m.q != to {
		if hop := r.dlqOf(m.q); hop != to {
			// It may have expired in the dead-letter queue in between.
			if m.seq == 0 || hop == nil || r.dlqOf(hop) != to || !r.exhausted(m, r.lookedAt) {
				r.failf("%s has %s of queue %s", to.name, m.body, m.q.name)
			}
			r.deadLetter(m, hop, core.DeadLetterMaxReceives, now)
			if hop.fifo() {
				m.sentAt = s.EnqueuedAt
			}
		}
		switch reason := s.DeadLetter.Reason; {
		case reason == core.DeadLetterMaxReceives && r.exhausted(m, r.lookedAt) && m.mayBeReady(now):
			r.deadLetter(m, to, core.DeadLetterMaxReceives, now)
		case reason == core.DeadLetterExpired && m.expired(now) && m.q.cfg().ExpiredToDLQ && m.dead.Reason != core.DeadLetterExpired:
			r.deadLetter(m, to, core.DeadLetterExpired, now)
		default:
			r.failf("%s was moved from %s to %s for no reason: %+v", m.body, m.q.name, to.name, m)
		}
	}
	// When it was moved is known to the step only.
	at := s.DeadLetter.FirstAt
	if m.dead.FirstAt == 0 {
		m.dead.FirstAt = at
		if at > now || at < r.lookedAt {
			r.failf("%s was dead-lettered at %d, now is %d", m.body, at, now)
		}
	}
	if to.fifo() {
		m.sentAt = s.EnqueuedAt
		if m.sentAt > now || m.sentAt < r.lookedAt {
			r.failf("%s was sent anew at %d, now is %d", m.body, m.sentAt, now)
		}
	}
	to.msgs = slices.DeleteFunc(to.msgs, func(n *mMessage) bool { return n == m })
	m.seq = seq
	to.insert(m)
	r.sameContent(m, s)
	return m
}

// deadLetter moves m in the model; its sequence is not known yet.
func (r *rig) deadLetter(m *mMessage, to *mQueue, reason core.DeadLetterReason, now int64) {
	r.forgetReceipts(m)
	from := m.q
	r.remove(m)
	r.byID[m.id] = append(r.byID[m.id], m)
	m.dead.Source, m.dead.Reason = from.name, reason
	m.prior += m.state.Receives
	if reason == core.DeadLetterExpired {
		m.expires = 0
	}
	if to.fifo() {
		m.dedupID = m.id.String()
	}
	m.seq, m.due, m.status, m.until, m.owner, m.received = 0, 0, mReady, 0, nil, false
	m.state, m.mark = core.MessageState{}, core.MessageState{}
	to.insert(m)
}

// forgetReceipts keeps the receipts of a message that goes: they must do nothing
// from now on.
func (r *rig) forgetReceipts(m *mMessage) {
	for _, receipt := range m.receipts {
		r.gone = append(r.gone, mReceipt{r: receipt, q: m.q})
	}
	if len(r.gone) > 50 {
		r.gone = r.gone[len(r.gone)-50:]
	}
	m.receipts = nil
}
