package core

import (
	"cmp"
	"slices"

	"github.com/leasemq/broker/core/selector"
)

// Bounds of the views of a queue.
const (
	viewPageEntries = 256 // records that a lane keeps of a page
	viewPageBytes   = 64 << 10

	viewsMax     = 1024            // selectors in use; further ones answer ErrOverLimit
	viewReadyMax = 4096            // matching messages of a lane known ahead
	viewFresh    = 10 * 1000       // milliseconds for which a view that nobody uses looks at what is sent
	leasesMax    = 2 * InFlightMax // leases of a queue beyond which a selector takes nothing new
	viewKept     = minuteMS        // milliseconds for which a view that nobody uses is kept
)

// view is what a queue knows of the messages that one selector selects, so that a
// receive with it looks at no message twice. It is made by the first such receive
// and forgotten when it is not used. What matches stays at its place, for others
// as well; what does not is never looked at again.
//
// A view judges each lane from the oldest live message on, whatever its status:
// what has come back is known without reading it again. Once it has judged all
// that is durable it judges each message as it becomes durable, and wakes its own
// waiters only.
type view struct {
	sel     *selector.Selector
	subject *subject // used under the queue's lock
	waiters waiterList
	usedAt  int64
	judges  bool // it judges what is being shown
	found   int  // of that, how many match
	started bool
	turn    bool // starvation: one that keeps coming back was given last

	// lanes holds those that are behind, hold a match or, on FIFO queues, had one
	// at their head. In others everything is judged, and nothing that is ready
	// matches.
	lanes map[*lane]*viewLane
	ring  []*viewLane // lanes that may have something to give, in turn
	due   *viewLane   // the delayed space
}

// viewLane is the part of a view in one lane.
type viewLane struct {
	v      *view
	l      *lane // nil: the delayed space
	inRing bool

	behind bool // storage holds messages from pos on that are not judged
	again  bool // delayed space: something has become due since a page was begun
	paging bool // a page is being read, by one goroutine
	pos    viewPos

	ready posHeap // what matches and may be ready
	slow  posHeap // of these, what keeps coming back
	win   window  // records of what matched in the last page

	// head is a record that was read for the next message. On FIFO queues it is
	// nil, and fits tells whether the message at the head of the lane matches.
	headSeq Seq
	head    []byte
	fits    bool
}

// viewPos orders the messages of a lane; due is 0 but in the delayed space.
type viewPos struct {
	due uint64
	seq Seq
}

func (p viewPos) before(o viewPos) bool { return p.compare(o) < 0 }

func (p viewPos) compare(o viewPos) int {
	if c := cmp.Compare(p.due, o.due); c != 0 {
		return c
	}
	return cmp.Compare(p.seq, o.seq)
}

// viewOf returns the view of a selector. q.mu is held and the queue is loaded.
func (q *queue) viewOf(sel *selector.Selector) (*view, error) {
	v := q.views[sel.Text()]
	if v == nil {
		if len(q.views) >= viewsMax && !q.dropOldestView() {
			return nil, ErrOverLimit
		}
		v = &view{sel: sel, subject: newSubject()}
		if q.views == nil {
			q.views = make(map[string]*view)
		}
		q.views[sel.Text()], q.viewIndex = v, nil
		// What is due ahead may have no timer: without views a receive would find it.
		q.armLocked()
	}
	if !v.started {
		q.startView(v)
	}
	v.usedAt = q.engine.clock.now()
	return v, nil
}

// startView puts a view before all live messages.
func (q *queue) startView(v *view) {
	v.started = true
	v.lanes = make(map[*lane]*viewLane, 1+len(q.lanes))
	v.due = &viewLane{
		v: v, behind: !q.fifo(), pos: viewPos{due: q.state.DueCursor, seq: q.state.DueSeq},
		win: window{budget: &q.engine.windowBytes},
	}
	lanes := []*lane{q.tail}
	for _, l := range q.lanes {
		lanes = append(lanes, l)
	}
	slices.SortFunc(lanes, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.place.Kind, b.place.Kind), cmp.Compare(a.place.N, b.place.N))
	})
	for _, l := range lanes {
		vl := v.laneOf(l)
		if !q.fifo() {
			vl.behind, vl.pos.seq = true, l.pos
			if l.spill != 0 {
				vl.pos.seq = min(l.spill, l.pos)
			}
		}
		v.enqueue(vl)
	}
	for s, i := range q.leases.bySeq {
		switch le := &q.leases.slab[i]; {
		case le.status == leaseDeleting: // its lane may be gone before it
		case le.lane != nil:
			vl := v.lanes[le.lane]
			vl.pos.seq = min(vl.pos.seq, s)
		case (viewPos{due: le.place.N, seq: s}).before(v.due.pos):
			v.due.pos = viewPos{due: le.place.N, seq: s}
		}
	}
}

func (v *view) laneOf(l *lane) *viewLane {
	if l == nil {
		return v.due
	}
	vl := v.lanes[l]
	if vl == nil {
		vl = &viewLane{v: v, l: l, win: window{budget: v.due.win.budget}}
		v.lanes[l] = vl
	}
	return vl
}

// release gives the memory of a view back to the node's budget.
func (v *view) release() {
	if !v.started {
		return
	}
	v.due.win.reset()
	for _, vl := range v.lanes {
		vl.win.reset()
	}
}

// enqueue gives a lane its turn.
func (v *view) enqueue(vl *viewLane) {
	if vl.l != nil && !vl.inRing {
		vl.inRing = true
		v.ring = append(v.ring, vl)
	}
}

// leaveRing ends the turn of the lane at i, and forgets what is known of it if
// that is nothing.
func (v *view) leaveRing(i int) {
	vl := v.ring[i]
	vl.inRing = false
	v.ring = slices.Delete(v.ring, i, i+1)
	if len(vl.ready)+len(vl.slow) == 0 && !vl.behind && vl.headSeq == 0 && v.lanes[vl.l] == vl {
		vl.win.reset()
		delete(v.lanes, vl.l)
	}
}

// available tells whether a receive may find something.
func (v *view) available() bool {
	return !v.started || len(v.ring) > 0 || v.due.behind || len(v.due.ready)+len(v.due.slow) > 0
}

// addMatch notes a message that matches. It may be ready if le, its lease, is nil or
// returned.
func (q *queue) addMatch(vl *viewLane, p viewPos, le *lease) {
	if le != nil && le.status == leaseDeleting {
		return
	}
	if q.matches == nil {
		q.matches = make(map[Seq][]*view)
	}
	known := q.matches[p.seq]
	if slices.Contains(known, vl.v) {
		return
	}
	q.matches[p.seq] = append(known, vl.v)
	if le == nil || le.status == leaseReturned {
		q.pushMatch(vl, p, le)
	}
}

func (q *queue) pushMatch(vl *viewLane, p viewPos, le *lease) {
	if le != nil && q.rec.Config.Kind == KindStandard && !q.rec.Config.InOrder && le.receives > starvingReceives {
		vl.slow.push(p)
	} else {
		vl.ready.push(p)
	}
	vl.v.enqueue(vl)
}

// offer tells the views that select it that a message has come back.
func (q *queue) offer(le *lease) {
	for _, v := range q.matches[le.seq] {
		q.pushMatch(v.laneOf(le.lane), posOf(le), le)
		v.waiters.wake(1)
	}
}

func posOf(le *lease) viewPos {
	if le.lane == nil {
		return viewPos{due: le.place.N, seq: le.seq}
	}
	return viewPos{seq: le.seq}
}

// leftToStorage has a message that leaves memory judged again: what is known of
// it must not outgrow what is known of leases.
func (q *queue) leftToStorage(le *lease) {
	for _, v := range q.matches[le.seq] {
		vl := v.laneOf(le.lane)
		if p := posOf(le); !vl.behind || p.before(vl.pos) {
			vl.behind, vl.pos = true, p
		}
		v.enqueue(vl)
		v.waiters.wake(1)
	}
	delete(q.matches, le.seq)
}

// show has every view judge what has become durable of the lanes that a group
// sent to; before that it was durable up to old.
func (q *queue) show(sl *slot, old Seq) {
	q.showLane(q.tail, old)
	for _, l := range sl.lanes {
		if q.laneOf(l.place) == l {
			q.showLane(l, old)
		}
	}
}

func (q *queue) showLane(l *lane, old Seq) {
	from := max(old, l.shown) + 1
	l.shown = q.durTail
	fresh, all := l.since(from)
	if all && len(fresh) == 0 || q.fifo() {
		return // of a FIFO queue heads are judged
	}
	now, some := q.engine.clock.now(), false
	for _, v := range q.views {
		if v.judges = false; !v.started {
			v.waiters.wake(1)
			continue
		}
		vl := v.lanes[l]
		switch {
		case vl != nil && vl.behind:
		case !all, v.waiters.n == 0 && v.usedAt+viewFresh < now, vl != nil && len(vl.ready) > viewReadyMax:
			vl = v.laneOf(l)
			vl.behind, vl.pos.seq = true, from
			v.enqueue(vl)
			v.waiters.wake(1)
		default:
			v.judges, some = true, true
		}
	}
	if some {
		q.judgeFresh(l, fresh)
	}
}

// judgeFresh has the views that judge look at messages that have just become
// durable. One that demands a value is shown only messages that have it.
func (q *queue) judgeFresh(l *lane, fresh []entry) {
	if q.viewIndex == nil {
		q.viewIndex = newViewIndex(q.views)
	}
	x := q.viewIndex
	for i := range fresh {
		e := &fresh[i]
		if e.seq > q.durTail {
			break
		}
		if x.subject.show(e.rec) != nil {
			continue
		}
		x.judge(q, x.others, l, e.seq)
		for j := range x.names {
			if value, ok := x.subject.get(x.names[j].name); ok {
				if text, ok := value.Text(); ok {
					x.judge(q, x.names[j].views[text], l, e.seq)
				}
			}
		}
	}
	x.subject.s = Stored{} // the record is not kept
	for _, v := range q.views {
		if v.judges {
			v.waiters.wake(v.found)
			v.found = 0
		}
	}
}

// viewIndex finds the views that may select a message.
type viewIndex struct {
	subject *subject
	names   []viewsOfName
	others  []*view // those whose selectors demand no value
}

// viewsOfName are the views that demand a value of one name, by it.
type viewsOfName struct {
	name  string
	views map[string][]*view
}

func newViewIndex(views map[string]*view) *viewIndex {
	x := &viewIndex{subject: newSubject()}
	for _, v := range views {
		name, text, ok := v.sel.Equality()
		if !ok {
			x.others = append(x.others, v)
			continue
		}
		i := slices.IndexFunc(x.names, func(n viewsOfName) bool { return n.name == name })
		if i < 0 {
			i = len(x.names)
			x.names = append(x.names, viewsOfName{name: name, views: make(map[string][]*view)})
		}
		x.names[i].views[text] = append(x.names[i].views[text], v)
	}
	return x
}

// judge shows the message of x's subject to those of views that judge.
func (x *viewIndex) judge(q *queue, views []*view, l *lane, s Seq) {
	for _, v := range views {
		if v.judges && x.subject.selected(v.sel) {
			q.addMatch(v.laneOf(l), viewPos{seq: s}, nil)
			v.found++
		}
	}
}

// since returns what was sent to the lane from a sequence on. all is false when
// memory lacks some of it.
func (l *lane) since(from Seq) (entries []entry, all bool) {
	w := &l.win
	if !l.atTail {
		w = &l.recent
		if l.gapEnd >= from {
			return nil, false
		}
	}
	live := w.buf[w.head:]
	i, _ := slices.BinarySearchFunc(live, from, func(e entry, s Seq) int { return cmp.Compare(e.seq, s) })
	return live[i:], true
}

// showDue has every view look for what has become due.
func (q *queue) showDue() {
	for _, v := range q.views {
		if v.started {
			v.due.behind, v.due.again = true, true
		}
		v.waiters.wake(1)
	}
}

// showHead tells the views of a FIFO queue that a lane may have another message
// at its head.
func (q *queue) showHead(l *lane) {
	if len(q.views) == 0 || !q.ready(l) {
		return
	}
	c, f := q.nextInLane(l)
	for _, v := range q.views {
		if !v.started {
			v.waiters.wake(1)
			continue
		}
		if f == foundOne && c.index < 0 {
			ok, err := v.subject.matches(v.sel, c.e.rec)
			if err == nil && !ok && !q.expired(c.e.rec, q.engine.clock.now()) {
				continue
			}
		}
		v.enqueue(v.laneOf(l))
		v.waiters.wake(1)
	}
}

// forgetLane takes a lane that is empty out of the views.
func (q *queue) forgetLane(l *lane) {
	for _, v := range q.views {
		if vl := v.lanes[l]; vl != nil {
			vl.win.reset()
			delete(v.lanes, l)
		}
	}
}

// resetViews has every view begin anew: the messages are others.
func (q *queue) resetViews() {
	q.matches = nil
	for _, v := range q.views {
		v.release()
		v.started, v.lanes, v.ring, v.due = false, nil, nil, nil
	}
}

// forgetViews forgets the views that nobody has used for long.
func (q *queue) forgetViews(now int64) {
	for _, v := range q.views {
		if v.waiters.n == 0 && v.usedAt+viewKept <= now {
			q.dropView(v)
		}
	}
}

// dropOldestView makes room for another view, if one is not in use.
func (q *queue) dropOldestView() bool {
	var oldest *view
	for _, v := range q.views {
		if v.waiters.n == 0 && (oldest == nil || v.usedAt < oldest.usedAt) {
			oldest = v
		}
	}
	if oldest == nil {
		return false
	}
	q.dropView(oldest)
	return true
}

func (q *queue) dropView(v *view) {
	v.release()
	delete(q.views, v.sel.Text())
	q.viewIndex = nil
	if len(q.views) == 0 {
		q.views, q.matches = nil, nil
		return
	}
	for s, known := range q.matches {
		if known = slices.DeleteFunc(known, func(o *view) bool { return o == v }); len(known) == 0 {
			delete(q.matches, s)
		} else {
			q.matches[s] = known
		}
	}
}

// liftLimit has receives look again that had stopped at a limit.
func (q *queue) liftLimit() {
	if !q.limited {
		return
	}
	q.limited = false
	for _, v := range q.views {
		v.waiters.wake(1)
	}
}

// parked counts the waiters.
func (q *queue) parked() int {
	n := q.waiters.n
	if q.groups != nil {
		n += q.groups.waiters.n
	}
	for _, v := range q.views {
		n += v.waiters.n
	}
	return n
}

// posHeap is a min-heap.
type posHeap []viewPos

func (h *posHeap) push(p viewPos) {
	*h = append(*h, p)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if !a[i].before(a[up]) {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

func (h *posHeap) pop() {
	a := *h
	n := len(a) - 1
	a[0] = a[n]
	a = a[:n]
	*h = a
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && a[c+1].before(a[c]) {
			c++
		}
		if !a[c].before(a[i]) {
			break
		}
		a[i], a[c] = a[c], a[i]
		i = c
	}
	if n == 0 && cap(a) > 1024 {
		*h = nil
	}
}
