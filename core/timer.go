package core

import "time"

// armLocked sets the queue's one timer to the first thing that is due: the end
// of a lease, a delayed message, a deferred mark, a delayed FIFO group.
func (q *queue) armLocked() {
	at := q.leases.due()
	if d := q.due.wakeAt(q); d != 0 && (at == 0 || d < at) {
		at = d
	}
	if len(q.deferred) > 0 {
		if d := q.deferred[0].at + markDeferMS; at == 0 || d < at {
			at = d
		}
	}
	if at == q.timerAt || at == 0 && q.timer == nil {
		return
	}
	if at == 0 {
		// An idle timer is left to fire: it finds nothing and is not armed again.
		return
	}
	if q.timerAt != 0 && q.timerAt <= at {
		return // fires earlier and arms again
	}
	q.timerAt = at
	wait := time.Duration(max(at-q.engine.clock.now(), 0)) * time.Millisecond
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.tick)
		return
	}
	q.timer.Reset(wait)
}

// tick runs when something is due.
func (q *queue) tick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerAt = 0
	if q.gone || q.out || q.engine.stopped() {
		return
	}
	now := q.engine.clock.now()
	freed := q.expireLeases(now)
	q.markDeferred(now)
	if q.due.ripe(q, now) {
		freed++
	}
	if freed > 0 {
		q.wake(freed)
	}
	q.armLocked()
}

// expireLeases gives back every message whose visibility timeout is over. It
// writes nothing: a restart finds the same deadline in the state record.
func (q *queue) expireLeases(now int64) int {
	n := 0
	for {
		i := q.leases.expire(now)
		if i < 0 {
			return n
		}
		le := &q.leases.slab[i]
		switch le.status {
		case leaseInFlight:
			q.inFlight--
		case leaseHidden:
			q.hidden--
		default:
			continue
		}
		q.returnLease(i)
		n++
	}
}

// returnLease makes entry i ready again, or, when too many are, leaves it to
// storage, which has its state record.
func (q *queue) returnLease(i int32) {
	le := &q.leases.slab[i]
	le.owner = nil
	l := le.lane
	// Not during a page: it may have been read before the state record was there.
	// Not beyond the cursor, where a page would take it for new.
	if l != nil && q.memory == nil && int64(l.back) >= q.engine.returnedMax.Load() && !l.paging && le.seq < l.pos && le.marked && le.group <= q.engine.seq.durableGroup() {
		if l.spill == 0 || le.seq < l.spill {
			l.spill = le.seq
		}
		if q.fifo() {
			l.unblock(le.seq)
		}
		q.leftToStorage(le)
		q.leases.remove(i)
	} else {
		q.giveBack(le)
	}
	if l != nil {
		q.refresh(l)
	}
}
