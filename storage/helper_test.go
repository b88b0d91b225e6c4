package storage

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/leasemq/broker/core"
)

// quiet is the logger of tests that make storage complain.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// tb is what helpers need of testing.TB and of rapid.T.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// mustOpen opens a database that the test closes itself.
func mustOpen(t tb, o Options) (*DB, core.Boot) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	if o.Dir == "" {
		o.Dir = "data"
	}
	d, boot, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d, boot
}

// openForTest opens a database that is closed when the test ends.
func openForTest(t testing.TB, o Options) *DB {
	t.Helper()
	d, _ := mustOpen(t, o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// memory options: the engine with a log on a memory file system.
func onMem() Options { return Options{FS: vfs.NewMem()} }

// small shrinks the memtables so that flushes and compactions happen.
func small(o Options) Options {
	o.Profile = Profile{MemTableBytes: 64 << 10, CacheBytes: 1 << 20}
	return o
}

func ref(q core.QID, seq core.Seq) core.Ref { return core.Ref{QID: q, Seq: seq} }

func body(seq core.Seq) []byte { return fmt.Appendf(nil, "body of %d", seq) }

func put(r core.Ref, record []byte) core.Edit {
	return core.Edit{Kind: core.EditPutMessage, Ref: r, Value: record}
}

func drop(r core.Ref) core.Edit { return core.Edit{Kind: core.EditDropMessage, Ref: r} }

func change(edits ...core.Edit) *core.Change { return &core.Change{Time: 1, Edits: edits} }

// commit submits c and waits for its answer.
func commit(d *DB, c *core.Change) (core.Pos, error) {
	type answer struct {
		pos core.Pos
		err error
	}
	got := make(chan answer, 1)
	d.Submit(c, func(pos core.Pos, err error) { got <- answer{pos, err} })
	a := <-got
	return a.pos, a.err
}

func mustCommit(t tb, d *DB, edits ...core.Edit) core.Pos {
	t.Helper()
	pos, err := commit(d, change(edits...))
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// seqs returns the sequences of the messages in the tail lane of q.
func seqs(t tb, d *DB, q core.QID) []core.Seq {
	t.Helper()
	var out []core.Seq
	err := d.Messages(q, core.Place{}, 0, core.SeqMax, func(s core.Seq, _ []byte) bool {
		out = append(out, s)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answers collects what done was called with.
type answers struct {
	mu   sync.Mutex
	pos  []core.Pos
	errs []error
	all  sync.WaitGroup
}

// submit submits c and counts its answer.
func (a *answers) submit(d *DB, c *core.Change) {
	a.all.Add(1)
	d.Submit(c, func(pos core.Pos, err error) {
		a.mu.Lock()
		a.pos, a.errs = append(a.pos, pos), append(a.errs, err)
		a.mu.Unlock()
		a.all.Done()
	})
}

// faulty wraps fs like errorfs.Wrap, and its recycled files too, which
// errorfs leaves as they are.
func faulty(fs vfs.FS, inject errorfs.Injector) vfs.FS {
	return &faultyFS{FS: errorfs.Wrap(fs, inject), inject: inject}
}

type faultyFS struct {
	*errorfs.FS
	inject errorfs.Injector
}

func (f *faultyFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(file, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = newname
		return f.inject.MaybeError(op)
	})), nil
}
