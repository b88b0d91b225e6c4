package core

// waiter is one parked receive. Everything but ch is guarded by the queue.
type waiter struct {
	ch         chan struct{} // one token: look again
	want       int           // messages that it takes at most
	woken      bool          // the token has been sent: the waiter is out of the list
	prev, next *waiter
}

// waiterList is a queue's parked receives, oldest first.
type waiterList struct {
	first, last *waiter
	n           int
}

func (w *waiterList) pushBack(x *waiter) {
	x.prev, x.next, x.woken = w.last, nil, false
	if w.last != nil {
		w.last.next = x
	} else {
		w.first = x
	}
	w.last = x
	w.n++
}

// parkAgain parks a waiter that found nothing. One that was woken keeps its turn;
// one that has not waited yet goes behind the others.
func (w *waiterList) parkAgain(x *waiter) {
	if !x.woken {
		w.pushBack(x)
		return
	}
	x.prev, x.next, x.woken = nil, w.first, false
	if w.first != nil {
		w.first.prev = x
	} else {
		w.last = x
	}
	w.first = x
	w.n++
}

func (w *waiterList) remove(x *waiter) {
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		w.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		w.last = x.prev
	}
	x.prev, x.next = nil, nil
	w.n--
}

// wake gives tokens to the oldest waiters, enough of them to take n messages.
func (q *queue) wake(n int) {
	for n > 0 && q.waiters.first != nil {
		w := q.waiters.first
		q.waiters.remove(w)
		w.woken = true
		w.ch <- struct{}{}
		n -= w.want
	}
}

// wakeAll makes every waiter look again: the queue is gone, or the node drains.
func (q *queue) wakeAll() {
	for q.waiters.first != nil {
		q.wake(1 << 30)
	}
}
