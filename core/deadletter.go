package core

import (
	"errors"
	"fmt"
	"time"
)

// deadLetterQueue returns the queue that q's messages are dead-lettered to, nil
// if none is set or it is not there: then they stay.
func (e *Engine) deadLetterQueue(q *queue) *queue {
	name := q.config().Redelivery.DeadLetterQueue
	if name == "" {
		return nil
	}
	dlq, err := e.queue(name)
	if err != nil {
		return nil
	}
	dlq.mu.Lock()
	defer dlq.mu.Unlock()
	if dlq.gone || dlq.memory != nil {
		return nil // its deletion is not durable yet, or it keeps nothing
	}
	return dlq
}

// checkDeadLetter refuses a dead-letter queue that does not let source name it. One
// that is not there refuses nothing: it is named, not held. e.loading is held.
func (e *Engine) checkDeadLetter(source, name string) error {
	if e.allowDead == nil || name == "" || name == source {
		return nil
	}
	dlq, err := e.loadQueue(name)
	switch {
	case errors.Is(err, ErrNoQueue):
		return nil
	case err != nil:
		return err
	}
	dlq.mu.Lock()
	gone := dlq.gone
	dlq.mu.Unlock()
	if !gone && !e.allowDead(dlq.config(), source) {
		return fmt.Errorf("%w: queue %s may not use %s as its dead-letter queue", ErrDeadLetterQueue, source, name)
	}
	return nil
}

// lockBoth locks two queues in the order of their ids; b may be nil, or a.
func lockBoth(a, b *queue) {
	switch {
	case b == nil || a == b:
		a.mu.Lock()
	case a.id < b.id:
		a.mu.Lock()
		b.mu.Lock()
	default:
		b.mu.Lock()
		a.mu.Lock()
	}
}

func unlockBoth(a, b *queue) {
	a.mu.Unlock()
	if b != nil && b != a {
		b.mu.Unlock()
	}
}

// moveDead moves messages that have been set aside, all in one Change. What
// cannot be moved becomes ready again.
func (e *Engine) moveDead(q, dlq *queue, seqs []Seq) error {
	lockBoth(q, dlq)
	defer unlockBoth(q, dlq)
	if dlq != q && dlq.usableLocked() != nil {
		dlq = nil
	}
	recs := make(map[Seq][]byte, len(seqs))
	for _, s := range seqs {
		i, le := q.leases.find(s)
		if le == nil || le.status != leaseDead {
			continue // purged or settled meanwhile
		}
		if dlq == nil && le.marked {
			q.returnLease(i) // the caller looks again
			continue
		}
		rec, err := q.read(le)
		if err != nil {
			q.degrade(err)
			le.failures = 0 // it would be set aside again at once
			q.returnLease(i)
			continue
		}
		le.status = leaseDeleting
		recs[s] = rec
	}
	if len(recs) == 0 {
		return nil
	}
	g, err := e.seq.begin()
	if err != nil {
		return err
	}
	defer e.seq.end()
	g.slotOf(q)
	now := e.clock.now()
	for _, s := range seqs {
		if rec := recs[s]; rec != nil {
			_, le := q.leases.find(s)
			to, reason := dlq, DeadLetterMaxReceives
			if q.expired(rec, now) {
				reason = DeadLetterExpired
				if !q.rec.Config.ExpiredToDLQ || expiredBefore(rec) {
					to = nil
				}
			}
			q.move(g, le, rec, to, reason)
			if le.lane != nil {
				g.touchLane(q, le.lane)
			}
		}
	}
	q.snapshot(g, &g.slots[q.slotIndex])
	return nil
}

// expiredBefore tells whether a message was dead-lettered because it had expired.
// It is not again: queues whose dead letters go round would pass it on for ever.
func expiredBefore(rec []byte) bool {
	var s Stored
	return decodeRecord(rec, &s) == nil && s.DeadLetter.Reason == DeadLetterExpired
}

// move deletes a message from q and, with a dead-letter queue, puts it there, in
// one Change. Kept are id, body, attributes, group and the count of receives;
// on standard queues the enqueue time too, so that retention goes on.
func (q *queue) move(g *group, le *lease, rec []byte, dlq *queue, reason DeadLetterReason) {
	q.putDrop(g, &g.slots[q.slotIndex], le)
	q.unmark(le)
	var s Stored
	if dlq == nil || decodeRecord(rec, &s) != nil {
		return
	}
	now := q.engine.clock.now()
	if s.DeadLetter.FirstAt == 0 {
		s.DeadLetter.FirstAt = now
	}
	s.DeadLetter.Source, s.DeadLetter.Reason = q.name, reason
	s.PriorReceives += le.receives
	if reason == DeadLetterExpired {
		s.ExpiresAt = 0
	}
	if dlq.fifo() {
		s.EnqueuedAt = now
	}
	dlq.takeIn(g, &s, recordCounted(rec), 0)
}

// takeIn puts a message of another queue, changed as s says, into q. On FIFO
// queues its id becomes its deduplication id. counted is what it counts in bytes;
// delay is for queues that are not FIFO.
func (q *queue) takeIn(g *group, s *Stored, counted int64, delay time.Duration) {
	d := draft{id: s.ID, counted: counted, at: s.EnqueuedAt}
	switch q.rec.Config.Kind {
	case KindFIFO:
		d.lane = Place{Kind: PlaceGroup, N: groupHash(string(s.Group))}
		s.DedupID = []byte(s.ID.String())
	case KindPriority:
		d.lane = Place{Kind: PlacePriority, N: uint64(PriorityMax - min(s.Priority, PriorityMax))}
	default:
		if len(s.Group) > 0 {
			d.lane = Place{Kind: PlaceGroup, N: groupHash(string(s.Group))}
		}
	}
	if delay > 0 && !q.fifo() {
		d.due = q.engine.clock.now() + ceilMS(delay)
		d.lane = Place{Kind: PlaceDelayed, N: uint64(d.due)}
	}
	d.rec = rerecord(s, int(counted))
	oldest := q.state.OldestAt
	q.put(g, []draft{d})
	if oldest != 0 && d.at < oldest {
		q.state.OldestAt = d.at
		q.snapshot(g, &g.slots[q.slotIndex])
	}
}
