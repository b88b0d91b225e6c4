package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
)

// stopError is what ends the member, as opposed to what is tried again.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// stop marks err, unless it is nil.
func stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

// fatal returns what ends the member, nil if err is to be tried again.
func fatal(err error) error {
	var s *stopError
	switch {
	case errors.As(err, &s):
		return s.err
	case errors.Is(err, ErrTrimmed):
		return err
	}
	return nil
}

// follow applies the log until the primary has been silent for too long or ctx
// ends; both return nil.
func (m *Member) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := m.tail(ctx); err != nil {
			return err
		}
		// A record may have come just when the silence ended. Who sent it may
		// answer for a while yet.
		if int64(m.clock()) >= m.ringAt.Load() {
			break
		}
	}
	return nil
}

// tail applies the log until the silence ends.
func (m *Member) tail(ctx context.Context) error {
	tailing, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { m.watchSilence(cancel, tailing.Done()) })
	defer watch.Wait()
	defer cancel()
	for {
		err := m.o.Log.Tail(tailing, m.chain.At().Seq+1, func(e Entry) error {
			s, err := m.apply(e, nil)
			if err != nil {
				return stop(err)
			}
			if s.Valid && !m.mine {
				m.heardValid(&s)
			}
			return nil
		})
		if err := fatal(err); err != nil {
			return err
		}
		if tailing.Err() != nil {
			return nil
		}
		m.log.Warn("log cannot be followed: trying again", "error", err)
		m.pause(tailing, m.o.Lease/retryLease)
	}
}

// heardValid notes a sign of life of whoever leads.
func (m *Member) heardValid(s *Step) {
	silence := m.silent
	if s.Epoch != nil {
		silence = m.afterSilence()
		m.silent = silence
		switch {
		case s.Epoch.Vacant && s.Epoch.Node == m.o.Node:
			silence = 0
		case s.Epoch.Vacant && s.Epoch.Node == "":
			silence = m.jitter()
		}
	}
	if at := int64(m.clock() + silence); at > m.ringAt.Load() {
		m.ringAt.Store(at) // put off: nobody need wake up for it
		return
	}
	m.quietFor(silence)
}

// apply takes one record to the store. own is its Change if this node wrote it.
func (m *Member) apply(e Entry, own *core.Change) (Step, error) {
	s, err := m.chain.Step(e.Seq, e.Data)
	if err != nil {
		return s, err
	}
	if s.Epoch != nil {
		m.epoch, m.mine = s.Epoch, s.Epoch.Instance == m.o.Instance && !s.Epoch.Vacant
		if m.o.OnEpoch != nil {
			m.o.OnEpoch(m.chain.At().Epoch, *s.Epoch)
		}
	}
	var changes []*core.Change
	switch {
	case s.Batch != nil && own != nil:
		changes = []*core.Change{own}
	case s.Batch != nil:
		if changes, err = decodeBatch(s.Batch); err != nil {
			return s, fmt.Errorf("record %d: %w", e.Seq, err)
		}
	case s.Epoch != nil:
	case !m.chain.Whole() || e.Seq-m.stored < positionRecordsMax:
		return s, nil
	}
	if err := m.o.Store.Apply(m.chain.At(), changes); err != nil {
		return s, fmt.Errorf("apply record %d: %w", e.Seq, err)
	}
	m.stored = e.Seq
	return s, nil
}

// quietFor lets the next take-over begin after that much silence from now on.
func (m *Member) quietFor(silence time.Duration) {
	m.ringAt.Store(int64(m.clock() + silence))
	select {
	case m.moved <- struct{}{}:
	default:
	}
}

// watchSilence calls ring when m.ringAt has come, unless ended is closed first.
func (m *Member) watchSilence(ring func(), ended <-chan struct{}) {
	for {
		left := time.Duration(m.ringAt.Load()) - m.clock()
		if left <= 0 {
			ring()
			return
		}
		// The clock may run faster than the timer, and the time may have been put
		// off meanwhile: it is looked at again.
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-m.moved:
		case <-ended:
			t.Stop()
			return
		}
		t.Stop()
	}
}

// pause waits, but not beyond the end of ctx.
func (m *Member) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
