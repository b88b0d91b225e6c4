package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard stands between Pebble and the file system and decides what becomes of
// an error before Pebble, which would panic or exit, sees it. See Failures in
// the package comment.
type guard struct {
	vfs.FS
	dir    string
	log    *slog.Logger
	fail   func(error)         // marks the database failed; never blocks
	scarce func(error)         // tells the watcher what is lacking; never blocks
	spare  func() bool         // whether the disk has room for a compaction
	onSync func(time.Duration) // may be nil

	// armed is set when Open is through. Until then nothing waits for space.
	armed  atomic.Bool
	closed chan struct{} // closed by Close: nothing waits for space any more
	wedged chan struct{} // closed when a goroutine has been stopped for good
	once   sync.Once     // closes wedged

	zeros    []byte // logAheadBytes of them
	logSyncs atomic.Uint64
	waits    atomic.Uint64 // writes that lacked space

	// A flush or compaction failed: the next one begins with a pause, since
	// Pebble tries again at once and would do nothing else.
	pauseFlush, pauseCompaction atomic.Bool
}

// fileKind says what a file is to Pebble.
type fileKind uint8

const (
	fileOther      fileKind = iota
	fileLog                 // the write-ahead log
	fileManifest            // a manifest, or the marker that names it
	fileFlush               // output of a flush, which can be made again
	fileCompaction          // output of a compaction, the same
	fileDir                 // the directory itself
)

// vital files are those that Pebble cannot do without.
func (k fileKind) vital() bool { return k == fileLog || k == fileManifest || k == fileDir }

// isTable tells whether k is what Pebble makes again when it fails.
func (k fileKind) isTable() bool { return k == fileFlush || k == fileCompaction }

func (g *guard) kind(name string, category vfs.DiskWriteCategory) fileKind {
	if g.PathDir(name) != g.dir {
		return fileOther
	}
	base := g.PathBase(name)
	switch {
	case strings.HasSuffix(base, ".log"):
		return fileLog
	case strings.HasPrefix(base, "MANIFEST-"), strings.HasPrefix(base, "marker."):
		return fileManifest
	case !strings.HasSuffix(base, ".sst"):
		return fileOther
	case category == "pebble-compaction":
		return fileCompaction
	}
	return fileFlush
}

// errNoSpare keeps the last space for log and flushes, without which no delete
// could be taken any more.
var errNoSpare = fmt.Errorf("kept for log and flushes: %w", syscall.ENOSPC)

// isScarcity tells whether err is a lack of something that may come back.
func isScarcity(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// retry waits a while for space if err is worth it, and tells whether to try
// again.
func (g *guard) retry(kind fileKind, name string, err error) bool {
	if !kind.vital() || !isScarcity(err) || !g.armed.Load() {
		return false
	}
	if g.waits.Add(1)%100 == 1 {
		g.log.Warn("storage waits for space", "file", name, "error", err.Error())
	}
	g.scarce(err)
	return g.pause(spaceRetryDelay)
}

// pause waits, and tells whether the database is still open.
func (g *guard) pause(delay time.Duration) bool {
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-g.closed:
		return false
	}
}

// failed decides about an error for good and returns what Pebble gets to see.
func (g *guard) failed(kind fileKind, op, name string, err error) error {
	switch {
	case kind == fileOther:
		return err
	case kind.isTable() && isScarcity(err) && g.armed.Load():
		g.waits.Add(1)
		g.scarce(err)
		return err
	}
	g.wedge(fmt.Errorf("%s %s: %w", op, name, err))
	return err
}

// wedge marks the database failed and never returns.
func (g *guard) wedge(err error) {
	g.abandon(err)
	select {}
}

// abandon marks the database failed, with a goroutine that may never return.
func (g *guard) abandon(err error) {
	g.once.Do(func() { close(g.wedged) })
	g.fail(err)
}

// Create implements vfs.FS.
func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	kind := g.kind(name, category)
	switch {
	case kind == fileFlush && g.pauseFlush.CompareAndSwap(true, false):
		// Not cut short by Close: Pebble would be busy until its own.
		time.Sleep(spaceRetryDelay)
	case kind == fileCompaction:
		if g.pauseCompaction.CompareAndSwap(true, false) {
			g.pause(compactionRetryDelay)
		}
		if g.armed.Load() && !g.spare() {
			return nil, g.failed(kind, "create", name, errNoSpare)
		}
	}
	for {
		f, err := g.FS.Create(name, category)
		if err == nil {
			return g.wrap(f, kind, name), nil
		}
		if !g.retry(kind, name, err) {
			return nil, g.failed(kind, "create", name, err)
		}
	}
}

// ReuseForWrite implements vfs.FS.
func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	kind := g.kind(newname, category)
	f, err := g.FS.ReuseForWrite(oldname, newname, category)
	if err == nil {
		w := &guardedFile{File: f, guard: g, kind: kind, name: newname}
		if info, err := f.Stat(); err == nil {
			w.size = info.Size()
		}
		return w, nil
	}
	// The rename may have been done, so that a second try finds no old file; a
	// new one serves as well.
	g.log.Warn("storage could not use a log file again", "file", oldname, "error", err.Error())
	return g.Create(newname, category)
}

// OpenDir implements vfs.FS.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil || name != g.dir {
		return f, err
	}
	return g.wrap(f, fileDir, name), nil
}

// Unwrap implements vfs.FS.
func (g *guard) Unwrap() vfs.FS { return g.FS }

func (g *guard) wrap(f vfs.File, kind fileKind, name string) vfs.File {
	if kind == fileOther {
		return f
	}
	return &guardedFile{File: f, guard: g, kind: kind, name: name}
}

// guardedFile is a file that is being written.
type guardedFile struct {
	vfs.File
	guard *guard
	kind  fileKind
	name  string

	// Of a log file; both belong to the goroutine that writes.
	offset int64
	size   int64
}

// logAheadBytes is how much a log file that is not used again grows at a time.
const logAheadBytes = 256 << 10

// extend writes zeros ahead of the next n bytes of a log file, which ends with
// zeros as one that is used again ends with old records. Then an fsync writes
// data alone, and no size and no extents of the file system: it takes two thirds
// of the time. An error is left to the write that needs the space.
func (f *guardedFile) extend(n int) {
	for f.size < f.offset+int64(n) {
		_, _ = f.File.WriteAt(f.guard.zeros, f.size)
		f.size += logAheadBytes
	}
}

// Write implements vfs.File.
func (f *guardedFile) Write(p []byte) (int, error) {
	if f.kind == fileLog {
		f.extend(len(p))
		f.offset += int64(len(p))
	}
	n, err := f.File.Write(p)
	for err != nil && f.guard.retry(f.kind, f.name, err) {
		var m int
		m, err = f.File.Write(p[n:])
		n += m
	}
	if err != nil {
		return n, f.guard.failed(f.kind, "write", f.name, err)
	}
	return n, nil
}

// SyncData implements vfs.File.
func (f *guardedFile) SyncData() error {
	if f.kind != fileLog {
		return f.synced(f.File.SyncData())
	}
	start := time.Now()
	if err := f.File.SyncData(); err != nil {
		return f.synced(err)
	}
	f.guard.logSyncs.Add(1)
	if f.guard.onSync != nil {
		f.guard.onSync(time.Since(start))
	}
	return nil
}

// Sync implements vfs.File.
func (f *guardedFile) Sync() error { return f.synced(f.File.Sync()) }

// SyncTo implements vfs.File.
func (f *guardedFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.synced(err)
}

// synced never retries: after a failed fsync the kernel may have dropped the
// pages, and a second one would report success for data that is gone.
func (f *guardedFile) synced(err error) error {
	if err == nil {
		return nil
	}
	return f.guard.failed(f.kind, "fsync", f.name, err)
}

// Stat implements vfs.File.
func (f *guardedFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, f.guard.failed(f.kind, "stat", f.name, err)
	}
	return info, nil
}

// Close implements vfs.File.
func (f *guardedFile) Close() error {
	if err := f.File.Close(); err != nil {
		return f.guard.failed(f.kind, "close", f.name, err)
	}
	return nil
}
