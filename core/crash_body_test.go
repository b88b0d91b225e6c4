package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// Shared bodies in the ledger of the crash model. At the end of each Change the
// count of an epoch is the number of records that refer to it, those of removed
// queues too, and each record has its body.
//
// What was broken once, to see it found: a drop that counts nothing, a dead letter
// that counts nothing or twice; a record that is read from storage, of which the lease
// does not learn the epoch; a removed queue whose references are not counted, stay, or
// stay after a restart; a count that is not written when drops alone touch the epoch; a
// record that names the body before; a body that is put for each queue, or not read; an
// epoch that is removed while it takes bodies, with one reference left, or in one run
// with those around it; one that is never removed, in its process, after a restart, or
// (by seed 51, others below 20) when it closes empty; a process that goes on with the
// epoch of another; a queue state that does not count; bodies that are shared from 3
// copies, 5 copies or 511 bytes on. Tests of body_test.go find what the model does not
// meet: an epoch that is removed while a later group touches it, a lease that a receipt
// makes and that does not learn the epoch, and copies that are counted though their
// queue is full.

// box is an epoch.
type box struct {
	stored bool // its count is
	count  uint64
	refs   uint64 // records that refer to it
	bodies map[core.Seq][]byte
}

// Bounds of what is shared, as FORMAT.md and the package say.
const (
	sharedBytesMin  = 512
	sharedCopiesMin = 4
)

func (l *ledger) box(epoch core.QID) *box {
	b := l.boxes[epoch]
	if b == nil {
		b = &box{bodies: map[core.Seq][]byte{}}
		l.boxes[epoch] = b
	}
	return b
}

func cloneBoxes(of map[core.QID]*box) map[core.QID]*box {
	out := make(map[core.QID]*box, len(of))
	for epoch, b := range of {
		c := *b
		c.bodies = maps.Clone(b.bodies)
		out[epoch] = &c
	}
	return out
}

// bodyEdit applies an edit of shared bodies.
func (l *ledger) bodyEdit(e *core.Edit) (err error) {
	switch e.Kind {
	case core.EditPutBody:
		b := l.box(e.QID)
		if b.bodies[e.Seq] != nil {
			return errors.New("puts a body twice")
		}
		if last := slices.Max(append(slices.Collect(maps.Keys(l.boxes)), 0)); last > e.QID {
			return fmt.Errorf("puts a body behind the begin of epoch %d", last)
		}
		b.bodies[e.Seq] = bytes.Clone(e.Value)
	case core.EditPutEpoch:
		b := l.box(e.QID)
		b.stored = true
		b.count, err = core.DecodeEpoch(e.Value)
	case core.EditReapEpochs:
		if e.QID > core.QID(e.Seq) {
			return errors.New("reaps no epoch")
		}
		for epoch, b := range l.boxes {
			if epoch < e.QID || epoch > core.QID(e.Seq) {
				continue
			}
			if b.refs > 0 {
				return fmt.Errorf("reaps epoch %d, to which %d records refer", epoch, b.refs)
			}
			for s := range b.bodies {
				l.reaped = append(l.reaped, core.Ref{QID: epoch, Seq: s})
			}
			delete(l.boxes, epoch)
		}
	}
	return err
}

// refer takes the reference of a letter that comes, or goes.
func (l *ledger) refer(m *letter, comes bool) error {
	if !m.shares {
		return nil
	}
	b := l.boxes[m.epoch]
	switch {
	case b == nil || b.bodies[m.body] == nil:
		return fmt.Errorf("refers to body %d of epoch %d, which is not there", m.body, m.epoch)
	case comes:
		b.refs++
	default:
		b.refs--
	}
	return nil
}

// checkBoxes compares the counts with the references.
func (l *ledger) checkBoxes() error {
	for epoch, b := range l.boxes {
		if !b.stored || b.count != b.refs {
			return fmt.Errorf("epoch %d counts %d references (stored %t), there are %d", epoch, b.count, b.stored, b.refs)
		}
	}
	return nil
}

// whole returns a record with its body.
func (l *ledger) whole(record []byte) ([]byte, error) {
	epoch, s, ok := core.RecordRef(record)
	if !ok {
		return record, nil
	}
	b := l.boxes[epoch]
	if b == nil || b.bodies[s] == nil {
		return nil, fmt.Errorf("body %d of epoch %d is not there", s, epoch)
	}
	return slices.Concat(record, b.bodies[s]), nil
}

// withBodies returns c with whole records. l has not applied it yet.
func (l *ledger) withBodies(c *core.Change) (*core.Change, error) {
	var after *ledger
	shown := &core.Change{Time: c.Time, Edits: slices.Clone(c.Edits)}
	for i := range shown.Edits {
		e := &shown.Edits[i]
		switch e.Kind {
		case core.EditPutBody:
			if after == nil {
				after = &ledger{boxes: cloneBoxes(l.boxes)}
			}
			after.box(e.QID).bodies[e.Seq] = e.Value
		case core.EditPutMessage:
			from := l
			if after != nil {
				from = after
			}
			var err error
			if e.Value, err = from.whole(e.Value); err != nil {
				return nil, fmt.Errorf("edit %d on %v: %w", i, e.Ref, err)
			}
		}
	}
	return shown, nil
}

// checkShared checks that the copies of a publish that c puts share one body if, and
// only if, it is large and they are many.
func (b *book) checkShared(c *core.Change) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	type shares struct {
		queues, shared int
		bodies         map[core.Seq]bool
		bytes          int
	}
	of := map[core.MessageID]*shares{}
	puts := map[core.Seq]int{}
	for i := range c.Edits {
		e := &c.Edits[i]
		switch e.Kind {
		case core.EditPutBody:
			puts[e.Seq] = 0
		case core.EditPutMessage:
			s, err := core.DecodeRecord(bytes.Clone(e.Value))
			if err != nil {
				return err
			}
			p := b.posts[s.ID]
			if p == nil || s.DeadLetter.Reason != core.DeadLetterNone {
				continue
			}
			sh := of[s.ID]
			if sh == nil {
				sh = &shares{bodies: map[core.Seq]bool{}, bytes: len(p.msg.Body)}
				of[s.ID] = sh
			}
			sh.queues++
			if _, at, ok := core.RecordRef(e.Value); ok {
				sh.shared++
				sh.bodies[at] = true
				puts[at]++
			}
		}
	}
	for id, sh := range of {
		want := 0
		if sh.bytes >= sharedBytesMin && sh.queues >= sharedCopiesMin {
			want = sh.queues
			b.shared++
		}
		if sh.shared != want || len(sh.bodies) > 1 {
			return fmt.Errorf("%v, of %d bytes, is put into %d queues, %d of them share %d bodies", id, sh.bytes, sh.queues, sh.shared, len(sh.bodies))
		}
	}
	for at, n := range puts {
		if n < sharedCopiesMin {
			return fmt.Errorf("body %d is put for %d copies", at, n)
		}
	}
	return nil
}

// readBoxes reads the epochs that storage has, with the bodies that are known.
func readBoxes(db *storage.DB, known *ledger) (map[core.QID]*box, error) {
	found := map[core.QID]*box{}
	var bad error
	err := db.Epochs(func(epoch core.QID, v []byte) bool {
		b := &box{stored: true, bodies: map[core.Seq][]byte{}}
		b.count, bad = core.DecodeEpoch(v)
		found[epoch] = b
		return bad == nil
	})
	for epoch, b := range known.boxes {
		for s := range b.bodies {
			v, e := db.Body(epoch, s)
			if err = errors.Join(err, e); v != nil && found[epoch] != nil {
				found[epoch].bodies[s] = v
			}
		}
	}
	for _, r := range known.reaped[max(0, len(known.reaped)-20):] {
		v, e := db.Body(r.QID, r.Seq)
		if err = errors.Join(err, e); v != nil {
			err = errors.Join(err, fmt.Errorf("body %v has come back", r))
		}
	}
	return found, errors.Join(err, bad)
}

// sameBoxes tells whether storage has what the ledger has.
func sameBoxes(found, want map[core.QID]*box) bool {
	return maps.EqualFunc(found, want, func(a, b *box) bool {
		return a.stored == b.stored && a.count == b.count && maps.EqualFunc(a.bodies, b.bodies, bytes.Equal)
	})
}

// checkReaped checks that nothing is left of bodies that nobody has but what the
// open epoch holds. All queues are empty.
func (w *world) checkReaped() {
	w.tap.durably(func(_, l *ledger) {
		if len(l.boxes) > 1 {
			w.failf("%d epochs are left where there are no messages", len(l.boxes))
		}
		for epoch, b := range l.boxes {
			if core.Seq(epoch).Term() != w.tap.term {
				w.failf("epoch %d of an earlier process is left: %d references, %d bodies", epoch, b.refs, len(b.bodies))
			}
		}
	})
}
