package core

import (
	"fmt"
	"slices"

	"github.com/leasemq/broker/core/selector"
)

// nextSelected finds the message that a view is to give next. The order is that of
// next, but for this: within a lane messages come by their sequence whether they
// are new or came back.
func (q *queue) nextSelected(v *view, now int64) (candidate, found) {
	if q.fifo() {
		return q.nextHead(v, now)
	}
	if v.turn {
		if c, f := q.selectedInOrder(v, true); f != foundNone {
			return c, f
		}
	}
	return q.selectedInOrder(v, false)
}

// selectedInOrder goes through tail, due messages and lanes as nextInOrder does;
// fresh leaves out what keeps coming back.
func (q *queue) selectedInOrder(v *view, fresh bool) (candidate, found) {
	if q.laned() {
		due, f := q.selectedHead(v.due, fresh)
		lanesFirst := f == foundOne && q.dueTook && q.rec.Config.Kind == KindStandard
		if f != foundNone && !lanesFirst {
			return due, f
		}
		if c, f := q.selectedInRing(v, fresh); f != foundNone || !lanesFirst {
			return c, f
		}
		return due, foundOne
	}
	tail, f := q.selectedInRing(v, fresh)
	// What came back goes before what is due.
	if f == foundOne && tail.index >= 0 || f == foundPage && tail.e.seq < q.tail.pos {
		return tail, f
	}
	if c, f := q.selectedHead(v.due, fresh); f != foundNone {
		return c, f
	}
	return tail, f
}

// selectedInRing finds the next message of the lane whose turn it is. Lanes that
// have nothing leave the ring.
func (q *queue) selectedInRing(v *view, fresh bool) (candidate, found) {
	for i := 0; i < len(v.ring); {
		if q.rec.Config.Kind == KindPriority {
			v.firstByPriority(i)
		}
		vl := v.ring[i]
		if !q.current(vl.l) || v.lanes[vl.l] != vl {
			v.leaveRing(i)
			continue
		}
		c, f := q.selectedHead(vl, fresh)
		switch {
		case f != foundNone:
			return c, f
		case fresh && len(vl.slow) > 0:
			i++ // its turn comes
		default:
			v.leaveRing(i)
		}
	}
	return candidate{}, foundNone
}

// firstByPriority brings the lane of the highest priority from i on to i.
func (v *view) firstByPriority(i int) {
	for j := i + 1; j < len(v.ring); j++ {
		if v.ring[j].l.place.N < v.ring[i].l.place.N {
			v.ring[i], v.ring[j] = v.ring[j], v.ring[i]
		}
	}
}

// selectedHead finds the next message of a lane that a view selects. With
// foundPage, e.seq says from where on storage has to be read.
func (q *queue) selectedHead(vl *viewLane, fresh bool) (candidate, found) {
	for {
		h := &vl.ready
		if !fresh && len(vl.slow) > 0 && (len(*h) == 0 || vl.slow[0].before((*h)[0])) {
			h = &vl.slow
		}
		c := candidate{l: vl.l, index: -1, vl: vl}
		if len(*h) == 0 || vl.behind && !(*h)[0].before(vl.pos) {
			if vl.behind {
				c.e.seq, c.e.due = vl.pos.seq, vl.pos.due
				return c, foundPage
			}
			return c, foundNone
		}
		p := (*h)[0]
		if i, le := q.leases.find(p.seq); le != nil {
			if le.status == leaseReturned {
				c.index = i
				return c, foundOne
			}
			h.pop() // it is offered again when it comes back
			continue
		}
		if !slices.Contains(q.matches[p.seq], vl.v) {
			h.pop()
			continue
		}
		c.e.seq, c.e.due = p.seq, p.due
		if c.e.rec = q.recordAt(vl, p); c.e.rec == nil {
			return c, foundPage
		}
		return c, foundOne
	}
}

// recordAt returns the record of a message that nobody has received, nil if
// storage has to be asked.
func (q *queue) recordAt(vl *viewLane, p viewPos) []byte {
	if vl.l != nil && p.seq < vl.l.pos {
		return nil // it came back, and only storage knows how often
	}
	if vl.headSeq == p.seq && vl.head != nil {
		return vl.head
	}
	if e := vl.win.at(p); e != nil {
		return e.rec
	}
	if vl.l == nil {
		if e := q.due.win.at(p); e != nil {
			return e.rec
		}
		return nil
	}
	if e := vl.l.win.at(p); e != nil {
		return e.rec
	}
	if e := vl.l.recent.at(p); e != nil {
		return e.rec
	}
	return nil
}

// readSelected reads what nextSelected asked for. q.mu is held, and given up while
// a page is read.
func (q *queue) readSelected(c *candidate) error {
	vl := c.vl
	switch {
	case q.fifo():
		return q.judgeHead(vl)
	case vl.behind && !(viewPos{due: c.e.due, seq: c.e.seq}).before(vl.pos):
		return q.judgePage(vl)
	}
	place := Place{Kind: PlaceDelayed, N: c.e.due}
	if vl.l != nil {
		place = vl.l.place
	}
	return q.readHead(vl, Ref{QID: q.qid, Place: place, Seq: c.e.seq})
}

// readHead reads a message that memory does not have. If there is none any more it
// is forgotten; one that came back and was left to storage gets its lease again.
func (q *queue) readHead(vl *viewLane, ref Ref) error {
	rec, err := q.engine.store.Message(ref)
	if err == nil && rec != nil {
		err = checkRecord(rec)
	}
	if err != nil {
		return fmt.Errorf("queue %q: %w", q.name, err)
	}
	l := vl.l
	if rec != nil && l != nil && ref.Seq < l.pos {
		st, marked, err := q.engine.store.State(ref)
		if err != nil {
			return fmt.Errorf("queue %q: %w", q.name, err)
		}
		if marked && l.spill != 0 && ref.Seq >= l.spill {
			q.adopt(&Receipt{Ref: ref}, l, rec, st, true)
			return nil
		}
		rec = nil // it was deleted; that is durable a moment before storage shows it
	}
	if rec == nil {
		delete(q.matches, ref.Seq)
		return nil
	}
	vl.headSeq, vl.head = ref.Seq, rec
	return nil
}

// takeSelected removes a candidate of a view from what is ready, from the midst of
// its lane as a rule. The cursor of the lane follows when nothing lies before.
func (q *queue) takeSelected(c *candidate) {
	vl := c.vl
	p := viewPos{seq: c.e.seq, due: c.e.due}
	if c.index >= 0 {
		p = posOf(&q.leases.slab[c.index])
	}
	h := &vl.ready
	if len(vl.slow) > 0 && vl.slow[0] == p {
		h = &vl.slow
	}
	vl.v.turn = h == &vl.slow
	h.pop()
	vl.headSeq, vl.head = 0, nil
	vl.win.punch(p)
	for vl.win.hole() {
		vl.win.pop()
	}
	switch {
	case c.index >= 0 && c.l != nil:
		c.l.back-- // the heap's entry is skipped when it comes up
	case c.index >= 0:
		q.due.back--
	case c.l != nil:
		c.l.win.punch(p)
		c.l.recent.punch(p)
		c.l.trim()
	default:
		q.due.win.punch(p)
		q.trimDue()
		q.state.Delayed--
	}
}

// rotateSelected ends the turn of a lane in the view that took from it.
func (q *queue) rotateSelected(vl *viewLane) {
	v := vl.v
	if vl.l == nil || q.rec.Config.Kind != KindStandard || len(v.ring) < 2 {
		return
	}
	for i := range v.ring {
		if v.ring[i] == vl {
			copy(v.ring[i:], v.ring[i+1:])
			v.ring[len(v.ring)-1] = vl
			return
		}
	}
}

// nextHead finds the next message of a FIFO queue: the head of a group. A group
// whose head does not match waits.
func (q *queue) nextHead(v *view, now int64) (candidate, found) {
	for len(v.ring) > 0 {
		vl := v.ring[0]
		if vl.l == q.tail || !q.current(vl.l) || v.lanes[vl.l] != vl {
			v.leaveRing(0)
			continue
		}
		c, f := q.nextInLane(vl.l)
		switch {
		case f == foundPage:
			return c, f
		case f == foundNone, q.blocked(vl.l, &c, now):
			v.leaveRing(0)
			continue
		}
		c.vl = vl
		if vl.headSeq != q.seqOf(&c) {
			if c.index >= 0 {
				return c, foundPage
			}
			ok, err := v.subject.matches(v.sel, c.e.rec)
			vl.headSeq, vl.fits = c.e.seq, ok && err == nil
		}
		// One that has expired is taken for all: the receive drops it.
		if vl.fits || c.index < 0 && q.expired(c.e.rec, now) {
			return c, foundOne
		}
		v.leaveRing(0)
	}
	return candidate{}, foundNone
}

func (q *queue) seqOf(c *candidate) Seq {
	if c.index >= 0 {
		return q.leases.slab[c.index].seq
	}
	return c.e.seq
}

// judgeHead judges the head of a lane that came back.
func (q *queue) judgeHead(vl *viewLane) error {
	le := q.firstReturned(vl.l)
	if le == nil {
		return nil
	}
	rec, err := q.read(le)
	if err != nil {
		return err
	}
	ok, err := vl.v.subject.matches(vl.v.sel, rec)
	vl.headSeq, vl.fits = le.seq, ok || q.expired(rec, q.engine.clock.now())
	return err
}

// judgePage judges the next messages of a lane from storage, whatever their
// status. q.mu is given up meanwhile.
func (q *queue) judgePage(vl *viewLane) error {
	if vl.paging {
		q.paged.Wait()
		return nil
	}
	v, qid, from := vl.v, q.qid, vl.pos
	// What is due now is so for all.
	if vl.l == nil && q.due.ripe(q, q.engine.clock.now()) {
		q.wake(1)
	}
	page := viewPage{sel: v.sel, subject: newSubject(), from: from, end: q.durTail + 1}
	if vl.l == nil {
		page.dueEnd = q.due.end(q.engine.clock.now())
	} else {
		page.place = vl.l.place
	}
	if q.engine.windowBytes.Load() < q.engine.windowMax {
		page.keep = viewPageBytes
	}
	vl.paging, vl.again = true, false
	q.judging++
	q.mu.Unlock()
	err := page.read(q.engine.store, qid)
	q.mu.Lock()
	vl.paging = false
	q.paged.Broadcast()
	forgot := q.forgot
	if q.judging--; q.judging == 0 {
		q.forgot = nil
	}
	if err != nil {
		return fmt.Errorf("queue %q: %w", q.name, err)
	}
	if q.gone || q.out || q.qid != qid || !v.started || vl != v.lanes[vl.l] && vl != v.due || vl.pos != from || !vl.behind {
		return nil
	}
	vl.pos = page.next
	if vl.l == nil {
		vl.behind = page.more || vl.again
		q.noteDue(&page)
	} else {
		vl.behind = page.next.seq <= q.durTail
	}
	vl.win.reset()
	for i := range page.found {
		e := &page.found[i]
		if _, gone := forgot[e.seq]; gone {
			continue
		}
		p := viewPos{due: e.due, seq: e.seq}
		_, le := q.leases.find(e.seq)
		q.addMatch(vl, p, le)
		if le == nil && len(e.rec) > 0 && slices.Contains(q.matches[e.seq], v) {
			vl.win.push(*e)
		}
	}
	return nil
}

// noteDue has the timer set to the first message that is not due yet. One that is
// held up by its commit is noted when that has ended.
func (q *queue) noteDue(page *viewPage) {
	d := q.due
	if ahead := page.ahead; int64(ahead) > q.engine.clock.now() && (d.next == 0 || ahead < d.next) {
		d.next = ahead
		q.armLocked()
	}
}

// viewPage is a run of messages that is judged without a lock.
type viewPage struct {
	sel     *selector.Selector
	subject *subject
	place   Place
	from    viewPos
	end     Seq    // of a lane: where to stop
	dueEnd  uint64 // of the delayed space
	found   []entry
	keep    int // bytes of records that are kept
	mem     arena
	next    viewPos // where to go on
	more    bool    // there is more before the end
	ahead   uint64  // delayed space: the due time behind the end, 0 if there is none
	bad     error
}

func (p *viewPage) read(store Store, qid QID) error {
	n, size := 0, 0
	visit := func(at viewPos, rec []byte) bool {
		ok, err := p.subject.matches(p.sel, rec)
		if err != nil {
			p.bad = err
			return false
		}
		if ok {
			e := entry{seq: at.seq, due: at.due}
			if p.keep -= len(rec); p.keep >= 0 && len(p.found) < viewPageEntries {
				e.rec = p.mem.copy(rec)
			}
			p.found = append(p.found, e)
		}
		n++
		size += len(rec)
		p.next = viewPos{due: at.due, seq: at.seq + 1}
		p.more = n >= pageEntries || size >= pageBytes
		return !p.more
	}
	p.next = p.from
	var err error
	if p.dueEnd == 0 {
		err = store.Messages(qid, p.place, p.from.seq, p.end, func(s Seq, rec []byte) bool {
			return visit(viewPos{seq: s}, rec)
		})
		if !p.more {
			p.next.seq = max(p.from.seq, p.end)
		}
	} else {
		err = store.Delayed(qid, p.from.due, p.from.seq, 1<<48-1, func(due uint64, s Seq, rec []byte) bool {
			if due >= p.dueEnd {
				p.ahead = due
				return false
			}
			return visit(viewPos{due: due, seq: s}, rec)
		})
	}
	if err == nil {
		err = p.bad
	}
	return err
}
