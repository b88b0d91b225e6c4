package peers

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
)

// TestVerifyUnderLoad compares two states that are written all the time, by writers
// that are not in step.
func TestVerifyUnderLoad(t *testing.T) {
	w := newWorld(t)
	states := []*state{openState(t, t.TempDir()), openState(t, t.TempDir())}
	var end atomic.Uint64 // of the log: nobody is ahead of it
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	writers.Go(func() {
		for ctx.Err() == nil {
			end.Add(3)
			_ = pause(ctx, time.Millisecond)
		}
	})
	for i, s := range states {
		s.applyTo(50)
		s.serve(w, i+1, Options{})
		writers.Go(func() {
			for ctx.Err() == nil {
				s.applyTo(max(s.last, end.Load()))
				_ = pause(ctx, time.Duration(1+7*i)*time.Millisecond)
			}
		})
	}
	end.Add(50)
	for range 5 {
		digests, err := w.peers.Verify(patient(t), []string{"n1", "n2"})
		if err != nil || digests[0].At != digests[1].At || digests[0].Sum != digests[1].Sum {
			t.Errorf("digests %+v: %v", digests, err)
		}
	}
}

func TestVerifyMeetsADifference(t *testing.T) {
	w := newWorld(t)
	a, b, behind := openState(t, t.TempDir()), openState(t, t.TempDir()), openState(t, t.TempDir())
	for i, s := range []*state{a, b, behind} {
		s.applyTo(20)
		s.serve(w, i, Options{})
	}
	if _, err := w.peers.Verify(patient(t), []string{"n0", "n1", "n2"}); err != nil {
		t.Fatal(err)
	}
	at, c := record(21)
	if err := a.db.Apply(at, []*core.Change{c}); err != nil {
		t.Fatal(err)
	}
	c.Edits[0].Value[3] ^= 1
	if err := b.db.Apply(at, []*core.Change{c}); err != nil {
		t.Fatal(err)
	}
	digests, err := w.peers.Verify(patient(t), []string{"n0", "n1"})
	if !errors.Is(err, ErrDiffer) || len(digests) != 2 || digests[0].Sum == digests[1].Sum {
		t.Errorf("with one bit that differs: %+v, %v", digests, err)
	}
	// The third one does not go on: they never meet.
	w.peers.settle = 20 * time.Millisecond
	if _, err := w.peers.Verify(patient(t), []string{"n0", "n2"}); !errors.Is(err, ErrNeverAt) {
		t.Errorf("with one that lags: %v", err)
	}
	// Behind the last Change the others have heartbeats.
	at.Seq += 40
	if err := a.db.Apply(at, nil); err != nil {
		t.Fatal(err)
	}
	behind.applyTo(21)
	if _, err := w.peers.Verify(patient(t), []string{"n0", "n2"}); err != nil {
		t.Errorf("with records that change nothing: %v", err)
	}
	for _, nodes := range [][]string{nil, {"n0"}, make([]string, nodesMax+1), {"n0", "n 1"}} {
		if _, err := w.peers.Verify(patient(t), nodes); err == nil {
			t.Errorf("%d nodes are compared", len(nodes))
		}
	}
	if _, err := w.peers.Verify(patient(t), []string{"n0", "n9"}); !errors.Is(err, ErrNoNode) {
		t.Errorf("with nobody: %v", err)
	}
	w.serve(0, Options{Dir: filepath.Join(t.TempDir(), "x")}) // two answer in one name: the first counts
}
