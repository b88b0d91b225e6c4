package core

// waiter is one parked receive. Everything but ch is guarded by the queue.
type waiter struct {
	ch         chan struct{} // one token: look again
	ready      func()        // called in the place of a token, of a Watch
	want       int           // messages that it takes at most
	options    *ReceiveOptions
	woken      bool        // the token has been sent: the waiter is out of the list
	list       *waiterList // the one that it is or was in
	prev, next *waiter
}

// waiterList is a queue's parked receives, oldest first: those without a selector,
// or those with one and the same.
type waiterList struct {
	first, last *waiter
	n           int
}

func (w *waiterList) pushBack(x *waiter) {
	x.list, x.prev, x.next, x.woken = w, w.last, nil, false
	x.ofConsumer(x)
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
	x.list, x.prev, x.next, x.woken = w, nil, w.first, false
	x.ofConsumer(x)
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
	x.ofConsumer(nil)
	w.n--
}

// ofConsumer notes the parked receive of x's consumer.
func (w *waiter) ofConsumer(parked *waiter) {
	if c := w.options.Consumer; c != nil {
		c.waiter = parked
	}
}

// wake gives tokens to the oldest waiters, enough of them to take n messages.
func (w *waiterList) wake(n int) {
	for n > 0 && w.first != nil {
		x := w.first
		n -= x.want
		w.wakeOne(x)
	}
}

// wakeOne gives a token to a waiter.
func (w *waiterList) wakeOne(x *waiter) {
	w.remove(x)
	x.woken = true
	if x.ready != nil {
		x.ready() // x is its receiver's again
		return
	}
	x.ch <- struct{}{}
}

// wake gives tokens to waiters that take any message. Those with selectors are
// woken where a message becomes ready that they select.
func (q *queue) wake(n int) {
	q.waiters.wake(n)
	if g := q.groups; g != nil && g.waiters.n > 0 && q.ungrouped() {
		g.waiters.wake(n) // a group wakes who may have it when it has its turn
	}
}

// wakeAll makes every waiter look again: the queue is gone, or the node drains.
func (q *queue) wakeAll() {
	for q.waiters.first != nil {
		q.wake(1 << 30)
	}
	for g := q.groups; g != nil && g.waiters.first != nil; {
		g.waiters.wake(1 << 30)
	}
	for _, v := range q.views {
		for v.waiters.first != nil {
			v.waiters.wake(1 << 30)
		}
	}
}
