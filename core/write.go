package core

import "slices"

// record appends what a receive has decided to the open Change. It returns the
// commit that the answer has to wait for, nil if there is none.
func (q *queue) record(picks []pick, owner *Owner) (*commit, error) {
	if !slices.ContainsFunc(picks, func(p pick) bool { return p.drop || p.setState || p.ref.Seq >= q.state.Watermark && q.memory == nil }) {
		// Session leases alone: their marks come later, if at all.
		q.armLocked()
		return q.engine.seq.commitOf(q.watermarkGroup), nil
	}
	g, err := q.engine.seq.begin()
	if err != nil {
		return nil, err
	}
	sl := g.slotOf(q)
	for i := range picks {
		p := &picks[i]
		le := &q.leases.slab[p.index]
		switch {
		case p.drop:
			q.putDrop(g, sl, le)
		case p.setState:
			q.putState(g, le, p.state)
		}
		if le.lane != nil {
			g.touchLane(q, le.lane)
		}
		if p.open {
			q.inFlight--
			q.returnLease(p.index)
		}
	}
	wait := q.rec.Config.Marks == MarksSync && owner == nil || q.raiseWatermark(g, picks, owner)
	q.snapshot(g, sl)
	done := g.done
	q.engine.seq.end()
	q.armLocked()
	if !wait {
		done = nil
	}
	return done, nil
}

// putState writes the state record of le.
func (q *queue) putState(g *group, le *lease, st MessageState) {
	if !le.marked {
		le.marked = true
		q.state.Received++
	}
	le.sets = min(le.sets+1, setsMany)
	le.group = g.n
	q.edit(g, Edit{Kind: EditPutState, Ref: Ref{QID: q.qid, Place: le.place, Seq: le.seq}, State: st})
}

// putDrop deletes le's message and its state record.
func (q *queue) putDrop(g *group, sl *slot, le *lease) {
	ref := Ref{QID: q.qid, Place: le.place, Seq: le.seq}
	q.edit(g, Edit{Kind: EditDropMessage, Ref: ref})
	if le.marked {
		q.edit(g, Edit{Kind: EditDropState, Ref: ref, Single: le.sets < setsMany})
		q.state.Received--
	}
	if le.epoch != 0 {
		q.engine.refer(g, le.epoch, -1)
		q.state.Shared--
	}
	le.group = g.n
	q.state.Messages--
	q.state.Bytes -= int64(le.size)
	if le.lane != nil && le.lane != q.tail {
		le.lane.count--
	}
	q.ages.drop(le.seq)
	sl.drops = append(sl.drops, le.seq)
	q.settled++
}

// snapshot stores the queue's state of now with the group.
func (q *queue) snapshot(g *group, sl *slot) {
	q.state.Cursor = q.tail.stored()
	q.advanceOldState()
	if q.state.Messages == 0 {
		q.state.OldestAt = 0
	}
	sl.state = q.state
	q.lastGroup = g.n
}

// advanceOldState moves the hint where the state records begin, at a cost that
// is constant per deletion.
func (q *queue) advanceOldState() {
	if q.tail.spill != 0 {
		return
	}
	if q.leases.len() == 0 {
		q.state.OldState = q.state.Cursor
		return
	}
	if q.settled < 1024+4*q.leases.len() {
		return
	}
	q.settled = 0
	oldest := q.state.Cursor
	for s := range q.leases.bySeq {
		oldest = min(oldest, s)
	}
	q.state.OldState = oldest
}
