package mqtt

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/leasemq/broker/frontends/mqtt/state"
)

// willGrace is how long after a start a will waits at least: the node was away,
// not the client.
const willGrace = 30 * time.Second

// timerPause bounds how long the background work sleeps: the core's clock may be
// set meanwhile.
const timerPause = time.Minute

// timer says when to look at a session, or at a group.
type timer struct {
	at    int64 // milliseconds since the epoch
	group bool
	name  string // the key of a session, or the queue of a group
}

// timers wake the background work. What a timer says is looked up again when it
// is due: it may be old. Each name has one that counts, the earliest.
type timers struct {
	wake chan struct{}

	mu       sync.Mutex
	heap     timerHeap
	earliest map[string]int64
}

func (t *timers) add(one timer) {
	t.mu.Lock()
	at, known := t.earliest[one.name]
	add := !known || one.at < at
	if add {
		t.earliest[one.name] = one.at
		heap.Push(&t.heap, one)
	}
	first := add && t.heap[0] == one
	t.mu.Unlock()
	if first {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// next takes the first timer that is due, or returns how long to wait.
func (t *timers) next(now int64) (one timer, wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.heap) > 0 {
		if first := t.heap[0]; first.at > now {
			return one, min(timerPause, time.Duration(first.at-now)*time.Millisecond), false
		}
		one = heap.Pop(&t.heap).(timer)
		if t.earliest[one.name] == one.at {
			delete(t.earliest, one.name)
			return one, 0, true
		}
	}
	return one, timerPause, false
}

type timerHeap []timer

// Len is of heap.Interface.
func (h timerHeap) Len() int { return len(h) }

// Less is of heap.Interface.
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }

// Swap is of heap.Interface.
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is of heap.Interface.
func (h *timerHeap) Push(x any) { *h = append(*h, x.(timer)) }

// Pop is of heap.Interface.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	*h = (*h)[:last]
	return one
}

// schedule has a session without connection looked at when something is due.
func (s *Server) schedule(rec *state.Session) {
	s.timers.add(timer{at: s.dueAt(rec), name: state.Key(rec.ClientID)})
}

// dueAt returns when a session without connection ends or leaves its will. One that
// was connected when the node went down counts as lost at its start.
func (s *Server) dueAt(rec *state.Session) int64 {
	end, will := rec.Deadline, rec.WillAt
	if rec.Connected {
		end = s.openedAt + int64(rec.Expiry)*1000
		if rec.Will != nil {
			will = s.openedAt + max(int64(rec.Will.Delay)*1000, willGrace.Milliseconds())
		}
		if rec.Expiry == 0 {
			return max(end, will)
		}
	}
	if rec.Will == nil {
		return end
	}
	return min(end, will)
}

// watchSessions ends sessions and publishes wills when they are due.
func (s *Server) watchSessions(ctx context.Context) {
	if err := s.findSessions(ctx); err != nil {
		s.complain("read the sessions", err)
	}
	for {
		one, wait, ok := s.timers.next(s.now())
		if ok {
			if err := s.fire(ctx, one); err != nil {
				s.complain("end a session", err)
			}
			if ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-time.After(wait):
		case <-s.timers.wake:
		case <-ctx.Done():
			return
		}
	}
}

// findSessions finds what is due of the sessions that are stored.
func (s *Server) findSessions(ctx context.Context) error {
	err := s.client.Records(ctx, state.Prefix, "", func(name string, value []byte) bool {
		rec, err := state.Decode(value)
		if err != nil {
			s.complain("read "+name, err)
			return true
		}
		for _, sub := range rec.Subs {
			if d, ok := shared(sub.Filter); ok && d.filter != "" {
				s.groups.join(d.queue, state.Key(rec.ClientID))
			}
		}
		s.schedule(rec)
		return ctx.Err() == nil
	})
	if err == nil {
		err = s.findGroups(ctx)
	}
	return err
}

// fire does what a timer is for, unless that has changed.
func (s *Server) fire(ctx context.Context, one timer) error {
	if one.group {
		return s.sweepGroup(ctx, one.name)
	}
	rec, err := s.load(ctx, one.name)
	if err != nil || rec == nil {
		return err
	}
	e, idle := s.registry.claimIdle(rec.ClientID)
	if !idle {
		return nil // who has it schedules again
	}
	defer s.registry.release(e)
	// Nobody changes it now.
	if rec, err = s.load(ctx, one.name); err != nil || rec == nil {
		return err
	}
	now := s.now()
	due := s.dueAt(rec)
	if due > now {
		s.timers.add(timer{at: due, name: one.name})
		return nil
	}
	if s.over(rec) {
		s.registry.mu.Lock()
		e.sent = nil
		s.registry.mu.Unlock()
		return s.erase(ctx, one.name, rec)
	}
	if rec.Connected {
		rec.Connected, rec.Deadline = false, s.openedAt+int64(rec.Expiry)*1000
	}
	if rec.Will != nil {
		if err := s.fireWill(ctx, one.name, rec); err != nil {
			return err
		}
	}
	s.schedule(rec)
	return nil
}
