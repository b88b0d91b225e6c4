package core

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the sequencer.
const (
	groupBytesTarget = 4 << 20  // an open group at this size holds further operations back
	groupsInFlight   = 2        // sealed, not yet durable: double buffering
	groupBytesDouble = 64 << 10 // a second group is sealed only when it is worth an fsync of its own

	gatherStill = 4                      // yields in a row that brought nothing end the gathering
	gatherMax   = 100 * time.Microsecond // and so does this time
)

// sequencer owns the open Change and gives out sequences. Operations append to
// it under mu; one goroutine seals it whenever the committer has room, so that a
// commit collects what arrived during the one before.
type sequencer struct {
	engine *Engine

	mu       sync.Mutex
	sealable sync.Cond // signalled when open becomes non-empty, when a commit ends, and on close
	room     sync.Cond // broadcast when open has been sealed
	open     *group
	sealed   []*group // in flight, oldest first, at most groupsInFlight
	ending   *commit  // of the group that is durable and being shown to its queues and callers
	next     Seq
	err      error // why nothing more is accepted
	closed   bool
	spare    []*group // retired: their slices are used again
	held     int      // operations waiting for room

	durable atomic.Uint64 // number of the last durable group; read with or without mu
}

// group is a Change being filled, with what has to happen when it is durable.
type group struct {
	n      uint64 // rises by one a group
	change Change
	bytes  int
	slots  []slot
	lanes  []laneSlot
	epochs []epochSlot
	calls  []func(error)
	done   *commit
}

// commit is what an operation waits for. It outlives the group, whose slices
// are used again.
type commit struct {
	ch  chan struct{}
	err error // set before ch is closed
}

func (c *commit) wait() error {
	<-c.ch
	return c.err
}

// slot is what a group does to one queue.
type slot struct {
	q         *queue
	qid       QID
	state     QueueState
	dropped   bool // the incarnation ends in this group
	published int
	tail      Seq        // newest message sent
	dueMin    uint64     // earliest due time sent; 0: none
	drops     []Seq      // messages whose deletion is in this group
	lanes     []*lane    // lanes that were sent to
	dedup     []dedupKey // overlay entries that become stored
}

type laneSlot struct {
	qid   QID
	l     *lane
	state laneState
}

func newSequencer(e *Engine, first Seq) *sequencer {
	s := &sequencer{engine: e, next: first}
	s.sealable.L, s.room.L = &s.mu, &s.mu
	s.open = &group{n: 1, done: &commit{ch: make(chan struct{})}}
	return s
}

// admit holds an operation back while the open group is full. It is called
// before any queue is locked: the callbacks that make room need those locks.
func (s *sequencer) admit() {
	s.mu.Lock()
	for s.open.bytes > groupBytesTarget && s.err == nil {
		s.held++
		s.room.Wait()
		s.held--
	}
	s.mu.Unlock()
}

// begin locks the sequencer and returns the open group; end unlocks it.
func (s *sequencer) begin() (*group, error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, s.err
	}
	return s.open, nil
}

func (s *sequencer) end() {
	if s.sealableLocked() {
		s.sealable.Signal()
	}
	s.mu.Unlock()
}

// call has f called with the end of the open group: all that was decided before
// is durable then, or the node has failed.
func (s *sequencer) call(f func(error)) error {
	g, err := s.begin()
	if err != nil {
		return err
	}
	g.calls = append(g.calls, f)
	s.end()
	return nil
}

// takeSeq gives out the next sequence. mu is held.
func (s *sequencer) takeSeq() Seq {
	n := s.next
	s.next++
	return n
}

// lastSeq returns the newest sequence that was given out.
func (s *sequencer) lastSeq() Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - 1
}

// commitOf returns the commit of group n, nil if it is durable. Of a group that
// has failed it is one that has failed.
func (s *sequencer) commitOf(n uint64) *commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= s.durable.Load() {
		return nil
	}
	if n == s.open.n {
		return s.open.done
	}
	for _, g := range s.sealed {
		if g.n == n {
			return g.done
		}
	}
	failed := &commit{ch: make(chan struct{}), err: s.err}
	close(failed.ch)
	return failed
}

// barrier returns the commit after which all that has been decided so far is
// durable and known to its queues, nil if it is already.
func (s *sequencer) barrier() *commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open.empty() {
		return s.open.done
	}
	if n := len(s.sealed); n > 0 {
		return s.sealed[n-1].done
	}
	return s.ending
}

// settle waits until all that has been decided so far is durable.
func (s *sequencer) settle() {
	if c := s.barrier(); c != nil {
		_ = c.wait() // its callers are told
	}
}

// run seals and submits until close. It returns when all that was accepted has
// been submitted.
func (s *sequencer) run(committer Committer) {
	for {
		s.mu.Lock()
		for !s.sealableLocked() && (!s.closed || !s.open.empty()) && s.err == nil {
			s.sealable.Wait()
		}
		s.gatherLocked()
		if s.err != nil || s.open.empty() {
			if s.err == nil {
				s.err = ErrStopped
			}
			s.mu.Unlock()
			return
		}
		g := s.open
		s.sealed = append(s.sealed, g)
		s.open = s.nextGroupLocked(g.n + 1)
		s.room.Broadcast()
		alone := len(s.sealed) == 1 && s.ending == nil
		s.mu.Unlock()
		g.seal(s.engine.clock.now())
		if alone && len(g.change.Edits) == 0 {
			s.committed(g, nil) // memory queues alone, or duplicates: there is nothing to store
			continue
		}
		committer.Submit(&g.change, func(pos Pos, err error) { s.committed(g, err) })
	}
}

// sealableLocked tells whether the open group is to be sealed now. While another
// is being committed a small one goes on collecting: the fsync is shared by more.
func (s *sequencer) sealableLocked() bool {
	switch len(s.sealed) {
	case 0:
		return !s.open.empty()
	case groupsInFlight:
		return false
	}
	return s.open.bytes >= groupBytesDouble
}

// empty tells whether there is nothing to commit and nobody to answer: a send
// of nothing but duplicates has an answer alone.
func (g *group) empty() bool { return g.work() == 0 }

// gatherLocked lets goroutines that can run add to the open group before it is
// sealed. The last commit has just woken some, and what they do next shares the
// fsync. When nothing else can run it takes about a microsecond. It gives mu up.
func (s *sequencer) gatherLocked() {
	began := time.Now()
	for still := 0; still < gatherStill && time.Since(began) < gatherMax; {
		n := s.open.work()
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
		if still++; s.open.work() != n {
			still = 0
		}
	}
}

// work counts what the group has to do.
func (g *group) work() int { return len(g.change.Edits) + len(g.slots) + len(g.calls) }

func (s *sequencer) nextGroupLocked(n uint64) *group {
	g := &group{}
	if k := len(s.spare); k > 0 {
		g, s.spare = s.spare[k-1], s.spare[:k-1]
	}
	g.n, g.done = n, &commit{ch: make(chan struct{})}
	return g
}

// seal appends the state of each touched queue and lane.
func (g *group) seal(now int64) {
	arena := make([]byte, 0, 64*len(g.slots)+12*len(g.lanes))
	for i := range g.lanes {
		l := &g.lanes[i]
		edit := Edit{Kind: EditDropLane, Ref: Ref{QID: l.qid, Place: l.l.place}}
		if l.state.Count > 0 {
			from := len(arena)
			arena = l.state.append(arena)
			edit.Kind, edit.Value = EditPutLane, arena[from:len(arena):len(arena)]
		}
		g.change.Edits = append(g.change.Edits, edit)
	}
	if len(g.epochs) > 0 {
		g.putEpochs()
	}
	for i := range g.slots {
		if sl := &g.slots[i]; !sl.dropped && sl.q.memory == nil {
			from := len(arena)
			arena = sl.state.append(arena)
			g.change.Edits = append(g.change.Edits, Edit{
				Kind: EditPutQueueState, Ref: Ref{QID: sl.qid}, Value: arena[from:len(arena):len(arena)],
			})
		}
	}
	g.change.Time = now
}

// committed is called by the committer, in order.
func (s *sequencer) committed(g *group, err error) {
	if err != nil {
		err = s.engine.fail(err)
	}
	s.mu.Lock()
	s.sealed = append(s.sealed[:0], s.sealed[1:]...)
	if err == nil {
		s.durable.Store(g.n)
		if len(g.epochs) > 0 && s.engine.bodies.ended(g) {
			s.engine.wakeReaper()
		}
	}
	s.ending = g.done
	s.sealable.Signal()
	s.mu.Unlock()
	if err == nil {
		for i := range g.slots {
			g.slots[i].q.durable(g.n, &g.slots[i])
		}
	}
	g.done.err = err
	close(g.done.ch)
	for _, call := range g.calls {
		call(err)
	}
	s.mu.Lock()
	s.ending = nil
	s.mu.Unlock()
	s.retire(g)
}

// retire keeps the slices of a group for a later one, unless they are large.
func (s *sequencer) retire(g *group) {
	const editsKept = 32 << 10
	if cap(g.change.Edits) > editsKept {
		return
	}
	clear(g.change.Edits)
	clear(g.lanes)
	clear(g.epochs)
	clear(g.calls)
	for i := range g.slots {
		sl := &g.slots[i]
		clear(sl.lanes)
		*sl = slot{drops: sl.drops[:0], lanes: sl.lanes[:0], dedup: sl.dedup[:0]}
	}
	*g = group{
		change: Change{Edits: g.change.Edits[:0]}, slots: g.slots[:0], lanes: g.lanes[:0], epochs: g.epochs[:0], calls: g.calls[:0],
	}
	s.mu.Lock()
	if len(s.spare) < groupsInFlight+1 {
		s.spare = append(s.spare, g)
	}
	s.mu.Unlock()
}

// fail makes every later operation answer err. Groups in flight answer by their
// own callbacks; what is still open never commits.
func (s *sequencer) fail(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	g := s.open
	s.open = &group{n: g.n + 1, done: &commit{ch: make(chan struct{})}}
	s.room.Broadcast()
	s.sealable.Broadcast()
	s.mu.Unlock()
	g.done.err = err
	close(g.done.ch)
	for _, call := range g.calls {
		call(err)
	}
}

// close makes run return once all that was accepted has been submitted.
func (s *sequencer) close() {
	s.mu.Lock()
	s.closed = true
	s.sealable.Broadcast()
	s.mu.Unlock()
}

// drain waits until every group in flight has ended.
func (s *sequencer) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sealed) > 0 {
		s.sealable.Wait()
	}
}

// durableGroup returns the number of the newest durable group. It may be called
// between begin and end.
func (s *sequencer) durableGroup() uint64 { return s.durable.Load() }

// put appends an edit.
func (g *group) put(e Edit) {
	g.bytes += len(e.Value) + len(e.Key) + 64
	g.change.Edits = append(g.change.Edits, e)
}

// slotOf returns the slot of q, with the state that q has now. q.mu and the
// sequencer are held.
func (g *group) slotOf(q *queue) *slot {
	if q.slotGroup != g.n {
		q.slotGroup, q.slotIndex = g.n, len(g.slots)
		if len(g.slots) < cap(g.slots) {
			g.slots = g.slots[:len(g.slots)+1]
		} else {
			g.slots = append(g.slots, slot{})
		}
		sl := &g.slots[q.slotIndex]
		*sl = slot{q: q, qid: q.qid, drops: sl.drops[:0], lanes: sl.lanes[:0], dedup: sl.dedup[:0]}
	}
	return &g.slots[q.slotIndex]
}

// touchLane records the lane's state of now, which the seal stores.
func (g *group) touchLane(q *queue, l *lane) {
	if l.place.Kind == PlaceTail {
		return
	}
	if l.slotGroup != g.n {
		l.slotGroup, l.slotIndex = g.n, len(g.lanes)
		g.lanes = append(g.lanes, laneSlot{qid: q.qid, l: l})
	}
	g.lanes[l.slotIndex].state = laneState{Cursor: l.stored(), Count: l.count}
}
