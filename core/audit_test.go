package core

import (
	"errors"
	"fmt"
	"slices"
)

// SetReturnedMax bounds how many returned messages a lane keeps in memory. It is
// called before the engine is used.
func SetReturnedMax(e *Engine, n int) { e.returnedMax.Store(int64(n)) }

// Trim has the queues leave memory that are idle.
func Trim(e *Engine) {
	for range evictAfter {
		e.trim()
	}
}

// Loaded returns how many queues are in memory.
func Loaded(e *Engine) int {
	e.tableMu.RLock()
	defer e.tableMu.RUnlock()
	return len(e.byName)
}

// Audit compares what memory says of each loaded queue with what memory says
// elsewhere. Nothing may be in progress.
func Audit(e *Engine) error {
	e.tableMu.RLock()
	defer e.tableMu.RUnlock()
	var errs []error
	kept := int64(0)
	for name, q := range e.byName {
		q.mu.Lock()
		if !q.gone && q.full {
			for _, err := range q.audit() {
				errs = append(errs, fmt.Errorf("queue %q: %w", name, err))
			}
		}
		kept += int64(q.due.win.bytes + q.tail.win.bytes + q.tail.recent.bytes)
		for _, l := range q.lanes {
			kept += int64(l.win.bytes + l.recent.bytes)
		}
		for _, v := range q.views {
			if v.started {
				kept += int64(v.due.win.bytes)
			}
			for _, vl := range v.lanes {
				kept += int64(vl.win.bytes)
			}
		}
		q.mu.Unlock()
	}
	if n := e.windowBytes.Load(); n != kept {
		errs = append(errs, fmt.Errorf("windows hold %d bytes, counted are %d", kept, n))
	}
	return errors.Join(errs...)
}

func (q *queue) audit() (errs []error) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	lanes := []*lane{q.tail}
	for p, l := range q.lanes {
		bad(l.place == p, "lane of %v is at %v", l.place, p)
		bad(l.count > 0 || l.inRing || l.inTurn || l.asleep, "lane %v is empty and stays in memory", p)
		lanes = append(lanes, l)
	}
	back := make(map[*lane]int)
	flying := make(map[*lane][]Seq)
	inFlight, hidden, buckets := 0, 0, 0
	for s, i := range q.leases.bySeq {
		le := &q.leases.slab[i]
		bad(le.seq == s, "entry %d of %d is for %d", i, s, le.seq)
		bad(le.lane == q.laneOf(le.place), "lease %d points to a lane that is not there", s)
		bad(!le.decided, "lease %d is left decided", s)
		bad(le.status != leaseDead && le.status != leaseDeleting && le.status != leaseFree, "lease %d is left with status %d", s, le.status)
		bad(le.marked || le.owner != nil, "lease %d has neither a state record nor an owner", s)
		switch le.status {
		case leaseInFlight:
			inFlight++
			bad((le.owner == nil) == (le.bucket != nil), "lease %d: owner %v, deadline %d", s, le.owner, le.deadline)
		case leaseHidden:
			hidden++
			bad(le.bucket != nil, "lease %d is hidden for ever", s)
		case leaseReturned:
			back[le.lane]++
			bad(le.bucket == nil && le.owner == nil, "lease %d is returned and held", s)
			if le.lane != nil {
				bad(slices.Contains(le.lane.returned, s), "lease %d is returned and in no heap", s)
			} else {
				bad(slices.Contains(q.due.returned, s), "lease %d is returned and in no heap", s)
			}
		}
		if q.fifo() && le.lane != nil && (le.status == leaseInFlight || le.status == leaseHidden) {
			flying[le.lane] = append(flying[le.lane], s)
		}
	}
	for _, b := range q.leases.buckets {
		buckets += b.n
	}
	bad(inFlight == q.inFlight && hidden == q.hidden, "%d in flight, %d hidden, counted are %d and %d", inFlight, hidden, q.inFlight, q.hidden)
	bad(back[nil] == q.due.back, "%d delayed came back, counted are %d", back[nil], q.due.back)
	for _, l := range lanes {
		bad(back[l] == l.back, "lane %v: %d came back, counted are %d", l.place, back[l], l.back)
		slices.Sort(flying[l])
		bad(slices.Equal(flying[l], l.flying), "lane %v: %v block it, noted are %v", l.place, flying[l], l.flying)
		bad(slices.Contains(q.ring, l) == l.inRing, "lane %v: in the ring %v", l.place, l.inRing)
		sure := l.atTail || l.win.len() > 0 || l.back > 0
		bad(l.inRing || l == q.tail || !sure || !q.ready(l) || l.asleep, "lane %v has something to give and no turn: %+v, durable to %d", l.place, *l, q.durTail)
		bad(len(l.forgot) == 0 && !l.paging, "lane %v is being paged", l.place)
		for _, s := range l.unmarked {
			_, le := q.leases.find(s)
			bad(le != nil && !le.marked, "lane %v waits for the mark of %d", l.place, s)
		}
		holes := 0
		for i := l.win.head; i < len(l.win.buf); i++ {
			e := &l.win.buf[i]
			if e.rec == nil {
				holes++
			}
			bad(e.rec == nil || !q.known(e.seq), "lane %v: %d is in the window and leased", l.place, e.seq)
			bad(i == l.win.head || l.win.buf[i-1].seq < e.seq, "lane %v: its window is out of order", l.place)
		}
		bad(holes == l.win.holes, "lane %v: its window has %d holes, counted are %d", l.place, holes, l.win.holes)
	}
	for _, l := range q.ring {
		bad(slices.Contains(lanes, l), "lane %v is in the ring and not there", l.place)
	}
	return append(append(errs, q.auditViews()...), q.auditGroups(lanes)...)
}

// auditGroups checks who has groups to themselves.
func (q *queue) auditGroups(lanes []*lane) (errs []error) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	g := q.groups
	if g == nil {
		for _, l := range lanes {
			bad(!l.inTurn && l.holder == nil, "lane %v: its group is somebody's, and there is nobody", l.place)
		}
		return errs
	}
	turns, held := 0, 0
	for _, l := range lanes {
		ring := g.free
		if c := l.holder; c != nil {
			_, in := g.consumers[c]
			_, has := c.held[l]
			bad(in && has, "lane %v: its holder is there: %v, and knows of it: %v", l.place, in, has)
			bad(g.kept[l.place] == nil, "lane %v: its group is remembered twice", l.place)
			ring = c.ring
			held++
		}
		bad(slices.Contains(ring, l) == l.inTurn, "lane %v: has a turn %v", l.place, l.inTurn)
		sure := l.atTail || l.win.len() > 0 || l.back > 0
		bad(l.inTurn || l == q.tail || !sure || !q.ready(l), "lane %v has something to give a consumer and no turn", l.place)
		if l.inTurn {
			turns++
		}
	}
	inRings := len(g.free)
	for c := range g.consumers {
		inRings += len(c.ring)
		held -= len(c.held)
		bad(c.waiter == nil || c.waiter.list == &g.waiters && !c.waiter.woken, "a consumer waits elsewhere")
	}
	bad(turns == g.turns && turns == inRings, "%d lanes have turns, counted are %d, and in rings %d", turns, g.turns, inRings)
	bad(held == 0, "consumers hold %d lanes less than there are", held)
	bad(g.order.Len() == len(g.kept) && len(g.kept) <= groupsKept, "%d groups are remembered in order, %d by place", g.order.Len(), len(g.kept))
	return errs
}

// Groups counts the groups that the loaded queues know consumers of.
func Groups(e *Engine) int {
	e.tableMu.RLock()
	defer e.tableMu.RUnlock()
	n := 0
	for _, q := range e.byName {
		q.mu.Lock()
		if q.groups != nil {
			n += len(q.groups.kept)
			for c := range q.groups.consumers {
				n += len(c.held)
			}
		}
		q.mu.Unlock()
	}
	return n
}

// auditViews checks what views know against what is there.
func (q *queue) auditViews() (errs []error) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	n := 0
	for w := q.waiters.first; w != nil; w = w.next {
		n++
		bad(!w.woken, "a waiter that was woken is in the list")
	}
	bad(n == q.waiters.n, "%d wait, counted are %d", n, q.waiters.n)
	bad(q.judging == 0 && q.forgot == nil, "%d pages are being judged", q.judging)
	for s, views := range q.matches {
		for _, v := range views {
			bad(q.views[v.sel.Text()] == v, "%d matches %q, which is forgotten", s, v.sel.Text())
		}
		// Known by its lease or still to be received: never gone.
		bad(len(views) > 0, "%d is kept as a match of nothing", s)
	}
	for text, v := range q.views {
		bad(v.sel.Text() == text, "the view of %q is found by %q", v.sel.Text(), text)
		for w := v.waiters.first; w != nil; w = w.next {
			bad(!w.woken && w.list == &v.waiters, "a waiter for %q is in a wrong list", text)
		}
		if !v.started {
			continue
		}
		for i, vl := range v.ring {
			bad(vl.inRing && !slices.Contains(v.ring[:i], vl), "%q has a lane twice in its ring", text)
		}
		for l, vl := range v.lanes {
			bad(q.laneOf(l.place) == l, "%q knows a lane that is not there", text)
			bad(!vl.paging && vl.l == l, "%q: lane %v is being paged", text, l.place)
			bad(vl.inRing || !vl.behind && (q.fifo() || len(vl.ready)+len(vl.slow) == 0), "%q: lane %v has something to give and no turn", text, l.place)
		}
		for s, i := range q.leases.bySeq {
			le := &q.leases.slab[i]
			vl := v.lanes[le.lane]
			if le.lane == nil {
				vl = v.due
			}
			if q.fifo() || le.status != leaseReturned || !slices.Contains(q.matches[s], v) {
				continue
			}
			bad(vl != nil && (slices.Contains(vl.ready, posOf(le)) || slices.Contains(vl.slow, posOf(le))), "%q: %d came back and is not known to be ready", text, s)
		}
	}
	return errs
}

// Views counts the selectors that the loaded queues know.
func Views(e *Engine) int {
	e.tableMu.RLock()
	defer e.tableMu.RUnlock()
	n := 0
	for _, q := range e.byName {
		q.mu.Lock()
		n += len(q.views)
		q.mu.Unlock()
	}
	return n
}
