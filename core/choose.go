package core

// choose picks messages and takes them out of what is ready; v is the view of the
// receive's selector, if it has one. Those that are to be dead-lettered go to dead.
// to is its consumer, if that has groups.
func (q *queue) choose(o *ReceiveOptions, v *view, to *Consumer, dlq *queue, picks []pick) ([]pick, []Seq, found, candidate) {
	const dropsMax, deadMax = 512, 100
	var dead []Seq
	now := q.engine.clock.now()
	size, taken, drops := int64(0), 0, 0
	share := 0
	if to != nil {
		share = q.groups.share()
	}
	for taken < o.Max && drops < dropsMax && len(dead) < deadMax {
		if q.inFlight >= InFlightMax && o.Owner == nil || v != nil && q.leases.len() >= leasesMax {
			q.limited = q.limited || v != nil
			break
		}
		var c candidate
		var f found
		if v != nil {
			c, f = q.nextSelected(v, now)
		} else {
			c, f = q.next(now, to, share)
		}
		if f != foundOne {
			return picks, dead, f, c
		}
		bytes := q.candidateBytes(&c)
		if o.MaxBytes > 0 && taken > 0 && size+bytes > o.MaxBytes {
			break
		}
		if dlq != nil && q.isDead(&c, now) {
			dead = append(dead, q.setAside(q.entryOf(&c), now, &picks))
			q.rotate(&c, to, false)
			continue
		}
		if o.Grant != nil && !o.Grant(bytes) && taken > 0 {
			break
		}
		p := q.lease(&c, o, now)
		if p.drop {
			drops++
		} else {
			taken++
			size += bytes
		}
		if p.first = q.rotate(&c, to, !p.drop); p.first {
			share--
		}
		picks = append(picks, p)
	}
	q.prefetch(q.tail)
	return picks, dead, foundNone, candidate{}
}

// candidateBytes is what a candidate counts towards ReceiveOptions.MaxBytes: 0
// for one that was received before the process began, whose size storage knows.
func (q *queue) candidateBytes(c *candidate) int64 {
	if c.index >= 0 {
		return int64(max(q.leases.slab[c.index].size, 0))
	}
	return recordCounted(c.e.rec)
}

// isDead tells whether a candidate is to go to the dead-letter queue: a further
// receive would exceed the queue's limit, or it has expired and is kept.
func (q *queue) isDead(c *candidate, now int64) bool {
	cfg := &q.rec.Config
	if c.index < 0 {
		return cfg.ExpiredToDLQ && q.expired(c.e.rec, now)
	}
	most := cfg.Redelivery.MaxReceives
	return most > 0 && int(q.leases.slab[c.index].failures) >= most
}

// starvingReceives is how often a message comes back before it takes turns.
const starvingReceives = 3

// next finds the message to give next. On standard queues one that keeps coming
// back takes turns with those behind it, but for those of a group that is to come
// in order: it holds up no others.
func (q *queue) next(now int64, to *Consumer, share int) (candidate, found) {
	c, f := q.nextInOrder(now, to, share)
	if f != foundOne || !q.starving(&c) || to != nil && c.l != nil && c.l != q.tail {
		return c, f
	}
	if q.turn = !q.turn; q.turn {
		if other, f := q.nextBehind(c.l, now, to, share); f != foundNone {
			return other, f
		}
	}
	return c, f
}

// starving tells whether a candidate keeps coming back.
func (q *queue) starving(c *candidate) bool {
	return c.index >= 0 && q.rec.Config.Kind == KindStandard && !q.rec.Config.InOrder && q.leases.slab[c.index].receives > starvingReceives
}

// nextInOrder goes through returned messages, then due ones, then the lanes. On
// standard queues with lanes, due ones take turns with these: a tenant that sends
// with a delay must not hold up the others.
func (q *queue) nextInOrder(now int64, to *Consumer, share int) (candidate, found) {
	if q.laned() {
		due, f := q.nextDue()
		lanesFirst := f == foundOne && q.dueTook && q.rec.Config.Kind == KindStandard
		if f != foundNone && !lanesFirst {
			return due, f
		}
		if c, f := q.nextInRings(now, to, share); f != foundNone || !lanesFirst {
			return c, f
		}
		return due, foundOne
	}
	tail, f := q.nextInLane(q.tail)
	if f == foundOne && tail.index >= 0 || f == foundPage && q.tail.spill != 0 {
		return tail, f
	}
	if c, f := q.nextDue(); f != foundNone {
		return c, f
	}
	return tail, f
}

// nextBehind finds what may go before a message of l, or, for nil, of the delayed
// space, that keeps coming back. Other lanes have their turns anyway.
func (q *queue) nextBehind(l *lane, now int64, to *Consumer, share int) (candidate, found) {
	if l != nil && q.laned() {
		return q.nextInWindow(l)
	}
	c, f := q.nextDue()
	if f == foundOne && q.starving(&c) {
		c, f = q.nextDueFresh()
	}
	switch {
	case f != foundNone:
		return c, f
	case q.laned():
		return q.nextInRings(now, to, share)
	}
	return q.nextInWindow(q.tail)
}

func (q *queue) nextDue() (candidate, found) {
	d := q.due
	for len(d.returned) > 0 {
		i, le := q.leases.find(d.returned[0])
		if le != nil && le.status == leaseReturned && le.lane == nil {
			return candidate{index: i}, foundOne
		}
		d.returned.pop()
	}
	return q.nextDueFresh()
}

// nextDueFresh finds the next due message that nobody has received.
func (q *queue) nextDueFresh() (candidate, found) {
	d := q.due
	q.trimDue()
	if d.win.len() > 0 {
		return candidate{index: -1, e: *d.win.front()}, foundOne
	}
	if d.hot {
		return candidate{}, foundPage
	}
	return candidate{}, foundNone
}

func (q *queue) nextInWindow(l *lane) (candidate, found) {
	l.trim()
	if l.win.len() > 0 {
		if e := l.win.front(); e.seq <= q.durTail {
			return candidate{l: l, index: -1, e: *e}, foundOne
		}
		return candidate{}, foundNone
	}
	if !l.atTail && (l.next <= q.durTail || l.recent.len() > 0 && l.gapEnd < l.next) {
		return candidate{l: l}, foundPage
	}
	return candidate{}, foundNone
}

// nextInLane finds the next message of a lane: the first that came back, unless
// one that nobody has received lies before it. That is so where a selector has
// taken from the midst of the lane.
func (q *queue) nextInLane(l *lane) (candidate, found) {
	le := q.firstReturned(l)
	switch {
	case le == nil && l.spill != 0:
		return candidate{l: l}, foundPage
	case le == nil:
		return q.nextInWindow(l)
	case le.seq >= l.pos:
		c, f := q.nextInWindow(l)
		if f == foundOne && c.e.seq < le.seq || f == foundPage && l.next < le.seq {
			return c, f
		}
	}
	return candidate{l: l, index: q.leases.bySeq[le.seq]}, foundOne
}

func (q *queue) nextInRings(now int64, to *Consumer, share int) (candidate, found) {
	if to != nil {
		return q.nextInTurn(to, share)
	}
	return q.nextInRing(now)
}

// nextInRing finds the next message of a laned queue: the first of the lane
// whose turn it is. Lanes that have nothing leave the ring.
func (q *queue) nextInRing(now int64) (candidate, found) {
	for len(q.ring) > 0 {
		if q.rec.Config.Kind == KindPriority {
			q.firstByPriority()
		}
		l := q.ring[0]
		c, f := q.nextInLane(l)
		switch {
		case f == foundPage:
			return c, f
		case f == foundOne && q.blocked(l, &c, now):
		case f == foundOne:
			return c, f
		}
		q.leaveRing()
	}
	return candidate{}, foundNone
}

// leaveRing takes the first lane out of the ring, and out of memory if it is
// empty.
func (q *queue) leaveRing() {
	l := q.ring[0]
	l.inRing = false
	q.ring = popFirst(q.ring)
	q.tidy(l)
}

// sweepRing takes lanes that have nothing out of the ring, once they may be half
// of it. A receive takes out those that it comes to; one with a selector, or by a
// consumer with groups, comes to none of them.
func (q *queue) sweepRing() {
	const sweepMin = 64
	if q.emptied++; q.emptied < sweepMin+max(len(q.ring), q.turns())/2 {
		return
	}
	q.emptied = 0
	q.sweepTurns()
	all := q.ring
	q.ring = nil
	for _, l := range all {
		if l.inRing = q.ready(l); l.inRing {
			q.ring = append(q.ring, l)
		} else {
			q.tidy(l)
		}
	}
}

// tidy forgets a lane that holds nothing: what is left of what was sent to it
// lately are holes. One whose last deletion is not durable is forgotten with that.
func (q *queue) tidy(l *lane) {
	if (l.inRing && (len(q.views) > 0 || q.groups != nil) || l.inTurn) && l.count == 0 {
		q.sweepRing()
	}
	if l == q.tail || l.count > 0 || l.inRing || l.inTurn || l.paging || l.asleep || len(l.flying) > 0 || l.win.len() > 0 {
		return
	}
	l.recent.reset()
	if q.lanes[l.place] == l {
		delete(q.lanes, l.place)
		q.keepGroup(l)
		q.forgetLane(l)
	}
}

// blocked tells whether a FIFO lane has to wait: for a message in flight before
// its head, or for the head's delay, after which it is woken.
func (q *queue) blocked(l *lane, c *candidate, now int64) bool {
	if !q.fifo() {
		return false
	}
	s := c.e.seq
	if c.index >= 0 {
		s = q.leases.slab[c.index].seq
	}
	if len(l.flying) > 0 && s > l.flying[0] {
		return true
	}
	if delay := q.rec.Config.Delay.Milliseconds(); delay > 0 && c.index < 0 {
		if at := recordEnqueuedAt(c.e.rec) + delay; at > now {
			q.sleep(l, at)
			q.armLocked()
			return true
		}
	}
	return false
}

// popFirst takes the first lane out of a ring.
func popFirst(ring []*lane) []*lane {
	ring[0] = nil
	if len(ring) == 1 {
		return nil
	}
	return ring[1:]
}

// rotate ends a lane's turn: on FIFO queues when it has nothing more to give, on
// others after each message. It tells whether the group is one that the consumer
// had not had before.
func (q *queue) rotate(c *candidate, to *Consumer, gave bool) (first bool) {
	switch {
	case c.vl != nil && !q.fifo():
		q.rotateSelected(c.vl)
		return false
	case to != nil:
		return q.rotateTurn(to, c.l, gave)
	}
	l := c.l
	if l == nil || len(q.ring) == 0 || q.ring[0] != l {
		return false
	}
	if q.ready(l) {
		if q.fifo() || !gave || q.rec.Config.Kind == KindPriority {
			return false
		}
		q.ring = append(popFirst(q.ring), l)
		return false
	}
	q.leaveRing()
	return false
}

// firstByPriority brings the lane of the highest priority to the front. There
// are at most ten.
func (q *queue) firstByPriority() {
	for i, l := range q.ring {
		if l.place.N < q.ring[0].place.N {
			q.ring[0], q.ring[i] = l, q.ring[0]
		}
	}
}
