package core

import "slices"

// dueLane is the delayed space of a queue: messages ordered by due time, which
// are delivered from where they lie. One timer a queue, at the head, is enough.
type dueLane struct {
	win window // due messages, in order

	due uint64 // where the next page starts
	seq Seq
	hot bool // storage may hold due messages from there on

	next    uint64       // earliest due time known to lie ahead; 0: none known
	pending []pendingDue // sends that are not durable yet

	returned seqHeap
	back     int

	paging bool  // a page is being read, by one goroutine
	again  bool  // something has become due since that began: the page may lack it
	forgot []Seq // deleted durably since that began: the page may still show them
}

// pendingDue is the earliest due time that a group sends.
type pendingDue struct {
	group uint64
	due   uint64
}

// sleeper is a FIFO lane whose head becomes ready at a time.
type sleeper struct {
	at int64
	l  *lane
}

// send remembers a send of group n.
func (d *dueLane) send(n, due uint64) {
	if k := len(d.pending); k > 0 && d.pending[k-1].group == n {
		d.pending[k-1].due = min(d.pending[k-1].due, due)
		return
	}
	d.pending = append(d.pending, pendingDue{group: n, due: due})
}

// durable takes over the sends of groups up to n.
func (d *dueLane) durable(n uint64) {
	for len(d.pending) > 0 && d.pending[0].group <= n {
		if p := d.pending[0].due; d.next == 0 || p < d.next {
			d.next = p
		}
		d.pending = slices.Delete(d.pending, 0, 1)
	}
}

// end returns the due time at which a page has to stop: what is not durable is
// never passed.
func (d *dueLane) end(now int64) uint64 {
	end := uint64(now) + 1
	for _, p := range d.pending {
		end = min(end, p.due)
	}
	return end
}

// wakeAt returns when the queue's timer is needed for the delayed space.
func (d *dueLane) wakeAt(q *queue) int64 {
	at := int64(d.next)
	if d.hot && len(q.views) == 0 {
		at = 0
	}
	if len(q.sleeping) > 0 && (at == 0 || q.sleeping[0].at < at) {
		at = q.sleeping[0].at
	}
	return at
}

// ripe notes what has become due, and tells whether anything has.
func (d *dueLane) ripe(q *queue, now int64) bool {
	found := false
	if d.next != 0 && int64(d.next) <= now {
		d.hot, d.next, d.again, found = true, 0, true, true
		q.showDue()
	}
	for len(q.sleeping) > 0 && q.sleeping[0].at <= now {
		l := q.sleeping[0].l
		l.asleep = false
		q.sleeping = slices.Delete(q.sleeping, 0, 1)
		q.refresh(l)
		found = true
	}
	return found
}

// trimDue drops holes at the front of what is due; the cursor goes on.
func (q *queue) trimDue() {
	for q.due.win.hole() {
		e := q.due.win.pop()
		q.state.DueCursor, q.state.DueSeq = e.due, e.seq+1
	}
}

// sleep takes a lane aside until its head is ready.
func (q *queue) sleep(l *lane, at int64) {
	if l.asleep {
		return
	}
	l.asleep = true
	i := len(q.sleeping)
	for i > 0 && q.sleeping[i-1].at > at {
		i--
	}
	q.sleeping = slices.Insert(q.sleeping, i, sleeper{at: at, l: l})
}

// fetchDue reads a page of the delayed space. q.mu is held, and given up while
// storage reads.
func (q *queue) fetchDue() error {
	d := q.due
	if d.paging {
		q.paged.Wait()
		return nil
	}
	d.paging, d.again = true, false
	qid, due, seq, end := q.qid, d.due, d.seq, d.end(q.engine.clock.now())
	var page []entry
	var mem arena
	var bad error
	ahead := uint64(0)
	q.mu.Unlock()
	err := q.engine.store.Delayed(qid, due, seq, 1<<48-1, func(due uint64, s Seq, rec []byte) bool {
		if due >= end {
			ahead = due
			return false
		}
		if bad = checkRecord(rec); bad != nil {
			return false
		}
		page = append(page, entry{seq: s, due: due, rec: mem.copy(rec)})
		return len(page) < pageEntries
	})
	if err == nil {
		err = bad
	}
	q.mu.Lock()
	forgot := d.forgot
	d.paging, d.forgot = false, nil
	q.paged.Broadcast()
	if err != nil || q.gone || q.out || q.due != d {
		return err
	}
	for _, e := range page {
		if !q.known(e.seq) && !slices.Contains(forgot, e.seq) {
			d.win.push(e)
		}
	}
	if n := len(page); n > 0 {
		d.due, d.seq = page[n-1].due, page[n-1].seq+1
	}
	if len(page) < pageEntries {
		d.hot = d.again
		if d.next != 0 && d.next < end {
			d.next, d.hot = 0, true // it has been read, unless it has become durable since
			q.showDue()
		}
		if ahead != 0 && (d.next == 0 || ahead < d.next) {
			d.next = ahead
		}
		q.armLocked()
	}
	return nil
}
