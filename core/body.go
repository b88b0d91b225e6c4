package core

import (
	"encoding/binary"
	"fmt"
)

// A body of shareBytesMin or more that a publish puts into shareCopiesMin stored
// queues or more is stored once. The records of its copies refer to it: all else
// of a message is in its record, which is all that selectors, expiry, moves and
// counts look at. The body is read when somebody is given the message.
//
// Bodies lie in epochs, by the order of their publishes, and an epoch has a count of
// the records that refer to its bodies, exact in each Change. An epoch takes bodies
// until it has epochBytesMax or the process ends; when the count of one that takes
// no more is 0, the reaper removes it whole. A move carries the reference over.
const (
	shareBytesMin  = 512
	shareCopiesMin = 4
	epochBytesMax  = 4 << 20

	bodyVersion  = 1 // of a stored body: version, body
	epochVersion = 1 // of what is stored of an epoch: version, count (uvarint)
)

// bodyRef is the reference of a record to a body: epoch (8), sequence (8) and
// length of the body (4), big endian.
type bodyRef [bodyRefBytes]byte

const bodyRefBytes = 20

func (r *bodyRef) epoch() QID  { return QID(binary.BigEndian.Uint64(r[:])) }
func (r *bodyRef) seq() Seq    { return Seq(binary.BigEndian.Uint64(r[8:])) }
func (r *bodyRef) length() int { return int(binary.BigEndian.Uint32(r[16:])) }

func (r *bodyRef) set(epoch QID, s Seq) {
	binary.BigEndian.PutUint64(r[:], uint64(epoch))
	binary.BigEndian.PutUint64(r[8:], uint64(s))
}

// body returns the body in a stored value.
func (r *bodyRef) body(value []byte) ([]byte, error) {
	if len(value) != 1+r.length() || value[0] != bodyVersion {
		return nil, fmt.Errorf("body %d in epoch %d, of %d bytes: %w", r.seq(), r.epoch(), len(value), ErrCorrupt)
	}
	return value[1:], nil
}

// readBody reads the body of a message whose record was read without it. There may
// be none when the message has gone meanwhile: then s has none, and found is false.
func (e *Engine) readBody(s *Stored) (found bool, err error) {
	if s.ref == nil || s.Body != nil {
		return true, nil
	}
	value, err := e.store.Body(s.ref.epoch(), s.ref.seq())
	if err != nil || value == nil {
		return false, err
	}
	s.Body, err = s.ref.body(value)
	return err == nil, err
}

// sharing is the body of a message on its way into several queues.
type sharing struct {
	base   []byte // the record of most copies, with the body in it
	length int
	copies int    // that come into stored queues
	rec    []byte // base with a reference, and the stored body behind it
	ref    bodyRef
	placed bool // ref names the body
}

// shareBodies decides which bodies are stored once, after it was decided which
// copies come into their queues.
func shareBodies(parts []part) {
	each := func(visit func(d *draft)) {
		for i := range parts {
			if parts[i].q.memory != nil {
				continue
			}
			for j := range parts[i].drafts {
				d := &parts[i].drafts[j]
				if d.share != nil && d.skip == skipNone && d.known == nil && d.twin == nil {
					visit(d)
				}
			}
		}
	}
	each(func(d *draft) { d.share.copies++ })
	each(func(d *draft) {
		if d.share.copies >= shareCopiesMin {
			d.rec = d.share.record(d.rec)
			d.shared = true
		}
	})
}

// record returns a copy's record with room for the reference.
func (s *sharing) record(rec []byte) []byte {
	if &rec[0] != &s.base[0] {
		return sharedRecord(rec, s.length) // of a FIFO queue: it has a name of its own
	}
	if s.rec == nil {
		s.rec = sharedRecord(rec, s.length)
	}
	return s.rec
}

// place puts the body into the open epoch, once, and completes the record of a
// copy. It returns what is stored of that: all but the body. The sequencer is held.
func (s *sharing) place(g *group, e *Engine, rec []byte) []byte {
	stored := rec[:len(rec)-s.length-1]
	if !s.placed {
		s.placed = true
		s.ref.set(e.bodies.add(g, e.seq.takeSeq(), rec[len(stored):]))
	}
	recordRef(rec).set(s.ref.epoch(), s.ref.seq())
	return stored
}

// bodyTable knows the epochs. It is guarded by the sequencer.
type bodyTable struct {
	byID  map[QID]*epoch
	order []*epoch // by id
	open  *epoch   // takes bodies; nil: the next body begins one
	dead  int      // how many of order are
	most  int      // bytes of bodies that close an epoch
}

// epoch is a run of shared bodies. Its id is the sequence of the first.
type epoch struct {
	id    QID
	live  int64 // records that refer to it
	bytes int   // of the bodies that this process put
	dead  bool  // nothing refers to it, durably, nor ever will

	slotGroup uint64
	slotIndex int
}

// epochSlot is what a group leaves of an epoch.
type epochSlot struct {
	e    *epoch
	live int64
}

// add puts a body into the open epoch.
func (t *bodyTable) add(g *group, s Seq, value []byte) (QID, Seq) {
	if e := t.open; e != nil && e.bytes >= t.most {
		t.open = nil
		g.touchEpoch(e, 0) // the end of this group tells whether it is dead
	}
	if t.open == nil {
		t.open = &epoch{id: QID(s)}
		t.byID[t.open.id] = t.open
		t.order = append(t.order, t.open)
	}
	t.open.bytes += len(value)
	g.put(Edit{Kind: EditPutBody, Ref: Ref{QID: t.open.id, Seq: s}, Value: value})
	return t.open.id, s
}

// refer counts n more, or fewer, records that refer to an epoch. One that is not
// there is damage of storage: its bodies are not, either.
func (e *Engine) refer(g *group, id QID, n int64) {
	ep := e.bodies.byID[id]
	if ep == nil || ep.live+n < 0 {
		e.log.Error("reference to a body is not counted", "epoch", uint64(id), "references", n)
		return
	}
	g.touchEpoch(ep, n)
}

// touchEpoch changes the count of an epoch, which the seal stores.
func (g *group) touchEpoch(e *epoch, n int64) {
	e.live += n
	if e.slotGroup != g.n {
		e.slotGroup, e.slotIndex = g.n, len(g.epochs)
		g.epochs = append(g.epochs, epochSlot{e: e})
	}
	g.epochs[e.slotIndex].live = e.live
}

// putEpochs appends the counts of the group to its Change.
func (g *group) putEpochs() {
	arena := make([]byte, 0, (1+binary.MaxVarintLen64)*len(g.epochs))
	for i := range g.epochs {
		from := len(arena)
		arena = binary.AppendUvarint(append(arena, epochVersion), uint64(g.epochs[i].live))
		g.change.Edits = append(g.change.Edits, Edit{
			Kind: EditPutEpoch, Ref: Ref{QID: g.epochs[i].e.id}, Value: arena[from:len(arena):len(arena)],
		})
	}
}

// ended finds the epochs to which nothing refers now that g is durable, and tells
// whether there are any. One that a later group touches is left to that.
func (t *bodyTable) ended(g *group) bool {
	for i := range g.epochs {
		if e := g.epochs[i].e; e.live == 0 && e != t.open && e.slotGroup == g.n && !e.dead {
			e.dead = true
			t.dead++
		}
	}
	return t.dead > 0
}

// loadEpochs reads the counts. What an earlier process began takes no more bodies.
func (e *Engine) loadEpochs() error {
	t := &e.bodies
	var bad error
	err := e.store.Epochs(func(id QID, value []byte) bool {
		var live int64
		if live, bad = decodeEpoch(value); bad != nil {
			bad = fmt.Errorf("epoch %d: %w", id, bad)
			return false
		}
		ep := &epoch{id: id, live: live, dead: live == 0}
		t.byID[id] = ep
		t.order = append(t.order, ep)
		if ep.dead {
			t.dead++
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return err
}

func decodeEpoch(b []byte) (live int64, err error) {
	r := reader{b: b}
	version := r.byte()
	live = int64(r.uvarint())
	if r.bad || version != epochVersion || len(r.b) != 0 || live < 0 {
		return 0, fmt.Errorf("count of shared bodies: %w", ErrCorrupt)
	}
	return live, nil
}

// takeDead takes the dead epochs out of the table, as up to most runs of epochs
// between which no other lies: storage removes a run at the cost of one.
func (t *bodyTable) takeDead(most int) (runs []Ref) {
	left := t.order[:0]
	inRun := false
	for _, e := range t.order {
		switch {
		case !e.dead:
			inRun = false
		case inRun:
			runs[len(runs)-1].Seq = Seq(e.id)
		case len(runs) < most:
			inRun = true
			runs = append(runs, Ref{QID: e.id, Seq: Seq(e.id)})
		}
		if !inRun {
			left = append(left, e)
			continue
		}
		delete(t.byID, e.id)
		t.dead--
	}
	clear(t.order[len(left):])
	t.order = left
	return runs
}
