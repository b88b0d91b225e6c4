package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// faultsVariable makes the test process be the one that fails.
const faultsVariable = "CORE_TEST_FAULTS"

// patience bounds what must not take for ever.
const patience = 30 * time.Second

// mishap fails the n-th operation that match takes, and all later ones.
type mishap struct {
	name  string
	match func(op errorfs.Op) bool
	step  int // between two n that are tried
	least int // so many of them must stop a node
}

func mishaps() []mishap {
	is := func(suffix string, kinds ...errorfs.OpKind) func(errorfs.Op) bool {
		return func(op errorfs.Op) bool {
			for _, k := range kinds {
				if op.Kind == k && strings.Contains(op.Path, suffix) {
					return true
				}
			}
			return false
		}
	}
	return []mishap{
		{"fsync of the log", is(".log", errorfs.OpFileSyncData, errorfs.OpFileSync), 5, 8},
		{"write to the log", is(".log", errorfs.OpFileWrite), 7, 8},
		{"a new log", is(".log", errorfs.OpCreate, errorfs.OpReuseForWrite, errorfs.OpRename), 1, 2},
		{"write to a table", is(".sst", errorfs.OpFileWrite, errorfs.OpCreate), 2, 2},
		{"fsync of the manifest", is("MANIFEST", errorfs.OpFileSync, errorfs.OpFileSyncData), 1, 1},
	}
}

// TestFailedStorageStopsTheEngine fails writes and fsyncs under a busy engine.
// Storage stops goroutines for good when that happens: hence a process of its
// own.
func TestFailedStorageStopsTheEngine(t *testing.T) {
	if os.Getenv(faultsVariable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), faultsVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "all faults done") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, f := range mishaps() {
		stopped := 0
		if raceEnabled && f.step > 1 {
			f.step, f.least = 3*f.step, max(f.least/3, 1) // each takes long there
		}
		for n := 1; failsAt(t, f, n); n += f.step {
			stopped++
		}
		t.Logf("%s: stopped %d nodes", f.name, stopped)
		if stopped < f.least {
			t.Errorf("%s: only %d nodes were stopped: the test does not test", f.name, stopped)
		}
	}
	if t.Failed() {
		os.Exit(1)
	}
	fmt.Println("all faults done")
	os.Exit(0)
}

// injector fails operations once it is on.
type injector struct {
	mishap
	n int

	mu   sync.Mutex
	on   bool
	seen int
}

func (i *injector) String() string { return i.name }

func (i *injector) MaybeError(op errorfs.Op) error {
	if !i.match(op) {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.on {
		return nil
	}
	if i.seen++; i.seen >= i.n {
		return errors.New("injected")
	}
	return nil
}

// failing tells whether anything has been made to fail.
func (i *injector) failing() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen >= i.n
}

func (i *injector) set(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.on = on
}

// faulty wraps fs like errorfs.Wrap, and the log files that are used again, which
// errorfs leaves as they are.
type faulty struct {
	*errorfs.FS
	inject errorfs.Injector
}

func (f *faulty) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(file, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = newname
		return f.inject.MaybeError(op)
	})), nil
}

// load is what producers and consumers were answered.
type load struct {
	client *core.Client
	failed <-chan struct{}

	mu       sync.Mutex
	sent     map[string]bool // body: answered
	deleted  map[string]bool // body: answered
	accepted int             // asynchronous sends
	called   int             // their answers
	unasked  error           // an answer that there should not be
	lease    core.Settlement // a deletion without a success
	queue    string          // of lease
	dedup    core.Message    // a send to the FIFO queue without a success
}

// failsAt runs a node whose n-th matching operation fails, and tells whether it
// came as far.
func failsAt(t *testing.T, f mishap, n int) bool {
	fs := vfs.NewCrashableMem()
	inject := &injector{mishap: f, n: n}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	small := storage.Profile{MemTableBytes: 64 << 10, CacheBytes: 1 << 20}
	db, boot, err := storage.Open(storage.Options{Dir: "data", FS: &faulty{errorfs.Wrap(fs, inject), inject}, Logger: quiet, Profile: small})
	if err != nil {
		t.Fatal(err)
	}
	e, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{client: e.Client(core.Principal{}), failed: e.Failed(), sent: map[string]bool{}, deleted: map[string]bool{}}
	fifo := core.DefaultQueueConfig(core.KindFIFO)
	for name, cfg := range map[string]core.QueueConfig{
		"std": core.DefaultQueueConfig(core.KindStandard), "fifo": fifo, "idle": core.DefaultQueueConfig(core.KindStandard),
	} {
		if _, _, err := l.client.Declare(context.Background(), name, cfg); err != nil {
			t.Fatal(err)
		}
	}
	inject.set(true)
	within(t, "the load", l.run)
	stopped := false
	select {
	case <-e.Failed():
		stopped = true
	default:
	}
	if l.unasked != nil {
		t.Errorf("%s, n=%d: %v", f.name, n, l.unasked)
	}
	if stopped {
		within(t, "a later operation", func() { l.later(t, n, e) })
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	within(t, "close", func() {
		err := errors.Join(e.Close(), db.Close())
		if stopped && !errors.Is(err, core.ErrStopped) || err != nil && !inject.failing() {
			t.Errorf("%s, n=%d: close: %v", f.name, n, err)
		}
	})
	noneLeft(t)
	if l.called != l.accepted {
		t.Errorf("%s, n=%d: %d asynchronous sends were accepted, %d answered", f.name, n, l.accepted, l.called)
	}
	l.survivors(t, n, crashed, quiet)
	return stopped
}

// within runs f, which must end.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		stacks := make([]byte, 1<<20)
		fmt.Printf("%s does not end\n%s\n", what, stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	}
}

// noneLeft checks that no goroutine of the engine is left.
func noneLeft(t *testing.T) {
	t.Helper()
	var left string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		stacks := make([]byte, 1<<20)
		left = ""
		for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(g, "leasemq/broker/core.") {
				left = g
			}
		}
		if left == "" {
			return
		}
	}
	t.Errorf("a goroutine is left:\n%s", left)
}

// run works until the node fails, or long enough to come by all faults.
func (l *load) run() {
	const rounds = 100
	var work sync.WaitGroup
	for p := range 3 {
		work.Go(func() {
			for i := range rounds {
				if !l.send(fmt.Sprintf("%d.%d", p, i), i%3 == 0) {
					return
				}
			}
		})
	}
	work.Go(func() {
		for i := range rounds {
			if !l.sendAsync(fmt.Sprintf("async.%d", i)) {
				return
			}
		}
	})
	ended := make(chan struct{})
	var consumers sync.WaitGroup
	for _, queue := range []string{"std", "fifo"} {
		consumers.Go(func() {
			for l.consume(queue, ended) {
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	consumers.Go(func() {
		_, err := l.client.Receive(ctx, "idle", core.ReceiveOptions{Max: 1, Wait: 12 * time.Hour}, nil)
		if !errors.Is(err, core.ErrStopped) && !errors.Is(err, context.Canceled) {
			l.complain(fmt.Errorf("a parked receive was answered with %w", err))
		}
	})
	work.Wait()
	close(ended)
	select {
	case <-l.failed:
	default:
		cancel()
	}
	consumers.Wait()
	cancel()
}

func (l *load) complain(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unasked == nil {
		l.unasked = err
	}
}

// send sends a message and tells whether the node goes on.
func (l *load) send(id string, fifo bool) bool {
	queue, m := "std", core.Message{Body: []byte(id + strings.Repeat(" ", 600)), Delay: -1}
	if fifo {
		queue, m.Group, m.DedupID = "fifo", "g", id
	}
	_, err := l.client.Publish(context.Background(), queue, []core.Message{m}, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[id] = err == nil
	if err != nil && fifo {
		l.dedup = m
	}
	return l.goesOn(err)
}

// goesOn tells whether err is none. l.mu is held.
func (l *load) goesOn(err error) bool {
	if err != nil && !errors.Is(err, core.ErrStopped) && l.unasked == nil {
		l.unasked = fmt.Errorf("got %w, want ErrStopped", err)
	}
	return err == nil
}

func (l *load) sendAsync(id string) bool {
	m := core.Message{Body: []byte(id + strings.Repeat(" ", 300)), Delay: -1}
	answered := make(chan error, 1)
	err := l.client.PublishAsync("std", []core.Message{m}, func(_ []core.Published, err error) {
		l.mu.Lock()
		l.called++
		l.sent[id] = err == nil
		l.mu.Unlock()
		answered <- err
	})
	if err == nil {
		l.mu.Lock()
		l.accepted++
		l.mu.Unlock()
		err = <-answered
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.goesOn(err)
}

// consume takes messages of a queue and deletes most of them.
func (l *load) consume(queue string, ended <-chan struct{}) bool {
	ds, err := l.client.Receive(context.Background(), queue, core.ReceiveOptions{Max: 5, Visibility: time.Hour, Wait: 5 * time.Millisecond}, nil)
	for i := range ds {
		id := strings.TrimSpace(string(ds[i].Body))
		if queue == "std" && i%4 == 3 {
			continue
		}
		s := core.Settlement{Receipt: ds[i].Receipt}
		l.mu.Lock()
		if !l.deleted[id] {
			l.deleted[id] = false // asked for
		}
		l.mu.Unlock()
		var errs []error
		errs, err = l.client.Settle(context.Background(), queue, []core.Settlement{s}, nil)
		err = errors.Join(append(errs, err)...)
		l.mu.Lock()
		l.deleted[id] = err == nil
		if err != nil {
			l.lease, l.queue = s, queue
		}
		l.mu.Unlock()
		if err != nil {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.goesOn(err) {
		return false
	}
	select {
	case <-ended:
		return len(ds) > 0
	default:
		return true
	}
}

// later checks that a node that has failed answers nothing but that.
func (l *load) later(t *testing.T, n int, e *core.Engine) {
	ctx, c := context.Background(), l.client
	cfg := core.DefaultQueueConfig(core.KindStandard)
	one := []core.Message{{Body: []byte("late"), Delay: -1}}
	ops := map[string]func() error{
		"publish":       func() error { _, err := c.Publish(ctx, "std", one, nil); return err },
		"publish async": func() error { return c.PublishAsync("std", one, func([]core.Published, error) { t.Error("called") }) },
		"receive":       func() error { _, err := c.Receive(ctx, "std", core.ReceiveOptions{Max: 1}, nil); return err },
		"receive, empty": func() error {
			_, err := c.Receive(ctx, "idle", core.ReceiveOptions{Max: 1, Wait: time.Hour}, nil)
			return err
		},
		"declare":       func() error { _, _, err := c.Declare(ctx, "new", cfg); return err },
		"declare again": func() error { _, _, err := c.Declare(ctx, "std", cfg); return err },
		"configure": func() error {
			_, err := c.Configure(ctx, "std", func(*core.QueueConfig) error { return nil })
			return err
		},
		"purge":  func() error { return c.Purge(ctx, "std") },
		"delete": func() error { return c.Delete(ctx, "std") },
		"queue":  func() error { _, err := c.Queue(ctx, "std"); return err },
		"queues": func() error { _, err := c.Queues(ctx, "", "", 10); return err },
		"stats":  func() error { _, err := c.Stats(ctx, "std"); return err },
		"peek":   func() error { _, _, err := c.Peek(ctx, "std", core.PeekPos{}, 10); return err },
		"transaction": func() error {
			tx := c.Begin()
			if err := tx.Publish("std", one[0]); err != nil {
				return err
			}
			_, err := tx.Commit(ctx)
			return err
		},
		"the failure": e.Err,
	}
	if l.lease.Receipt != (core.Receipt{}) {
		ops["deletion again"] = func() error {
			errs, err := c.Settle(ctx, l.queue, []core.Settlement{l.lease}, nil)
			return errors.Join(append(errs, err)...)
		}
	}
	if l.dedup.DedupID != "" {
		ops["send again"] = func() error { _, err := c.Publish(ctx, "fifo", []core.Message{l.dedup}, nil); return err }
	}
	for name, op := range ops {
		if err := op(); !errors.Is(err, core.ErrStopped) {
			t.Errorf("n=%d: %s on a node that has failed: got %v, want ErrStopped", n, name, err)
		}
	}
}

// survivors opens what a crash leaves of the files: no answer was false.
func (l *load) survivors(t *testing.T, n int, fs vfs.FS, quiet *slog.Logger) {
	t.Helper()
	db, boot, err := storage.Open(storage.Options{Dir: "data", FS: fs, Logger: quiet})
	if err != nil {
		t.Fatalf("n=%d: open after the failure: %v", n, err)
	}
	e, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, queue := range []string{"std", "fifo"} {
		var pos core.PeekPos
		for {
			page, next, err := e.Client(core.Principal{}).Peek(context.Background(), queue, pos, 100)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page {
				found[strings.TrimSpace(string(page[i].Body))]++
			}
			if next == pos {
				break
			}
			pos = next
		}
	}
	for id, answered := range l.sent {
		gone, asked := l.deleted[id]
		switch {
		case answered && !asked && found[id] != 1:
			t.Errorf("n=%d: message %s was sent and is there %d times", n, id, found[id])
		case gone && found[id] != 0:
			t.Errorf("n=%d: message %s was deleted and is there", n, id)
		case found[id] > 1:
			t.Errorf("n=%d: message %s is there %d times", n, id, found[id])
		}
	}
	if err := errors.Join(e.Close(), db.Close()); err != nil {
		t.Errorf("n=%d: close after recovery: %v", n, err)
	}
}
