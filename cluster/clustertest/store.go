package clustertest

import (
	"errors"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/core"
)

// State is what a reference store holds: the node-wide records alone.
type State struct {
	Records map[string]string
	Sum     uint64 // of all of them, whatever their order
}

func newState() State { return State{Records: map[string]string{}} }

// apply applies one Change.
func (s *State) apply(c *core.Change) {
	for i := range c.Edits {
		e := &c.Edits[i]
		key := string(e.Key)
		if old, ok := s.Records[key]; ok {
			s.Sum ^= sumOf(key, old)
			delete(s.Records, key)
		}
		if e.Kind == core.EditPutRecord {
			s.Records[key] = string(e.Value)
			s.Sum ^= sumOf(key, string(e.Value))
		}
	}
}

func sumOf(key, value string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write([]byte(value))
	return h.Sum64()
}

// Store is a cluster.Store in memory, whose unsynced end a crash may take.
type Store struct {
	gate    *Gate
	applied func(at core.LogPosition, sum uint64) // sees each batch

	mu      sync.Mutex
	state   State
	history []batch
	durable int // batches that no crash takes
}

type batch struct {
	at      core.LogPosition
	changes []*core.Change
}

var _ cluster.Store = (*Store)(nil)

// NewStore makes an empty store of a process; applied is told of each batch.
func NewStore(g *Gate, applied func(at core.LogPosition, sum uint64)) *Store {
	return &Store{gate: g, applied: applied, state: newState()}
}

// Crash returns the store of the next process: keep says how many of n batches
// that are not synced are left.
func (s *Store) Crash(g *Gate, keep func(n int) int) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := NewStore(g, s.applied)
	next.history = slices.Clone(s.history[:s.durable+keep(len(s.history)-s.durable)])
	next.durable = len(next.history)
	for _, b := range next.history {
		for _, c := range b.changes {
			next.state.apply(c)
		}
	}
	return next
}

// Apply implements cluster.Store.
func (s *Store) Apply(at core.LogPosition, changes []*core.Change) error {
	if err := s.gate.Pass(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.history); n > 0 && at.Seq <= s.history[n-1].at.Seq {
		return errors.New("a record is applied twice")
	}
	for _, c := range changes {
		s.state.apply(c)
	}
	s.history = append(s.history, batch{at, changes})
	s.applied(at, s.state.Sum)
	return nil
}

// Applied implements cluster.Store.
func (s *Store) Applied() core.LogPosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.history); n > 0 {
		return s.history[n-1].at
	}
	return core.LogPosition{}
}

// SyncApplied implements cluster.Store.
func (s *Store) SyncApplied() (core.LogPosition, error) {
	if err := s.gate.Pass(); err != nil {
		return core.LogPosition{}, err
	}
	at := s.Applied()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable = len(s.history)
	return at, nil
}

// Checkpoint implements cluster.Store.
func (s *Store) Checkpoint(string) (core.LogPosition, error) {
	return core.LogPosition{}, errors.ErrUnsupported
}

// Read returns a record, whether there is one, and the position of the state
// that it is from.
func (s *Store) Read(key string) (value string, ok bool, at core.LogPosition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.history); n > 0 {
		at = s.history[n-1].at
	}
	value, ok = s.state.Records[key]
	return value, ok, at
}
