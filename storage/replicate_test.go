package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

func at(seq uint64) core.LogPosition {
	return core.LogPosition{Generation: 1, Epoch: 3, Seq: seq, Hash: [16]byte{byte(seq), 7}, Time: int64(1000 + seq)}
}

func replicated(o Options) Options {
	o.Replicated = true
	return o
}

func mustApply(t tb, d *DB, p core.LogPosition, changes ...*core.Change) {
	t.Helper()
	if err := d.Apply(p, changes); err != nil {
		t.Fatal(err)
	}
}

func TestPositionOfTheLogOutlivesARestart(t *testing.T) {
	o := replicated(onMem())
	d, _ := mustOpen(t, o)
	mustApply(t, d, at(2), change(put(ref(1, 1), body(1))), change(put(ref(1, 2), body(2))))
	mustApply(t, d, at(9))
	if got := d.Applied(); got != at(9) {
		t.Errorf("applied %+v, want %+v", got, at(9))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, boot := mustOpen(t, o)
	defer d.Close()
	if got := d.Applied(); got != at(9) || d.Durable() != got {
		t.Errorf("after a restart %+v, durable %+v, want %+v", got, d.Durable(), at(9))
	}
	if boot.LastTime != at(9).Time {
		t.Errorf("last time %d, want that of the log, %d", boot.LastTime, at(9).Time)
	}
	if got := seqs(t, d, 1); fmt.Sprint(got) != fmt.Sprint([]core.Seq{1, 2}) {
		t.Errorf("messages %v", got)
	}
}

func TestRecordIsAppliedOnce(t *testing.T) {
	d := openForTest(t, replicated(onMem()))
	mustApply(t, d, at(5), change(put(ref(1, 1), body(1))))
	older := at(6)
	older.Generation = 0
	for _, p := range []core.LogPosition{at(5), at(4), older} {
		if err := d.Apply(p, []*core.Change{change(drop(ref(1, 1)))}); !errors.Is(err, core.ErrInvalidArgument) {
			t.Errorf("applied %+v again: %v", p, err)
		}
	}
	if got := seqs(t, d, 1); len(got) != 1 {
		t.Errorf("messages %v, want the one", got)
	}
	next := at(1)
	next.Generation = 2
	mustApply(t, d, next)
}

func TestDatabaseIsFedOneWay(t *testing.T) {
	o := onMem()
	d, _ := mustOpen(t, o)
	mustCommit(t, d, put(ref(1, 1), body(1)))
	if err := d.Apply(at(9), nil); !errors.Is(err, ErrAlone) {
		t.Errorf("apply to a database of its own: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	o.Dir, o.Logger = "data", quiet()
	if _, _, err := Open(replicated(o)); !errors.Is(err, ErrAlone) {
		t.Errorf("opened as replicated: %v", err)
	}

	o = onMem()
	d, _ = mustOpen(t, replicated(o))
	mustApply(t, d, at(1))
	if _, err := commit(d, change(put(ref(1, 1), body(1)))); !errors.Is(err, ErrReplicated) {
		t.Errorf("submit to a replicated database: %v", err)
	}
	if got := seqs(t, d, 1); len(got) != 0 {
		t.Errorf("messages %v of a refused Change", got)
	}
	_ = d.Close() // it has failed
	o.FS = o.FS.(*vfs.MemFS)
	o.Dir, o.Logger = "other", quiet()
	d, _ = mustOpen(t, replicated(o))
	mustApply(t, d, at(1))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(o); !errors.Is(err, ErrReplicated) {
		t.Errorf("opened as one of its own: %v", err)
	}
}

// TestCrashLeavesAPrefixOfTheLog loses power at random points: what is left is
// what the stored position says, and reaches to what was synced.
func TestCrashLeavesAPrefixOfTheLog(t *testing.T) {
	for seed := range uint64(20 / slowdown) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewCrashableMem()
		d, _ := mustOpen(t, replicated(small(Options{FS: fs})))
		synced, n := uint64(0), uint64(1+rng.IntN(200))
		for seq := uint64(1); seq <= n; seq++ {
			mustApply(t, d, at(seq), change(put(ref(1, core.Seq(seq)), make([]byte, rng.IntN(4000)))))
			if rng.IntN(20) == 0 {
				p, err := d.SyncApplied()
				if err != nil || p != at(seq) || d.Durable() != p {
					t.Fatalf("seed %d: sync at %d: %+v, %v", seed, seq, p, err)
				}
				synced = seq
			}
		}
		after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d, _ = mustOpen(t, replicated(small(Options{FS: after})))
		p := d.Applied()
		if p.Seq < synced || p.Seq > n || p.Seq > 0 && p != at(p.Seq) {
			t.Errorf("seed %d: position %+v, synced to %d of %d", seed, p, synced, n)
		}
		if got := seqs(t, d, 1); uint64(len(got)) != p.Seq {
			t.Errorf("seed %d: %d messages at position %d", seed, len(got), p.Seq)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
