package core

import "container/heap"

// leaseStatus says where a message stands that has been received.
type leaseStatus uint8

const (
	leaseFree     leaseStatus = iota // an unused entry of the slab
	leaseInFlight                    // held by a consumer
	leaseHidden                      // handed back, ready after a delay
	leaseReturned                    // ready again, at its old place
	leaseDead                        // set aside for the dead-letter queue, not yet decided
	leaseDeleting                    // its deletion is decided but not yet durable
)

// lease is the memory's entry for a message that has been received and is not
// yet durably gone. The body is not kept: a redelivery reads it again.
type lease struct {
	seq      Seq
	place    Place
	lane     *lane  // nil for a delayed message
	owner    *Owner // session leases
	deadline int64  // milliseconds; 0: none
	group    uint64 // of the newest edit to its state record

	firstReceived int64
	receivedAt    int64 // of the newest receive; 0: by an earlier process
	receives      uint32
	failures      uint32
	nonce         uint32
	size          int32 // counted bytes; -1: unknown, loaded from storage, as epoch is
	epoch         QID   // that its body is shared in; 0: its record has it

	status leaseStatus
	sets   uint8 // of the state record by this process; setsMany: one may be older than the process
	marked bool  // there is a state record, or will be with this group
	// decided says that the settlement in hand has decided on it, and has not
	// written that yet.
	decided bool

	prev, next int32 // in its deadline bucket, or the free list
	bucket     *bucket
}

// setsMany makes a delete of the state record use DEL, not SINGLEDEL.
const setsMany = 2

// learn notes what the record of its message says.
func (l *lease) learn(rec []byte) {
	l.size, l.epoch = int32(recordCounted(rec)), 0
	if ref := recordRef(rec); ref != nil {
		l.epoch = ref.epoch()
	}
}

func (l *lease) stateAt(visibleAt int64) MessageState {
	st := MessageState{
		VisibleAt: visibleAt, FirstReceived: l.firstReceived,
		Receives: l.receives, Failures: l.failures, Nonce: l.nonce,
	}
	if l.owner != nil {
		st.Flags = StateSession
	}
	return st
}

func (l *lease) state() MessageState { return l.stateAt(l.deadline) }

// leaseTable holds a queue's leases: a slab, an index by sequence, and buckets
// of deadlines. Adding, finding and removing are O(1); a bucket is leaseTickMS
// wide.
type leaseTable struct {
	slab    []lease
	free    int32 // head of the free list, -1: none
	bySeq   map[Seq]int32
	buckets map[int64]*bucket
	ticks   tickHeap // may hold ticks of buckets that have become empty
	last    *bucket  // most recently used
}

// leaseTickMS is the grain of deadlines: a lease ends at most this late.
const leaseTickMS = 16

type bucket struct {
	tick int64
	head int32
	n    int
}

func newLeaseTable() leaseTable {
	return leaseTable{free: -1}
}

func (t *leaseTable) len() int { return len(t.bySeq) }

func (t *leaseTable) find(s Seq) (int32, *lease) {
	if i, ok := t.bySeq[s]; ok {
		return i, &t.slab[i]
	}
	return -1, nil
}

// add returns a new entry for s. Pointers into the slab end with the next add.
func (t *leaseTable) add(s Seq) (int32, *lease) {
	i := t.free
	if i >= 0 {
		t.free = t.slab[i].next
	} else {
		i = int32(len(t.slab))
		t.slab = append(t.slab, lease{})
	}
	if t.bySeq == nil {
		t.bySeq = make(map[Seq]int32)
	}
	t.slab[i] = lease{seq: s, prev: -1, next: -1}
	t.bySeq[s] = i
	return i, &t.slab[i]
}

// remove forgets entry i. An empty table gives its memory back.
func (t *leaseTable) remove(i int32) {
	t.unschedule(i)
	l := &t.slab[i]
	delete(t.bySeq, l.seq)
	*l = lease{next: t.free, prev: -1}
	t.free = i
	const slabKept = 4096
	if len(t.bySeq) == 0 && cap(t.slab) > slabKept {
		*t = newLeaseTable()
	}
}

// schedule sets the deadline of entry i and puts it into its bucket.
func (t *leaseTable) schedule(i int32, deadline int64) {
	t.unschedule(i)
	t.slab[i].deadline = deadline
	tick := deadline / leaseTickMS
	b := t.last
	if b == nil || b.tick != tick || b.n == 0 {
		b = t.buckets[tick]
		if b == nil {
			b = &bucket{tick: tick, head: -1}
			if t.buckets == nil {
				t.buckets = make(map[int64]*bucket)
			}
			t.buckets[tick] = b
			heap.Push(&t.ticks, tick)
		}
		t.last = b
	}
	l := &t.slab[i]
	l.bucket, l.prev, l.next = b, -1, b.head
	if b.head >= 0 {
		t.slab[b.head].prev = i
	}
	b.head = i
	b.n++
}

// unschedule takes entry i out of its bucket. An empty bucket stays until its
// tick comes or it is the first.
func (t *leaseTable) unschedule(i int32) {
	l := &t.slab[i]
	b := l.bucket
	if b == nil {
		return
	}
	if l.prev >= 0 {
		t.slab[l.prev].next = l.next
	} else {
		b.head = l.next
	}
	if l.next >= 0 {
		t.slab[l.next].prev = l.prev
	}
	b.n--
	l.bucket, l.prev, l.next, l.deadline = nil, -1, -1, 0
}

// due returns the time at which the first bucket ends, 0 if there is none.
func (t *leaseTable) due() int64 {
	for len(t.ticks) > 0 {
		if b := t.buckets[t.ticks[0]]; b.n > 0 {
			return (b.tick + 1) * leaseTickMS
		}
		t.dropFirst()
	}
	return 0
}

func (t *leaseTable) dropFirst() {
	tick := heap.Pop(&t.ticks).(int64)
	if t.last == t.buckets[tick] {
		t.last = nil
	}
	delete(t.buckets, tick)
}

// expire takes an entry out whose bucket has ended, -1 if there is none.
func (t *leaseTable) expire(now int64) int32 {
	if d := t.due(); d == 0 || d > now {
		return -1
	}
	i := t.buckets[t.ticks[0]].head
	t.unschedule(i)
	return i
}

// tickHeap is a min-heap for container/heap.
type tickHeap []int64

func (h tickHeap) Len() int           { return len(h) }
func (h tickHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h tickHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *tickHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *tickHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// seqHeap is a min-heap of sequences without interface boxing.
type seqHeap []Seq

func (h *seqHeap) push(s Seq) {
	*h = append(*h, s)
	a := *h
	for i := len(a) - 1; i > 0; {
		p := (i - 1) / 2
		if a[p] <= a[i] {
			return
		}
		a[p], a[i] = a[i], a[p]
		i = p
	}
}

func (h *seqHeap) pop() Seq {
	a := *h
	top, n := a[0], len(a)-1
	a[0] = a[n]
	a = a[:n]
	*h = a
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && a[c+1] < a[c] {
			c++
		}
		if a[i] <= a[c] {
			break
		}
		a[i], a[c] = a[c], a[i]
		i = c
	}
	if n == 0 && cap(a) > 1024 {
		*h = nil
	}
	return top
}
