package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/leasemq/broker/core"
)

// ledger is the reference of the crash model: what storage must hold after a
// number of Changes. It applies their edits to maps and knows nothing else.
type ledger struct {
	queues  map[core.QID]*shelf // with what awaits removal
	names   map[string]core.QID
	reaps   map[core.QID]bool
	dedup   map[dedupRow][]byte
	records map[string][]byte
	where   map[core.MessageID]core.Ref // each message, in the one queue that it lies in
	boxes   map[core.QID]*box
	reaped  []core.Ref // bodies that have gone; QID is the epoch
	time    int64
}

// shelf is what lies in one incarnation of a queue.
type shelf struct {
	record []byte // nil: the incarnation has ended
	name   string
	id     core.QID
	cfg    core.QueueConfig
	state  []byte
	lanes  map[core.Place][]byte
	bodies map[core.Ref]*letter
	states map[core.Ref]mark
}

// letter is one stored message.
type letter struct {
	record  []byte
	id      core.MessageID
	at      int64
	expires int64
	counted int64
	copy    bool // of what was published to a topic; others lie in one queue alone

	shares bool   // its body lies elsewhere
	whole  []byte // the record with the body
	epoch  core.QID
	body   core.Seq
}

// mark is a state record, with what rule 4 asks about it.
type mark struct {
	core.MessageState
	sets int
	term uint32 // of the process that made the first SET
}

type dedupRow struct {
	minute uint32
	qid    core.QID
	hash   [16]byte
}

func newLedger() *ledger {
	return &ledger{
		queues: map[core.QID]*shelf{}, names: map[string]core.QID{}, reaps: map[core.QID]bool{},
		dedup: map[dedupRow][]byte{}, records: map[string][]byte{}, where: map[core.MessageID]core.Ref{}, boxes: map[core.QID]*box{},
	}
}

func (l *ledger) clone() *ledger {
	c := &ledger{
		queues: make(map[core.QID]*shelf, len(l.queues)), names: maps.Clone(l.names), reaps: maps.Clone(l.reaps),
		dedup: maps.Clone(l.dedup), records: maps.Clone(l.records), where: maps.Clone(l.where), time: l.time,
		boxes: cloneBoxes(l.boxes), reaped: slices.Clone(l.reaped),
	}
	for qid, s := range l.queues {
		d := *s
		d.lanes, d.bodies, d.states = maps.Clone(s.lanes), maps.Clone(s.bodies), maps.Clone(s.states)
		c.queues[qid] = &d
	}
	return c
}

func (l *ledger) shelf(q core.QID) *shelf {
	s := l.queues[q]
	if s == nil {
		s = &shelf{lanes: map[core.Place][]byte{}, bodies: map[core.Ref]*letter{}, states: map[core.Ref]mark{}}
		l.queues[q] = s
	}
	return s
}

// apply applies one Change of the process that has the given term. An error is
// an edit that breaks the contract.
func (l *ledger) apply(c *core.Change, term uint32) error {
	if c.Time < l.time {
		return fmt.Errorf("time goes back from %d to %d", l.time, c.Time)
	}
	l.time = c.Time
	for i := range c.Edits {
		e := &c.Edits[i]
		if err := l.edit(e, term); err != nil {
			return fmt.Errorf("edit %d of kind %d on %v: %w", i, e.Kind, e.Ref, err)
		}
	}
	return nil
}

func (l *ledger) edit(e *core.Edit, term uint32) error {
	var s *shelf
	if e.Kind != core.EditPutBody && e.Kind != core.EditPutEpoch && e.Kind != core.EditReapEpochs {
		s = l.shelf(e.QID)
	}
	switch e.Kind {
	case core.EditPutMessage:
		return l.putMessage(s, e)
	case core.EditDropMessage:
		m := s.bodies[e.Ref]
		if m == nil {
			return errors.New("drops a message that is not there: SINGLEDEL needs exactly one SET")
		}
		delete(s.bodies, e.Ref)
		if l.where[m.id] == e.Ref {
			delete(l.where, m.id)
		}
		return l.refer(m, false)
	case core.EditPutBody, core.EditPutEpoch, core.EditReapEpochs:
		return l.bodyEdit(e)
	case core.EditPutState:
		return s.putState(e, term)
	case core.EditDropState:
		m, ok := s.states[e.Ref]
		if !ok && s.record != nil {
			return errors.New("drops a state record that is not there")
		}
		if e.Single && (m.sets != 1 || m.term != term) {
			return fmt.Errorf("SINGLEDEL of a state record that has %d SETs, the first of term %d", m.sets, m.term)
		}
		delete(s.states, e.Ref)
	case core.EditPutQueueState:
		s.state = bytes.Clone(e.Value)
	case core.EditPutLane:
		s.lanes[e.Place] = bytes.Clone(e.Value)
	case core.EditDropLane:
		delete(s.lanes, e.Place)
	default:
		return l.catalogEdit(s, e)
	}
	return nil
}

func (l *ledger) putMessage(s *shelf, e *core.Edit) error {
	if s.bodies[e.Ref] != nil {
		return errors.New("puts a message twice")
	}
	whole, err := l.whole(e.Value)
	if err != nil {
		return err
	}
	stored, err := core.DecodeRecord(bytes.Clone(whole))
	if err != nil {
		return err
	}
	if at, ok := l.where[stored.ID]; ok && len(stored.Topic) == 0 {
		return fmt.Errorf("message %v lies in %v as well", stored.ID, at)
	}
	m := &letter{record: bytes.Clone(e.Value), whole: bytes.Clone(whole), id: stored.ID, at: stored.EnqueuedAt, expires: stored.ExpiresAt, counted: int64(len(stored.Body)), copy: len(stored.Topic) > 0}
	stored.Attributes(func(a core.Attribute) bool {
		m.counted += int64(len(a.Name) + len(a.Type) + len(a.Value))
		return true
	})
	if s.bodies[e.Ref] = m; !m.copy {
		l.where[stored.ID] = e.Ref
	}
	m.epoch, m.body, m.shares = core.RecordRef(e.Value)
	return l.refer(m, true)
}

func (s *shelf) putState(e *core.Edit, term uint32) error {
	old, ok := s.states[e.Ref]
	if !ok {
		old.term = term
	}
	if e.State.Receives < old.Receives {
		return fmt.Errorf("receives fall from %d to %d", old.Receives, e.State.Receives)
	}
	if e.State.Receives > old.Receives+1 && ok {
		return fmt.Errorf("receives jump from %d to %d", old.Receives, e.State.Receives)
	}
	s.states[e.Ref] = mark{MessageState: e.State, sets: old.sets + 1, term: old.term}
	return nil
}

func (l *ledger) catalogEdit(s *shelf, e *core.Edit) (err error) {
	switch e.Kind {
	case core.EditPutQueue:
		s.record = bytes.Clone(e.Value)
		s.name, s.id, s.cfg, err = core.DecodeStoredQueue(s.record)
	case core.EditDropQueue:
		s.record, s.state = nil, nil
		for _, m := range s.bodies {
			delete(l.where, m.id)
		}
	case core.EditPutName:
		l.names[string(e.Key)] = e.QID
	case core.EditDropName:
		delete(l.names, string(e.Key))
	case core.EditPutDedup:
		l.dedup[dedupRow{e.Minute, e.QID, [16]byte(e.Key)}] = bytes.Clone(e.Value)
	case core.EditDropDedup:
		maps.DeleteFunc(l.dedup, func(r dedupRow, _ []byte) bool { return r.minute < e.Minute })
	case core.EditPutReap:
		l.reaps[e.QID] = true
	case core.EditDropReap:
		delete(l.reaps, e.QID)
	case core.EditReapQueue:
		if s.record != nil {
			return errors.New("reaps a queue that lives")
		}
		for r, m := range s.bodies {
			if m.shares {
				return fmt.Errorf("reaps a queue with %v, which refers to epoch %d", r, m.epoch)
			}
		}
		clear(s.lanes)
		clear(s.bodies)
		clear(s.states)
	case core.EditPutRecord:
		l.records[string(e.Key)] = bytes.Clone(e.Value)
	case core.EditDropRecord:
		delete(l.records, string(e.Key))
	default:
		return errors.New("unknown kind")
	}
	return err
}

// check checks what must be true of each queue that c touches, at the end of
// any Change: a crash may come right behind it.
func (l *ledger) check(c *core.Change) error {
	touched := map[core.QID]bool{}
	for i := range c.Edits {
		if l.queues[c.Edits[i].QID] != nil {
			touched[c.Edits[i].QID] = true
		}
	}
	if err := l.checkBoxes(); err != nil {
		return err
	}
	for qid := range touched {
		if err := l.checkQueue(qid); err != nil {
			return fmt.Errorf("queue %d (%s): %w", qid, l.shelf(qid).name, err)
		}
	}
	return nil
}

func (l *ledger) checkQueue(qid core.QID) error {
	s := l.shelf(qid)
	if s.record == nil {
		if n := len(s.bodies) + len(s.states) + len(s.lanes); n > 0 && !l.reaps[qid] {
			return fmt.Errorf("keys of an ended incarnation await no removal: %d messages, states %v, lanes %v", len(s.bodies), s.states, s.lanes)
		}
		return nil
	}
	if l.names[s.name] != qid {
		return fmt.Errorf("its name stands for %d", l.names[s.name])
	}
	for r := range s.states {
		if s.bodies[r] == nil {
			return fmt.Errorf("state record of %v without a body", r)
		}
	}
	if s.state == nil {
		if len(s.bodies) > 0 {
			return fmt.Errorf("%d messages and no queue state", len(s.bodies))
		}
		return nil
	}
	st, err := core.DecodeQueueState(s.state)
	if err != nil {
		return err
	}
	if err := s.checkCounts(&st); err != nil {
		return err
	}
	if err := s.checkCursors(&st); err != nil {
		return err
	}
	return s.checkLanes()
}

// checkCounts recounts what the queue state counts.
func (s *shelf) checkCounts(st *core.QueueState) error {
	var want core.QueueState
	oldest := int64(0)
	for r, m := range s.bodies {
		want.Messages++
		want.Bytes += m.counted
		if m.shares {
			want.Shared++
		}
		_, received := s.states[r]
		if received {
			want.Received++
		}
		if r.Place.Kind == core.PlaceDelayed && !received {
			want.Delayed++
		}
		if oldest == 0 || m.at < oldest {
			oldest = m.at
		}
	}
	if st.Messages != want.Messages || st.Bytes != want.Bytes || st.Received != want.Received || st.Delayed != want.Delayed || st.Shared != want.Shared {
		return fmt.Errorf("state says messages=%d bytes=%d received=%d delayed=%d shared=%d, a recount %d, %d, %d, %d, %d",
			st.Messages, st.Bytes, st.Received, st.Delayed, st.Shared, want.Messages, want.Bytes, want.Received, want.Delayed, want.Shared)
	}
	if oldest != 0 && (st.OldestAt == 0 || st.OldestAt > oldest) || oldest == 0 && st.OldestAt != 0 {
		return fmt.Errorf("state says that the oldest is of %d, it is of %d", st.OldestAt, oldest)
	}
	return nil
}

// checkCursors checks rule 1: below a cursor all messages have a state record.
func (s *shelf) checkCursors(st *core.QueueState) error {
	for r := range s.bodies {
		if _, ok := s.states[r]; ok {
			if r.Place.Kind == core.PlaceTail && r.Seq < st.OldState {
				return fmt.Errorf("state record of %v lies below the hint %d", r, st.OldState)
			}
			continue
		}
		cursor := st.Cursor
		switch r.Place.Kind {
		case core.PlaceDelayed:
			if r.Place.N < st.DueCursor || r.Place.N == st.DueCursor && r.Seq < st.DueSeq {
				return fmt.Errorf("the due cursor (%d, %d) has passed %v, which has no state record", st.DueCursor, st.DueSeq, r)
			}
			continue
		case core.PlacePriority, core.PlaceGroup:
			b := s.lanes[r.Place]
			if b == nil {
				return fmt.Errorf("%v lies in a lane without a record", r)
			}
			var err error
			if cursor, _, err = core.DecodeLaneState(b); err != nil {
				return err
			}
		}
		if r.Seq < cursor {
			return fmt.Errorf("the cursor %d has passed %v, which has no state record", cursor, r)
		}
	}
	return nil
}

// checkLanes checks that a lane has a record exactly as long as it holds
// messages, with their number.
func (s *shelf) checkLanes() error {
	counts := map[core.Place]int64{}
	for r := range s.bodies {
		if r.Place.Kind == core.PlacePriority || r.Place.Kind == core.PlaceGroup {
			counts[r.Place]++
		}
	}
	for p, b := range s.lanes {
		_, n, err := core.DecodeLaneState(b)
		if err != nil {
			return err
		}
		if n != counts[p] {
			return fmt.Errorf("lane %v counts %d messages, it has %d", p, n, counts[p])
		}
	}
	for p := range counts {
		if s.lanes[p] == nil {
			return fmt.Errorf("lane %v has messages and no record", p)
		}
	}
	return nil
}

// leaving tells whether the next receive of r drops or dead-letters it.
func (s *shelf) leaving(r core.Ref, now int64) bool {
	m, p := s.bodies[r], &s.cfg.Redelivery
	keep := s.cfg.Retention.Milliseconds()
	return m.expires != 0 && m.expires <= now || keep > 0 && m.at+keep <= now ||
		p.DeadLetterQueue != "" && p.MaxReceives > 0 && int(s.states[r].Failures) >= p.MaxReceives
}

// given returns what c receives from FIFO queues. l has not applied it yet.
func (l *ledger) given(c *core.Change) map[core.Ref]bool {
	given := map[core.Ref]bool{}
	for i := range c.Edits {
		e := &c.Edits[i]
		if e.Kind != core.EditPutState || l.shelf(e.QID).cfg.Kind != core.KindFIFO {
			continue
		}
		if e.State.Flags&core.StateSession == 0 && e.State.Receives > l.shelf(e.QID).states[e.Ref].Receives {
			given[e.Ref] = true
		}
	}
	return given
}

// checkTurns checks that what is received from a FIFO queue is the head of its
// group: nothing that lies before it is left, or held by an earlier receive.
// Session leases write their records later, which says nothing about turns.
func (l *ledger) checkTurns(given map[core.Ref]bool, b *book) error {
	for r := range given {
		if b.wasInSession(r) {
			continue
		}
		s := l.shelf(r.QID)
		for other := range s.bodies {
			if other.Place == r.Place && other.Seq < r.Seq && !given[other] && !s.leaving(other, l.time) {
				return fmt.Errorf("%v is received (%+v) while %v (%+v) of its group is not gone", r, s.states[r], other, s.states[other])
			}
		}
	}
	return nil
}
