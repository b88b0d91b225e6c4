package core

import (
	"cmp"
	"slices"
)

// ages counts the young messages of a FIFO queue: a delay there is one of the
// queue, which holds each message from its enqueue time on where it lies in its
// group. What was put since the queue was loaded, or its delay was set, is counted
// as it comes; what lay there before is read once, when somebody asks.
type ages struct {
	spans []ageSpan // by sequence and so by age, oldest first
	n     int64     // messages in spans
	read  bool      // spans have what lay there before
	from  Seq       // the first that was put since; 0: none
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
// old up to delayedCountMax. q.mu is held.
func (q *queue) heldByDelay() (int64, error) {
	delay, now := q.rec.Config.Delay.Milliseconds(), q.engine.clock.now()
	if delay == 0 {
		return 0, nil
	}
	a := &q.ages
	if !a.read {
		old, err := q.youngOfOld(now - delay)
		if err != nil {
			return 0, err
		}
		later := a.spans
		a.spans, a.read = nil, true
		for _, m := range old {
			a.add(m.seq, m.at, delay)
		}
		a.spans = append(a.spans, later...)
	}
	a.prune(now, delay)
	return min(a.n, max(q.state.Messages-int64(q.inFlight+q.hidden), 0)), nil
}

// aged is a message and its enqueue time.
type aged struct {
	seq Seq
	at  int64
}

// youngOfOld returns the messages, enqueued after a time, that lay in the queue
// before q.ages began to count, by sequence.
func (q *queue) youngOfOld(after int64) ([]aged, error) {
	type laneFrom struct {
		place Place
		from  Seq
	}
	var lanes []laneFrom
	var bad error
	err := q.engine.store.Lanes(q.qid, Place{}, func(p Place, value []byte) bool {
		var st laneState
		st, bad = decodeLaneState(value)
		lanes = append(lanes, laneFrom{p, st.Cursor})
		return bad == nil
	})
	if err = cmp.Or(err, bad); err != nil {
		return nil, err
	}
	var out []aged
	end := cmp.Or(q.ages.from, SeqMax)
	for _, l := range lanes {
		err := q.engine.store.Messages(q.qid, l.place, l.from, end, func(s Seq, rec []byte) bool {
			if at := recordEnqueuedAt(rec); at > after {
				out = append(out, aged{s, at})
			}
			return len(out) < delayedCountMax
		})
		if err != nil {
			return nil, err
		}
		if len(out) >= delayedCountMax {
			break
		}
	}
	slices.SortFunc(out, func(a, b aged) int { return cmp.Compare(a.seq, b.seq) })
	return out, nil
}
