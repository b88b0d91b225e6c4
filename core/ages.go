package core

import (
	"cmp"
	"math"
	"slices"
)

// ages counts the young messages of a FIFO queue: a delay there is one of the
// queue, which holds each message from its enqueue time on where it lies in its
// group. What was put since the queue was loaded, or its delay was set, is counted
// as it comes; what lay there before is read once, when somebody asks.
type ages struct {
	spans   []ageSpan // by sequence and so by age, oldest first
	n       int64     // messages in spans
	read    bool      // spans have what lay there before
	reading *agesRead // goes on, by one goroutine
	from    Seq       // the first that was put since; 0: none
}

// ageSpan counts messages of about one enqueue time.
type ageSpan struct {
	seqFirst, seqLast Seq
	first, last       int64 // enqueue times, milliseconds since the epoch
	n                 int64
}

// ageSpansMax is about how many spans a delay has: one counts as long as its last
// message, hence late by no more than that part of the delay.
const ageSpansMax = 1024

// add counts a message, which comes behind the others.
func (a *ages) add(seq Seq, at, delay int64) {
	a.n++
	if k := len(a.spans); k > 0 && at < a.spans[k-1].first+max(1, delay/ageSpansMax) {
		s := &a.spans[k-1]
		s.seqLast, s.last, s.n = seq, max(s.last, at), s.n+1
		return
	}
	a.spans = append(a.spans, ageSpan{seqFirst: seq, seqLast: seq, first: at, last: at, n: 1})
}

// drop takes out a message that has gone, if it was counted.
func (a *ages) drop(seq Seq) {
	i, _ := slices.BinarySearchFunc(a.spans, seq, func(s ageSpan, seq Seq) int { return cmp.Compare(s.seqLast, seq) })
	if i < len(a.spans) && a.spans[i].seqFirst <= seq && a.spans[i].n > 0 {
		a.spans[i].n--
		a.n--
		return
	}
	if r := a.reading; r != nil && len(r.gone) < delayedCountMax {
		r.gone[seq] = struct{}{}
	}
}

// prune lets go of what the delay holds no longer.
func (a *ages) prune(now, delay int64) {
	k := 0
	for k < len(a.spans) && a.spans[k].last+delay <= now {
		a.n -= a.spans[k].n
		k++
	}
	a.spans = slices.Delete(a.spans, 0, k)
}

// young counts a message that is being put, if the queue's delay holds it.
func (q *queue) young(seq Seq, at int64) {
	delay := q.rec.Config.Delay.Milliseconds()
	if !q.fifo() || delay == 0 {
		return
	}
	if q.ages.from == 0 {
		q.ages.from = seq
	}
	if len(q.ages.spans) >= 2*ageSpansMax {
		q.ages.prune(q.engine.clock.now(), delay)
	}
	q.ages.add(seq, at, delay)
}

// heldByDelay counts the messages of a FIFO queue that its delay holds, those of
// old up to delayedCountMax. q.mu is held, and given up while storage reads.
func (q *queue) heldByDelay() (int64, error) {
	for {
		delay, now := q.rec.Config.Delay.Milliseconds(), q.engine.clock.now()
		a := &q.ages
		switch {
		case delay == 0:
			return 0, nil
		case a.read:
			a.prune(now, delay)
			return min(a.n, max(q.state.Messages-int64(q.inFlight+q.hidden), 0)), nil
		case a.reading != nil:
			q.paged.Wait()
		default:
			if err := q.readAges(now-delay, delay); err != nil {
				return 0, err
			}
		}
		if err := q.usableLocked(); err != nil {
			return 0, err
		}
	}
}

// readAges counts what lay in the queue before and was enqueued after a time.
// q.mu is held, and given up while storage reads: what is put then is counted
// where it is put, what goes is noted.
func (q *queue) readAges(after, delay int64) error {
	r := &agesRead{store: q.engine.store, qid: q.qid, after: after, gone: make(map[Seq]struct{})}
	r.end = cmp.Or(q.ages.from, q.engine.seq.lastSeq()+1)
	q.ages.reading = r
	q.mu.Unlock()
	err := r.run()
	q.mu.Lock()
	q.paged.Broadcast()
	a := &q.ages
	if a.reading != r {
		return nil // purged, unloaded, or of another delay by now
	}
	a.reading = nil
	if err != nil {
		return err
	}
	later := a.spans
	a.spans, a.read = nil, true
	for _, m := range r.found {
		if _, gone := r.gone[m.seq]; !gone {
			a.add(m.seq, m.at, delay)
		}
	}
	a.spans = append(a.spans, later...)
	return nil
}

// agesRead reads the young messages of a queue, without its lock.
type agesRead struct {
	store Store
	qid   QID
	after int64            // enqueue time of those that are not young
	end   Seq              // what comes from there on is counted already
	low   Seq              // what comes before is not young: sequences grow with time
	found []aged           // up to delayedCountMax
	gone  map[Seq]struct{} // that have gone meanwhile; guarded by the lock of the queue
}

// aged is a message and its enqueue time.
type aged struct {
	seq Seq
	at  int64
}

// agesOldMax is how many messages of a lane that are not young are read, one
// after another, before the first that is young is looked for.
const agesOldMax = 64

// run reads all lanes.
func (r *agesRead) run() error {
	type laneFrom struct {
		place Place
		from  Seq
	}
	var lanes []laneFrom
	var bad error
	err := r.store.Lanes(r.qid, Place{}, func(p Place, value []byte) bool {
		var st laneState
		st, bad = decodeLaneState(value)
		lanes = append(lanes, laneFrom{p, st.Cursor})
		return bad == nil
	})
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	for _, l := range lanes {
		if err := r.lane(l.place, l.from); err != nil {
			return err
		}
		if len(r.found) >= delayedCountMax {
			break
		}
	}
	slices.SortFunc(r.found, func(a, b aged) int { return cmp.Compare(a.seq, b.seq) })
	return nil
}

// lane reads one lane, whose old messages it leaps over.
func (r *agesRead) lane(p Place, from Seq) error {
	old := 0
	read := func(most int) error {
		return r.store.Messages(r.qid, p, max(from, r.low), r.end, func(s Seq, rec []byte) bool {
			at := recordEnqueuedAt(rec)
			if at > r.after {
				r.found = append(r.found, aged{s, at})
				return len(r.found) < delayedCountMax
			}
			r.low = max(r.low, s+1)
			old++
			return old < most
		})
	}
	if err := read(agesOldMax); err != nil || old < agesOldMax {
		return err
	}
	if err := r.leap(p); err != nil {
		return err
	}
	return read(math.MaxInt)
}

// leap raises r.low towards the first young message of a lane, by halves.
func (r *agesRead) leap(p Place) error {
	for high := r.end; high > r.low && high-r.low > agesOldMax; {
		middle := r.low + (high-r.low)/2
		old := false
		err := r.store.Messages(r.qid, p, middle, high, func(s Seq, rec []byte) bool {
			if old = recordEnqueuedAt(rec) <= r.after; old {
				r.low = s + 1
			}
			return false
		})
		if err != nil {
			return err
		}
		if !old {
			high = middle
		}
	}
	return nil
}
