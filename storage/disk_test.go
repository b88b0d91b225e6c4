package storage

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/leasemq/broker/core"
)

// fullDisk is a disk that lacks space for files that end in suffix while it is
// armed.
func fullDisk(err error, suffix string, kinds ...errorfs.OpKind) *failNth {
	return newFailNth(1, err, func(op errorfs.Op) bool {
		return strings.HasSuffix(op.Path, suffix) && (len(kinds) == 0 || slices.Contains(kinds, op.Kind))
	})
}

func TestLogWaitsForSpace(t *testing.T) {
	for _, scarce := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE} {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			full := fullDisk(scarce, ".log", errorfs.OpFileWrite, errorfs.OpCreate, errorfs.OpReuseForWrite)
			d, _ := mustOpen(t, small(Options{FS: faulty(fs, full)}))
			mustCommit(t, d, put(ref(1, 1), body(1)))
			full.set(true)
			var a answers
			for i := core.Seq(2); i <= 4; i++ {
				a.submit(d, change(put(ref(1, i), body(i))))
			}
			time.Sleep(10 * time.Second)
			if len(a.pos) != 0 || d.Err() != nil {
				t.Errorf("%d answers without space, %v", len(a.pos), d.Err())
			}
			if n := d.Metrics().SpaceWaits; n < 90 || n > 110 {
				t.Errorf("%d tries in 10 s, want about 100", n)
			}
			full.set(false)
			a.all.Wait()
			for i, err := range a.errs {
				if err != nil {
					t.Errorf("answer %d: %v", i, err)
				}
			}
			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d, _ = mustOpen(t, Options{FS: crashed})
			if got := seqs(t, d, 1); !slices.Equal(got, []core.Seq{1, 2, 3, 4}) {
				t.Errorf("messages %v", got)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFlushWithoutSpaceStallsAndGoesOn also covers rotations, which close and
// create log files meanwhile.
func TestFlushWithoutSpaceStallsAndGoesOn(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync} {
		synctest.Test(t, func(t *testing.T) {
			full := fullDisk(syscall.ENOSPC, ".sst", kind, kind+1)
			d, _ := mustOpen(t, small(Options{FS: faulty(vfs.NewMem(), full)}))
			full.set(true)
			const n = 400
			var a answers
			go func() {
				for i := range core.Seq(n) {
					a.submit(d, change(put(ref(1, i+1), make([]byte, 2000))))
				}
			}()
			time.Sleep(20 * time.Second)
			a.mu.Lock()
			stalledAt := len(a.errs)
			a.mu.Unlock()
			if stalledAt == 0 || stalledAt == n {
				t.Errorf("%d answers, want some: writes go on until the memtables are full", stalledAt)
			}
			if e := d.Metrics().BackgroundErrors; e == 0 || e > 201 {
				t.Errorf("%d tries in 20 s: a busy loop, or none", e)
			}
			full.set(false)
			time.Sleep(10 * time.Second)
			a.all.Wait()
			if got := len(seqs(t, d, 1)); got != n || d.Err() != nil {
				t.Errorf("%d messages, want %d; %v", got, n, d.Err())
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCloseDoesNotWaitForSpace: what is not committed by then never is.
func TestCloseDoesNotWaitForSpace(t *testing.T) {
	full := fullDisk(syscall.ENOSPC, ".log", errorfs.OpFileWrite)
	d, _ := mustOpen(t, small(Options{FS: faulty(vfs.NewMem(), full)}))
	full.set(true)
	var a answers
	a.submit(d, change(put(ref(1, 1), body(1))))
	if err := d.Close(); !errors.Is(err, core.ErrStopped) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close gives %v", err)
	}
	a.all.Wait()
	if !errors.Is(a.errs[0], core.ErrStopped) {
		t.Errorf("answer %v", a.errs[0])
	}
}

// TestCloseOfAStalledNodeIsBounded: the memtables are full and cannot be
// flushed.
func TestCloseOfAStalledNodeIsBounded(t *testing.T) {
	full := fullDisk(syscall.ENOSPC, ".sst")
	d, _ := mustOpen(t, small(Options{FS: faulty(vfs.NewMem(), full)}))
	d.drainWait = 10 * time.Millisecond
	full.set(true)
	var a answers
	go func() {
		for i := core.Seq(1); d.Err() == nil; i++ {
			a.submit(d, change(put(ref(1, i), make([]byte, 2000))))
		}
	}()
	for d.Metrics().WriteStalls == 0 {
		runtime.Gosched()
	}
	if err := d.Close(); !errors.Is(err, core.ErrStopped) || !strings.Contains(err.Error(), "stalled") {
		t.Errorf("close gives %v", err)
	}
}

func TestWatermarkCrossingsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 1 << 30
		fs := vfs.NewMem()
		free := func(n uint64) {
			fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: n, TotalBytes: total, UsedBytes: total - n})
		}
		var told []string
		var mu sync.Mutex
		free(500 << 20)
		d, _ := mustOpen(t, Options{FS: fs, FreeBytesMin: 10 << 20, OnDisk: func(full bool, n uint64) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(full, n>>20))
		}})
		expect := func(step string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("%s: told %v, want %v", step, told, want)
			}
		}
		expect("plenty")
		free(9 << 20)
		time.Sleep(time.Minute)
		expect("nobody writes")
		mustCommit(t, d, put(ref(1, 1), body(1)))
		expect("full", "true 9")
		if !d.Metrics().DiskFull {
			t.Error("metrics do not say so")
		}
		free(11 << 20)
		time.Sleep(time.Minute)
		expect("hardly more", "true 9")
		free(20 << 20)
		time.Sleep(time.Second)
		expect("space came back by itself", "true 9", "false 20")
		free(1 << 20)
		mustCommit(t, d, put(ref(1, 2), body(2)))
		time.Sleep(2 * time.Second)
		mustCommit(t, d, put(ref(1, 3), body(3)))
		expect("full again", "true 9", "false 20", "true 1")
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWatermarkIsTheSmallerOfBytesAndFraction(t *testing.T) {
	o := Options{}.withDefaults()
	for _, c := range []struct{ total, want uint64 }{{1 << 40, 5 << 30}, {10 << 30, 512 << 20}, {1 << 30, 144 << 20}, {64 << 20, 16 << 20}} {
		if got := o.watermark(c.total); got != c.want {
			t.Errorf("disk of %d: %d, want %d", c.total, got, c.want)
		}
	}
}

func TestLiveLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := onMem()
		o.Profile = Profile{MemTableBytes: 16 << 20, LiveLogBytesMax: 1 << 20}
		d, _ := mustOpen(t, o)
		most := uint64(0)
		for i := range core.Seq(400) {
			mustCommit(t, d, put(ref(1, i+1), make([]byte, 20_000)))
			synctest.Wait()
			most = max(most, d.Metrics().LiveLogBytes)
		}
		if most > 1<<20+1<<19 {
			t.Errorf("live log of %d bytes", most)
		}
		if d.Metrics().Flushes == 0 {
			t.Error("nothing was flushed")
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestGivenWatermarkIsTaken(t *testing.T) {
	o := Options{FreeBytesMin: 1 << 20}.withDefaults()
	if got := o.watermark(64 << 20); got != 1<<20 {
		t.Errorf("%d, want 1 MiB", got)
	}
}

// TestDiskIsFullWhileWritesFindNoSpace: failed compactions give back what they
// took, and take it again.
func TestDiskIsFullWhileWritesFindNoSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 2 << 30})
		full := fullDisk(syscall.ENOSPC, ".log", errorfs.OpFileWrite)
		d, _ := mustOpen(t, small(Options{FS: faulty(fs, full)}))
		full.set(true)
		var a answers
		a.submit(d, change(put(ref(1, 1), body(1))))
		time.Sleep(10 * time.Second)
		if !d.Metrics().DiskFull {
			t.Error("the log waits for space, and the disk is not called full")
		}
		full.set(false)
		time.Sleep(time.Second)
		if !d.Metrics().DiskFull {
			t.Error("the disk is not called full any more at once")
		}
		time.Sleep(5 * time.Second)
		if d.Metrics().DiskFull {
			t.Error("the disk is called full for ever")
		}
		a.all.Wait()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestCompactionsLeaveSpaceForLogAndFlushes: with little left they wait, but for
// a try now and then.
func TestCompactionsLeaveSpaceForLogAndFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		free := func(n uint64) { fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: n, TotalBytes: 1 << 30}) }
		var mu sync.Mutex
		outputs := 0
		d, _ := mustOpen(t, small(Options{FreeBytesMin: 100 << 20, FreeFractionMin: 0.5, FS: &countingFS{FS: fs, create: func(category vfs.DiskWriteCategory) {
			mu.Lock()
			defer mu.Unlock()
			if category == "pebble-compaction" {
				outputs++
			}
		}}}))
		free(10 << 20)
		for i := range core.Seq(2000) {
			mustCommit(t, d, put(ref(core.QID(i%7), i+1), make([]byte, 2000)))
		}
		mu.Lock()
		if outputs > 2 {
			t.Errorf("%d tables were compacted into the last space", outputs)
		}
		before := outputs
		mu.Unlock()
		if d.Metrics().Flushes < 20 {
			t.Errorf("%d flushes: they should go on", d.Metrics().Flushes)
		}
		free(1 << 30)
		time.Sleep(10 * time.Second)
		mu.Lock()
		if outputs == before {
			t.Error("no compaction when there is space again")
		}
		mu.Unlock()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// countingFS tells of each file that is created.
type countingFS struct {
	vfs.FS
	create func(vfs.DiskWriteCategory)
}

func (f *countingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.create(category)
	return f.FS.Create(name, category)
}

// TestFullDiskFlushesEarly: deletes give space back only once they are flushed.
func TestFullDiskFlushesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: 1 << 30})
		d, _ := mustOpen(t, Options{FS: fs})
		for i := range core.Seq(200) {
			mustCommit(t, d, put(ref(1, i+1), make([]byte, 20_000)))
			synctest.Wait()
		}
		if n := d.Metrics().LiveLogBytes; n > 1<<20+1<<19 {
			t.Errorf("live log of %d bytes on a full disk", n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLogGrowsAheadOfItsData: then an fsync writes data alone.
func TestLogGrowsAheadOfItsData(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, Options{FS: fs})
	sizes := func() (out []int64) {
		t.Helper()
		names, err := fs.List("data")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, ".log") {
				continue
			}
			info, err := fs.Stat(fs.PathJoin("data", name))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, info.Size())
		}
		return out
	}
	mustCommit(t, d, put(ref(1, 1), body(1)))
	before := sizes()
	if len(before) != 1 || before[0] != logAheadBytes {
		t.Errorf("log files of %d bytes after a small commit, want one of %d", before, logAheadBytes)
	}
	for i := core.Seq(2); i <= 100; i++ {
		mustCommit(t, d, put(ref(1, i), body(i)))
	}
	if after := sizes(); !slices.Equal(after, before) {
		t.Errorf("log files of %d bytes grew to %d within what was ahead", before, after)
	}
	mustCommit(t, d, put(ref(1, 101), make([]byte, 3*logAheadBytes)))
	large := false
	for _, n := range sizes() {
		large = large || n == 4*logAheadBytes
	}
	if !large {
		t.Errorf("log files of %d bytes after a large commit, want one of %d", sizes(), 4*logAheadBytes)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
