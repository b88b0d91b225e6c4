package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// What callers of Open decide on.
var (
	ErrLocked      = errors.New("directory is in use by another process, or by another database of this one")
	ErrNewerFormat = errors.New("database was written by a newer version")
	ErrOlderFormat = errors.New("database was written before the first release")
	ErrForeign     = errors.New("directory holds a database of another program")
	ErrReplicated  = errors.New("database is fed from a replicated log")
	ErrAlone       = errors.New("database is not fed from a replicated log")
)

// termMax is the last term that fits the 24 bits of a sequence.
const termMax = 1<<24 - 1

// DB is the state of one node. It implements core.Store and core.Committer; all
// methods but Submit, Apply and Close may be called from any goroutine.
type DB struct {
	opts      Options
	log       *slog.Logger
	pebble    *pebble.DB
	guard     *guard
	lock      *pebble.Lock
	openedAt  time.Time
	drainWait time.Duration // closeDrainWait, but for a test

	pipe     pipeline
	interval intervalSync
	watch    *watcher
	events   events
	readers  sync.RWMutex // read-locked during a read; Close locks it for good
	scans    sync.Pool    // *scan

	// These belong to the goroutine that submits.
	encoder      encoder
	pos          core.Pos
	batchOptions []pebble.BatchOption

	applied applied // what came from the log

	// writing is held, by a value in it, over each write to Pebble's log.
	writing chan struct{}

	commits        atomic.Uint64
	committedBytes atomic.Uint64

	failOnce sync.Once
	failed   chan struct{}
	failure  error // set before failed is closed, as cause is
	cause    error
}

var (
	_ core.Store     = (*DB)(nil)
	_ core.Committer = (*DB)(nil)
)

// Open opens the database in o.Dir, or makes one. When it returns, the term of
// Boot is durable, and until Close the database counts as not cleanly closed.
// Errors wrap ErrLocked, ErrNewerFormat, ErrOlderFormat, ErrForeign,
// ErrReplicated, ErrAlone or core.ErrCorrupt where that is the reason.
func Open(o Options) (*DB, core.Boot, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, core.Boot{}, err
	}
	o.Dir = filepath.Clean(o.Dir)
	if err := makeDir(o.FS, o.Dir); err != nil {
		return nil, core.Boot{}, fmt.Errorf("make data directory: %w", err)
	}
	if usage, err := o.FS.GetDiskUsage(o.Dir); err == nil {
		o.Profile.fitDisk(usage.TotalBytes)
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		if isLocked(err) {
			err = fmt.Errorf("%w: %w", ErrLocked, err)
		}
		return nil, core.Boot{}, fmt.Errorf("open storage in %s: %w", o.Dir, err)
	}
	d := newDB(o, lock)
	type opened struct {
		boot core.Boot
		err  error
	}
	ended := make(chan opened, 1)
	go func() {
		boot, err := d.open()
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
		ended <- opened{boot, err}
	}()
	var r opened
	select {
	case r = <-ended:
	case <-d.guard.wedged:
		<-d.failed
		r.err = d.cause
	}
	if r.err != nil {
		return nil, core.Boot{}, fmt.Errorf("open storage in %s: %w", o.Dir, r.err)
	}
	return d, r.boot, nil
}

// makeDir makes dir and the parents that it lacks, durably.
func makeDir(fs vfs.FS, dir string) error {
	var parents []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil || fs.PathDir(at) == at {
			break
		}
		parents = append(parents, fs.PathDir(at))
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, at := range parents {
		f, err := fs.OpenDir(at)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// isLocked tells whether err says that somebody else holds the lock.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process")
}

func newDB(o Options, lock *pebble.Lock) *DB {
	d := &DB{
		opts: o, log: o.Logger, lock: lock, openedAt: time.Now(), drainWait: closeDrainWait,
		failed: make(chan struct{}), writing: make(chan struct{}, 1),
		batchOptions: []pebble.BatchOption{pebble.WithMaxRetainedSizeBytes(batchBytesKept)},
	}
	d.watch = newWatcher(d)
	d.guard = &guard{
		FS: o.FS, dir: o.Dir, log: o.Logger,
		fail: d.fail, scarce: d.watch.lacking, spare: d.watch.spare, onSync: o.OnSync,
		zeros:  make([]byte, logAheadBytes),
		closed: make(chan struct{}), wedged: make(chan struct{}),
	}
	d.pipe.init(d)
	d.interval.db = d
	if o.Sync == SyncInterval && !o.Memory {
		d.interval.every = o.SyncInterval
	}
	d.scans.New = func() any { return &scan{db: d} }
	return d
}

// open opens Pebble, begins a term and starts the goroutines.
func (d *DB) open() (core.Boot, error) {
	p := d.opts.pebbleOptions()
	p.FS, p.Lock = d.guard, d.lock
	p.Logger = pebbleLogger{log: d.log, guard: d.guard}
	p.EventListener = d.listener()
	var err error
	if d.pebble, err = pebble.Open(d.opts.Dir, p); err != nil {
		return core.Boot{}, d.readError(err)
	}
	boot, err := d.boot()
	if err != nil {
		return core.Boot{}, errors.Join(err, d.pebble.Close())
	}
	d.guard.armed.Store(true)
	d.pipe.start()
	go d.watch.run()
	return boot, nil
}

// boot checks the format, reads where the last process stopped, and begins a
// new term.
func (d *DB) boot() (core.Boot, error) {
	fresh, err := d.checkFormat()
	if err != nil {
		return core.Boot{}, err
	}
	boot := core.Boot{Clean: fresh}
	var last position
	var term uint32
	for _, r := range []struct {
		key  string
		read func(v []byte) error
	}{
		{keyPosition, func(v []byte) (err error) { last, err = decodePosition(v); return err }},
		{keyTerm, func(v []byte) (err error) { term, err = decodeNumber(v, "term record", termVersion); return err }},
		{keyClean, func([]byte) error { boot.Clean = true; return nil }},
	} {
		if err := d.readOwn(r.key, r.read); err != nil {
			return core.Boot{}, err
		}
	}
	if term >= termMax {
		return core.Boot{}, fmt.Errorf("all %d terms are used up: dump the queues into a new database", termMax)
	}
	if err := d.checkOrigin(last); err != nil {
		return core.Boot{}, err
	}
	d.pos, boot.LastTime, boot.Term = last.pos, last.time, term+1

	b := d.pebble.NewBatch()
	err = errors.Join(
		b.Set([]byte(keyFormat), appendNumber(nil, formatVersion, FormatVersion), nil),
		b.Set([]byte(keyTerm), appendNumber(nil, termVersion, boot.Term), nil),
		b.Delete([]byte(keyClean), nil),
	)
	if err == nil {
		err = d.pebble.Apply(b, d.durably())
	}
	if err != nil {
		return core.Boot{}, fmt.Errorf("begin term %d: %w", boot.Term, err)
	}
	return boot, b.Close()
}

// checkFormat tells whether the database is empty, and refuses one that this
// binary does not know.
func (d *DB) checkFormat() (fresh bool, err error) {
	var version uint32
	err = d.readOwn(keyFormat, func(v []byte) (err error) {
		// Only the number: a later version may say more behind it.
		if len(v) < 5 {
			return fmt.Errorf("format record of %d bytes: %w", len(v), core.ErrCorrupt)
		}
		version, err = decodeNumber(append([]byte{formatVersion}, v[1:5]...), "format record", formatVersion)
		return err
	})
	switch {
	case err != nil || version >= formatVersionMin && version <= FormatVersion:
		return false, err
	case version > FormatVersion:
		return false, fmt.Errorf("%w: its format is %d, this binary knows up to %d", ErrNewerFormat, version, FormatVersion)
	case version > 0:
		return false, fmt.Errorf("%w: its format is %d, this binary knows %d and later", ErrOlderFormat, version, formatVersionMin)
	}
	it, err := d.pebble.NewIter(nil)
	if err != nil {
		return false, d.readError(err)
	}
	empty := !it.First()
	if err := errors.Join(d.readError(it.Error()), it.Close()); err != nil {
		return false, err
	}
	if !empty {
		return false, ErrForeign
	}
	return true, nil
}

// readOwn reads one of the engine's own records, if it is there.
func (d *DB) readOwn(key string, read func(v []byte) error) error {
	v, closer, err := d.pebble.Get([]byte(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return d.readError(err)
	}
	return errors.Join(read(v), closer.Close())
}

// durably are the options of a write that must be durable when it returns.
func (d *DB) durably() *pebble.WriteOptions {
	if d.opts.Memory {
		return pebble.NoSync
	}
	return pebble.Sync
}

// fail marks the database failed: nothing is reported as committed any more.
// Only the first call counts.
func (d *DB) fail(err error) {
	d.failOnce.Do(func() {
		d.cause = err
		d.failure = fmt.Errorf("storage: %w: %w", core.ErrStopped, err)
		if d.guard.armed.Load() { // else Open returns it
			d.log.Error("storage has failed: nothing is committed any more", "error", err.Error())
		}
		close(d.failed)
		d.pipe.stop(d.failure)
	})
}

// Failed is closed when the database has failed; Err then says why. The node
// must stop.
func (d *DB) Failed() <-chan struct{} { return d.failed }

// Err returns why the database has failed, nil if it has not.
func (d *DB) Err() error {
	select {
	case <-d.failed:
		return d.failure
	default:
		return nil
	}
}

// Close waits for what was submitted, marks the database as cleanly closed and
// closes it. It is called once, when nobody submits any more. After a failure,
// or if commits stay stalled for closeDrainWait, it returns the failure; see the
// package comment for what it then leaves behind.
func (d *DB) Close() error {
	close(d.guard.closed)
	drained, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		d.pipe.drain()
		close(drained)
		ended <- d.finish()
	}()
	late := time.NewTimer(d.drainWait)
	defer late.Stop()
	select {
	case <-drained:
	case <-late.C:
		d.guard.abandon(fmt.Errorf("close: commits are stalled since %v", d.drainWait))
	}
	select {
	case err := <-ended:
		return err
	case <-d.guard.wedged:
		// finish may be held for good by what was wedged.
		<-d.failed
		return d.failure
	}
}

func (d *DB) finish() error {
	d.pipe.stop(core.ErrStopped)
	d.pipe.running.Wait()
	d.interval.close()
	d.watch.close()
	err := d.pauseWrites() // a checkpoint may be under way
	if err == nil {
		d.flushForClose()
		if err = d.pebble.Set([]byte(keyClean), []byte{cleanVersion}, d.durably()); err != nil {
			err = fmt.Errorf("mark database as closed: %w", err)
		}
		d.resumeWrites()
	}
	d.readers.Lock()
	return errors.Join(err, d.pebble.Close(), d.lock.Close())
}

// enter begins a read; leave ends it. It fails when the database is closed, and
// never waits, so that a callback of a read may read.
func (d *DB) enter() bool { return d.readers.TryRLock() }

func (d *DB) leave() { d.readers.RUnlock() }

// flushForClose spares the next open a long replay, if it can be done quickly.
func (d *DB) flushForClose() {
	if d.opts.Memory || d.watch.full.Load() || d.pebble.Metrics().WAL.Size < flushOnCloseBytesMin {
		return
	}
	flushed, err := d.pebble.AsyncFlush()
	if err != nil {
		return
	}
	late := time.NewTimer(flushOnCloseWait)
	defer late.Stop()
	select {
	case <-flushed:
	case <-late.C:
	}
}
