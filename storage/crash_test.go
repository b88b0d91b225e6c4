package storage

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

var (
	crashSeed  = flag.Uint64("crash.seed", 0, "run this seed of the crash test alone")
	crashSeeds = flag.Int("crash.seeds", 50, "run this many seeds of the crash test (a fifth under -race)")
)

// TestCommittedChangesSurviveACrash crashes a node at random points, keeps a
// random part of what was not synced, and checks that a prefix of the Changes is
// there, whole, and with it all that was committed.
func TestCommittedChangesSurviveACrash(t *testing.T) {
	first, n := uint64(1), *crashSeeds
	if *crashSeed != 0 {
		first, n = *crashSeed, 1
	}
	n = max(1, n/slowdown)
	for seed := first; seed < first+uint64(n); seed++ {
		if err := crashRun(t, seed, SyncCommit); err != nil {
			t.Fatalf("-crash.seed=%d: %v", seed, err)
		}
	}
}

// TestCrashTestSeesLostCommits guards the test above: without fsync it must
// fail.
func TestCrashTestSeesLostCommits(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncNever, SyncInterval} {
		for seed := uint64(1); ; seed++ {
			if err := crashRun(t, seed, policy); err != nil {
				break
			}
			if seed == 10 {
				t.Errorf("policy %d survived %d seeds", policy, seed)
				break
			}
		}
	}
}

// crashRun runs one node through a few crashes. The error tells of a committed
// Change that was lost; all else that goes wrong fails t.
func crashRun(t *testing.T, seed uint64, policy SyncPolicy) error {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newWorkload(func(n int, _ string) int { return rng.IntN(n) })
	fs := vfs.NewCrashableMem()
	history := []*core.Change{nil} // by position
	for range 4 {
		o := small(Options{FS: fs, Sync: policy})
		d, boot := mustOpen(t, o)
		if int(d.pos) != len(history)-1 {
			t.Errorf("seed %d: position %d after a close at %d", seed, d.pos, len(history)-1)
		}
		w.restart(w.model, boot.Term)
		node := &crashNode{t: t, rng: rng, d: d, w: w, fs: fs, history: history}
		clone, survivors := node.run()
		if err := d.Close(); err != nil {
			t.Errorf("seed %d: close: %v", seed, err)
		}
		var err error
		if history, err = node.recover(o, clone, survivors); err != nil {
			return err
		}
		fs = clone
	}
	return nil
}

// crashNode is a node between two crashes.
type crashNode struct {
	t       *testing.T
	rng     *rand.Rand
	d       *DB
	w       *workload
	fs      *vfs.MemFS
	history []*core.Change
}

// run submits Changes and clones the file system at a random point. It returns
// the clone, and the position up to which all was committed before.
func (n *crashNode) run() (*vfs.MemFS, core.Pos) {
	var committed atomic.Uint64
	committed.Store(uint64(len(n.history) - 1))
	changes := 1 + n.rng.IntN(60)
	crashAt := n.rng.IntN(changes)
	percent := []int{0, 30, 70, 100}[n.rng.IntN(4)]
	cloneSeed := n.rng.Uint64()
	var clone *vfs.MemFS
	var survivors core.Pos
	var crashed, pending sync.WaitGroup
	for i := range changes {
		if i == crashAt {
			// Beside the commits that follow.
			crashed.Go(func() {
				survivors = core.Pos(committed.Load())
				clone = n.fs.CrashClone(vfs.CrashCloneCfg{
					UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(cloneSeed, 0)),
				})
			})
		}
		c := n.w.change(12)
		n.history = append(n.history, c)
		pending.Add(1)
		n.d.Submit(c, func(pos core.Pos, err error) {
			if err != nil {
				n.t.Errorf("commit: %v", err)
			}
			committed.Store(uint64(pos))
			pending.Done()
		})
		if n.rng.IntN(5) > 0 {
			pending.Wait()
		}
		if n.rng.IntN(20) == 0 {
			if _, err := n.d.pebble.AsyncFlush(); err != nil {
				n.t.Error(err)
			}
		}
	}
	pending.Wait()
	crashed.Wait()
	return clone, survivors
}

// recover opens the clone, compares it with the prefix of the history that it
// says it holds, and makes that prefix the truth.
func (n *crashNode) recover(o Options, clone *vfs.MemFS, survivors core.Pos) ([]*core.Change, error) {
	o.FS = clone
	d, boot := mustOpen(n.t, o)
	defer func() {
		if err := d.Close(); err != nil {
			n.t.Error(err)
		}
	}()
	if boot.Clean {
		n.t.Error("clean after a crash")
	}
	if d.pos < survivors {
		return nil, fmt.Errorf("changes up to %d were committed, %d are there", survivors, d.pos)
	}
	if int(d.pos) >= len(n.history) {
		n.t.Fatalf("position %d of %d changes", d.pos, len(n.history)-1)
	}
	history := n.history[:d.pos+1]
	truth := newModel()
	for _, c := range history[1:] {
		truth.apply(c)
	}
	own := ownKeys
	if d.pos == 0 {
		own-- // no position yet
	}
	truth.check(n.t, d, own)
	if d.pos > 0 && boot.LastTime != history[d.pos].Time {
		n.t.Errorf("last time %d, want %d", boot.LastTime, history[d.pos].Time)
	}
	n.w.restart(truth, boot.Term)
	return history, nil
}
