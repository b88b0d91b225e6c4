package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// moveTable holds the move tasks of a node, those that have ended too. Its lock
// is taken last of all, under that of a queue or of the sequencer.
type moveTable struct {
	mu       sync.Mutex
	bySource map[QID][]*moveTask // by Queue.ID, oldest first
	active   int
}

// MoveOptions says what a move task is to do; see MoveTask.
type MoveOptions struct {
	Source      string
	Destination string
	Rate        int // 0 to MoveRateMax
}

// StartMove starts a task that moves what is ready in a queue now, the oldest
// first: to the destination, or each message back to the queue that it was
// dead-lettered from. A moved message counts as new: it has a new id and enqueue
// time, and has never been received. What is in flight or delayed is left, and,
// on FIFO queues, what lies behind it in its group. The task survives restarts.
//
// It answers when the task is durable. Errors are ErrNoQueue for the source,
// ErrMoveTarget for the destination, ErrMoveActive and ErrTooManyMoves.
func (c *Client) StartMove(ctx context.Context, o MoveOptions) (MoveTask, error) {
	e := c.engine
	if o.Rate < 0 || o.Rate > MoveRateMax {
		return MoveTask{}, ErrInvalidArgument
	}
	if o.Destination != "" {
		if err := e.checkMoveTarget(o.Source, o.Destination); err != nil {
			return MoveTask{}, err
		}
	}
	var started MoveTask // before the task changes
	var done *commit
	err := e.with(o.Source, func(q *queue) error {
		if q.memory != nil {
			return fmt.Errorf("%w: the source of a move is not stored", ErrInvalidArgument)
		}
		t, c, err := q.startMove(o)
		if err == nil {
			started, done = t.MoveTask, c
			e.background(func() { e.runMove(t) })
		}
		return err
	})
	if err != nil {
		return MoveTask{}, err
	}
	return started, wait(ctx, done)
}

// checkMoveTarget refuses a destination that is not there, is the source itself,
// or is not FIFO as the source is.
func (e *Engine) checkMoveTarget(source, name string) error {
	from, err := e.queue(source)
	if err != nil {
		return err
	}
	to, err := e.queue(name)
	switch {
	case errors.Is(err, ErrNoQueue):
		return ErrMoveTarget
	case err != nil:
		return err
	case name == source:
		return fmt.Errorf("%w: source and destination of a move are one queue", ErrInvalidArgument)
	case to.memory != nil:
		return fmt.Errorf("%w: the destination of a move is not stored", ErrInvalidArgument)
	case !sameOrder(from, to):
		return fmt.Errorf("%w: only one of source and destination of a move is FIFO", ErrInvalidArgument)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.gone {
		return ErrMoveTarget
	}
	return nil
}

// sameOrder tells whether messages of one queue may go to the other: a FIFO queue
// needs groups, and keeps the order that others do not have.
func sameOrder(a, b *queue) bool {
	return (a.config().Kind == KindFIFO) == (b.config().Kind == KindFIFO)
}

// startMove makes the task's record. q.mu is held.
func (q *queue) startMove(o MoveOptions) (*moveTask, *commit, error) {
	e := q.engine
	delayed, err := q.delayedNow()
	if err != nil {
		return nil, nil, err
	}
	t := &moveTask{source: q.id, incarnation: q.qid, stop: make(chan struct{})}
	t.MoveTask = MoveTask{
		Source: o.Source, Destination: o.Destination, Rate: o.Rate, StartedAt: e.clock.now(),
		ToMove: max(q.state.Messages-int64(q.inFlight+q.hidden)-delayed, 0),
	}
	g, err := e.seq.begin()
	if err != nil {
		return nil, nil, err
	}
	defer e.seq.end()
	e.moves.mu.Lock()
	defer e.moves.mu.Unlock()
	if err := e.moves.beginLocked(q.id); err != nil {
		return nil, nil, err
	}
	t.ID = e.seq.takeSeq()
	e.moves.addLocked(t)
	g.put(Edit{Kind: EditPutRecord, Key: t.key(), Value: t.append(nil)})
	e.moves.trimLocked(g, q.id)
	return t, g.done, nil
}

// CancelMove asks a running task to stop, and returns how many messages it has
// moved so far; what is being moved may be added. ErrNoMove says that no task of
// that id runs.
func (c *Client) CancelMove(ctx context.Context, source string, id Seq) (int64, error) {
	e := c.engine
	var moved int64
	var done *commit
	err := e.with(source, func(q *queue) error {
		e.moves.mu.Lock()
		t := e.moves.findLocked(q.id, id)
		e.moves.mu.Unlock()
		if t == nil {
			return ErrNoMove
		}
		g, err := e.seq.begin()
		if err != nil {
			return err
		}
		defer e.seq.end()
		running := e.moves.change(g, t, func(t *moveTask) bool {
			if t.State != MoveRunning {
				return false
			}
			t.State, moved = MoveCancelling, t.Moved
			t.stopLocked()
			return true
		})
		if !running {
			return ErrNoMove
		}
		done = g.done
		return nil
	})
	if err != nil {
		return 0, err
	}
	return moved, wait(ctx, done)
}

// MoveTasks returns the tasks of a source, newest first: up to most of the last
// MoveTasksKept. What they show is durable.
func (c *Client) MoveTasks(ctx context.Context, source string, most int) ([]MoveTask, error) {
	var out []MoveTask
	err := c.engine.with(source, func(q *queue) error {
		out = c.engine.moves.list(q.id, most)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if done := c.engine.seq.barrier(); done != nil {
		err = wait(ctx, done)
	}
	return out, err
}
