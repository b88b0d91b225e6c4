package core_test

import (
	"errors"
	"slices"
	"time"

	"github.com/leasemq/broker/core"
)

// look compares all that Peek shows with the model. What has expired may be gone
// or not; what was dead-lettered turns up elsewhere.
func (r *rig) look() {
	now := r.now()
	shown := make(map[*mMessage]bool)
	for _, q := range r.queues {
		if !q.exists {
			continue
		}
		for _, p := range r.peekAll(q) {
			m := q.bySeq(p.Seq)
			if m == nil {
				m = r.moved(q, &p.Stored, p.Seq, now)
			}
			r.sameContent(m, &p.Stored)
			r.sameState(m, &p, now)
			shown[m] = true
		}
	}
	for _, q := range r.queues {
		for _, m := range slices.Clone(q.msgs) {
			if !shown[m] {
				r.missing(m, now)
			}
		}
	}
	r.lookedAt = now
}

func (r *rig) peekAll(q *mQueue) []core.Peeked {
	var all []core.Peeked
	pos := core.PeekPos{}
	for {
		got, next, err := r.n.client.Peek(r.t.Context(), q.name, pos, 20)
		if err != nil {
			r.failf("peek %s: %v", q.name, err)
		}
		all = append(all, got...)
		if next == pos || len(got) == 0 {
			return all
		}
		pos = next
	}
}

// missing checks that a message which is not there any more may be gone.
func (r *rig) missing(m *mMessage, now int64) {
	q := m.q
	switch {
	case q.cfg().Overflow == core.OverflowDropOldest && m.mayBeReady(now):
	case r.exhausted(m, r.lookedAt) && m.mayBeReady(now) && r.overIn(r.dlqOf(q), m, now):
	case m.expired(now):
		if d := r.dlqOf(q); d != nil && q.cfg().ExpiredToDLQ && m.seq != 0 {
			if !r.overIn(d, m, now) && m.dead.Reason != core.DeadLetterExpired {
				r.failf("%s expired in %s and is not in %s", m.body, q.name, d.name)
			}
		}
	default:
		r.failf("%s is gone, now is %d: %v", m.body, now, q)
	}
	r.forgetReceipts(m)
	r.remove(m)
}

// overIn tells whether m, moved to d since the last look, may have been dropped
// from there already.
func (r *rig) overIn(d *mQueue, m *mMessage, now int64) bool {
	keep := d.cfg().Retention.Milliseconds()
	return d.cfg().Overflow == core.OverflowDropOldest || m.expires != 0 && m.expires <= now || keep > 0 && (m.sentAt+keep <= now && !d.fifo() || r.lookedAt+keep <= now)
}

// sameState compares the state that Peek shows.
func (r *rig) sameState(m *mMessage, p *core.Peeked, now int64) {
	got, want := p.State, m.state
	if !m.received {
		if got != (core.MessageState{}) || p.InFlight {
			r.failf("%s was never received and shows %+v", m.body, got)
		}
		return
	}
	if m.unsure(now) {
		return
	}
	held := m.status == mLeased && !m.mayBeReady(now)
	if p.InFlight != held {
		r.failf("%s shows in flight %v, want %v: %+v, now is %d", m.body, p.InFlight, held, m, now)
	}
	if !held || m.owner != nil {
		got.VisibleAt, want.VisibleAt = 0, 0
	}
	if !held {
		got.Flags, want.Flags = 0, 0
	}
	if got != want {
		r.failf("%s shows %+v, want %+v", m.body, got, want)
	}
}

// checkStats compares the counters.
func (r *rig) checkStats() {
	now := r.now()
	for _, q := range r.queues {
		st, err := r.n.client.Stats(r.t.Context(), q.name)
		if !q.exists {
			if err != core.ErrNoQueue {
				r.failf("stats of %s, which is not there: %v", q.name, err)
			}
			continue
		}
		if err != nil {
			r.failf("stats of %s: %v", q.name, err)
		}
		want := core.QueueStats{OldestAt: st.OldestAt}
		least, loose := int64(0), false
		for _, m := range q.msgs {
			switch {
			case m.expired(now), m.seq == 0, q.cfg().Overflow == core.OverflowDropOldest, r.exhausted(m, now):
				loose = true // it may be gone
				continue
			case m.unsure(now):
				loose = true
			case !m.mayBeReady(now) && m.received:
				want.InFlight++
			case !m.mayBeReady(now) && !m.received:
				want.Delayed++
			default:
				want.Ready++
			}
			want.Messages++
			want.Bytes += m.size
			if least == 0 || m.sentAt < least {
				least = m.sentAt
			}
		}
		for _, w := range r.waiters {
			if w.q == q {
				want.Waiters++
			}
		}
		if st.Waiters != want.Waiters || !loose && st != want {
			r.failf("stats of %s are %+v, want %+v", q.name, st, want)
		}
		if st.Messages < want.Messages || st.Messages > 0 && st.OldestAt == 0 || least != 0 && st.OldestAt > least {
			r.failf("stats of %s are %+v, want at least %+v, oldest %d", q.name, st, want, least)
		}
	}
}

// recount compares what storage holds with its own counters and with the model,
// and the engine's memory with itself.
func (r *rig) recount() {
	r.look()
	time.Sleep(150 * time.Millisecond) // the marks of session leases
	r.settleDown()
	r.look()
	refs := make(map[core.QID]uint64)
	for _, q := range r.queues {
		qid, err := r.n.db.QueueID(q.name)
		if err != nil || (qid != 0) != q.exists {
			r.failf("queue %s has id %d, %v", q.name, qid, err)
		}
		if qid != 0 {
			r.recountQueue(q, qid, refs)
		}
	}
	r.recountEpochs(refs)
	r.checkTopics()
	if err := core.Audit(r.n.engine); err != nil {
		r.failf("engine: %v; %v", err, r.queues)
	}
}

// recountEpochs compares the counts of shared bodies with the references of the
// queues. Those of removed ones are not known.
func (r *rig) recountEpochs(refs map[core.QID]uint64) {
	removed := false
	err := r.n.db.Reaps(func(core.QID) bool {
		removed = true
		return false
	})
	err = errors.Join(err, r.n.db.Epochs(func(epoch core.QID, v []byte) bool {
		n, err := core.DecodeEpoch(v)
		if err != nil || n < refs[epoch] || !removed && n > refs[epoch] {
			r.failf("epoch %d counts %d references, there are %d: %v", epoch, n, refs[epoch], err)
		}
		delete(refs, epoch)
		return true
	}))
	if err != nil || len(refs) > 0 {
		r.failf("epochs %v are referred to, and not there: %v", refs, err)
	}
}

// refers tells whether a record refers to a shared body, and counts that.
func (r *rig) refers(q *mQueue, rec []byte, refs map[core.QID]uint64) bool {
	epoch, body, ok := core.RecordRef(rec)
	if !ok {
		return false
	}
	refs[epoch]++
	if v, err := r.n.db.Body(epoch, body); err != nil || v == nil {
		r.failf("%s: body %d of epoch %d is not there: %v", q.name, body, epoch, err)
	}
	return true
}

func (r *rig) recountQueue(q *mQueue, qid core.QID, refs map[core.QID]uint64) {
	db := r.n.db
	var st core.QueueState
	b, err := db.QueueState(qid)
	if err == nil && b != nil {
		st, err = core.DecodeQueueState(b)
	}
	if err != nil {
		r.failf("state of %s: %v", q.name, err)
	}
	states := make(map[core.Ref]core.MessageState)
	if err := db.States(core.Ref{QID: qid}, func(ref core.Ref, st core.MessageState) bool {
		states[ref] = st
		return true
	}); err != nil {
		r.failf("states of %s: %v", q.name, err)
	}
	lanes := make(map[core.Place]core.Seq)
	counts := make(map[core.Place]int64)
	if err := db.Lanes(qid, core.Place{}, func(p core.Place, v []byte) bool {
		cursor, n, err := core.DecodeLaneState(v)
		if err != nil || n <= 0 {
			r.failf("lane %v of %s: count %d, %v", p, q.name, n, err)
		}
		lanes[p], counts[p] = cursor, n
		return true
	}); err != nil {
		r.failf("lanes of %s: %v", q.name, err)
	}
	want := core.QueueState{
		Cursor: st.Cursor, DueCursor: st.DueCursor, DueSeq: st.DueSeq, OldState: st.OldState,
		Ordinal: st.Ordinal, Watermark: st.Watermark, OldestAt: st.OldestAt, Received: int64(len(states)),
	}
	bodies := 0
	if err := walk(db, qid, func(ref core.Ref, rec []byte) {
		bodies++
		want.Messages++
		want.Bytes += core.CountedBytes(rec)
		if r.refers(q, rec, refs) {
			want.Shared++
		}
		_, marked := states[ref]
		delete(states, ref)
		passed := false
		switch ref.Place.Kind {
		case core.PlaceTail:
			passed = ref.Seq < st.Cursor
			if marked && ref.Seq < st.OldState {
				r.failf("%s: a state record of %d lies below %d", q.name, ref.Seq, st.OldState)
			}
		case core.PlaceDelayed:
			passed = ref.Place.N < st.DueCursor || ref.Place.N == st.DueCursor && ref.Seq < st.DueSeq
			if !marked {
				want.Delayed++
			}
		default:
			passed = ref.Seq < lanes[ref.Place]
			counts[ref.Place]--
		}
		if passed && !marked {
			r.failf("%s: the cursor has passed %v, which has no state record: %+v", q.name, ref, st)
		}
		if q.bySeq(ref.Seq) == nil {
			r.failf("%s: storage has %v, the model has not", q.name, ref)
		}
	}); err != nil {
		r.failf("bodies of %s: %v", q.name, err)
	}
	for p, n := range counts {
		if n != 0 {
			r.failf("%s: the count of lane %v is wrong by %d", q.name, p, n)
		}
	}
	if len(states) != 0 || bodies != len(q.msgs) || st != want {
		r.failf("%s: storage has %d bodies, the model %d messages; states without body %v; state %+v, want %+v", q.name, bodies, len(q.msgs), states, st, want)
	}
}
