package core

import "math/rand/v2"

// take removes a candidate from what is ready.
func (q *queue) take(c *candidate) {
	q.dueTook = c.l == nil
	switch {
	case c.vl != nil && !q.fifo():
		q.takeSelected(c)
	case c.index >= 0 && c.l != nil:
		c.l.returned.pop()
		c.l.back--
	case c.index >= 0:
		q.due.returned.pop()
		q.due.back--
	case c.l != nil:
		c.l.win.pop()
		c.l.pos = c.e.seq + 1
	default:
		q.due.win.pop()
		q.state.DueCursor, q.state.DueSeq = c.e.due, c.e.seq+1
		q.state.Delayed--
	}
}

// entryOf takes a candidate and returns its entry in the lease table, of no
// status yet when it is new.
func (q *queue) entryOf(c *candidate) int32 {
	q.take(c)
	if c.index >= 0 {
		return c.index
	}
	i, le := q.leases.add(c.e.seq)
	le.lane = c.l
	le.learn(c.e.rec)
	if q.memory != nil {
		q.keep(&c.e)
	}
	le.place = Place{Kind: PlaceDelayed, N: c.e.due}
	if c.l != nil {
		le.place = c.l.place
	}
	return i
}

// lease turns a candidate into a lease, or, when it has expired, into a drop.
func (q *queue) lease(c *candidate, o *ReceiveOptions, now int64) pick {
	i := q.entryOf(c)
	le := &q.leases.slab[i]
	rec := c.e.rec
	if q.memory != nil {
		rec = q.memory.kept[le.seq]
	}
	if c.index < 0 {
		le.firstReceived = now
		if q.expired(c.e.rec, now) {
			return q.dropPick(i)
		}
	}
	le.receives++
	le.receivedAt = now
	le.nonce = rand.Uint32()
	le.status = leaseInFlight
	q.inFlight++
	p := pick{ref: Ref{QID: q.qid, Place: le.place, Seq: le.seq}, rec: rec, index: i}
	p.redelivered = le.receives > 1 || le.seq < q.redeliverBelow && !le.marked
	if o.Owner != nil {
		q.leaseToSession(i, o.Owner, now, &p)
		return p
	}
	le.failures++
	visibility := o.Visibility
	if visibility < 0 {
		visibility = q.rec.Config.VisibilityTimeout
	}
	until := now + visibility.Milliseconds()
	p.state, p.setState = le.stateAt(until), true
	if visibility == 0 {
		p.open = true // given back once all are chosen: one receive gives a message once
		return p
	}
	q.leases.schedule(i, until)
	return p
}

// setAside keeps an entry for the dead-letter queue. It gets the state record that
// it lacks with the picks, since the cursor passes it before it is moved.
func (q *queue) setAside(i int32, now int64, picks *[]pick) Seq {
	le := &q.leases.slab[i]
	le.status = leaseDead
	if !le.marked {
		*picks = append(*picks, pick{
			ref: Ref{QID: q.qid, Place: le.place, Seq: le.seq}, index: i, state: le.stateAt(now), setState: true, aside: true,
		})
	}
	return le.seq
}

// dropPick deletes a message that has expired before it was ever received.
func (q *queue) dropPick(i int32) pick {
	le := &q.leases.slab[i]
	le.status = leaseDeleting
	return pick{ref: Ref{QID: q.qid, Place: le.place, Seq: le.seq}, index: i, drop: true}
}

// expired tells whether a message's time is over: the queue's retention or its
// own expiry.
func (q *queue) expired(rec []byte, now int64) bool {
	if at := recordExpiresAt(rec); at != 0 && at <= now {
		return true
	}
	keep := q.config().Retention.Milliseconds() // q.mu need not be held
	return keep > 0 && recordEnqueuedAt(rec)+keep <= now
}
