package storage

import (
	"errors"
	"math"
	"sync/atomic"
	"syscall"
	"time"
)

// watcher looks at free space and at the size of the live log, when asked to.
type watcher struct {
	db    *DB
	asked chan struct{} // capacity 1
	stop  chan struct{}
	done  chan struct{}

	written   atomic.Int64 // since the last look
	writtenAt atomic.Int64 // a look is due at this much written
	lookedAt  atomic.Int64 // time.Duration since the open

	free, total atomic.Uint64
	full        atomic.Bool
	lackedAt    atomic.Int64 // when a write found no space last, since the open; 0: never
	sparedAt    atomic.Int64 // when a compaction was allowed last

	flushed <-chan struct{} // of the flush that was asked for last; nil: none is running
}

func newWatcher(d *DB) *watcher {
	w := &watcher{db: d, asked: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	w.writtenAt.Store(watchBytesMin)
	return w
}

// wrote notes that n bytes have been written.
func (w *watcher) wrote(n int) {
	if w.written.Add(int64(n)) >= w.writtenAt.Load() ||
		time.Since(w.db.openedAt)-time.Duration(w.lookedAt.Load()) >= watchDelay {
		w.look()
	}
}

// look asks for a look. It never blocks.
func (w *watcher) look() {
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

func (w *watcher) run() {
	defer close(w.done)
	for {
		w.examine()
		var again <-chan time.Time
		if w.full.Load() {
			// Space may come back by somebody else's doing.
			again = time.After(fullCheckDelay)
		}
		select {
		case <-w.asked:
		case <-again:
		case <-w.stop:
			return
		}
	}
}

func (w *watcher) examine() {
	w.written.Store(0)
	w.lookedAt.Store(int64(time.Since(w.db.openedAt)))
	left := w.examineDisk()
	w.writtenAt.Store(min(max(left/8, watchBytesMin), watchBytesMax, int64(w.db.opts.Profile.LiveLogBytesMax)/4))
	w.examineLog()
}

// lacking notes that a write failed for want of something. It never blocks.
func (w *watcher) lacking(err error) {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		w.lackedAt.Store(max(int64(time.Since(w.db.openedAt)), 1))
	}
	w.look()
}

// spare tells whether a compaction may take space: the last of it is kept for
// the log and for flushes. Now and then one is let through all the same: it may
// be one that frees space.
func (w *watcher) spare() bool {
	usage, err := w.db.opts.FS.GetDiskUsage(w.db.opts.Dir)
	if err != nil {
		return true
	}
	now, last := int64(time.Since(w.db.openedAt)), w.sparedAt.Load()
	if usage.AvailBytes < w.db.opts.watermark(usage.TotalBytes)/sparedDiskShare && now-last < int64(sparedTryDelay) {
		return false
	}
	w.sparedAt.Store(now)
	return true
}

// watermark is the free space below which the disk counts as full. On a small
// disk a share of it is less than flushes and compactions need beside what they
// replace.
func (o *Options) watermark(total uint64) uint64 {
	mark := min(o.FreeBytesMin, uint64(float64(total)*o.FreeFractionMin))
	if o.FreeBytesMin == FreeBytesMinDefault && o.FreeFractionMin == FreeFractionMinDefault {
		mark = max(mark, min(smallDiskReserve+2*uint64(o.Profile.MemTableBytes), total/4))
	}
	return mark
}

// examineDisk returns how many bytes may be written until the disk is full.
func (w *watcher) examineDisk() int64 {
	usage, err := w.db.opts.FS.GetDiskUsage(w.db.opts.Dir)
	if err != nil {
		return math.MaxInt64
	}
	w.free.Store(usage.AvailBytes)
	w.total.Store(usage.TotalBytes)
	mark := w.db.opts.watermark(usage.TotalBytes)
	left := int64(usage.AvailBytes) - int64(mark)
	full := w.full.Load()
	// What a failed compaction gives back is gone with the next one: a write
	// that found no space says more than the figure of now.
	lackedAt := w.lackedAt.Load()
	lacked := lackedAt > 0 && w.lookedAt.Load()-lackedAt < int64(lackMemory)
	switch {
	case !full && (usage.AvailBytes < mark || lacked):
		full = true
		w.db.log.Warn("disk is nearly full: producers are refused", "free_bytes", usage.AvailBytes, "watermark_bytes", mark)
	case full && !lacked && float64(usage.AvailBytes) >= float64(mark)*fullClearFactor:
		full = false
		w.db.log.Info("disk has space again", "free_bytes", usage.AvailBytes)
	default:
		return left
	}
	w.full.Store(full)
	if w.db.opts.OnDisk != nil {
		w.db.opts.OnDisk(full, usage.AvailBytes)
	}
	return left
}

// examineLog flushes when the live log is too long for a quick replay. While
// the disk is full it flushes early: deletes free space only once they are
// flushed and compacted.
func (w *watcher) examineLog() {
	if w.db.opts.Memory || w.db.Err() != nil {
		return
	}
	if w.flushed != nil {
		select {
		case <-w.flushed:
			w.flushed = nil
		default:
			return
		}
	}
	most := uint64(w.db.opts.Profile.LiveLogBytesMax)
	if w.full.Load() {
		most = min(most, max(w.free.Load()/liveLogDiskShareMax, fullLiveLogBytesMin))
	}
	if w.db.pebble.Metrics().WAL.Size <= most {
		return
	}
	// A writer may be stalled for long: the next look tries again.
	select {
	case w.db.writing <- struct{}{}:
	default:
		return
	}
	flushed, err := w.db.pebble.AsyncFlush()
	w.db.resumeWrites()
	if err != nil {
		w.db.fail(err)
		return
	}
	w.flushed = flushed
}

// close ends run and waits for it.
func (w *watcher) close() {
	close(w.stop)
	<-w.done
}
