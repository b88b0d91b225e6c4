package stomp

import (
	"slices"
	"sync"
	"sync/atomic"
)

// lines knows who consumes each queue, for consumers that come before others. Its
// lock is the innermost of all.
type lines struct {
	ranked  atomic.Int32 // subscriptions that are; as a rule there are none
	mu      sync.Mutex
	byQueue map[string]*line
}

// line has the subscriptions to one queue, the oldest first.
type line struct {
	subs   []*subscription
	ranked int // that are exclusive or have a priority
}

func (s *subscription) ranked() bool { return s.exclusive || s.priority != 0 }

func (l *lines) enter(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byQueue == nil {
		l.byQueue = make(map[string]*line)
	}
	of := l.byQueue[s.queue]
	if of == nil {
		of = &line{}
		l.byQueue[s.queue] = of
	}
	of.subs = append(of.subs, s)
	if s.ranked() {
		l.ranked.Add(1)
		of.ranked++
	}
}

// leave tells whether others may go on now.
func (l *lines) leave(s *subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byQueue[s.queue]
	if of == nil {
		return false
	}
	i := slices.Index(of.subs, s)
	if i < 0 {
		return false
	}
	of.subs = slices.Delete(of.subs, i, i+1)
	if s.ranked() {
		l.ranked.Add(-1)
		of.ranked--
	}
	if len(of.subs) == 0 {
		delete(l.byQueue, s.queue)
		return false
	}
	return s.ranked() || of.ranked > 0
}

// admits tells whether s may receive: a queue with exclusive consumers is for the
// first of them, and one of more priority goes before as long as it can take
// messages, whatever they are.
func (l *lines) admits(s *subscription) bool {
	if l.ranked.Load() == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byQueue[s.queue]
	if of == nil || of.ranked == 0 {
		return true
	}
	for _, o := range of.subs {
		if o.exclusive {
			return o == s
		}
	}
	for _, o := range of.subs {
		if o.priority > s.priority && o.selector == nil && !o.busy.Load() {
			return false
		}
	}
	return true
}

// yield lets others look whether it is their turn: s can take nothing more.
func (l *lines) yield(srv *Server, s *subscription) {
	if l.ranked.Load() == 0 {
		return
	}
	l.mu.Lock()
	of := l.byQueue[s.queue]
	wake := of != nil && of.ranked > 0
	l.mu.Unlock()
	if wake {
		srv.wakeAll()
	}
}

// left takes subscriptions that have ended out of their lines.
func (s *Server) left(subs []*subscription) {
	wake := false
	for _, sub := range subs {
		wake = s.lines.leave(sub) || wake
	}
	if wake {
		s.wakeAll()
	}
}

// wakeAll lets all subscriptions look again whether they may receive.
func (s *Server) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		c.wakePumpsLocked()
		c.mu.Unlock()
	}
}

// leaveAllLocked returns the subscriptions of a connection that has ended.
func (c *conn) leaveAllLocked() []*subscription {
	all := make([]*subscription, 0, len(c.subs))
	for _, s := range c.subs {
		all = append(all, s)
	}
	return all
}
