package core

import (
	"slices"
	"sync/atomic"
)

// Bounds of what a lane keeps in memory.
const (
	windowEntriesMax = 4096
	windowBytesMax   = 1 << 20
	recentEntriesMax = 1024
	recentBytesMax   = 256 << 10
	pageEntries      = 512
	pageBytes        = 1 << 20
	readAheadLanes   = 10  // lanes that one receive brings into memory
	prefetchBelow    = 256 // entries left in the window when the next page is fetched
	returnedMax      = 64 << 10
)

// lane is one ordered run of messages of a queue. Messages that were never
// received are taken from the window; those that came back, from returned.
//
// The window holds consecutive never-received messages from the lane's read
// position. atTail says that it reaches the newest message: then a send is put
// into it. Otherwise storage holds messages from next on, and recent holds the
// newest sends, so that a page that reaches them joins up without a gap.
type lane struct {
	place Place
	count int64 // live messages; kept for all but the tail lane

	win       window
	unbounded bool // the window holds all that nobody has received
	atTail    bool
	next      Seq // not atTail: where the next page starts
	recent    window
	gapEnd    Seq // not atTail: the newest message that is in neither window nor recent
	newest    Seq // the newest message sent to the lane, if known

	pos      Seq   // all below it has been taken from the window
	unmarked []Seq // session leases without a state record, in order: they hold the stored cursor back

	returned seqHeap // may hold entries that are not returned any more
	back     int     // leases that are
	spill    Seq     // from here on state records of ready messages may lie in storage only; 0: none

	flying []Seq // FIFO: sequences that block what is behind them, sorted

	paging bool  // a page is being read, by one goroutine
	forgot []Seq // deleted durably since that began: the page may still show them
	inRing bool
	inTurn bool      // it is in one of the rings of groups
	holder *Consumer // who has the group to itself
	asleep bool      // FIFO: its head is delayed

	slotGroup uint64
	slotIndex int

	shown Seq // the newest message that the views were shown
}

// stored returns the cursor that may be stored: it never passes a message
// without a state record.
func (l *lane) stored() Seq {
	if len(l.unmarked) > 0 {
		return min(l.unmarked[0], l.pos)
	}
	return l.pos
}

// entry is a message in a window; a nil record is a hole.
type entry struct {
	seq Seq
	due uint64 // delayed messages
	rec []byte
}

// window is a deque of entries in order.
type window struct {
	buf    []entry
	head   int
	holes  int
	bytes  int
	budget *atomic.Int64 // the node's; counts the bytes of every window
}

func (w *window) add(n int) {
	w.bytes += n
	w.budget.Add(int64(n))
}

func (w *window) len() int { return len(w.buf) - w.head }

func (w *window) front() *entry { return &w.buf[w.head] }

func (w *window) push(e entry) {
	if w.head > 64 && w.head*2 > len(w.buf) {
		n := copy(w.buf, w.buf[w.head:])
		clear(w.buf[n:])
		w.buf, w.head = w.buf[:n], 0
	}
	w.buf = append(w.buf, e)
	w.add(len(e.rec))
}

func (w *window) pop() entry {
	e := w.buf[w.head]
	w.buf[w.head] = entry{}
	w.head++
	w.add(-len(e.rec))
	if e.rec == nil {
		w.holes--
	}
	if w.head == len(w.buf) {
		w.buf, w.head = w.buf[:0], 0
		if cap(w.buf) > windowEntriesMax/4 {
			w.buf = nil
		}
	}
	return e
}

func (w *window) full(entries, bytes int) bool { return w.len() >= entries || w.bytes >= bytes }

// at returns the entry at p, nil if there is none.
func (w *window) at(p viewPos) *entry {
	live := w.buf[w.head:]
	i, ok := slices.BinarySearchFunc(live, p, func(e entry, p viewPos) int { return viewPos{e.due, e.seq}.compare(p) })
	if !ok || live[i].rec == nil {
		return nil
	}
	return &live[i]
}

// punch makes a hole at p.
func (w *window) punch(p viewPos) {
	if e := w.at(p); e != nil {
		w.add(-len(e.rec))
		e.rec = nil
		w.holes++
	}
}

// hole tells whether there is a hole at the front.
func (w *window) hole() bool { return w.len() > 0 && w.front().rec == nil }

// trim drops holes at the front of the window. What they were has a lease, and a
// state record unless it is among the unmarked: the cursor may go on.
func (l *lane) trim() {
	for l.win.hole() {
		l.pos = max(l.pos, l.win.pop().seq+1)
	}
}

func (w *window) reset() {
	w.add(-w.bytes)
	*w = window{budget: w.budget}
}

// send puts a message that was just given its sequence behind the others.
// keep is false when no memory is to be spent on it.
func (l *lane) send(s Seq, rec []byte, keep bool) {
	prior := l.newest
	l.newest = s
	if l.atTail {
		if l.unbounded || keep && !l.win.full(windowEntriesMax, windowBytesMax) {
			l.win.push(entry{seq: s, rec: rec})
			return
		}
		l.atTail, l.next, l.gapEnd = false, s, prior
	}
	if !keep {
		l.recent.reset()
		l.gapEnd = s
		return
	}
	for l.recent.full(recentEntriesMax, recentBytesMax) && l.recent.len() > 0 {
		l.gapEnd = l.recent.pop().seq
	}
	l.recent.push(entry{seq: s, rec: rec})
}

// join takes over a page that was read from next to end (exclusive); more says
// that it stopped before end, after its last entry. Messages that are known by
// their lease are left out.
func (l *lane) join(page []entry, end Seq, more bool, known func(Seq) bool) {
	for _, e := range page {
		if e.seq >= l.next && !known(e.seq) {
			l.win.push(e)
		}
	}
	if more {
		l.next = page[len(page)-1].seq + 1
		return
	}
	l.next = max(l.next, end)
	if l.gapEnd >= l.next {
		return
	}
	for l.recent.len() > 0 {
		if e := l.recent.pop(); e.seq >= l.next && e.rec != nil && !known(e.seq) {
			l.win.push(e)
		}
	}
	l.recent.reset()
	l.atTail = true
}

// block and unblock keep the sequences that stop a FIFO lane.
func (l *lane) block(s Seq) {
	i, ok := slices.BinarySearch(l.flying, s)
	if !ok {
		l.flying = slices.Insert(l.flying, i, s)
	}
}

func (l *lane) unblock(s Seq) {
	if i, ok := slices.BinarySearch(l.flying, s); ok {
		l.flying = slices.Delete(l.flying, i, i+1)
	}
}

// release gives the memory of the lane's windows back to the node's budget.
func (l *lane) release() {
	l.win.reset()
	l.recent.reset()
}
