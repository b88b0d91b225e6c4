package core

import "time"

// reapFew is how many messages an incarnation may hold to be removed key by key
// rather than by a range deletion, of which storage bears a few a second.
const reapFew = 1000

// reapRangeEvery spaces range deletions.
const reapRangeEvery = 500 * time.Millisecond

// reapRuns is how many runs of epochs go in one Change.
const reapRuns = 16

// reapShared is how many messages with shared bodies go in one Change, before the
// rest of an incarnation does.
const reapShared = 512

// reap is an incarnation whose keys await removal.
type reap struct {
	qid    QID
	few    bool
	shared bool    // some of its messages may have shared bodies
	after  *commit // its end has to be durable first; nil: it is
}

// reap returns what is to be removed of q's incarnation, which ends with a commit.
func (q *queue) reap(after *commit) reap {
	return reap{qid: q.qid, few: q.state.Messages <= reapFew, shared: q.state.Shared > 0, after: after}
}

// startReaper takes up what an earlier process left. What that knew of shared
// bodies is not stored: where there are none at all, they need not be looked for.
func (e *Engine) startReaper() error {
	shared := len(e.bodies.order) > 0
	err := e.store.Reaps(func(q QID) bool {
		e.reapQueue = append(e.reapQueue, reap{qid: q, shared: shared})
		return true
	})
	if err != nil {
		return err
	}
	e.background(e.reapAll)
	return nil
}

// reapLater hands an incarnation to the reaper.
func (e *Engine) reapLater(r reap) {
	e.reapMu.Lock()
	e.reapQueue = append(e.reapQueue, r)
	e.reapMu.Unlock()
	e.wakeReaper()
}

func (e *Engine) wakeReaper() {
	select {
	case e.reapWake <- struct{}{}:
	default:
	}
}

// nextReap takes the next incarnation, if there is one.
func (e *Engine) nextReap() (r reap, found bool) {
	e.reapMu.Lock()
	defer e.reapMu.Unlock()
	if found = len(e.reapQueue) > 0; found {
		r, e.reapQueue = e.reapQueue[0], e.reapQueue[1:]
	}
	return r, found
}

func (e *Engine) reapAll() {
	for {
		if e.stopped() {
			return
		}
		some, err := e.reapEpochs()
		if err != nil {
			return // counts are stored: the next process goes on
		}
		r, found := e.nextReap()
		if !found && some {
			continue
		}
		if !found {
			select {
			case <-e.reapWake:
				continue
			case <-e.closing:
				return
			case <-e.failed:
				return
			}
		}
		if e.stopped() || r.after != nil && r.after.wait() != nil {
			return // the mark is stored: the next process goes on
		}
		if err := e.reapOne(r); err != nil {
			e.complain("reap", err, "queue", uint64(r.qid))
		}
	}
}

// reapEpochs removes some of the epochs to which nothing refers, and tells whether
// there were any. Incarnations have their turn in between.
func (e *Engine) reapEpochs() (some bool, err error) {
	g, err := e.seq.begin()
	if err != nil {
		return false, err
	}
	var runs []Ref
	if e.bodies.dead > 0 {
		runs = e.bodies.takeDead(reapRuns)
	}
	for _, r := range runs {
		g.put(Edit{Kind: EditReapEpochs, Ref: r})
	}
	e.seq.end()
	if len(runs) > 0 {
		e.pauseReaper()
	}
	return len(runs) > 0, nil
}

// pauseReaper spaces range deletions.
func (e *Engine) pauseReaper() {
	t := time.NewTimer(reapRangeEvery)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.closing:
	}
}

// reapOne removes all keys of one incarnation, and the mark in the same Change.
// Messages with shared bodies go before, so that the count of an epoch is at any
// time that of the records that refer to it.
func (e *Engine) reapOne(r reap) error {
	if r.shared {
		if err := e.reapSharedOf(r.qid); err != nil {
			return err
		}
	}
	edits, ranged := []Edit{{Kind: EditReapQueue, Ref: Ref{QID: r.qid}}}, true
	if r.few {
		few, err := e.keysOf(r.qid)
		if err != nil {
			return err
		}
		if few != nil {
			edits, ranged = few, false
		}
	}
	g, err := e.seq.begin()
	if err != nil {
		return err
	}
	for _, edit := range edits {
		g.put(edit)
	}
	g.put(Edit{Kind: EditDropReap, Ref: Ref{QID: r.qid}})
	e.seq.end()
	if ranged {
		e.pauseReaper()
	}
	return nil
}

// reapSharedOf removes the messages of an incarnation that have shared bodies, by
// Changes of a bounded number. A process that takes over begins anew.
func (e *Engine) reapSharedOf(q QID) error {
	lanes := []Place{{}}
	err := e.store.Lanes(q, Place{}, func(p Place, _ []byte) bool {
		lanes = append(lanes, p)
		return true
	})
	if err != nil {
		return err
	}
	for _, p := range lanes {
		err := e.reapSharedIn(func(after Ref, visit func(r Ref, rec []byte) bool) error {
			return e.store.Messages(q, p, after.Seq+1, SeqMax, func(s Seq, rec []byte) bool {
				return visit(Ref{QID: q, Place: p, Seq: s}, rec)
			})
		})
		if err != nil {
			return err
		}
	}
	return e.reapSharedIn(func(after Ref, visit func(r Ref, rec []byte) bool) error {
		return e.store.Delayed(q, after.Place.N, after.Seq+1, 1<<48-1, func(due uint64, s Seq, rec []byte) bool {
			return visit(Ref{QID: q, Place: Place{Kind: PlaceDelayed, N: due}, Seq: s}, rec)
		})
	})
}

// reapSharedIn removes those that walk visits.
func (e *Engine) reapSharedIn(walk func(after Ref, visit func(r Ref, rec []byte) bool) error) error {
	type found struct {
		r     Ref
		epoch QID
	}
	var last Ref
	for more := true; more; {
		if e.stopped() {
			return ErrStopped
		}
		var page []found
		more = false
		err := walk(last, func(r Ref, rec []byte) bool {
			last = r
			if checkRecord(rec) == nil {
				if ref := recordRef(rec); ref != nil {
					page = append(page, found{r, ref.epoch()})
				}
			}
			more = len(page) == reapShared
			return !more
		})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		e.seq.admit()
		g, err := e.seq.begin()
		if err != nil {
			return err
		}
		for i := range page {
			g.put(Edit{Kind: EditDropMessage, Ref: page[i].r})
			e.refer(g, page[i].epoch, -1)
		}
		done := g.done
		e.seq.end()
		if err := done.wait(); err != nil {
			return err
		}
	}
	return nil
}

// keysOf returns the deletion of each key of an incarnation, nil if there are
// more than is worth it.
func (e *Engine) keysOf(q QID) ([]Edit, error) {
	edits := make([]Edit, 0, 16)
	drop := func(kind EditKind, p Place, s Seq) bool {
		edits = append(edits, Edit{Kind: kind, Ref: Ref{QID: q, Place: p, Seq: s}})
		return len(edits) < 4*reapFew
	}
	lanes := []Place{{}}
	err := e.store.Lanes(q, Place{}, func(p Place, _ []byte) bool {
		lanes = append(lanes, p)
		return drop(EditDropLane, p, 0)
	})
	if err != nil {
		return nil, err
	}
	for _, p := range lanes {
		err := e.store.Messages(q, p, 0, SeqMax, func(s Seq, _ []byte) bool { return drop(EditDropMessage, p, s) })
		if err != nil {
			return nil, err
		}
	}
	err = e.store.Delayed(q, 0, 0, 1<<48-1, func(due uint64, s Seq, _ []byte) bool {
		return drop(EditDropMessage, Place{Kind: PlaceDelayed, N: due}, s)
	})
	if err != nil {
		return nil, err
	}
	err = e.store.States(Ref{QID: q}, func(r Ref, _ MessageState) bool { return drop(EditDropState, r.Place, r.Seq) })
	if err != nil || len(edits) >= 4*reapFew {
		return nil, err
	}
	return edits, nil
}
