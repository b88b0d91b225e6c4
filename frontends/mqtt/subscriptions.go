package mqtt

import (
	"sync"
	"sync/atomic"

	"github.com/leasemq/broker/core/match"
	"github.com/leasemq/broker/frontends/mqtt/state"
)

// subscriptions are those of a session that are not shared. Sources match with
// them while the reader changes them.
type subscriptions struct {
	tree    match.Tree[*state.Sub]
	changes atomic.Uint64

	mu       sync.Mutex
	byFilter map[string]*state.Sub
}

// put adds a subscription, in the place of one of the same filter. There is no
// moment without.
func (s *subscriptions) put(sub state.Sub) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.byFilter[sub.Filter]
	s.byFilter[sub.Filter] = &sub
	s.tree.Insert(sub.Filter, &sub)
	if old != nil {
		s.tree.Remove(sub.Filter, old)
	}
	s.changes.Add(1)
	return old != nil
}

// take removes the subscription of a filter.
func (s *subscriptions) take(filter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byFilter[filter]; old != nil {
		s.tree.Remove(filter, old)
		delete(s.byFilter, filter)
		s.changes.Add(1)
	}
}

// find returns the subscription of a filter, nil if there is none.
func (s *subscriptions) find(filter string) *state.Sub {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byFilter[filter]
}

func (s *subscriptions) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byFilter)
}

// matched is what the subscriptions that match a topic come to.
type matched struct {
	topic   string
	changes uint64
	subs    []*state.Sub
	qos     byte // the highest
	retain  bool // one wants RETAIN as it was published
}

// match finds what matches a topic; what was found for the same one last is used
// again.
func (s *subscriptions) match(topic []byte, m *matched) {
	changes := s.changes.Load()
	if m.changes == changes && m.topic == string(topic) && m.subs != nil {
		return
	}
	if m.topic != string(topic) {
		m.topic = string(topic)
	}
	m.changes = changes
	m.subs = s.tree.Append(m.subs[:0], m.topic)
	m.qos, m.retain = 0, false
	for _, sub := range m.subs {
		m.qos = max(m.qos, sub.QoS)
		m.retain = m.retain || sub.RetainPublished
	}
}
