package core

import (
	"container/list"
	"slices"
	"sync"
)

// groupsKept is how many groups without messages a queue remembers the consumers
// of, the latest. One with messages is remembered as long as it has any.
const groupsKept = 4096

// Consumer has message groups of a standard queue to itself: a receive by it takes
// a group that nobody has, and from then on no other Consumer is given messages of
// that group. Receives without a Consumer, and those with a selector, look at no
// groups and have none. What is delayed by its sender has no group either.
//
// It is for one queue, and for one receive at a time; Close and Stick may be called
// meanwhile.
type Consumer struct {
	mu     sync.Mutex // the innermost
	q      *queue     // that it was last in
	closed bool
	loose  bool // it takes part in no groups

	// Guarded by q.mu.
	held   map[*lane]struct{}
	ring   []*lane // of those, what may have something to give, in turn
	turn   int     // where its next message is looked for first; see nextInTurn
	waiter *waiter // parked
}

// NewConsumer returns a consumer that has no groups.
func (c *Client) NewConsumer() *Consumer { return &Consumer{} }

// Close gives the consumer's groups up to others. What its owner still holds of
// them ought to be settled or released before.
func (c *Consumer) Close() { c.change(func() { c.closed = true }) }

// Stick says whether the consumer keeps groups to itself, as it does at first.
// Without that its receives are as those without a Consumer.
func (c *Consumer) Stick(on bool) { c.change(func() { c.loose = !on }) }

// change changes whether c takes part, and has it leave its queue.
func (c *Consumer) change(how func()) {
	c.mu.Lock()
	how()
	q := c.q
	c.q = nil
	c.mu.Unlock()
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// A receive may have brought it back, if it still takes part.
	c.mu.Lock()
	back := c.q == q
	c.mu.Unlock()
	if !back {
		q.leaveGroups(c)
	}
}

// CloseGroup gives up the group of a message that the consumer was given: the next
// one of that group may go to another.
func (c *Consumer) CloseGroup(r Receipt) {
	c.mu.Lock()
	q := c.q
	c.mu.Unlock()
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.groups
	if g == nil || q.qid != r.Ref.QID {
		return
	}
	if k := g.kept[r.Ref.Place]; k != nil && k.Value.(keptGroup).by == c {
		g.forget(k)
	}
	if l := q.lanes[r.Ref.Place]; l != nil && l.holder == c {
		if l.inTurn {
			i := len(c.ring) - 1 // what a receive took from is near the end
			for c.ring[i] != l {
				i--
			}
			c.ring = slices.Delete(c.ring, i, i+1)
			l.inTurn = false
			g.turns--
		}
		delete(c.held, l)
		l.holder = nil
		q.refresh(l)
	}
}

// groups is what a queue knows of the consumers that have groups of it to
// themselves. Beside the ring of all lanes, a lane that may have something to give
// stands in that of its holder, or, without one, in free: what a receive takes is
// the first of a ring, whoever has how many groups.
type groups struct {
	consumers map[*Consumer]struct{}
	free      []*lane
	turns     int        // lanes in free and in the rings of consumers
	waiters   waiterList // receives of consumers

	kept  map[Place]*list.Element // of groups without messages, by where they would lie
	order list.List               // keptGroup, the oldest first
}

type keptGroup struct {
	place Place
	by    *Consumer
}

func (g *groups) forget(k *list.Element) {
	g.order.Remove(k)
	delete(g.kept, k.Value.(keptGroup).place)
}

// consumerOf returns the consumer of a receive, nil if it is to have no groups. q.mu
// is held.
func (q *queue) consumerOf(o *ReceiveOptions) *Consumer {
	c := o.Consumer
	if c == nil || o.Selector != nil || q.rec.Config.Kind != KindStandard {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.loose {
		return nil
	}
	if c.q != q || q.groups == nil {
		c.q = q
		q.joinGroups(c)
	}
	return c
}

// joinGroups takes a consumer in that has no groups yet.
func (q *queue) joinGroups(c *Consumer) {
	c.held, c.ring, c.waiter = make(map[*lane]struct{}), nil, nil
	g := q.groups
	if g == nil {
		g = &groups{consumers: make(map[*Consumer]struct{}), kept: make(map[Place]*list.Element)}
		q.groups = g
		for _, l := range q.ring { // all that are ready, in order
			q.enterTurn(l)
		}
	}
	g.consumers[c] = struct{}{}
}

// leaveGroups takes a consumer out, and lets others have its groups.
func (q *queue) leaveGroups(c *Consumer) {
	g := q.groups
	if g == nil {
		return
	}
	if _, in := g.consumers[c]; !in {
		return
	}
	delete(g.consumers, c)
	if c.waiter != nil {
		c.waiter.list.wakeOne(c.waiter)
	}
	ring := c.ring
	c.ring = nil
	for l := range c.held {
		l.holder = nil
	}
	c.held = nil
	if len(g.consumers) == 0 {
		q.endGroups(append(ring, g.free...))
		return
	}
	g.free = append(g.free, ring...)
	g.waiters.wake(len(g.free))
}

// endGroups has the queue know nothing of groups: the last consumer has gone.
func (q *queue) endGroups(turns []*lane) {
	for g := q.groups; g.waiters.first != nil; {
		g.waiters.wake(1)
	}
	q.groups = nil
	for _, l := range turns {
		l.inTurn = false
		if l.count == 0 && l.inRing {
			q.emptied++
		}
		q.tidy(l)
	}
	q.sweepRing()
}

// resetGroups has the consumers begin anew: the lanes are others.
func (q *queue) resetGroups() {
	g := q.groups
	if g == nil {
		return
	}
	for c := range g.consumers {
		clear(c.held)
		c.ring = nil
	}
	g.free, g.turns = nil, 0
}

// enterTurn puts a lane into the ring of its holder, or into that of those without
// one, if it has something to give.
func (q *queue) enterTurn(l *lane) {
	g := q.groups
	if g == nil || l == q.tail || l.inTurn || !q.ready(l) {
		return
	}
	l.inTurn = true
	g.turns++
	if c := l.holder; c != nil {
		c.ring = append(c.ring, l)
		if c.waiter != nil {
			c.waiter.list.wakeOne(c.waiter)
		}
		return
	}
	g.free = append(g.free, l)
	g.waiters.wake(1)
}

// leaveTurn takes the first lane out of a ring of the groups.
func (q *queue) leaveTurn(ring *[]*lane) {
	l := (*ring)[0]
	*ring = popFirst(*ring)
	l.inTurn = false
	q.groups.turns--
	q.tidy(l)
}

// share is how many groups more one receive takes at most, so that those that ask
// at the same time all get some.
func (g *groups) share() int {
	return (len(g.free) + len(g.consumers) - 1) / len(g.consumers)
}

// available tells whether a receive by c, or, for nil, by any consumer, may find
// something.
func (g *groups) available(q *queue, c *Consumer) bool {
	return c != nil && len(c.ring) > 0 || len(g.free) > 0 || q.ungrouped()
}

// ungrouped tells whether there may be something that is of no group.
func (q *queue) ungrouped() bool {
	_, ok := q.head(q.tail)
	return ok || q.dueAvailable()
}

// nextInTurn finds the next message of a queue with groups for a consumer: of its
// own groups, of one that nobody has, or of none, in turn.
func (q *queue) nextInTurn(c *Consumer, share int) (candidate, found) {
	const sources = 3
	g := q.groups
	for i := range sources {
		ring := &c.ring
		switch (c.turn + i) % sources {
		case 1:
			if ring = &g.free; share <= 0 {
				continue
			}
		case 2:
			if next, f := q.nextInLane(q.tail); f != foundNone {
				return next, f
			}
			continue
		}
		for len(*ring) > 0 {
			if next, f := q.nextInLane((*ring)[0]); f != foundNone {
				return next, f
			}
			q.leaveTurn(ring)
		}
	}
	return candidate{}, foundNone
}

// rotateTurn ends the turn of a lane that gave a message to a consumer, whose group
// it becomes; or that gave none, as what was taken had expired. It tells whether the
// consumer had not had the group before.
func (q *queue) rotateTurn(c *Consumer, l *lane, gave bool) (first bool) {
	if gave {
		c.turn++
	}
	if l == nil || l == q.tail {
		return false
	}
	g := q.groups
	ring := &c.ring
	if l.holder == nil {
		ring = &g.free
	}
	if len(*ring) == 0 || (*ring)[0] != l {
		return false
	}
	if gave && l.holder == nil {
		first, l.holder = true, c
		c.held[l] = struct{}{}
	}
	if !q.ready(l) {
		q.leaveTurn(ring)
	} else if gave {
		*ring = popFirst(*ring)
		c.ring = append(c.ring, l)
	}
	return first
}

// keepGroup remembers who has a group of which nothing is left.
func (q *queue) keepGroup(l *lane) {
	g := q.groups
	if l.holder == nil || g == nil {
		return
	}
	delete(l.holder.held, l)
	if g.order.Len() >= groupsKept {
		g.forget(g.order.Front())
	}
	g.kept[l.place] = g.order.PushBack(keptGroup{place: l.place, by: l.holder})
	l.holder = nil
}

// findHolder gives a group that comes again to who has it.
func (q *queue) findHolder(l *lane) {
	g := q.groups
	if g == nil {
		return
	}
	k := g.kept[l.place]
	if k == nil {
		return
	}
	c := k.Value.(keptGroup).by
	g.forget(k)
	if _, in := g.consumers[c]; in {
		l.holder = c
		c.held[l] = struct{}{}
	}
}

func (q *queue) turns() int {
	if q.groups == nil {
		return 0
	}
	return q.groups.turns
}

// sweepTurns takes lanes that have nothing out of the rings of groups.
func (q *queue) sweepTurns() {
	g := q.groups
	if g == nil {
		return
	}
	g.free = q.sweepTurn(g.free)
	for c := range g.consumers {
		c.ring = q.sweepTurn(c.ring)
	}
}

func (q *queue) sweepTurn(ring []*lane) (kept []*lane) {
	for _, l := range ring {
		if q.ready(l) {
			kept = append(kept, l)
			continue
		}
		l.inTurn = false
		q.groups.turns--
		if !l.inRing {
			q.tidy(l) // the sweep of the ring of all comes to the others
		}
	}
	return kept
}
