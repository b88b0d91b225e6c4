package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/clustertest"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

func TestNewestStateWins(t *testing.T) {
	standing := func(node string, generation, epoch uint32, seq uint64, hash byte) cluster.Standing {
		return cluster.Standing{Node: node, At: core.LogPosition{Generation: generation, Epoch: epoch, Seq: seq, Hash: [16]byte{hash}}}
	}
	for name, c := range map[string]struct {
		all  []cluster.Standing
		want string
		err  error
	}{
		"the most records":        {[]cluster.Standing{standing("a", 1, 2, 9, 1), standing("b", 1, 2, 10, 2), standing("c", 1, 2, 8, 3)}, "b", nil},
		"a later epoch":           {[]cluster.Standing{standing("a", 1, 2, 900, 1), standing("b", 1, 3, 10, 2)}, "b", nil},
		"a later generation":      {[]cluster.Standing{standing("a", 2, 2, 0, 1), standing("b", 1, 3, 900, 2)}, "a", nil},
		"equal ones":              {[]cluster.Standing{standing("b", 1, 2, 9, 1), standing("a", 1, 2, 9, 1), standing("c", 1, 2, 9, 1)}, "a", nil},
		"two histories":           {[]cluster.Standing{standing("a", 1, 2, 9, 1), standing("b", 1, 2, 9, 2)}, "", cluster.ErrDiverged},
		"two histories, and more": {[]cluster.Standing{standing("a", 1, 2, 9, 1), standing("b", 1, 2, 9, 2), standing("c", 1, 2, 10, 3)}, "c", nil},
		"one without a state":     {[]cluster.Standing{{Node: "a"}, standing("b", 1, 1, 1, 1)}, "b", nil},
		"no state":                {[]cluster.Standing{{Node: "a"}, {Node: "b"}}, "", core.ErrInvalidArgument},
		"nobody":                  {nil, "", core.ErrInvalidArgument},
	} {
		for range 10 {
			rand.Shuffle(len(c.all), func(i, j int) { c.all[i], c.all[j] = c.all[j], c.all[i] })
			got, err := cluster.Newest(c.all)
			if got.Node != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("%s: %q, %v, want %q, %v", name, got.Node, err, c.want, c.err)
			}
		}
	}
}

// generation is a log of another generation.
type generation struct {
	cluster.Log
	n uint32
}

func (g generation) Generation() uint32 { return g.n }

// seedWorld is a cluster on real storage whose log is lost.
type seedWorld struct {
	t   *testing.T
	log *clustertest.Server
	n   uint32 // generation of it
	dbs []*storage.DB
}

func (w *seedWorld) quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newLog starts the log of the next generation.
func (w *seedWorld) newLog() {
	w.n++
	w.log = clustertest.NewServer(rand.New(rand.NewPCG(1, uint64(w.n))), testLease)
}

func (w *seedWorld) open(fs vfs.FS, dir string) *storage.DB {
	w.t.Helper()
	db, _, err := storage.Open(storage.Options{FS: fs, Dir: dir, Replicated: true, Logger: w.quiet()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.dbs = append(w.dbs, db)
	return db
}

func (w *seedWorld) member(db *storage.DB, rank int, lead func(context.Context, *cluster.Lease) error) (*cluster.Member, error) {
	return cluster.New(cluster.Options{
		Node: fmt.Sprint("n", rank), Rank: rank, Store: db, Lead: lead, Lease: testLease, Logger: w.quiet(),
		Log: generation{w.log.Connect(&clustertest.Gate{}, clustertest.Faults{}), w.n},
	})
}

// write leads, and has that many Changes committed.
func (w *seedWorld) write(db *storage.DB, n int) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	m, err := w.member(db, 0, func(_ context.Context, l *cluster.Lease) error {
		defer stop()
		for i := range n {
			done := make(chan error, 1)
			key := fmt.Sprintf("g%d/%d/%d", w.n, l.Epoch(), i)
			l.Submit(&core.Change{Time: 1, Edits: []core.Edit{{Kind: core.EditPutRecord, Key: []byte(key), Value: []byte(key)}}},
				func(_ core.Pos, err error) { done <- err })
			if err := <-done; err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = m.Run(ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// follow follows the log for a while, and returns how that ended.
func (w *seedWorld) follow(db *storage.DB) error {
	w.t.Helper()
	m, err := w.member(db, 9, func(context.Context, *cluster.Lease) error { return nil })
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(w.t.Context(), testLease/2)
	defer stop()
	return m.Run(ctx)
}

func (w *seedWorld) digest(db *storage.DB) [32]byte {
	w.t.Helper()
	_, sum, err := db.Digest(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

// TestReseedBeginsAGeneration loses the log, and goes on from the newest state.
func TestReseedBeginsAGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &seedWorld{t: t}
		w.newLog()
		fs := vfs.NewCrashableMem()
		base, behind, other := w.open(fs, "base"), w.open(fs, "behind"), w.open(fs, "other")
		w.write(base, 20)
		if err := w.follow(behind); err != nil {
			t.Fatal(err)
		}
		if err := w.follow(other); err != nil {
			t.Fatal(err)
		}
		w.write(base, 20)

		w.newLog() // the old one is gone
		for name, db := range map[string]*storage.DB{"of the generation before": base, "that is empty": w.open(fs, "empty")} {
			if _, err := w.member(db, 1, func(context.Context, *cluster.Lease) error { return nil }); !errors.Is(err, cluster.ErrGeneration) {
				t.Errorf("a state %s: %v", name, err)
			}
		}
		newest, err := cluster.Newest([]cluster.Standing{{Node: "behind", At: behind.Applied()}, {Node: "base", At: base.Applied()}})
		if err != nil || newest.Node != "base" {
			t.Fatalf("the newest is %+v, %v", newest, err)
		}
		before := w.digest(base)
		at, err := cluster.Reseed(base, 2)
		if err != nil || at.Generation != 2 || at.Seq != 0 || at.Epoch != newest.At.Epoch || at.Time != newest.At.Time || at.Hash == newest.At.Hash {
			t.Fatalf("reseeded to %+v, %v, from %+v", at, err, newest.At)
		}
		if w.digest(base) != before {
			t.Error("reseeding changed the state")
		}
		fs = fs.CrashClone(vfs.CrashCloneCfg{}) // power is lost
		base = w.open(fs, "base")
		if again, err := cluster.Reseed(base, 2); err != nil || again != at || base.Applied() != at {
			t.Errorf("again, after a crash: %+v, %v", again, err)
		}
		if _, err := base.Checkpoint("copy"); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Reseed(other, 2); err != nil { // by mistake: it is not the newest
			t.Fatal(err)
		}
		w.write(base, 10)
		if base.Applied().Epoch <= newest.At.Epoch {
			t.Errorf("epoch %d does not follow %d", base.Applied().Epoch, newest.At.Epoch)
		}
		if err := w.follow(other); !errors.Is(err, cluster.ErrDiverged) {
			t.Errorf("a node that goes on from another state: %v", err)
		}
		if err := w.follow(behind); !errors.Is(err, cluster.ErrGeneration) {
			t.Errorf("a node that stayed behind: %v", err)
		}
		copied := w.open(fs, "copy")
		if err := w.follow(copied); err != nil {
			t.Fatal(err)
		}
		if w.digest(copied) != w.digest(base) || copied.Applied().Hash != base.Applied().Hash {
			t.Errorf("the copy is at %+v, not at %+v", copied.Applied(), base.Applied())
		}
		for _, db := range w.dbs {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestReseedIsRefused(t *testing.T) {
	w := &seedWorld{t: t}
	db := w.open(vfs.NewMem(), "data")
	defer db.Close()
	if _, err := cluster.Reseed(db, 2); !errors.Is(err, core.ErrInvalidArgument) {
		t.Errorf("of no state: %v", err)
	}
	if err := db.Apply(core.LogPosition{Generation: 3, Epoch: 1, Seq: 7}, nil); err != nil {
		t.Fatal(err)
	}
	for _, to := range []uint32{0, 2, 3} {
		if at, err := cluster.Reseed(db, to); !errors.Is(err, core.ErrInvalidArgument) || db.Applied() != at {
			t.Errorf("from generation 3 to %d: %+v, %v", to, at, err)
		}
	}
}
