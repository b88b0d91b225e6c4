package core

// Watch is a place in the line of those who receive from a queue, for one who does
// not keep a goroutine waiting in it: see ReceiveOptions.Watch. NewWatch makes it.
type Watch struct {
	w waiter
	q *queue // that it is parked in, or has been called from
}

// NewWatch returns a Watch that is parked nowhere. For each time that it is parked,
// ready is called at most once: when there may be something to receive, or the
// queue has gone. The caller holds locks of the core: ready must not block, nor
// call the core. It is not called any more once the node drains.
func NewWatch(ready func()) *Watch { return &Watch{w: waiter{ready: ready}} }

// Leave gives the place in the line up, if there is one. What w was called for is
// left to the next in line. It is not called during a receive with w.
func (w *Watch) Leave() {
	if q := w.q; q != nil {
		w.q = nil
		if q.leave(&w.w) {
			q.passOn(&w.w)
		}
		w.w.woken = false
	}
}

// receiveOrWatch takes what is there, or parks o.Watch.
func (q *queue) receiveOrWatch(o *ReceiveOptions, out []Delivery) ([]Delivery, error) {
	w, n := o.Watch, len(out)
	if w.q != nil && w.q != q {
		w.Leave() // it had been called when the queue left memory
	}
	w.q, w.w.want, w.w.options = q, o.Max, o
	out, err := q.receive(o, &w.w, out)
	switch {
	case err != nil && w.w.woken:
		q.passOn(&w.w)
		fallthrough
	case err != nil, len(out) > n:
		w.q, w.w.woken = nil, false
	}
	return out, err
}
