package storage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/leasemq/broker/core"
)

func TestOpenMakesTheDirectoryForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	openForTest(t, Options{Dir: dir})
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("mode %o, want 700", got)
	}
}

func TestEachOpenBeginsANewTerm(t *testing.T) {
	fs := vfs.NewMem()
	for want := uint32(1); want <= 3; want++ {
		d, boot := mustOpen(t, Options{FS: fs})
		if boot.Term != want {
			t.Errorf("term %d, want %d", boot.Term, want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTermIsDurableWhenOpenReturns(t *testing.T) {
	fs := vfs.NewCrashableMem()
	d, first := mustOpen(t, Options{FS: fs})
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, second := mustOpen(t, Options{FS: crashed})
	defer d.Close()
	if second.Term != first.Term+1 {
		t.Errorf("term %d after a crash in term %d", second.Term, first.Term)
	}
}

// TestOpenNeverHidesAFailure fails each write operation of an open in turn, of a
// new database and of one with a log to replay.
func TestOpenNeverHidesAFailure(t *testing.T) {
	used := vfs.NewCrashableMem()
	d, _ := mustOpen(t, small(Options{FS: used}))
	for i := range core.Seq(50) {
		mustCommit(t, d, put(ref(1, i+1), make([]byte, 2000)))
	}
	for name, fs := range map[string]*vfs.MemFS{"new": vfs.NewCrashableMem(), "used": used} {
		failures := 0
		for n := 1; ; n++ {
			fs := fs.CrashClone(vfs.CrashCloneCfg{})
			inject := newFailNth(n, errors.New("injected"), func(errorfs.Op) bool { return true })
			inject.set(true)
			o := small(Options{FS: faulty(fs, inject), Dir: "data", Logger: quiet()})
			d, boot, err := Open(o)
			inject.set(false)
			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			if err != nil {
				failures++
			} else if err := d.Close(); err != nil && !errors.Is(err, core.ErrStopped) {
				t.Errorf("%s, n=%d: close: %v", name, n, err)
			}
			// A first open that failed may have left half a database.
			again, next, openErr := Open(small(Options{FS: crashed, Dir: "data", Logger: quiet()}))
			if openErr != nil {
				t.Errorf("%s, n=%d: after %v the next open gives %v", name, n, err, openErr)
				continue
			}
			if err == nil && next.Term <= boot.Term {
				t.Errorf("%s, n=%d: term %d was given out twice", name, n, boot.Term)
			}
			if got := len(seqs(t, again, 1)); name == "used" && got != 50 {
				t.Errorf("%s, n=%d: %d messages", name, n, got)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			if !inject.failing() {
				break
			}
		}
		if failures < 20 {
			t.Errorf("%s: only %d opens failed", name, failures)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestTermsEndWithTheirBits(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, Options{FS: fs})
	if err := d.pebble.Set([]byte(keyTerm), appendNumber(nil, termVersion, termMax), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(Options{FS: fs, Dir: "data", Logger: quiet()}); err == nil || !strings.Contains(err.Error(), "terms are used up") {
		t.Errorf("got %v", err)
	}
}

func TestCleanIsToldOnlyAfterAClose(t *testing.T) {
	fs := vfs.NewCrashableMem()
	d, boot := mustOpen(t, Options{FS: fs})
	if !boot.Clean {
		t.Error("a new database is not clean")
	}
	running := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	closed := fs.CrashClone(vfs.CrashCloneCfg{})

	d, boot = mustOpen(t, Options{FS: running})
	if boot.Clean {
		t.Error("clean after a crash")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, boot = mustOpen(t, Options{FS: closed})
	if !boot.Clean {
		t.Error("not clean after a close")
	}
	reopened := closed.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, boot = mustOpen(t, Options{FS: reopened})
	defer d.Close()
	if boot.Clean {
		t.Error("the mark of the close before last was still there")
	}
}

func TestPositionAndTimeGoOnAfterAReopen(t *testing.T) {
	fs := vfs.NewMem()
	d, boot := mustOpen(t, Options{FS: fs})
	if boot.LastTime != 0 {
		t.Errorf("last time %d of a new database", boot.LastTime)
	}
	for want := core.Pos(1); want <= 3; want++ {
		pos, err := commit(d, &core.Change{Time: 1_700_000_000_000 + int64(want), Edits: []core.Edit{put(ref(1, core.Seq(want)), body(1))}})
		if pos != want || err != nil {
			t.Fatalf("position %d, %v; want %d", pos, err, want)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, boot = mustOpen(t, Options{FS: fs})
	defer d.Close()
	if boot.LastTime != 1_700_000_000_003 {
		t.Errorf("last time %d", boot.LastTime)
	}
	if pos := mustCommit(t, d); pos != 4 {
		t.Errorf("position %d after a reopen, want 4", pos)
	}
}

func TestUnknownFormatIsRefusedAndLeftAlone(t *testing.T) {
	for _, c := range []struct {
		format uint32
		err    error
		says   string
	}{
		{FormatVersion + 1, ErrNewerFormat, "its format is 4, this binary knows up to 3"},
		{formatVersionMin - 1, ErrOlderFormat, "its format is 1, this binary knows 2 and later"},
	} {
		fs := vfs.NewMem()
		d, _ := mustOpen(t, Options{FS: fs})
		v := append(appendNumber(nil, 2, c.format), "more that a later version may say"...)
		if err := d.pebble.Set([]byte(keyFormat), v, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, _, err := Open(Options{FS: fs, Dir: "data", Logger: quiet()})
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("format %d: got %v", c.format, err)
			}
		}
	}
}

func TestForeignDatabaseIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	p, err := pebble.Open("data", &pebble.Options{FS: fs, Logger: pebbleLogger{log: quiet()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Set([]byte("k"), nil, pebble.Sync), p.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(Options{FS: fs, Dir: "data", Logger: quiet()}); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v", err)
	}
}

func TestDirectoryInUseIsRefused(t *testing.T) {
	for _, o := range []Options{{Dir: t.TempDir()}, onMem()} {
		d, _ := mustOpen(t, o)
		again := d.opts
		if _, _, err := Open(again); !errors.Is(err, ErrLocked) {
			t.Errorf("second open: %v, want ErrLocked", err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d, _ = mustOpen(t, again)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDirectoryInUseByAnotherProcessIsRefused runs this test again as the other
// process.
func TestDirectoryInUseByAnotherProcessIsRefused(t *testing.T) {
	const variable = "STORAGE_TEST_LOCKED_DIR"
	if dir := os.Getenv(variable); dir != "" {
		if _, _, err := Open(Options{Dir: dir, Logger: quiet()}); !errors.Is(err, ErrLocked) {
			t.Errorf("got %v, want ErrLocked", err)
		}
		return
	}
	dir := t.TempDir()
	openForTest(t, Options{Dir: dir})
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for _, o := range []Options{
		{},
		{Dir: "d", Sync: 3},
		{Dir: "d", SyncInterval: -1},
		{Dir: "d", Profile: Profile{MemTablesMax: 1}},
		{Dir: "d", FreeFractionMin: 1},
	} {
		o.FS = vfs.NewMem()
		if d, _, err := Open(o); err == nil {
			t.Errorf("%+v was taken", o)
			d.Close()
		}
	}
}

func TestMemTablesFitASmallDisk(t *testing.T) {
	for _, c := range []struct {
		total uint64
		want  int
	}{{1 << 40, 40 << 20}, {4 << 30, 40 << 20}, {2 << 30, 32 << 20}, {256 << 20, 4 << 20}, {16 << 20, 1 << 20}} {
		p := ProfileDefault()
		p.fitDisk(c.total)
		if p.MemTableBytes != c.want {
			t.Errorf("disk of %d: memtables of %d, want %d", c.total, p.MemTableBytes, c.want)
		}
	}
	p := Profile{MemTableBytes: 64 << 10}
	p.fitDisk(1 << 20)
	if p.MemTableBytes != 64<<10 {
		t.Errorf("memtables grew to %d", p.MemTableBytes)
	}
}

func TestReadsAfterCloseAreRefused(t *testing.T) {
	d, _ := mustOpen(t, onMem())
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Message(ref(1, 1)); !errors.Is(err, core.ErrStopped) {
		t.Errorf("Message: %v", err)
	}
	if err := d.Names("", "", func(string, core.QID) bool { return true }); !errors.Is(err, core.ErrStopped) {
		t.Errorf("Names: %v", err)
	}
	if _, err := d.Checkpoint("copy"); !errors.Is(err, core.ErrStopped) {
		t.Errorf("Checkpoint: %v", err)
	}
	if _, err := commit(d, change(put(ref(1, 1), nil))); !errors.Is(err, core.ErrStopped) {
		t.Errorf("Submit: %v", err)
	}
	_ = d.Metrics()
}

func TestCloseWaitsForReadsThatMayReadOn(t *testing.T) {
	d, _ := mustOpen(t, onMem())
	mustCommit(t, d, put(ref(1, 1), body(1)), put(ref(1, 2), body(2)))
	closed := make(chan error, 1)
	var n int
	err := d.Messages(1, core.Place{}, 0, core.SeqMax, func(s core.Seq, record []byte) bool {
		if n++; n == 1 {
			go func() { closed <- d.Close() }()
			// Reads are refused only once Close has come as far as to wait for this one.
			for {
				if _, err := d.Message(ref(1, 1)); errors.Is(err, core.ErrStopped) {
					break
				}
			}
		}
		if string(record) != string(body(s)) {
			t.Errorf("record of %d is %q", s, record)
		}
		return true
	})
	if n != 2 || err != nil {
		t.Errorf("walked %d messages, %v", n, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
