package core

import (
	"fmt"
	"slices"
)

// arena copies records of a page into few allocations.
type arena struct{ b []byte }

// arenaChunkBytes is small enough that a record in use does not pin much.
const arenaChunkBytes = 16 << 10

func (a *arena) copy(rec []byte) []byte {
	if len(rec) > cap(a.b)-len(a.b) {
		if len(rec) > arenaChunkBytes/4 {
			return append([]byte(nil), rec...)
		}
		a.b = make([]byte, 0, arenaChunkBytes)
	}
	from := len(a.b)
	a.b = append(a.b, rec...)
	return a.b[from:len(a.b):len(a.b)]
}

// fetch reads the next page of l. q.mu is held, and given up while storage
// reads. Pages stop at the durable tail, since storage shows a batch before its
// fsync.
func (q *queue) fetch(l *lane) error {
	if l.paging {
		q.paged.Wait()
		return nil
	}
	l.trim()
	if l.spill != 0 {
		return q.fetchReturned(l)
	}
	if l.atTail || l.win.len() > windowEntriesMax/2 {
		return nil
	}
	if l.recent.len() > 0 && l.gapEnd < l.next {
		l.join(nil, l.next, false, q.known)
		q.refresh(l)
		return nil
	}
	l.paging = true
	qid, from, end := q.qid, l.next, q.durTail+1
	q.mu.Unlock()
	page, err := q.engine.readPage(qid, l.place, from, end)
	q.mu.Lock()
	forgot := l.forgot
	l.paging, l.forgot = false, nil
	q.paged.Broadcast()
	if err != nil {
		return fmt.Errorf("queue %q: %w", q.name, err)
	}
	if q.current(l) && !l.atTail && l.next == from {
		known := q.known
		if len(forgot) > 0 {
			known = func(s Seq) bool { return q.known(s) || slices.Contains(forgot, s) }
		}
		l.join(page, end, len(page) >= pageEntries || pageSize(page) >= pageBytes, known)
		q.refresh(l)
	}
	return nil
}

// current tells whether l still is a lane of q: while a page is read the queue
// may be purged, deleted or evicted.
func (q *queue) current(l *lane) bool { return !q.gone && !q.out && q.laneOf(l.place) == l }

func (q *queue) known(s Seq) bool {
	_, ok := q.leases.bySeq[s]
	return ok
}

func pageSize(page []entry) int {
	n := 0
	for i := range page {
		n += len(page[i].rec)
	}
	return n
}

func (e *Engine) readPage(qid QID, place Place, from, end Seq) ([]entry, error) {
	var mem arena
	page := make([]entry, 0, pageEntries)
	size := 0
	var bad error
	err := e.store.Messages(qid, place, from, end, func(s Seq, rec []byte) bool {
		if bad = checkRecord(rec); bad != nil {
			return false
		}
		page = append(page, entry{seq: s, rec: mem.copy(rec)})
		size += len(rec)
		return len(page) < pageEntries && size < pageBytes
	})
	if err == nil {
		err = bad
	}
	return page, err
}

// fetchReturned brings a page of state records back into memory whose entries
// had been left to storage.
func (q *queue) fetchReturned(l *lane) error {
	l.paging = true
	qid, from, end := q.qid, l.spill, l.pos
	type found struct {
		r  Ref
		st MessageState
	}
	var page []found
	q.mu.Unlock()
	err := q.engine.store.States(Ref{QID: qid, Place: l.place, Seq: from}, func(r Ref, st MessageState) bool {
		if r.Place != l.place || r.Seq >= end {
			return false
		}
		page = append(page, found{r, st})
		return len(page) < pageEntries
	})
	q.mu.Lock()
	forgot := l.forgot
	l.paging, l.forgot = false, nil
	q.paged.Broadcast()
	if err != nil || !q.current(l) || l.spill != from {
		return err
	}
	// What is added below may return while the page is being taken over.
	l.spill = 0
	if len(page) == pageEntries {
		l.spill = page[len(page)-1].r.Seq + 1
	}
	now := q.engine.clock.now()
	for _, f := range page {
		if q.known(f.r.Seq) || slices.Contains(forgot, f.r.Seq) {
			continue
		}
		i, le := q.leases.add(f.r.Seq)
		le.place, le.lane, le.size, le.sets, le.marked = f.r.Place, l, -1, setsMany, true
		le.firstReceived, le.receives, le.failures, le.nonce = f.st.FirstReceived, f.st.Receives, f.st.Failures, f.st.Nonce
		if f.st.VisibleAt <= now || f.st.Flags&StateSession != 0 {
			q.giveBack(le)
			continue
		}
		le.status = leaseInFlight
		q.inFlight++
		q.leases.schedule(i, f.st.VisibleAt)
	}
	q.armLocked()
	q.refresh(l)
	return nil
}

// prefetch reads the next page of l in the background when its window runs low.
func (q *queue) prefetch(l *lane) {
	if l.atTail || l.paging || l.spill != 0 || l.next > q.durTail || l.win.len() >= prefetchBelow {
		return
	}
	q.engine.background(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.gone || q.out {
			return
		}
		if err := q.fetch(l); err != nil {
			q.degrade(err)
		}
	})
}
