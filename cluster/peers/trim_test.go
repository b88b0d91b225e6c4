package peers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/core"
)

// trimWorld is a log that is trimmed, and the nodes that say what they need.
type trimWorld struct {
	mu      sync.Mutex
	answers map[string]Status
	err     error // of asking
	used    uint64
	trimErr error
	calls   [][]uint64 // what each call was given
	to      uint64
}

func (w *trimWorld) ask(context.Context) (out []Status, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.answers {
		s.Node = name
		out = append(out, s)
	}
	return out, w.err
}

func (w *trimWorld) trim(_ context.Context, standbys []core.LogPosition) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var seqs []uint64
	to := uint64(1000) // what this node has
	for _, p := range standbys {
		if p.Generation != 2 {
			return 0, fmt.Errorf("position %+v", p)
		}
		seqs = append(seqs, p.Seq)
		to = min(to, p.Seq)
	}
	slices.Sort(seqs)
	w.calls = append(w.calls, seqs)
	if w.trimErr != nil {
		return 0, w.trimErr
	}
	w.to = to
	return to, nil
}

func (w *trimWorld) usage(context.Context) (used, most uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used, 1000, nil
}

func standby(durable uint64) Status {
	return Status{Role: RoleStandby, Generation: 2, Applied: durable + 10, Durable: durable}
}

func held(s Status, seq uint64) Status {
	s.Held = &seq
	return s
}

// trimCase is what happens in rounds of five seconds, and the calls that come of it.
type trimCase struct {
	nodes []string
	run   func(w *trimWorld, rounds func(n int))
	want  string
}

func primary() Status { return Status{Role: RolePrimary, Generation: 2, Applied: 900, Durable: 800} }

// trimCases are those in which the nodes are as they should be.
func trimCases() map[string]trimCase {
	return map[string]trimCase{
		"alone": {nil, func(_ *trimWorld, rounds func(int)) { rounds(2) }, "[[900]]"},
		"the lowest counts, and no call is made for nothing": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.answers["c"] = standby(50), standby(70)
			rounds(3)
			w.answers["b"] = standby(60)
			rounds(2)
		}, "[[50 70 900] [60 70 900]]"},
		"one that does not answer holds the log for ten minutes": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.answers["c"] = standby(50), standby(70)
			rounds(1)
			delete(w.answers, "b")
			w.answers["c"] = standby(90)
			rounds(120)
			rounds(2)
		}, "[[50 70 900] [90 900]]"},
		"and comes back": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"] = standby(50)
			rounds(1)
			delete(w.answers, "b")
			rounds(100)
			w.answers["b"] = standby(55)
			rounds(100)
		}, "[[50 900] [55 900]]"},
		"one that is known and was never heard holds all": {[]string{"a", "b", "c"}, func(w *trimWorld, rounds func(int)) {
			w.answers["c"] = standby(70)
			rounds(119)
			w.answers["b"] = standby(60)
			rounds(1)
		}, "[[60 70 900]]"},
		"and is given up, and not known again": {[]string{"a", "b", "c"}, func(w *trimWorld, rounds func(int)) {
			w.answers["c"] = standby(70)
			rounds(300)
		}, "[[70 900]]"},
		"a witness needs nothing": {[]string{"a", "b", "w"}, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.answers["w"] = standby(50), Status{Role: RoleWitness}
			rounds(1)
		}, "[[50 900]]"},
		"nor who is of another generation": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.answers["c"] = standby(50), Status{Role: RoleStandby, Generation: 1, Durable: 3}
			rounds(1)
		}, "[[50 900]]"},
		"one without a state needs all": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.answers["c"] = standby(50), Status{Role: RoleStandby}
			rounds(3)
		}, "[]"},
		"one that starts needs what it needed before": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.answers["c"] = standby(50), Status{Role: RoleStarting, Generation: 2, Durable: 1}
			rounds(1)
			w.answers["b"] = Status{Role: RoleStarting, Generation: 2, Durable: 90}
			rounds(10)
		}, "[[50 900]]"},
	}
}

// badTrimCases are the others.
func badTrimCases() map[string]trimCase {
	return map[string]trimCase{
		"a checkpoint that is fetched holds the log": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"] = held(standby(50), 40)
			rounds(1)
			w.answers["a"], w.answers["b"] = held(primary(), 45), standby(50)
			rounds(1)
			w.answers["a"] = primary()
			rounds(1)
		}, "[[40 50 900] [45 50 900] [50 900]]"},
		"in a full log who does not answer is given up": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.answers["c"] = standby(50), standby(70)
			w.used = 699
			rounds(1)
			delete(w.answers, "b")
			rounds(10)
			w.used = 700
			rounds(1)
			w.answers["c"] = standby(80)
			rounds(1)
		}, "[[50 70 900] [70 900] [80 900]]"},
		"but not for one lost answer": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.used = standby(50), 900
			rounds(1)
			delete(w.answers, "b")
			rounds(1)
			w.answers["b"] = standby(50)
			rounds(1)
		}, "[[50 900]]"},
		"who does not hear itself concludes nothing": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.used = standby(50), 900
			rounds(1)
			w.answers, w.err = map[string]Status{}, errors.New("no connection")
			rounds(300)
			w.answers, w.err = map[string]Status{"a": primary(), "b": standby(50)}, nil
			rounds(1)
		}, "[[50 900]]"},
		"an answer that is not understood does not stop it": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.err = standby(50), ErrMalformed
			rounds(1)
		}, "[[50 900]]"},
		"an error is tried again": {nil, func(w *trimWorld, rounds func(int)) {
			w.answers["b"], w.trimErr = standby(50), core.ErrNotPrimary
			rounds(1)
			w.trimErr = errors.New("the log does not answer")
			rounds(1)
			w.trimErr = nil
			rounds(2)
		}, "[[50 900] [50 900] [50 900]]"},
	}
}

func TestTrimKeepsWhatNodesNeed(t *testing.T) {
	cases := trimCases()
	maps.Copy(cases, badTrimCases())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &trimWorld{answers: map[string]Status{"a": primary()}}
				trimmer := newTrimmer(TrimOptions{
					Node: "a", Generation: 2, Trim: w.trim, Usage: w.usage, Logger: quiet(), Nodes: func() []string { return c.nodes },
				}, w.ask)
				ctx, cancel := context.WithCancel(t.Context())
				go trimmer.run(ctx)
				time.Sleep(time.Second)
				w.mu.Lock()
				c.run(w, func(n int) {
					w.mu.Unlock()
					time.Sleep(time.Duration(n) * TrimEveryDefault)
					synctest.Wait()
					w.mu.Lock()
				})
				w.mu.Unlock()
				cancel()
				synctest.Wait()
				if got := fmt.Sprint(w.calls); got != c.want {
					t.Errorf("trimmed by %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestTrimOptionsAreChecked(t *testing.T) {
	good := TrimOptions{Peers: &Peers{}, Node: "a", Generation: 1, Trim: (&trimWorld{}).trim}
	for i, spoil := range []func(o *TrimOptions){
		func(o *TrimOptions) { o.Peers = nil }, func(o *TrimOptions) { o.Node = "" },
		func(o *TrimOptions) { o.Generation = 0 }, func(o *TrimOptions) { o.Trim = nil },
	} {
		o := good
		spoil(&o)
		if err := KeepTrimmed(t.Context(), o); err == nil {
			t.Errorf("options %d are taken", i)
		}
	}
}

// syncStore counts syncs.
type syncStore struct {
	applied, synced atomic.Uint64
	syncs           atomic.Int64
	err             error
}

func (s *syncStore) Applied() core.LogPosition { return core.LogPosition{Seq: s.applied.Load()} }

func (s *syncStore) SyncApplied() (core.LogPosition, error) {
	s.syncs.Add(1)
	s.synced.Store(s.applied.Load())
	return s.Applied(), s.err
}

func TestDurableIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &syncStore{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- KeepDurable(ctx, s, 0) }()
		for seq := uint64(1); seq <= 3; seq++ {
			s.applied.Store(seq)
			time.Sleep(10 * time.Second)
			if got := s.synced.Load(); got != seq {
				t.Errorf("synced to %d of %d", got, seq)
			}
		}
		if n := s.syncs.Load(); n != 3 {
			t.Errorf("%d syncs of 3 records in 30 s", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.err = core.ErrStopped
		s.applied.Store(9)
		if err := KeepDurable(t.Context(), s, time.Second); !errors.Is(err, core.ErrStopped) {
			t.Errorf("with a store that has failed: %v", err)
		}
	})
}
