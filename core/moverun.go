package core

import (
	"errors"
	"slices"
	"time"
)

// Bounds of a move task at work.
const (
	moveBatch      = 256     // messages in one Change
	moveBatchBytes = 1 << 20 // counted bytes in one Change, but for the last message
	moveTargetsMax = 16      // queues that one Change moves messages to
	moveTick       = 100 * time.Millisecond
	moveHeldWait   = time.Second // between two looks whether producers are still held
)

// moveRun is a move task at work, in a goroutine of its own.
type moveRun struct {
	*moveTask
	engine *Engine
	// targets name the queues that a Change may move messages to: the
	// destination, or the queues that messages came from, as they were met.
	targets []string
	settled bool // nothing was found, and what was being committed then is durable
}

// moveStep says what a step of a task came to.
type moveStep struct {
	done    *commit // of what it decided, nil if that is nothing
	taken   int
	end     bool // the task ends by state and failure
	state   MoveState
	failure MoveFailure
}

func moveEnds(s MoveState, f MoveFailure) moveStep { return moveStep{end: true, state: s, failure: f} }

// runMove works on a task until it has ended or the engine stops: then the next
// process goes on. Each step is one Change, which holds the moved messages, in
// both queues, and the count of them. A task waits for nothing but its commits,
// its rate, and producers that are held.
func (e *Engine) runMove(t *moveTask) {
	r := &moveRun{moveTask: t, engine: e}
	for r.goesOn() {
		if e.held() != nil {
			r.pause(moveHeldWait)
			continue
		}
		e.seq.admit()
		began := time.Now()
		s := r.step(r.batch())
		if s.done != nil && s.done.wait() != nil {
			return
		}
		if s.end {
			r.finish(s.state, s.failure)
			return
		}
		if t.Rate > 0 && s.taken > 0 && t.left() > 0 {
			r.pause(time.Duration(s.taken)*time.Second/time.Duration(t.Rate) - time.Since(began))
		}
	}
}

// batch is how many messages the next Change takes: at a rate, those of a tick.
func (r *moveRun) batch() int {
	if r.Rate == 0 {
		return moveBatch
	}
	return max(1, r.Rate*int(moveTick/time.Millisecond)/1000)
}

// goesOn tells whether there is more to do. A cancellation ends the task here, and
// so does its age.
func (r *moveRun) goesOn() bool {
	if r.engine.stopped() {
		return false
	}
	select {
	case <-r.stop:
		r.finish(MoveCancelled, MoveFailureNone)
		return false
	default:
	}
	if r.engine.clock.now()-r.StartedAt >= MoveTimeMax.Milliseconds() {
		r.finish(MoveFailed, MoveFailureTime)
		return false
	}
	return true
}

func (r *moveRun) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.stop:
	case <-r.engine.closing:
	case <-r.engine.failed:
	}
}

// finish stores how the task has ended. A task that is being cancelled ends as
// cancelled, whatever it came to meanwhile.
func (r *moveRun) finish(s MoveState, f MoveFailure) {
	e := r.engine
	g, err := e.seq.begin()
	if err != nil {
		return
	}
	defer e.seq.end()
	e.moves.change(g, r.moveTask, func(t *moveTask) bool {
		if t.State == MoveCancelling {
			s, f = MoveCancelled, MoveFailureNone
		}
		t.State, t.Failure = s, f
		return true
	})
}

// step finds out where the next message goes, and moves a batch.
func (r *moveRun) step(most int) moveStep {
	e := r.engine
	q, name, s := r.look()
	if s.end || q == nil {
		return s
	}
	if name != "" {
		if s := r.addTarget(q, name); s.end {
			return s
		}
	}
	dlq := q.expiredQueue()
	s, dead := r.moveLocked(q, dlq, min(int64(most), r.left()))
	if len(dead) > 0 {
		if err := e.moveDead(q, dlq, dead); err != nil {
			e.complain("move task", err, "queue", q.name)
		}
	}
	return s
}

// look finds the next message, reading pages until there is one, and names the
// queue that it goes to: "" when it has expired. No queue is returned when the
// task is to look again.
func (r *moveRun) look() (source *queue, to string, s moveStep) {
	e := r.engine
	err := e.with(r.Source, func(q *queue) error {
		for {
			if err := q.usableLocked(); err != nil {
				return err
			}
			if q.id != r.source || q.qid != r.incarnation || r.left() <= 0 {
				s = moveEnds(MoveCompleted, MoveFailureNone)
				return nil
			}
			now := e.clock.now()
			c, f := q.nextInOrder(now, nil, 0) // the same again in moveLocked
			switch f {
			case foundNone:
				return nil
			case foundPage:
				if err := q.readMore(&c); err != nil {
					return err
				}
				continue
			}
			source = q
			rec, err := q.recordOf(&c)
			if err == nil && !q.expired(rec, now) {
				to, s, err = r.target(rec)
			}
			return err
		}
	})
	switch {
	case errors.Is(err, ErrNoQueue):
		s = moveEnds(MoveCompleted, MoveFailureNone) // its record has gone with the queue
	case err != nil:
		s = r.unreadable(r.Source, err)
	case source != nil || s.end:
		r.settled = false
	case r.settled:
		s = moveEnds(MoveCompleted, MoveFailureNone)
	default:
		// What is being committed may be about to free a group.
		e.seq.settle()
		r.settled = true
	}
	return source, to, s
}

// recordOf returns the record of a candidate.
func (q *queue) recordOf(c *candidate) ([]byte, error) {
	if c.index < 0 {
		return c.e.rec, nil
	}
	return q.read(&q.leases.slab[c.index])
}

// target names the queue that a message goes to.
func (r *moveRun) target(rec []byte) (string, moveStep, error) {
	if r.Destination != "" {
		return r.Destination, moveStep{}, nil
	}
	var s Stored
	if err := decodeRecord(rec, &s); err != nil {
		return "", moveStep{}, err
	}
	if s.DeadLetter.Source == "" {
		return "", moveEnds(MoveFailed, MoveFailureNoOrigin), nil
	}
	return s.DeadLetter.Source, moveStep{}, nil
}

// unreadable ends the task by an error of storage. That the engine stops is none:
// the next process goes on.
func (r *moveRun) unreadable(queue string, err error) moveStep {
	if errors.Is(err, ErrStopped) {
		return moveStep{}
	}
	r.engine.complain("move task", err, "queue", queue)
	return moveEnds(MoveFailed, MoveFailureUnreadable)
}

// addTarget adds the queue of that name to the targets, instead of the oldest
// when there are too many.
func (r *moveRun) addTarget(source *queue, name string) moveStep {
	to, err := r.engine.queue(name)
	switch {
	case errors.Is(err, ErrNoQueue):
		return moveEnds(MoveFailed, MoveFailureNoDestination)
	case err != nil:
		return r.unreadable(name, err)
	case !sameOrder(source, to):
		return moveEnds(MoveFailed, MoveFailureKind)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.gone {
		return moveEnds(MoveFailed, MoveFailureNoDestination)
	}
	if !slices.Contains(r.targets, name) {
		if len(r.targets) == moveTargetsMax {
			r.targets = slices.Delete(r.targets, 0, 1)
		}
		r.targets = append(r.targets, name)
	}
	return moveStep{}
}

// moveTarget is a target within a Change, with what is to go there.
type moveTarget struct {
	q     *queue
	n     int64
	bytes int64
}

// takes tells whether a queue has room for another message of that size.
func (t *moveTarget) takes(source *queue, size int64) bool {
	return t.q == source || t.q.rec.Config.Overflow != OverflowReject || !t.q.over(t.n+1, t.bytes+size)
}

// movePick is a message that is taken.
type movePick struct {
	index  int32
	stored Stored
	size   int64
	to     *queue // nil: it has expired, and is dropped
}

// moveLocked takes up to most messages and moves them as one Change, under the
// locks of source and targets, by rising ids. What has expired is dropped or, with
// dlq, set aside, and returned.
func (r *moveRun) moveLocked(q, dlq *queue, most int64) (moveStep, []Seq) {
	locked := []*queue{q}
	for _, name := range r.targets {
		if to, err := r.engine.queue(name); err == nil {
			locked = append(locked, to)
		}
	}
	slices.SortFunc(locked, func(a, b *queue) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	locked = slices.Compact(locked)
	for _, l := range locked {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	if q.usableLocked() != nil || q.qid != r.incarnation {
		return moveStep{}, nil // look again
	}
	targets := make(map[string]*moveTarget, len(locked))
	for _, to := range locked {
		err := to.usableLocked()
		switch {
		case err == nil && sameOrder(q, to):
			targets[to.name] = &moveTarget{q: to}
		case err != nil && !errors.Is(err, ErrNoQueue) && err != errEvicted:
			return r.unreadable(to.name, err), nil
		}
	}
	picks, marks, dead, failure := r.takeLocked(q, targets, dlq != nil, most)
	if len(picks)+len(marks)+len(dead) == 0 {
		if failure != MoveFailureNone {
			return moveEnds(MoveFailed, failure), nil
		}
		return moveStep{}, nil // look again: the next page, or another target
	}
	done, err := r.write(q, picks, marks, len(dead))
	if err != nil {
		return moveStep{}, nil // the engine stops
	}
	return moveStep{done: done, taken: len(picks)}, dead
}

// takeLocked takes messages as a receive would find them. It stops at one whose
// queue is not among the targets, is full, or that cannot be read.
func (r *moveRun) takeLocked(q *queue, targets map[string]*moveTarget, keepExpired bool, most int64) (picks []movePick, marks []pick, dead []Seq, f MoveFailure) {
	now := r.engine.clock.now()
	size := int64(0)
	for int64(len(picks)+len(dead)) < most && size < moveBatchBytes {
		c, found := q.nextInOrder(now, nil, 0)
		if found != foundOne {
			break
		}
		rec, err := q.recordOf(&c)
		var s Stored
		if err == nil {
			err = decodeRecord(rec, &s)
		}
		if err != nil {
			q.degrade(err)
			return picks, marks, dead, MoveFailureUnreadable
		}
		p := movePick{stored: s, size: recordCounted(rec)}
		expired := q.expired(rec, now)
		if !expired {
			name := r.Destination
			if name == "" {
				name = s.DeadLetter.Source
			}
			to := targets[name]
			if to == nil {
				break
			}
			if !to.takes(q, p.size) {
				return picks, marks, dead, MoveFailureFull
			}
			to.n, to.bytes, p.to = to.n+1, to.bytes+p.size, to.q
		}
		size += p.size
		p.index = q.entryOf(&c)
		if expired && keepExpired && !expiredBefore(rec) {
			dead = append(dead, q.setAside(p.index, now, &marks))
		} else {
			q.leases.slab[p.index].status = leaseDeleting
			picks = append(picks, p)
		}
		q.rotate(&c, nil, true)
	}
	return picks, marks, dead, MoveFailureNone
}

// write appends what was taken to the open Change: each message leaves the source
// and enters its target, and the task counts it.
func (r *moveRun) write(q *queue, picks []movePick, marks []pick, dead int) (*commit, error) {
	e := r.engine
	g, err := e.seq.begin()
	if err != nil {
		return nil, err
	}
	defer e.seq.end()
	g.slotOf(q)
	now := e.clock.now()
	moved := 0
	for i := range picks {
		p := &picks[i]
		le := &q.leases.slab[p.index]
		q.putDrop(g, &g.slots[q.slotIndex], le)
		q.unmark(le)
		if le.lane != nil {
			g.touchLane(q, le.lane)
			if q.fifo() {
				// Its group waits until it is durably gone.
				le.lane.block(le.seq)
			}
		}
		if p.to == nil {
			continue
		}
		moved++
		s := &p.stored
		s.ID, s.EnqueuedAt = NewMessageID(), now
		s.DeadLetter, s.PriorReceives = DeadLetter{}, 0
		p.to.takeIn(g, s, p.size, p.to.rec.Config.Delay)
	}
	for i := range marks {
		le := &q.leases.slab[marks[i].index]
		q.putState(g, le, marks[i].state)
		if le.lane != nil {
			g.touchLane(q, le.lane)
		}
	}
	q.snapshot(g, &g.slots[q.slotIndex])
	if len(q.ring) > 0 && !q.ready(q.ring[0]) {
		q.leaveRing()
	}
	e.moves.change(g, r.moveTask, func(t *moveTask) bool {
		t.Moved += int64(moved)
		t.Expired += int64(len(picks) - moved + dead)
		return true
	})
	return g.done, nil
}
