package storage

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleLogger is Pebble's logger.
type pebbleLogger struct {
	log   *slog.Logger
	guard *guard
}

// Infof implements pebble.Logger. What Pebble finds worth telling is detail to
// an operator.
func (l pebbleLogger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(format, args...), "source", "pebble")
	}
}

// Errorf implements pebble.Logger.
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...), "source", "pebble")
}

// Fatalf implements pebble.Logger. Pebble expects it not to return: its state
// can no longer be trusted.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.guard.wedge(fmt.Errorf("pebble: "+format, args...))
}

// events counts what Pebble reports.
type events struct {
	backgroundErrors atomic.Uint64
	corruptions      atomic.Uint64 // unreadable blocks or records that were met
	misusedDeletes   atomic.Uint64 // SINGLEDELs that did not meet exactly one SET
	stalls           atomic.Uint64
	logged           atomic.Int64 // when the last background error was logged, since the open
}

// listener returns the listener for Pebble's events. It is called under
// Pebble's locks: nothing in it blocks or calls Pebble.
func (d *DB) listener() *pebble.EventListener {
	look := d.watch.look
	return &pebble.EventListener{
		BackgroundError: d.backgroundError,
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			d.events.corruptions.Add(1)
			d.log.Error("storage found unreadable data", "path", info.Path, "error", info.Details.Error())
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			d.events.stalls.Add(1)
			d.log.Debug("storage stalls writes", "reason", info.Reason)
		},
		PossibleAPIMisuse: func(info pebble.PossibleAPIMisuseInfo) {
			// A range deletion that was carried out early makes this a false alarm.
			d.events.misusedDeletes.Add(1)
			d.log.Warn("storage saw a delete that met no record, or more than one", "kind", info.Kind, "key", fmt.Sprintf("%x", info.UserKey))
		},
		FlushEnd:      func(pebble.FlushInfo) { look() },
		CompactionEnd: func(pebble.CompactionInfo) { look() },
		TableDeleted:  func(pebble.TableDeleteInfo) { look() },
		WALDeleted:    func(pebble.WALDeleteInfo) { look() },
	}
}

func (d *DB) backgroundError(err error) {
	d.guard.pauseFlush.Store(true)
	d.guard.pauseCompaction.Store(true)
	d.events.backgroundErrors.Add(1)
	now, last := int64(time.Since(d.openedAt)), d.events.logged.Load()
	if (last == 0 || now-last >= int64(backgroundErrorLogDelay)) && d.events.logged.CompareAndSwap(last, now) {
		d.log.Error("storage could not flush or compact, and tries again", "error", err.Error())
	}
}
