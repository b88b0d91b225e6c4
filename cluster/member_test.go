package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/clustertest"
	"github.com/leasemq/broker/core"
)

const testLease = time.Second

// trio is three members without faults of their own.
type trio struct {
	t      *testing.T
	server *clustertest.Server
	began  chan *cluster.Lease // each time somebody leads
	nodes  []*trioNode
}

type trioNode struct {
	name   string
	gate   *clustertest.Gate
	conn   *clustertest.Conn
	store  *clustertest.Store
	member *cluster.Member
	stop   context.CancelFunc
	exited chan error
}

func newTrio(t *testing.T, nodes int) *trio {
	w := &trio{t: t, server: clustertest.NewServer(rand.New(rand.NewPCG(1, 1)), testLease), began: make(chan *cluster.Lease, 10)}
	for i := range nodes {
		n := &trioNode{name: fmt.Sprint("n", i), gate: &clustertest.Gate{}}
		n.store = clustertest.NewStore(n.gate, func(core.LogPosition, uint64) {})
		w.nodes = append(w.nodes, n)
		w.start(n, i, nil)
	}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			n.stop()
			if err := <-n.exited; err != nil {
				t.Errorf("%s: %v", n.name, err)
			}
		}
	})
	return w
}

func (w *trio) start(n *trioNode, rank int, lead func(ctx context.Context, l *cluster.Lease) error) {
	w.t.Helper()
	n.conn = w.server.Connect(n.gate, clustertest.Faults{})
	if lead == nil {
		lead = func(ctx context.Context, l *cluster.Lease) error {
			w.began <- l
			<-ctx.Done()
			return nil
		}
	}
	var err error
	n.member, err = cluster.New(cluster.Options{
		Node: n.name, Rank: rank, Log: n.conn, Store: n.store, Lead: lead, Lease: testLease,
		Instance: [16]byte{byte(rank + 1)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	exited := make(chan error, 1)
	n.stop, n.exited = stop, exited
	go func() { exited <- n.member.Run(ctx) }()
}

// next returns the next lease and whose it is.
func (w *trio) next() (*cluster.Lease, *trioNode) {
	w.t.Helper()
	select {
	case l := <-w.began:
		for _, n := range w.nodes {
			if n.member.LeaseCovers() {
				return l, n
			}
		}
		w.t.Fatal("nobody is covered")
	case <-time.After(10 * testLease):
		w.t.Fatal("nobody leads")
	}
	return nil, nil
}

func putRecord(key, value string) *core.Change {
	return &core.Change{Time: 1, Edits: []core.Edit{{Kind: core.EditPutRecord, Key: []byte(key), Value: []byte(value)}}}
}

// submit submits and waits.
func submit(l *cluster.Lease, c *core.Change) (core.Pos, error) {
	type answer struct {
		pos core.Pos
		err error
	}
	got := make(chan answer, 1)
	l.Submit(c, func(pos core.Pos, err error) { got <- answer{pos, err} })
	a := <-got
	return a.pos, a.err
}

func bubble(t *testing.T, nodes int, run func(t *testing.T, w *trio)) {
	synctest.Test(t, func(t *testing.T) { run(t, newTrio(t, nodes)) })
}

func TestStandbysApplyWhatThePrimaryCommits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *trio) {
		l, _ := w.next()
		// One record, and one of several parts.
		for key, value := range map[string]string{"small": "x", "large": strings.Repeat("x", 1<<20)} {
			if _, err := submit(l, putRecord(key, value)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(testLease / 10)
			for _, n := range w.nodes {
				if got, _, _ := n.store.Read(key); got != value {
					t.Errorf("%s has %d bytes of %s", n.name, len(got), key)
				}
			}
		}
	})
}

func TestSilenceOfALeaseIsTakenOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *trio) {
		l, n := w.next()
		if l.Boot().Term != 1 || l.Boot().Clean {
			t.Errorf("first boot %+v", l.Boot())
		}
		if _, err := submit(l, putRecord("k", "v")); err != nil {
			t.Fatal(err)
		}
		silent := time.Now()
		n.conn.Cut(3 * testLease)
		time.Sleep(testLease * 7 / 10)
		if !l.Covers() {
			t.Error("not covered after 0.7 of a lease")
		}
		time.Sleep(testLease * 2 / 10)
		if l.Covers() || n.member.LeaseCovers() {
			t.Error("covered after 0.9 of a lease")
		}
		if _, err := submit(l, putRecord("k", "w")); !errors.Is(err, core.ErrNotPrimary) {
			t.Errorf("committed without the log: %v", err)
		}
		next, other := w.next()
		if gap := time.Since(silent); other == n || gap < testLease || gap > testLease*3/2 || next.Epoch() != 2 {
			t.Errorf("%s leads in epoch %d after %v", other.name, next.Epoch(), gap)
		}
		if value, _, _ := other.store.Read("k"); value != "v" {
			t.Errorf("the next primary has %q", value)
		}
	})
}

func TestHandoverNeedsNoLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *trio) {
		_, n := w.next()
		var to *trioNode
		for _, other := range w.nodes {
			if other != n {
				to = other
			}
		}
		if err := to.member.Handover(t.Context(), ""); !errors.Is(err, core.ErrNotPrimary) {
			t.Errorf("handover by a standby: %v", err)
		}
		began := time.Now()
		if err := n.member.Handover(t.Context(), to.name); err != nil {
			t.Fatal(err)
		}
		l, now := w.next()
		if gap := time.Since(began); now != to || gap > testLease/4 || !l.Boot().Clean {
			t.Errorf("%s leads after %v, boot %+v, want %s", now.name, gap, l.Boot(), to.name)
		}
		// The end of a process is one, to any.
		began = time.Now()
		to.stop()
		if _, now = w.next(); now == to || time.Since(began) > testLease/2 {
			t.Errorf("%s leads after %v", now.name, time.Since(began))
		}
	})
}

func TestOrderlyStopCommitsWhatIsSubmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t, 2)
		n := &trioNode{name: "last", gate: &clustertest.Gate{}}
		n.store = clustertest.NewStore(n.gate, func(core.LogPosition, uint64) {})
		_, first := w.next()
		var errs []error
		w.start(n, 9, func(ctx context.Context, l *cluster.Lease) error {
			w.began <- l
			<-ctx.Done()
			for i := range 20 {
				_, err := submit(l, putRecord(fmt.Sprint("k", i), "v"))
				errs = append(errs, err)
			}
			return nil
		})
		w.nodes = append(w.nodes, n)
		time.Sleep(testLease)
		if err := first.member.Handover(t.Context(), "last"); err != nil {
			t.Fatal(err)
		}
		l, _ := w.next()
		n.stop()
		w.next()
		if err := errors.Join(errs...); err != nil || len(errs) != 20 {
			t.Errorf("%d Changes, %v", len(errs), err)
		}
		if _, err := submit(l, putRecord("k", "v")); !errors.Is(err, core.ErrNotPrimary) {
			t.Errorf("committed after the handover: %v", err)
		}
	})
}

func TestLogIsTrimmedBelowTheSlowest(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *trio) {
		l, n := w.next()
		for range 5 {
			if _, err := submit(l, putRecord("k", "v")); err != nil {
				t.Fatal(err)
			}
		}
		own := n.store.Applied()
		behind := own
		behind.Seq -= 3
		if to, err := n.member.Trim(t.Context(), []core.LogPosition{behind}); err != nil || to != behind.Seq {
			t.Errorf("trimmed to %d, %v, want %d", to, err, behind.Seq)
		}
		behind.Generation++
		if to, err := n.member.Trim(t.Context(), []core.LogPosition{behind}); err != nil || to != 0 {
			t.Errorf("trimmed to %d, %v, with a standby of another log", to, err)
		}
		for _, other := range w.nodes {
			if other != n {
				if _, err := other.member.Trim(t.Context(), nil); !errors.Is(err, core.ErrNotPrimary) {
					t.Errorf("a standby trimmed: %v", err)
				}
			}
		}
		// Who starts from nothing is behind what is left.
		late := &trioNode{name: "late", gate: &clustertest.Gate{}}
		late.store = clustertest.NewStore(late.gate, func(core.LogPosition, uint64) {})
		w.start(late, 5, nil)
		if err := <-late.exited; !errors.Is(err, cluster.ErrTrimmed) {
			t.Errorf("a node without state: %v", err)
		}
	})
}

func TestLeadThatFailsEndsTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t, 0)
		n := &trioNode{name: "n", gate: &clustertest.Gate{}}
		n.store = clustertest.NewStore(n.gate, func(core.LogPosition, uint64) {})
		broken := errors.New("broken")
		w.start(n, 0, func(context.Context, *cluster.Lease) error { return broken })
		if err := <-n.exited; !errors.Is(err, broken) {
			t.Errorf("ended with %v", err)
		}
	})
}

// movingLog has its leader on this node at first.
type movingLog struct {
	cluster.Log
	flying atomic.Int32
	moved  atomic.Int32
}

func (l *movingLog) Append(prev uint64, data []byte, done func(uint64, error)) {
	l.flying.Add(1)
	l.Log.Append(prev, data, func(seq uint64, err error) {
		l.flying.Add(-1)
		done(seq, err)
	})
}

func (l *movingLog) LeaderHere(context.Context) (bool, error) { return l.moved.Load() == 0, nil }

func (l *movingLog) MoveLeader(context.Context) error {
	l.moved.Add(1 + 100*l.flying.Load())
	time.Sleep(testLease / 20)
	l.moved.Add(100 * l.flying.Load())
	return nil
}

func TestLeaderOfTheLogIsMovedWhenNothingIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &clustertest.Gate{}
		log := &movingLog{Log: clustertest.NewServer(rand.New(rand.NewPCG(1, 1)), testLease).Connect(gate, clustertest.Faults{})}
		done := errors.New("done")
		m, err := cluster.New(cluster.Options{
			Node: "n", Log: log, Store: clustertest.NewStore(gate, func(core.LogPosition, uint64) {}),
			Lease: testLease, Logger: slog.New(slog.DiscardHandler),
			Lead: func(_ context.Context, l *cluster.Lease) error {
				for range 100 {
					if _, err := submit(l, putRecord("k", "v")); err != nil {
						return err
					}
				}
				return done
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(t.Context()); !errors.Is(err, done) {
			t.Error(err)
		}
		if n := log.moved.Load(); n != 1 {
			t.Errorf("moved %d times, with %d under way", n%100, n/100)
		}
	})
}

// otherGeneration is a log that was started anew.
type otherGeneration struct{ cluster.Log }

func (otherGeneration) Generation() uint32 { return 2 }

func TestOptionsAreChecked(t *testing.T) {
	gate := &clustertest.Gate{}
	log := clustertest.NewServer(rand.New(rand.NewPCG(1, 1)), testLease).Connect(gate, clustertest.Faults{})
	store := clustertest.NewStore(gate, func(core.LogPosition, uint64) {})
	good := cluster.Options{Node: "n", Log: log, Store: store, Lead: func(context.Context, *cluster.Lease) error { return nil }}
	if _, err := cluster.New(good); err != nil {
		t.Fatal(err)
	}
	if err := store.Apply(core.LogPosition{Generation: 1, Seq: 1}, nil); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(o *cluster.Options){
		"no name":                        func(o *cluster.Options) { o.Node = "" },
		"a long name":                    func(o *cluster.Options) { o.Node = string(bytes.Repeat([]byte("n"), 256)) },
		"rank -1":                        func(o *cluster.Options) { o.Rank = -1 },
		"more in flight than are padded": func(o *cluster.Options) { o.Depth = 9 },
		"a lease of a millisecond":       func(o *cluster.Options) { o.Lease = time.Millisecond },
		"no log":                         func(o *cluster.Options) { o.Log = nil },
		"state of another log":           func(o *cluster.Options) { o.Log = otherGeneration{log} },
	} {
		o := good
		spoil(&o)
		if _, err := cluster.New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
