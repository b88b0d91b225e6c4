package core_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
)

// movesPrefix begins the names of the records of move tasks.
const movesPrefix = "move/"

// move starts a move task, most often out of a dead-letter queue, or cancels the
// newest one.
func (w *world) move(awaited bool) {
	y := w.anyYard()
	if w.chance(70) {
		y = pick(w.rng, w.yards[len(w.yards)-2:]...) // the dead-letter queues
	}
	if w.chance(15) {
		w.cancelMove(y, awaited)
		return
	}
	o := core.MoveOptions{Source: y.name, Rate: pick(w.rng, 0, 0, 0, 5, 50)}
	to := w.anyYard()
	if w.chance(50) {
		o.Destination = to.name
	}
	c := w.client
	var t core.MoveTask
	var err error
	w.note("move %+v awaited=%t", o, awaited)
	w.tap.paced.Store(false) // it counts what is delayed under the source's lock
	defer w.tap.paced.Store(true)
	w.launch(awaited, func() { t, err = c.StartMove(context.Background(), o) }, func() {
		switch {
		case errors.Is(err, core.ErrStopped), errors.Is(err, core.ErrMoveActive):
		case errors.Is(err, core.ErrNoQueue) && (!y.exists || !awaited):
		case errors.Is(err, core.ErrMoveTarget) && o.Destination != "" && (!to.exists || !awaited):
		case errors.Is(err, core.ErrInvalidArgument) && o.Destination != "" && (to == y || to.cfg.Kind != y.cfg.Kind):
		case err != nil:
			w.failf("move from %s: %w", y.name, err)
		case awaited:
			w.tap.durably(func(l, _ *ledger) {
				suffix := fmt.Sprintf("/%016x", uint64(t.ID))
				for name := range l.records {
					if strings.HasPrefix(name, movesPrefix) && strings.HasSuffix(name, suffix) {
						return
					}
				}
				w.failf("move from %s: the task was answered and is not stored", y.name)
			})
		}
	})
}

func (w *world) cancelMove(y *yard, awaited bool) {
	c := w.client
	var err error
	w.note("cancel the move from %s awaited=%t", y.name, awaited)
	w.launch(awaited, func() {
		var tasks []core.MoveTask
		if tasks, err = c.MoveTasks(context.Background(), y.name, 1); err == nil && len(tasks) > 0 {
			_, err = c.CancelMove(context.Background(), y.name, tasks[0].ID)
		}
	}, func() {
		if err != nil && !errors.Is(err, core.ErrStopped) && !errors.Is(err, core.ErrNoMove) && !errors.Is(err, core.ErrNoQueue) {
			w.failf("cancel the move from %s: %w", y.name, err)
		}
	})
}

// checkMovesEnd checks that each task comes to its end, whatever process began
// it. There is nothing left to move.
func (w *world) checkMovesEnd() {
	time.Sleep(time.Minute)
	for _, y := range w.yards {
		tasks, err := w.client.MoveTasks(context.Background(), y.name, core.MoveTasksKept)
		if err != nil {
			w.failf("moves from %s: %w", y.name, err)
		}
		for _, t := range tasks {
			if t.State == core.MoveRunning || t.State == core.MoveCancelling || t.Moved+t.Expired > t.ToMove {
				w.failf("a move does not end as it should: %+v", t)
			}
		}
	}
}

// sourceMoves is what a Change says about the move tasks of one source.
type sourceMoves struct {
	tasks map[string]core.MoveTask // as the Change leaves them, by name of the record
	moved int64                    // messages that the Change moves
}

// movesOf reads the records of move tasks that c puts, by Queue.ID of the source.
func movesOf(c *core.Change) (map[core.QID]*sourceMoves, error) {
	out := map[core.QID]*sourceMoves{}
	for i := range c.Edits {
		e := &c.Edits[i]
		name, ok := strings.CutPrefix(string(e.Key), movesPrefix)
		if !ok || e.Kind != core.EditPutRecord {
			continue
		}
		task, err := core.DecodeMoveTask(e.Value)
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseUint(name[:16], 16, 64)
		if err != nil {
			return nil, err
		}
		m := out[core.QID(id)]
		if m == nil {
			m = &sourceMoves{tasks: map[string]core.MoveTask{}}
			out[core.QID(id)] = m
		}
		m.tasks[string(e.Key)] = task
	}
	return out, nil
}

// goesTo tells whether a message that came from origin goes to target by one of
// the tasks.
func (m *sourceMoves) goesTo(target, origin string) bool {
	for _, t := range m.tasks {
		if t.Destination == target || t.Destination == "" && origin == target {
			return true
		}
	}
	return false
}

// checkCount checks that the tasks count what is moved, in the same Change.
func (m *sourceMoves) checkCount(before *ledger) error {
	counted := int64(0)
	for name, t := range m.tasks {
		counted += t.Moved
		if old := before.records[name]; old != nil {
			was, err := core.DecodeMoveTask(old)
			if err != nil {
				return err
			}
			counted -= was.Moved
		}
	}
	if counted != m.moved {
		return fmt.Errorf("%d messages are moved, and the tasks %+v count %d", m.moved, m.tasks, counted)
	}
	return nil
}

// justifyMoved tells whether a message under a new id is the one that the same
// Change takes out of the source of a task, otherwise as it was. The book is
// locked.
func (b *book) justifyMoved(p *parcel, s *core.Stored, e, from *core.Edit, before *ledger, moves map[core.QID]*sourceMoves) error {
	source, target := before.shelf(from.QID), before.shelf(e.QID)
	m := moves[source.id]
	was, err := core.DecodeRecord(bytes.Clone(source.bodies[from.Ref].record))
	switch {
	case err != nil:
		return err
	case m == nil:
		return fmt.Errorf("taken out of %s by no task", source.name)
	case target.name != "" && !m.goesTo(target.name, was.DeadLetter.Source):
		return fmt.Errorf("moved to %s, it came from %q, the tasks are %+v", target.name, was.DeadLetter.Source, m.tasks)
	case s.DeadLetter != core.DeadLetter{} || s.PriorReceives != 0 || s.EnqueuedAt < was.EnqueuedAt || s.ExpiresAt != was.ExpiresAt:
		return fmt.Errorf("it is not new where it was moved to: %+v, was %+v", s, was)
	}
	m.moved++
	b.parcels[s.ID] = p
	p.ids = append(p.ids, s.ID)
	return nil
}

// ofBody returns the parcel whose id the body of a message tells, nil if there is
// none. The book is locked.
func (b *book) ofBody(s *core.Stored) *parcel {
	const idText = 36
	if len(s.Body) < idText {
		return nil
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(string(s.Body[:idText]), "-", ""))
	if err != nil || len(raw) != len(core.MessageID{}) {
		return nil
	}
	return b.parcels[core.MessageID(raw)]
}

// where returns the place where l holds p, under whichever of its ids.
func (p *parcel) where(l *ledger) (core.Ref, bool) {
	for _, id := range append([]core.MessageID{p.msg.ID}, p.ids...) {
		if ref, ok := l.where[id]; ok {
			return ref, true
		}
	}
	return core.Ref{}, false
}
