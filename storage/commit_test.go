package storage

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/leasemq/broker/core"
)

func TestAnswersComeInOrderUnderEachPolicy(t *testing.T) {
	for name, o := range map[string]Options{
		"commit":   {Sync: SyncCommit},
		"interval": {Sync: SyncInterval},
		"never":    {Sync: SyncNever},
		"memory":   {Memory: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !o.Memory {
				o.FS = vfs.NewMem()
			}
			d := openForTest(t, small(o))
			var a answers
			const n = 500
			for i := range core.Seq(n) {
				a.submit(d, change(put(ref(1, i+1), make([]byte, 1000))))
			}
			a.all.Wait()
			for i := range n {
				if a.pos[i] != core.Pos(i+1) || a.errs[i] != nil {
					t.Fatalf("answer %d: position %d, %v", i, a.pos[i], a.errs[i])
				}
			}
			if got := seqs(t, d, 1); len(got) != n {
				t.Errorf("%d messages, want %d", len(got), n)
			}
			if m := d.Metrics(); m.Commits != n || (m.Syncs > 0) == o.Memory {
				t.Errorf("%d commits, %d syncs", m.Commits, m.Syncs)
			}
		})
	}
}

func TestCommittedChangeIsVisibleWhenAnswered(t *testing.T) {
	d := openForTest(t, onMem())
	seen := make(chan error, 1)
	d.Submit(change(put(ref(1, 1), body(1))), func(core.Pos, error) {
		v, err := d.Message(ref(1, 1))
		if string(v) != string(body(1)) {
			err = fmt.Errorf("message reads %q, %v", v, err)
		}
		seen <- err
	})
	if err := <-seen; err != nil {
		t.Error(err)
	}
}

func TestSubmitTakesNoHoldOfTheChange(t *testing.T) {
	d := openForTest(t, onMem())
	var a answers
	record := make([]byte, 10)
	c := change()
	for i := range core.Seq(100) {
		copy(record, fmt.Sprintf("%010d", i))
		c.Edits = append(c.Edits[:0], put(ref(1, i+1), record))
		a.submit(d, c)
	}
	a.all.Wait()
	var n core.Seq
	err := d.Messages(1, core.Place{}, 0, core.SeqMax, func(s core.Seq, v []byte) bool {
		if string(v) != fmt.Sprintf("%010d", n) {
			t.Errorf("record %d is %q", s, v)
		}
		n++
		return true
	})
	if n != 100 || err != nil {
		t.Errorf("%d records, %v", n, err)
	}
}

// TestChangeLargerThanAMemTable takes Pebble's path for large batches.
func TestChangeLargerThanAMemTable(t *testing.T) {
	fs := vfs.NewCrashableMem()
	d, _ := mustOpen(t, small(Options{FS: fs}))
	big := make([]byte, 1<<20)
	for i := range core.Seq(5) {
		mustCommit(t, d, put(ref(1, 2*i+1), big), put(ref(1, 2*i+2), body(i)))
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, _ = mustOpen(t, small(Options{FS: crashed}))
	defer d.Close()
	if got := len(seqs(t, d, 1)); got != 10 {
		t.Errorf("%d messages, want 10", got)
	}
}

func TestSubmitBlocksWhenThePipelineIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := mustOpen(t, onMem())
		hold, answered := make(chan struct{}), 0
		submitted := 0
		go func() {
			for i := range core.Seq(2 * pipelineDepth) {
				d.Submit(change(put(ref(1, i+1), nil)), func(core.Pos, error) {
					<-hold
					answered++
				})
				submitted++
			}
		}()
		synctest.Wait()
		if submitted != pipelineDepth {
			t.Errorf("%d changes taken without an answer, want %d", submitted, pipelineDepth)
		}
		close(hold)
		synctest.Wait()
		if submitted != 2*pipelineDepth || answered != submitted {
			t.Errorf("%d changes taken, %d answered", submitted, answered)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestIntervalSyncsOnlyWhatWasCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		d, _ := mustOpen(t, Options{FS: fs, Sync: SyncInterval, SyncInterval: time.Minute})
		before := d.Metrics().Syncs
		time.Sleep(time.Hour)
		if got := d.Metrics().Syncs; got != before {
			t.Errorf("%d fsyncs while nothing was committed", got-before)
		}
		mustCommit(t, d, put(ref(1, 1), body(1)))
		mustCommit(t, d, put(ref(1, 2), body(2)))
		early := fs.CrashClone(vfs.CrashCloneCfg{})
		time.Sleep(time.Minute)
		synctest.Wait()
		late := fs.CrashClone(vfs.CrashCloneCfg{})
		if got := d.Metrics().Syncs; got != before+1 {
			t.Errorf("%d fsyncs for one interval", got-before)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			fs   vfs.FS
			want int
		}{{early, 0}, {late, 2}} {
			d, _ := mustOpen(t, Options{FS: c.fs})
			if got := len(seqs(t, d, 1)); got != c.want {
				t.Errorf("%d messages after a crash, want %d", got, c.want)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestBrokenChangeStopsTheNode(t *testing.T) {
	d, _ := mustOpen(t, onMem())
	mustCommit(t, d, put(ref(1, 1), body(1)))
	_, err := commit(d, change(core.Edit{Kind: 99}))
	if !errors.Is(err, core.ErrStopped) || !strings.Contains(err.Error(), "unknown kind") {
		t.Errorf("got %v", err)
	}
	<-d.Failed()
	if _, again := commit(d, change(put(ref(1, 2), body(2)))); again != err {
		t.Errorf("later change got %v, want the first error", again)
	}
	if got := seqs(t, d, 1); !slices.Equal(got, []core.Seq{1}) {
		t.Errorf("messages %v: reads go on, and show what was committed", got)
	}
	if got := d.Close(); !errors.Is(got, core.ErrStopped) {
		t.Errorf("close: %v", got)
	}
	// Nothing was wedged, so the directory is free again.
	d, boot := mustOpen(t, d.opts)
	defer d.Close()
	if boot.Clean {
		t.Error("clean after a failure")
	}
}

// failNth fails the n-th write operation (from 1) that match takes, and all
// later ones, once it is armed.
type failNth struct {
	match func(errorfs.Op) bool
	n     int
	err   error

	mu   sync.Mutex
	on   bool
	seen int
}

func newFailNth(n int, err error, match func(errorfs.Op) bool) *failNth {
	return &failNth{match: match, n: n, err: err}
}

func (f *failNth) String() string { return "failNth" }

func (f *failNth) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// failing tells whether an error has been injected.
func (f *failNth) failing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen >= f.n
}

func (f *failNth) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpRemove || op.Kind == errorfs.OpFilePreallocate || !f.match(op) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on {
		return nil
	}
	if f.seen++; f.seen >= f.n {
		return f.err
	}
	return nil
}

func logOrManifest(op errorfs.Op) bool {
	return strings.HasSuffix(op.Path, ".log") || strings.Contains(op.Path, "MANIFEST") ||
		strings.Contains(op.Path, "marker.") || op.Path == "data"
}

// TestFailedLogNeverReportsACommit fails each write operation on log and
// manifest in turn: creations, writes, fsyncs, closes, rotations.
func TestFailedLogNeverReportsACommit(t *testing.T) {
	for name, c := range map[string]struct{ together, failuresMin int }{
		"one at a time": {1, 190},
		"pipelined":     {pipelineDepth, 40},
	} {
		t.Run(name, func(t *testing.T) {
			failures := 0
			for n := 1; failsAt(t, n, c.together); n++ {
				failures++
			}
			if failures < c.failuresMin {
				t.Errorf("only %d failures stopped the node: the test does not test", failures)
			}
		})
	}
}

// failsAt runs a node whose n-th operation on log or manifest fails, and tells
// whether it came as far.
func failsAt(t *testing.T, n, together int) bool {
	fs := vfs.NewCrashableMem()
	inject := newFailNth(n, errors.New("injected"), logOrManifest)
	d, _ := mustOpen(t, small(Options{FS: faulty(fs, inject)}))
	inject.set(true)
	var a answers
	for i := range core.Seq(100) {
		a.submit(d, change(put(ref(1, i+1), make([]byte, 2000))))
		if (int(i)+1)%together == 0 {
			a.all.Wait()
		}
	}
	a.all.Wait()
	failed := d.Err() != nil
	_, err := commit(d, change())
	if failed && !errors.Is(err, core.ErrStopped) {
		t.Errorf("n=%d: failed, and a later commit gives %v", n, err)
	}
	good := checkFailedAnswers(t, n, &a)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); failed && err == nil {
		t.Errorf("n=%d: close hides the failure", n)
	}
	checkSurvivors(t, n, crashed, good)
	return inject.failing()
}

// checkFailedAnswers checks that no success comes after an error, and returns
// how many came before.
func checkFailedAnswers(t *testing.T, n int, a *answers) int {
	t.Helper()
	good := len(a.errs)
	for i, err := range a.errs {
		if err != nil && good == len(a.errs) {
			good = i
		}
		if err == nil && i > good {
			t.Errorf("n=%d: change %d was committed after a failure", n, i)
		}
	}
	return good
}

func checkSurvivors(t *testing.T, n int, fs vfs.FS, committed int) {
	t.Helper()
	d, _ := mustOpen(t, small(Options{FS: fs}))
	defer d.Close()
	got := seqs(t, d, 1)
	if len(got) < committed {
		t.Errorf("n=%d: %d messages after the crash, %d were committed", n, len(got), committed)
	}
	for i, s := range got {
		if s != core.Seq(i+1) {
			t.Errorf("n=%d: message %d is %d: a hole", n, i, s)
			return
		}
	}
}

func TestFailedFsyncStopsTheNodeUnderEachPolicy(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncCommit, SyncInterval, SyncNever} {
		inject := newFailNth(1, errors.New("injected"), func(op errorfs.Op) bool {
			return strings.HasSuffix(op.Path, ".log") && op.Kind == errorfs.OpFileSyncData
		})
		d, _ := mustOpen(t, small(Options{FS: faulty(vfs.NewMem(), inject), Sync: policy}))
		inject.set(true)
		for i := core.Seq(1); ; i++ {
			if _, err := commit(d, change(put(ref(1, i), make([]byte, 2000)))); err != nil {
				break
			}
		}
		<-d.Failed()
		if err := d.Close(); !errors.Is(err, core.ErrStopped) || !strings.Contains(err.Error(), "fsync") {
			t.Errorf("policy %d: close gives %v", policy, err)
		}
	}
}

func TestFailedTableWriteStopsTheNode(t *testing.T) {
	inject := newFailNth(1, errors.New("injected"), func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") })
	d, _ := mustOpen(t, small(Options{FS: faulty(vfs.NewMem(), inject)}))
	inject.set(true)
	var last error
	for i := core.Seq(1); last == nil; i++ {
		_, last = commit(d, change(put(ref(1, i), make([]byte, 2000))))
	}
	if !errors.Is(last, core.ErrStopped) || !strings.Contains(last.Error(), ".sst") {
		t.Errorf("got %v", last)
	}
	if err := d.Close(); !errors.Is(err, core.ErrStopped) {
		t.Errorf("close: %v", err)
	}
}

// TestNothingRunsAfterClose looks for goroutines that are left.
func TestNothingRunsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The bubble fails if a goroutine is left when the test ends.
		d, _ := mustOpen(t, small(Options{FS: vfs.NewMem(), Sync: SyncInterval}))
		for i := range core.Seq(200) {
			mustCommit(t, d, put(ref(1, i+1), make([]byte, 2000)))
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		runtime.Gosched()
	})
}
