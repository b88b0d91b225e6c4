package core

// attemptsMax bounds the receive attempts that a queue remembers; beyond it the
// oldest are forgotten early.
const attemptsMax = 1000

// attempt is what a FIFO receive with an attempt id gave, so that a client whose
// answer was lost gets the same again. It is kept in memory: after a restart a
// repeat is a new receive.
type attempt struct {
	id    string
	at    int64
	given []attemptLease
}

type attemptLease struct {
	seq      Seq
	receives uint32
	nonce    uint32
	deadline int64
}

// repeat answers an attempt id that was used within the last 5 minutes, if every
// message it gave is still held as it was given. It resets their visibility.
func (q *queue) repeat(o *ReceiveOptions, out []Delivery) ([]Delivery, bool, error) {
	q.mu.Lock()
	if err := q.usableLocked(); err != nil {
		q.mu.Unlock()
		return out, false, err
	}
	now := q.engine.clock.now()
	a := q.attemptOf(o.AttemptID, now)
	if a == nil {
		q.mu.Unlock()
		return out, false, nil
	}
	visibility := o.Visibility
	if visibility < 0 {
		visibility = q.rec.Config.VisibilityTimeout
	}
	var picks []pick
	for i := range a.given {
		index, le := q.leases.find(a.given[i].seq)
		q.leases.schedule(index, now+visibility.Milliseconds())
		a.given[i].deadline = le.deadline
		picks = append(picks, pick{
			ref: Ref{QID: q.qid, Place: le.place, Seq: le.seq}, index: index, state: le.state(), setState: true,
			redelivered: le.receives > 1,
		})
	}
	done, err := q.record(picks, nil)
	q.mu.Unlock()
	if err == nil && done != nil {
		err = done.wait()
	}
	if err != nil {
		return out, false, err
	}
	return q.deliver(picks, out), true, nil
}

// attemptOf returns the attempt of that id, nil if it is over or any of its
// messages was deleted, changed or came back.
func (q *queue) attemptOf(id string, now int64) *attempt {
	for _, a := range q.attempts {
		if a.id != id {
			continue
		}
		if now-a.at >= dedupWindow.Milliseconds() {
			return nil
		}
		for _, g := range a.given {
			_, le := q.leases.find(g.seq)
			if le == nil || le.status != leaseInFlight || le.receives != g.receives || le.nonce != g.nonce || le.deadline != g.deadline {
				return nil
			}
		}
		return a
	}
	return nil
}

// rememberAttempt keeps what a receive gave under its attempt id.
func (q *queue) rememberAttempt(id string, given []Delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.engine.clock.now()
	a := &attempt{id: id, at: now}
	for i := range given {
		if _, le := q.leases.find(given[i].Seq); le != nil {
			a.given = append(a.given, attemptLease{seq: le.seq, receives: le.receives, nonce: le.nonce, deadline: le.deadline})
		}
	}
	kept := q.attempts[:0]
	for _, old := range q.attempts {
		if old.id != id && now-old.at < dedupWindow.Milliseconds() {
			kept = append(kept, old)
		}
	}
	if len(kept) >= attemptsMax {
		kept = kept[1:]
	}
	q.attempts = append(kept, a)
}
