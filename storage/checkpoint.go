package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// Checkpoint writes a copy of the database as it is now into dir, which must not
// exist, while it is in use, and returns the position of what was applied last,
// which the copy goes on from. On the same file system tables are hard links.
// Commits wait while the links are made and the log is copied. A database opened
// from the copy counts as not cleanly closed.
func (d *DB) Checkpoint(dir string) (core.LogPosition, error) {
	if d.opts.Memory {
		return core.LogPosition{}, fmt.Errorf("checkpoint: %w: a database in memory has none", errors.ErrUnsupported)
	}
	if !d.enter() {
		return core.LogPosition{}, core.ErrStopped
	}
	defer d.leave()
	if d.watch.full.Load() {
		return core.LogPosition{}, fmt.Errorf("checkpoint: %w", core.ErrDiskFull)
	}
	// What is flushed now need not be copied under the pause below.
	if err := d.flush(); err != nil {
		return core.LogPosition{}, fmt.Errorf("checkpoint: %w", err)
	}
	if err := d.pauseWrites(); err != nil {
		return core.LogPosition{}, err
	}
	defer d.resumeWrites()
	// A batch may be in although who applied it does not know yet.
	at, err := d.positionIn(d.pebble)
	if err != nil {
		return core.LogPosition{}, fmt.Errorf("checkpoint: %w", err)
	}
	// Pebble copies the live log to its end, block by block. A block that is
	// written meanwhile would be in the copy in part, with whole ones behind it,
	// which the open of the copy refuses as damage.
	if err := d.pebble.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return core.LogPosition{}, fmt.Errorf("checkpoint: %w", d.readError(err))
	}
	return at, nil
}

// flush writes the memtables to tables and waits for it.
func (d *DB) flush() error {
	if err := d.pauseWrites(); err != nil {
		return err
	}
	flushed, err := d.pebble.AsyncFlush()
	d.resumeWrites()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-d.guard.closed:
		return core.ErrStopped
	case <-d.failed:
		return d.failure
	}
}

// pauseWrites keeps everybody else from writing to Pebble's log. It fails when
// the database has failed: who held the log then may never give it back.
func (d *DB) pauseWrites() error {
	select {
	case d.writing <- struct{}{}:
	case <-d.failed:
		return d.failure
	}
	if err := d.Err(); err != nil {
		d.resumeWrites()
		return err
	}
	return nil
}

func (d *DB) resumeWrites() { <-d.writing }
