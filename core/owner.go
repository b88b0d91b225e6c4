package core

import (
	"slices"
	"sync"
)

// markDeferMS is how long a session lease lives in memory alone. Most messages
// are settled before: then no state record is ever written.
const markDeferMS = 100

// watermarkStep is how far ahead of a delivery the watermark is raised.
const watermarkStep = 4096

// Owner owns session leases: a STOMP connection or an MQTT session. They have no
// deadline; they end when they are settled or the owner is released.
type Owner struct {
	mu       sync.Mutex
	leases   map[*queue]map[Seq]struct{}
	queues   []*queue // memory queues
	released bool
}

// deferredMark is a session lease whose state record is still to be written.
type deferredMark struct {
	seq   Seq
	nonce uint32 // of the lease
	at    int64  // when it was leased, milliseconds
}

// NewOwner returns an owner for one session.
func (c *Client) NewOwner() *Owner { return &Owner{leases: make(map[*queue]map[Seq]struct{})} }

// lock keeps the owner from being released while it is given leases. It fails
// when it has been.
func (o *Owner) lock() bool {
	o.mu.Lock()
	if o.released {
		o.mu.Unlock()
		return false
	}
	return true
}

// add notes a lease. The owner is locked.
func (o *Owner) add(q *queue, s Seq) {
	m := o.leases[q]
	if m == nil {
		m = make(map[Seq]struct{})
		o.leases[q] = m
	}
	m[s] = struct{}{}
}

func (o *Owner) drop(q *queue, s Seq) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.leases[q], s)
}

// forget drops a memory queue that is gone before its owner.
func (o *Owner) forget(q *queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queues = slices.DeleteFunc(o.queues, func(have *queue) bool { return have == q })
	delete(o.leases, q)
}

// ReleaseOwner ends a session: its leases are ready again at their old places,
// and its memory queues are gone.
// abnormal says that the session was lost, which counts as a failure of what it
// held.
func (c *Client) ReleaseOwner(o *Owner, abnormal bool) error {
	o.mu.Lock()
	leases, queues := o.leases, o.queues
	o.leases, o.queues, o.released = nil, nil, true
	o.mu.Unlock()
	for _, q := range queues {
		q.forgetMemory()
	}
	for q, held := range leases {
		if len(held) == 0 {
			continue // settled all; q may have left memory since
		}
		seqs := make([]Seq, 0, len(held))
		for s := range held {
			seqs = append(seqs, s)
		}
		slices.Sort(seqs)
		if err := q.release(o, seqs, abnormal); err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) release(o *Owner, seqs []Seq, abnormal bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone || q.out {
		return nil
	}
	g, err := q.engine.seq.begin()
	if err != nil {
		return err
	}
	now := q.engine.clock.now()
	g.slotOf(q)
	n := 0
	for _, s := range seqs {
		i, le := q.leases.find(s)
		if le == nil || le.owner != o {
			continue
		}
		if abnormal {
			le.failures++
		}
		q.leases.unschedule(i)
		q.inFlight--
		q.putState(g, le, le.stateAt(now))
		le.owner = nil
		q.unmark(le)
		q.returnLease(i)
		if le.lane != nil {
			g.touchLane(q, le.lane)
		}
		n++
	}
	q.snapshot(g, &g.slots[q.slotIndex])
	q.engine.seq.end()
	q.wake(n)
	return nil
}

// leaseToSession makes a lease that an owner holds. Its state record is left
// for later, but for messages of the delayed space, whose cursor cannot wait.
func (q *queue) leaseToSession(i int32, o *Owner, now int64, p *pick) {
	le := &q.leases.slab[i]
	le.owner = o
	o.add(q, le.seq)
	p.state = le.stateAt(0)
	if q.memory != nil {
		return
	}
	if le.lane == nil {
		p.setState = true
		return
	}
	q.deferred = append(q.deferred, deferredMark{seq: le.seq, nonce: le.nonce, at: now})
	if !le.marked {
		// Those that a selector takes do not come in order.
		i, _ := slices.BinarySearch(le.lane.unmarked, le.seq)
		le.lane.unmarked = slices.Insert(le.lane.unmarked, i, le.seq)
	}
}

// raiseWatermark keeps the stored watermark above what sessions are given, so
// that an unclean open knows which messages may have been delivered. It tells
// whether the delivery has to wait for group g: the watermark is raised by it, or
// was by another that is not durable yet.
func (q *queue) raiseWatermark(g *group, picks []pick, o *Owner) bool {
	if o == nil || q.memory != nil {
		return false
	}
	for i := range picks {
		if s := picks[i].ref.Seq; s >= q.state.Watermark {
			q.state.Watermark, q.watermarkGroup = s+watermarkStep, g.n
		}
	}
	return q.watermarkGroup > q.engine.seq.durableGroup()
}

// markDeferred writes the state records of session leases that have lived long
// enough.
func (q *queue) markDeferred(now int64) {
	if len(q.deferred) == 0 || q.deferred[0].at+markDeferMS > now {
		return
	}
	g, err := q.engine.seq.begin()
	if err != nil {
		return
	}
	g.slotOf(q)
	n := 0
	for _, m := range q.deferred {
		if m.at+markDeferMS > now {
			break
		}
		n++
		if _, le := q.leases.find(m.seq); le != nil && le.owner != nil && le.nonce == m.nonce {
			q.putState(g, le, le.stateAt(0))
			q.unmark(le)
			g.touchLane(q, le.lane)
		}
	}
	q.deferred = slices.Delete(q.deferred, 0, n)
	q.snapshot(g, &g.slots[q.slotIndex])
	q.engine.seq.end()
}

// unmark lets the stored cursor of le's lane go on once le has a state record
// or is gone.
func (q *queue) unmark(le *lease) {
	l := le.lane
	if l == nil {
		return
	}
	n := 0
	for _, s := range l.unmarked {
		if _, le := q.leases.find(s); le != nil && !le.marked && le.status != leaseDeleting {
			break
		}
		n++
	}
	l.unmarked = l.unmarked[n:]
	if len(l.unmarked) == 0 {
		l.unmarked = nil
	}
}
