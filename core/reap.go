package core

import "time"

// reapFew is how many messages an incarnation may hold to be removed key by key
// rather than by a range deletion, of which storage bears a few a second.
const reapFew = 1000

// reapRangeEvery spaces range deletions.
const reapRangeEvery = 500 * time.Millisecond

// reap is an incarnation whose keys await removal.
type reap struct {
	qid   QID
	few   bool
	after *commit // its end has to be durable first; nil: it is
}

// startReaper takes up what an earlier process left.
func (e *Engine) startReaper() error {
	err := e.store.Reaps(func(q QID) bool {
		e.reapQueue = append(e.reapQueue, reap{qid: q})
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
	select {
	case e.reapWake <- struct{}{}:
	default:
	}
}

func (e *Engine) reapAll() {
	for {
		e.reapMu.Lock()
		var r reap
		found := len(e.reapQueue) > 0
		if found {
			r = e.reapQueue[0]
			e.reapQueue = e.reapQueue[1:]
		}
		e.reapMu.Unlock()
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

// reapOne removes all keys of one incarnation, and the mark in the same Change.
func (e *Engine) reapOne(r reap) error {
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
		t := time.NewTimer(reapRangeEvery)
		defer t.Stop()
		select {
		case <-t.C:
		case <-e.closing:
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
