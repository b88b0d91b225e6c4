package storage

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

func TestCheckpointEqualsTheDatabaseOfItsMoment(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	w := newWorkload(func(n int, _ string) int { return rng.IntN(n) })
	d := openForTest(t, small(Options{Dir: filepath.Join(dir, "data"), Sync: SyncNever}))
	then := newModel()
	run := func(models ...*model) {
		for range 100 {
			c := w.change(10)
			for _, m := range models {
				m.apply(c)
			}
			if _, err := commit(d, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(then)
	if at, err := d.Checkpoint(filepath.Join(dir, "copy")); err != nil || at.Seq != 100 {
		t.Fatalf("checkpoint at %d: %v", at.Seq, err)
	}
	run()
	w.model.check(t, d, ownKeys)

	copied, boot := mustOpen(t, small(Options{Dir: filepath.Join(dir, "copy")}))
	then.check(t, copied, ownKeys)
	if boot.Clean || boot.Term != 2 || copied.pos != 100 {
		t.Errorf("the copy opens with %+v at position %d", boot, copied.pos)
	}
	if err := copied.Close(); err != nil {
		t.Error(err)
	}
}

// TestCheckpointDuringCommitsHoldsAPrefix takes copies beside a stream of
// commits.
func TestCheckpointDuringCommitsHoldsAPrefix(t *testing.T) {
	fs := vfs.NewMem()
	d := openForTest(t, small(Options{FS: fs}))
	var a answers
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := core.Seq(1); ; i++ {
			select {
			case <-stop:
				return
			default:
				a.submit(d, change(put(ref(1, i), make([]byte, 500))))
			}
		}
	}()
	for _, name := range []string{"a", "b", "c"} {
		mustCommitted := d.commits.Load()
		for d.commits.Load() < mustCommitted+20 {
			if d.Err() != nil {
				t.Fatal(d.Err())
			}
		}
		a.mu.Lock()
		committed := len(a.pos)
		a.mu.Unlock()
		at, err := d.Checkpoint(name)
		if err != nil {
			t.Fatal(err)
		}
		copied, _ := mustOpen(t, small(Options{FS: fs, Dir: name}))
		got := seqs(t, copied, 1)
		if len(got) < committed || len(got) != int(copied.pos) || at.Seq != uint64(copied.pos) {
			t.Errorf("copy %s, said to be at %d: %d messages at position %d, %d were committed", name, at.Seq, len(got), copied.pos, committed)
		}
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-stopped
	a.all.Wait()
}

func TestCheckpointIsRefusedWhereThereIsNone(t *testing.T) {
	d := openForTest(t, Options{Memory: true})
	if _, err := d.Checkpoint("copy"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("in memory: %v", err)
	}
	d = openForTest(t, onMem())
	for i, want := range []bool{true, false} {
		if _, err := d.Checkpoint("copy"); (err == nil) != want {
			t.Errorf("checkpoint %d into the same directory: %v", i, err)
		}
	}
}
