package storage

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// applied says what came from the log.
type applied struct {
	mu      sync.Mutex
	at      core.LogPosition
	durable core.LogPosition
	digests digests
}

// checkOrigin refuses a database that was fed the other way: its copies, or its
// own history, would no longer be what the log says.
func (d *DB) checkOrigin(last position) error {
	switch {
	case last.log != nil && !d.opts.Replicated:
		return ErrReplicated
	case last.log == nil && d.opts.Replicated && last.pos > 0:
		return ErrAlone
	case last.log != nil:
		d.applied.at, d.applied.durable = *last.log, *last.log
	}
	return nil
}

// Apply applies changes as one batch, whole or not at all, and with it the
// position at, which is above that of the batch before. It does not wait for an
// fsync. There may be no changes: the position alone moves. It takes one caller
// at a time, and does not use changes after it returns. After an error that is
// not core.ErrInvalidArgument the database has failed.
func (d *DB) Apply(at core.LogPosition, changes []*core.Change) error {
	if !d.opts.Replicated {
		return fmt.Errorf("apply: %w", ErrAlone)
	}
	if err := d.Err(); err != nil {
		return err
	}
	if last := d.Applied(); at.Generation < last.Generation || at.Generation == last.Generation && at.Seq <= last.Seq {
		return fmt.Errorf("apply %d.%d: %d.%d is applied: %w", at.Generation, at.Seq, last.Generation, last.Seq, core.ErrInvalidArgument)
	}
	b, err := d.encodeAt(at, changes)
	if err != nil {
		d.fail(fmt.Errorf("encode record %d: %w", at.Seq, err))
		return d.Err()
	}
	// A log that cannot be written holds that goroutine for good.
	ended := make(chan error, 1)
	go func() { ended <- d.apply(b) }()
	select {
	case err = <-ended:
	case <-d.failed:
		return d.failure
	}
	if err != nil {
		d.fail(err)
		return d.Err()
	}
	d.applied.mu.Lock()
	d.applied.at = at
	d.snapshotForDigestsLocked()
	d.applied.mu.Unlock()
	if err := b.Close(); err != nil {
		d.fail(fmt.Errorf("close batch: %w", err))
		return d.Err()
	}
	return nil
}

func (d *DB) encodeAt(at core.LogPosition, changes []*core.Change) (*pebble.Batch, error) {
	size := batchOverhead
	for _, c := range changes {
		for i := range c.Edits {
			size += batchOverheadPerEdit + len(c.Edits[i].Key) + len(c.Edits[i].Value)
		}
	}
	b := d.pebble.NewBatchWithSize(size, d.batchOptions...)
	d.encoder.batch = b
	for _, c := range changes {
		if err := d.encoder.change(c); err != nil {
			return nil, err
		}
	}
	return b, d.encoder.position(position{pos: core.Pos(at.Seq), time: at.Time, log: &at})
}

// Applied returns the position of the newest batch, which readers see.
func (d *DB) Applied() core.LogPosition {
	d.applied.mu.Lock()
	defer d.applied.mu.Unlock()
	return d.applied.at
}

// Durable returns a position up to which a loss of power takes nothing.
func (d *DB) Durable() core.LogPosition {
	d.applied.mu.Lock()
	defer d.applied.mu.Unlock()
	return d.applied.durable
}

// SyncApplied makes all that is applied durable, and returns its position. In
// memory, where nothing is, it only returns it.
func (d *DB) SyncApplied() (core.LogPosition, error) {
	if !d.opts.Replicated {
		return core.LogPosition{}, fmt.Errorf("sync: %w", ErrAlone)
	}
	if !d.enter() {
		return core.LogPosition{}, core.ErrStopped
	}
	defer d.leave()
	at := d.Applied()
	ended := make(chan error, 1)
	go func() { ended <- d.syncLog() }()
	select {
	case err := <-ended:
		if err != nil {
			return core.LogPosition{}, err
		}
	case <-d.failed:
		return core.LogPosition{}, d.failure
	}
	d.applied.mu.Lock()
	defer d.applied.mu.Unlock()
	if at.Generation > d.applied.durable.Generation || at.Seq > d.applied.durable.Seq {
		d.applied.durable = at
	}
	return at, nil
}

// syncLog fsyncs all that was written to the log of Pebble.
func (d *DB) syncLog() error {
	if d.opts.Memory {
		return nil
	}
	if err := d.pauseWrites(); err != nil {
		return err
	}
	defer d.resumeWrites()
	// A record without data is not stored, and syncs all that was written before.
	if err := d.pebble.LogData(nil, pebble.Sync); err != nil {
		d.fail(err)
		return d.Err()
	}
	return nil
}
