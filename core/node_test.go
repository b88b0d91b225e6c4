package core_test

import (
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// failer is what a node needs of a test; rapid's T has it too.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// node is an engine on storage, on a file system that outlives both.
type node struct {
	t      failer
	fs     vfs.FS
	gate   *gate
	db     *storage.DB
	boot   core.Boot
	engine *core.Engine
	client *core.Client
	tune   func(o *core.Options)
	opened func(e *core.Engine)
}

// open opens storage and engine anew.
func (n *node) open() {
	n.t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	db, boot, err := storage.Open(storage.Options{
		Dir: "data", FS: n.fs, Logger: quiet,
		Profile: storage.Profile{MemTableBytes: 1 << 20, CacheBytes: 4 << 20},
	})
	if err != nil {
		n.t.Fatalf("open storage: %v", err)
	}
	n.db, n.boot = db, boot
	if n.gate == nil {
		n.gate = newGate()
	}
	n.gate.through(db)
	o := core.Options{Store: db, Committer: n.gate, Boot: boot, Logger: quiet}
	if n.tune != nil {
		n.tune(&o)
	}
	if n.engine, err = core.Open(o); err != nil {
		n.t.Fatalf("open engine: %v", err)
	}
	if n.opened != nil {
		n.opened(n.engine)
	}
	n.client = n.engine.Client(core.Principal{})
}

// close closes both in order. After a failed commit neither is clean.
func (n *node) close() {
	n.t.Helper()
	n.gate.release()
	if err := n.engine.Close(); err != nil && !errors.Is(err, errNoDisk) {
		n.t.Errorf("close engine: %v", err)
	}
	if err := n.db.Close(); err != nil {
		n.t.Errorf("close storage: %v", err)
	}
}

// crash goes on with what had been synced. What was held back never commits.
func (n *node) crash() {
	n.t.Helper()
	after := n.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
	n.gate.fail()
	n.close()
	n.fs, n.gate = after, n.gate.again()
	n.open()
}

// gate stands before the committer: it shows what goes through, and can hold it
// back or make it fail.
type gate struct {
	mu      sync.Mutex
	cond    sync.Cond
	to      core.Committer
	held    bool
	allowed int // Changes that go through though it is held
	err     error
	seen    func(c *core.Change)
}

var errNoDisk = errors.New("the disk is gone")

func newGate() *gate {
	g := new(gate)
	g.cond.L = &g.mu
	return g
}

// again returns a gate for the next process.
func (g *gate) again() *gate {
	next := newGate()
	next.seen = g.seen
	return next
}

func (g *gate) through(to core.Committer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = to
}

// Submit implements core.Committer.
func (g *gate) Submit(c *core.Change, done func(core.Pos, error)) {
	g.mu.Lock()
	for g.held && g.allowed == 0 {
		g.cond.Wait()
	}
	if g.allowed > 0 {
		g.allowed--
	}
	if g.seen != nil {
		g.seen(c)
	}
	to, err := g.to, g.err
	g.mu.Unlock()
	if err != nil {
		done(0, err)
		return
	}
	to.Submit(c, done)
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

// let lets n Changes through.
func (g *gate) let(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allowed = n
	g.cond.Broadcast()
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held, g.allowed = false, 0
	g.cond.Broadcast()
}

// fail makes this and every later commit fail.
func (g *gate) fail() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = errNoDisk
}
