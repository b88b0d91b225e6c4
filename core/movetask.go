package core

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// MoveState says where a move task stands. The numbers are stored.
type MoveState uint8

// The states of a move task.
const (
	MoveRunning    MoveState = 0
	MoveCompleted  MoveState = 1 // all that was ready when it began has been moved, or is gone
	MoveCancelling MoveState = 2 // it stops after the Change in hand
	MoveCancelled  MoveState = 3 // what was moved stays moved
	MoveFailed     MoveState = 4 // MoveTask.Failure says why; what was moved stays moved
)

// MoveFailure says why a move task has failed. The numbers are stored.
type MoveFailure uint8

// The failures of a move task.
const (
	MoveFailureNone          MoveFailure = 0
	MoveFailureNoDestination MoveFailure = 1 // the destination, or the queue that a message came from, does not exist
	MoveFailureNoOrigin      MoveFailure = 2 // a message was not dead-lettered, and no destination was named
	MoveFailureKind          MoveFailure = 3 // one of source and destination is FIFO, the other is not
	MoveFailureFull          MoveFailure = 4 // the destination refuses more messages
	MoveFailureUnreadable    MoveFailure = 5 // storage could not read a message
	MoveFailureTime          MoveFailure = 6 // it had not ended after MoveTimeMax
)

// MoveTask describes a task that moves messages from one queue to others.
type MoveTask struct {
	ID          Seq    // rises with each task of a node
	Source      string // name of the queue that messages leave
	Destination string // name of the queue that they go to; empty: each to the queue that it was dead-lettered from
	Rate        int    // messages a second; 0: no limit
	State       MoveState
	Failure     MoveFailure
	StartedAt   int64 // milliseconds since the epoch
	ToMove      int64 // messages that were ready when it began: no more are taken
	Moved       int64
	Expired     int64 // met past their time, and dropped or dead-lettered instead
}

// active tells whether the task still runs, or will after a restart.
func (s MoveState) active() bool { return s == MoveRunning || s == MoveCancelling }

// left is how many messages the task may still take.
func (t *MoveTask) left() int64 { return t.ToMove - t.Moved - t.Expired }

// Bounds of move tasks.
const (
	MoveRateMax    = 500            // messages a second that may be asked for
	MoveTasksKept  = 10             // tasks of a source that are remembered
	MoveTasksMax   = 100            // active tasks of a node
	MoveTimeMax    = 36 * time.Hour // that a task may take, restarts included
	moveTaskPrefix = "move/"
)

// moveTask is a task as it is stored. What may change is guarded by
// moveTable.mu.
type moveTask struct {
	MoveTask
	source      QID           // Queue.ID of the source
	incarnation QID           // of the source when it began: a purge leaves nothing to move
	forgotten   bool          // its record is dropped: it must not be written again
	stop        chan struct{} // closed by a cancellation
}

// key names the task's record. Those of a source are neighbours, by age.
func (t *moveTask) key() []byte {
	return fmt.Appendf(nil, "%s%016x/%016x", moveTaskPrefix, uint64(t.source), uint64(t.ID))
}

const moveTaskVersion = 1

// append appends the stored form: version, state, failure, then numbers as
// uvarints, then the names.
func (t *moveTask) append(b []byte) []byte {
	b = append(b, moveTaskVersion, byte(t.State), byte(t.Failure))
	for _, v := range [...]uint64{
		uint64(t.ID), uint64(t.source), uint64(t.incarnation), uint64(t.Rate), uint64(t.StartedAt),
		uint64(t.ToMove), uint64(t.Moved), uint64(t.Expired),
	} {
		b = binary.AppendUvarint(b, v)
	}
	b = appendString(b, t.Source)
	return appendString(b, t.Destination)
}

func decodeMoveTask(b []byte) (*moveTask, error) {
	r := reader{b: b}
	if v := r.byte(); v != moveTaskVersion {
		return nil, fmt.Errorf("move task of version %d: %w", v, ErrCorrupt)
	}
	t := &moveTask{stop: make(chan struct{})}
	t.State, t.Failure = MoveState(r.byte()), MoveFailure(r.byte())
	t.ID, t.source, t.incarnation = Seq(r.uvarint()), QID(r.uvarint()), QID(r.uvarint())
	t.Rate, t.StartedAt = int(r.uvarint32()), int64(r.uvarint())
	t.ToMove, t.Moved, t.Expired = int64(r.uvarint()), int64(r.uvarint()), int64(r.uvarint())
	t.Source, t.Destination = string(r.bytes()), string(r.bytes())
	if r.bad || len(r.b) != 0 || t.State > MoveFailed || t.Failure > MoveFailureTime || t.Rate > MoveRateMax {
		return nil, fmt.Errorf("move task: %w", ErrCorrupt)
	}
	return t, nil
}

// loadMoves reads the tasks of earlier processes and goes on with those that had
// not ended.
func (e *Engine) loadMoves() error {
	var bad error
	err := e.store.Records(moveTaskPrefix, "", func(_ string, value []byte) bool {
		var t *moveTask
		if t, bad = decodeMoveTask(value); bad == nil {
			e.moves.addLocked(t) // nobody else knows of the table yet
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return err
	}
	for _, tasks := range e.moves.bySource {
		for _, t := range tasks {
			if t.State == MoveCancelling {
				t.stopLocked()
			}
			if t.State.active() {
				e.background(func() { e.runMove(t) })
			}
		}
	}
	return nil
}

// addLocked adds a task behind the older ones of its source.
func (m *moveTable) addLocked(t *moveTask) {
	if m.bySource == nil {
		m.bySource = make(map[QID][]*moveTask)
	}
	m.bySource[t.source] = append(m.bySource[t.source], t)
	if t.State.active() {
		m.active++
	}
}

// beginLocked refuses a task that may not start beside the others.
func (m *moveTable) beginLocked(source QID) error {
	for _, t := range m.bySource[source] {
		if t.State.active() {
			return ErrMoveActive
		}
	}
	if m.active >= MoveTasksMax {
		return ErrTooManyMoves
	}
	return nil
}

// findLocked returns a task of source, nil if there is none of that id.
func (m *moveTable) findLocked(source QID, id Seq) *moveTask {
	for _, t := range m.bySource[source] {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// trimLocked forgets the oldest tasks of source beyond those that are kept, and
// drops their records with g.
func (m *moveTable) trimLocked(g *group, source QID) {
	tasks := m.bySource[source]
	for len(tasks) > MoveTasksKept {
		g.put(Edit{Kind: EditDropRecord, Key: tasks[0].key()})
		tasks[0].forgotten = true
		tasks = slices.Delete(tasks, 0, 1)
	}
	m.bySource[source] = tasks
}

// forget drops all tasks of a source that is being deleted, with g. Those that
// run end by that.
func (m *moveTable) forget(g *group, source QID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.bySource[source] {
		g.put(Edit{Kind: EditDropRecord, Key: t.key()})
		t.forgotten = true
		if t.State.active() {
			m.active--
			t.stopLocked()
		}
	}
	delete(m.bySource, source)
}

// stopLocked wakes the task's goroutine. It may be called more than once.
func (t *moveTask) stopLocked() {
	select {
	case <-t.stop:
	default:
		close(t.stop)
	}
}

// list returns up to most tasks of source, newest first.
func (m *moveTable) list(source QID, most int) []MoveTask {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []MoveTask
	for _, t := range m.bySource[source] {
		out = append(out, t.MoveTask)
	}
	slices.SortFunc(out, func(a, b MoveTask) int { return cmp.Compare(b.ID, a.ID) })
	return out[:min(max(most, 0), len(out))]
}

// change lets edit change t, and stores it with g. It answers false, and stores
// nothing, when t is forgotten or edit says so.
func (m *moveTable) change(g *group, t *moveTask, edit func(t *moveTask) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.forgotten {
		return false
	}
	was := t.State.active()
	if !edit(t) {
		return false
	}
	if was && !t.State.active() {
		m.active--
	}
	g.put(Edit{Kind: EditPutRecord, Key: t.key(), Value: t.append(nil)})
	return true
}
