package core

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// queue is one loaded queue. Everything below mu is guarded by it.
type queue struct {
	engine *Engine
	name   string
	id     QID                         // Queue.ID
	shared atomic.Pointer[queueRecord] // rec, for readers without the lock

	mu     sync.Mutex
	qid    QID
	rec    *queueRecord // replaced, never changed
	memory *memoryQueue // nil: it is stored; set before it is in the table
	gone   bool         // deleted; durable callbacks take it out of the table
	out    bool         // evicted: look the name up again
	full   bool         // leases and lanes are loaded

	state   QueueState // with all that has been decided
	durTail Seq        // newest message that is durable: receives see no further
	bad     error      // storage could not read it: degraded

	redeliverBelow Seq // after an unclean open: what lies below may have been delivered

	tail  *lane
	due   *dueLane
	lanes map[Place]*lane // laned queues: all but tail
	ring  []*lane         // lanes with something to give, in turn
	turn  bool            // starvation: the tail goes first this time
	// dueTook says that the last message taken was one of the delayed space.
	dueTook bool
	paged   sync.Cond // a page has been taken over

	sleeping []sleeper // FIFO lanes whose head is delayed, by time
	ages     ages      // FIFO queues with a delay

	leases   leaseTable
	inFlight int
	hidden   int
	settled  int // leases removed since OldState was last looked at

	deferred []deferredMark
	overlay  map[dedupKey]pendingDedup
	attempts []*attempt // FIFO, oldest first

	waiters   waiterList
	groups    *groups          // nil: no consumer has groups to itself
	views     map[string]*view // by the text of their selectors, at most viewsMax
	matches   map[Seq][]*view  // live messages that selectors are known to select
	viewIndex *viewIndex       // of views; nil: to be made
	judging   int              // pages that views are reading
	forgot    map[Seq]struct{} // deleted durably meanwhile: the pages may still show them
	limited   bool             // a receive with a selector has stopped at a limit
	emptied   int              // lanes that became empty while they were in the ring

	timer   *time.Timer
	timerAt int64 // core clock, milliseconds; 0: not armed

	headAt         int64  // enqueue time of the oldest head of its lanes when it was swept; 0: not known
	trimming       bool   // a goroutine is at it
	idle           int    // sweeps since it was last used
	lastGroup      uint64 // newest group with something of this queue
	configGroup    uint64 // newest group that changed what the queue is
	watermarkGroup uint64 // newest group that raised the watermark
	slotGroup      uint64
	slotIndex      int
}

// laned tells whether messages lie in lanes of their own rather than in the
// tail lane only.
func (q *queue) laned() bool { return len(q.lanes) > 0 }

func (q *queue) fifo() bool { return q.rec.Config.Kind == KindFIFO }

// newQueue returns a queue without messages or as stored, not yet loaded.
func (e *Engine) newQueue(rec *queueRecord, qid QID, st QueueState) *queue {
	q := &queue{
		engine: e, name: rec.Name, id: rec.ID, qid: qid, state: st,
		leases: newLeaseTable(), durTail: e.seq.lastSeq(),
	}
	q.setRecord(rec)
	q.paged.L = &q.mu
	q.clearLocked()
	return q
}

// loadLocked reads what is in flight, once, when the queue is first touched.
// What it costs is what is in flight and how many lanes there are, not what is
// stored.
func (q *queue) loadLocked() error {
	if q.full || q.gone {
		return nil
	}
	st := &q.state
	if st.Messages == 0 {
		q.startEmptyLocked()
		q.full = true
		return nil
	}
	var bad error
	var lanes []*lane
	err := q.engine.store.Lanes(q.qid, Place{}, func(p Place, value []byte) bool {
		var ls laneState
		if ls, bad = decodeLaneState(value); bad == nil {
			lanes = append(lanes, q.laneAt(p, ls, false))
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err == nil && st.Received > 0 {
		now := q.engine.clock.now()
		err = q.engine.store.States(Ref{QID: q.qid, Seq: st.OldState}, func(r Ref, ms MessageState) bool {
			q.loadState(r, ms, now)
			return true
		})
	}
	if err != nil {
		q.resetLocked()
		return err
	}
	for _, l := range lanes {
		q.refresh(l)
	}
	q.refresh(q.tail)
	q.full = true
	q.armLocked()
	return nil
}

// startEmptyLocked makes a queue without messages ready for sends.
func (q *queue) startEmptyLocked() {
	q.tail.atTail = true
	q.tail.newest = q.durTail
}

// loadState takes one state record into memory.
func (q *queue) loadState(r Ref, ms MessageState, now int64) {
	l := q.laneOf(r.Place)
	ready := ms.VisibleAt <= now || ms.Flags&StateSession != 0
	// Beyond the cursor a page would take what is not known for new.
	if ready && l != nil && r.Seq < l.pos && (l.spill != 0 || int64(l.back) >= q.engine.returnedMax.Load()) {
		if l.spill == 0 {
			l.spill = r.Seq
		}
		return
	}
	i, le := q.leases.add(r.Seq)
	le.place, le.lane = r.Place, l
	le.firstReceived, le.receives, le.failures, le.nonce = ms.FirstReceived, ms.Receives, ms.Failures, ms.Nonce
	le.size, le.sets, le.marked = -1, setsMany, true
	if ready {
		q.giveBack(le)
		return
	}
	le.status = leaseInFlight
	q.inFlight++
	if q.fifo() && l != nil {
		l.block(r.Seq)
	}
	q.leases.schedule(i, ms.VisibleAt)
}

// laneOf returns the lane of a place, nil for delayed messages.
func (q *queue) laneOf(p Place) *lane {
	switch p.Kind {
	case PlaceTail:
		return q.tail
	case PlaceDelayed:
		return nil
	}
	return q.lanes[p]
}

// laneAt returns the lane at p, made from ls if it is not there. fresh says that
// it holds nothing yet.
func (q *queue) laneAt(p Place, ls laneState, fresh bool) *lane {
	if p.Kind == PlaceTail {
		return q.tail
	}
	if l := q.lanes[p]; l != nil {
		return l
	}
	l := q.newLane(p, ls)
	l.atTail = fresh
	if q.lanes == nil {
		q.lanes = make(map[Place]*lane)
	}
	q.lanes[p] = l
	q.findHolder(l)
	return l
}

// giveBack makes a lease's message ready at its old place.
func (q *queue) giveBack(le *lease) {
	le.status = leaseReturned
	defer q.offer(le)
	if le.lane == nil {
		q.pushReturned(&q.due.returned, le.seq, q.due.back)
		q.due.back++
		return
	}
	q.pushReturned(&le.lane.returned, le.seq, le.lane.back)
	le.lane.back++
	if q.fifo() {
		le.lane.unblock(le.seq)
	}
}

// pushReturned pushes a message onto a heap of which n entries count. Others have
// been taken by selectors, or settled: they go when they are most of it.
func (q *queue) pushReturned(h *seqHeap, s Seq, n int) {
	h.push(s)
	const looseMax = 256
	if len(*h) < looseMax+2*n {
		return
	}
	slices.Sort(*h)
	*h = slices.DeleteFunc(slices.Compact(*h), func(s Seq) bool {
		_, le := q.leases.find(s)
		return le == nil || le.status != leaseReturned
	})
}

// resetLocked forgets all that is in memory about messages.
func (q *queue) resetLocked() {
	q.due.win.reset()
	q.tail.release()
	for _, l := range q.lanes {
		l.release()
	}
	q.clearLocked()
}

func (q *queue) clearLocked() {
	q.leases, q.inFlight, q.hidden = newLeaseTable(), 0, 0
	q.tail = q.newLane(Place{}, laneState{Cursor: q.state.Cursor})
	q.due = &dueLane{win: window{budget: &q.engine.windowBytes}, due: q.state.DueCursor, seq: q.state.DueSeq, hot: q.state.Delayed > 0}
	q.lanes, q.ring, q.sleeping, q.deferred, q.attempts = nil, nil, nil, nil, nil
	q.ages = ages{}
	q.resetViews()
	q.resetGroups()
	q.full = false
}

// newLane returns a lane of which only storage knows what it holds.
func (q *queue) newLane(p Place, ls laneState) *lane {
	w := window{budget: &q.engine.windowBytes}
	if q.memory != nil {
		w.budget = &q.engine.memoryBytes
	}
	return &lane{
		unbounded: q.memory != nil,
		place:     p, pos: ls.Cursor, next: ls.Cursor, count: ls.Count,
		newest: q.durTail, gapEnd: q.durTail, win: w, recent: w,
	}
}

// durable is called once a group's Change is durable: what it sent may be
// received, what it deleted is forgotten.
func (q *queue) durable(n uint64, sl *slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if sl.dropped && q.gone && sl.qid == q.qid {
		q.engine.forget(q) // not for a purge before the deletion
	}
	for _, k := range sl.dedup {
		if p, ok := q.overlay[k]; ok && p.group == n {
			delete(q.overlay, k)
		}
	}
	if sl.qid != q.qid || q.gone {
		return
	}
	old := q.durTail
	if sl.tail > q.durTail {
		q.durTail = sl.tail
	}
	for _, s := range sl.drops {
		q.forgetLease(s)
	}
	if sl.published > 0 && len(q.views) > 0 {
		q.show(sl, old)
	}
	if sl.dueMin != 0 {
		q.due.durable(n)
		q.armLocked()
	}
	for _, l := range sl.lanes {
		q.refresh(l)
	}
	if sl.published > 0 {
		q.refresh(q.tail) // the first lane may have come in this group
	}
	if sl.published > 0 || len(sl.drops) > 0 && q.fifo() {
		q.wake(max(sl.published, len(q.ring)))
	}
	q.trimLater()
}

// forgetLease drops the entry of a message that is durably gone.
func (q *queue) forgetLease(s Seq) {
	i, le := q.leases.find(s)
	if le == nil || le.status != leaseDeleting {
		return
	}
	l := le.lane
	q.leases.remove(i)
	if q.memory != nil {
		q.dropKept(s)
	}
	delete(q.matches, s)
	q.liftLimit()
	if q.judging > 0 {
		if q.forgot == nil {
			q.forgot = make(map[Seq]struct{})
		}
		q.forgot[s] = struct{}{}
	}
	switch {
	case l == nil && q.due.paging:
		q.due.forgot = append(q.due.forgot, s)
	case l != nil && l.paging && (s >= l.next || l.spill != 0):
		l.forgot = append(l.forgot, s)
	}
	if l == nil || l == q.tail {
		return
	}
	if q.fifo() {
		l.unblock(s)
	}
	q.refresh(l)
	q.tidy(l)
}

// refresh puts a lane into the ring if it has something to give. The tail lane
// takes its turn beside the groups of a standard queue.
func (q *queue) refresh(l *lane) {
	if l == q.tail && (!q.laned() || q.rec.Config.Kind != KindStandard) {
		return
	}
	if !l.inRing && q.ready(l) {
		l.inRing = true
		q.ring = append(q.ring, l)
	}
	q.enterTurn(l)
	if q.fifo() {
		q.showHead(l)
	}
}

// ready tells whether a receive may find a message in l. It may err towards
// yes: when only storage knows.
func (q *queue) ready(l *lane) bool {
	s, ok := q.head(l)
	if !ok {
		return false
	}
	return !q.fifo() || len(l.flying) == 0 || s < l.flying[0]
}

// head returns the sequence of the next message of l. When only storage knows
// it, it returns where a page would start.
func (q *queue) head(l *lane) (Seq, bool) {
	if le := q.firstReturned(l); le != nil {
		return le.seq, true
	}
	if l.spill != 0 {
		return l.spill, true
	}
	l.trim()
	if l.win.len() > 0 {
		s := l.win.front().seq
		return s, s <= q.durTail
	}
	return l.next, !l.atTail && l.next <= q.durTail
}

// firstReturned returns the oldest returned lease of l, nil if there is none.
func (q *queue) firstReturned(l *lane) *lease {
	for len(l.returned) > 0 {
		if _, le := q.leases.find(l.returned[0]); le != nil && le.status == leaseReturned && le.lane == l {
			if l.spill != 0 && l.spill < le.seq {
				return nil
			}
			return le
		}
		l.returned.pop()
	}
	return nil
}
