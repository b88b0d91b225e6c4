package stomp

import (
	"slices"
	"sync"
	"sync/atomic"
)

// lines knows who consumes each queue, for consumers that come before others. Its
// lock is the innermost of all.
type lines struct {
	// sticking orders the calls that tell consumers whether they may have groups to
	// themselves. It is taken before mu and before locks of the core.
	sticking sync.Mutex
	ranked   atomic.Int32 // subscriptions that are; as a rule there are none
	mu       sync.Mutex
	byQueue  map[string]*line
}

// line has the subscriptions to one queue, the oldest first.
type line struct {
	subs   []*subscription
	ranked int // that are exclusive or have a priority
}

func (s *subscription) ranked() bool { return s.exclusive || s.priority != 0 }

func (l *lines) enter(s *subscription) {
	l.sticking.Lock()
	defer l.sticking.Unlock()
	l.stick(l.add(s))
}

// stick tells consumers whether they may have groups to themselves: not beside
// one that is exclusive or has a priority. It might get nothing of them else, or
// they wait for one that gets nothing beside it.
func (l *lines) stick(all []*subscription, on bool) {
	for _, s := range all {
		if s.consumer != nil {
			s.consumer.Stick(on)
		}
	}
}

// add returns for whom it has changed whether they may have groups, and to what.
func (l *lines) add(s *subscription) (changed []*subscription, on bool) {
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
		if of.ranked++; of.ranked == 1 {
			return slices.Clone(of.subs), false
		}
	}
	if of.ranked > 0 {
		return []*subscription{s}, false
	}
	return nil, true
}

// leave returns who may go on now.
func (l *lines) leave(s *subscription) (wake []*subscription) {
	l.sticking.Lock()
	defer l.sticking.Unlock()
	wake, changed := l.remove(s)
	l.stick(changed, true)
	return wake
}

// remove returns besides who may have groups again.
func (l *lines) remove(s *subscription) (wake, changed []*subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byQueue[s.queue]
	if of == nil {
		return nil, nil
	}
	i := slices.Index(of.subs, s)
	if i < 0 {
		return nil, nil
	}
	of.subs = slices.Delete(of.subs, i, i+1)
	if s.ranked() {
		l.ranked.Add(-1)
		if of.ranked--; of.ranked == 0 {
			changed = slices.Clone(of.subs)
		}
	}
	if len(of.subs) == 0 {
		delete(l.byQueue, s.queue)
		return nil, nil
	}
	if s.ranked() || of.ranked > 0 {
		wake = slices.Clone(of.subs)
	}
	return wake, changed
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
func (l *lines) yield(s *subscription) {
	if l.ranked.Load() == 0 {
		return
	}
	var wake []*subscription
	l.mu.Lock()
	if of := l.byQueue[s.queue]; of != nil && of.ranked > 0 {
		wake = slices.Clone(of.subs)
	}
	l.mu.Unlock()
	lookAgain(wake)
}

// left takes subscriptions that have ended out of their lines.
func (s *Server) left(subs []*subscription) {
	for _, sub := range subs {
		lookAgain(s.lines.leave(sub))
	}
}

// lookAgain has subscriptions look whether they may receive now.
func lookAgain(subs []*subscription) {
	for _, s := range subs {
		s.conn.mu.Lock()
		s.ready.Broadcast()
		s.conn.mu.Unlock()
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
