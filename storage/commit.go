package storage

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// Submit implements core.Committer. It takes one caller at a time, blocks while
// pipelineDepth Changes are unanswered, and does not use c after it returns.
// What a Change reads as is visible to the Store before done is called. After a
// failure, and after Close, done gets an error that wraps core.ErrStopped.
func (d *DB) Submit(c *core.Change, done func(pos core.Pos, err error)) {
	item := pending{done: done}
	switch {
	case d.opts.Replicated:
		// It would be in this copy alone.
		d.fail(fmt.Errorf("submit: %w", ErrReplicated))
	case !d.pipe.isStopped():
		var err error
		if item.batch, item.pos, err = d.encode(c); err != nil {
			d.fail(fmt.Errorf("encode change: %w", err))
		}
	}
	d.pipe.push(item)
}

// encode makes the batch of c. The position rises by one a Change; it belongs
// to the goroutine that submits.
func (d *DB) encode(c *core.Change) (*pebble.Batch, core.Pos, error) {
	size := batchOverhead
	for i := range c.Edits {
		size += batchOverheadPerEdit + len(c.Edits[i].Key) + len(c.Edits[i].Value)
	}
	b := d.pebble.NewBatchWithSize(size, d.batchOptions...)
	d.encoder.batch = b
	if err := d.encoder.change(c); err != nil {
		return nil, 0, err
	}
	d.pos++
	if err := d.encoder.position(position{pos: d.pos, time: c.Time}); err != nil {
		return nil, 0, err
	}
	return b, d.pos, nil
}

// pending is a Change between Submit and its answer.
type pending struct {
	batch *pebble.Batch
	pos   core.Pos
	done  func(core.Pos, error)
}

// pipeline takes batches through apply, fsync and answer, in order.
type pipeline struct {
	db      *DB
	running sync.WaitGroup // applier and syncer

	// answering is held over each callback, so that the refuser takes over
	// between two of them.
	answering sync.Mutex

	mu        sync.Mutex
	room      sync.Cond // an item was answered
	submit    sync.Cond // an item was submitted, or err was set
	apply     sync.Cond // an item was applied, or err was set
	ring      [pipelineDepth]pending
	submitted uint64 // counts of items; they only rise
	applied   uint64
	answered  uint64
	err       error // why nothing more is committed
	refusing  bool  // the refuser runs
}

func (p *pipeline) init(d *DB) {
	p.db = d
	p.room.L, p.submit.L, p.apply.L = &p.mu, &p.mu, &p.mu
}

// start starts the goroutines.
func (p *pipeline) start() {
	p.running.Go(p.runApplier)
	if p.db.waitsForSync() {
		p.running.Go(p.runSyncer)
	}
}

func (p *pipeline) push(item pending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.submitted-p.answered == pipelineDepth {
		p.room.Wait()
	}
	p.ring[p.submitted%pipelineDepth] = item
	p.submitted++
	if p.err != nil {
		p.refuseLocked()
		return
	}
	p.submit.Signal()
}

// stop makes all that is not answered yet, and all that comes, answer err.
func (p *pipeline) stop(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.refuseLocked()
	p.submit.Broadcast()
	p.apply.Broadcast()
	p.room.Broadcast()
}

// drain waits until all that was submitted has been answered.
func (p *pipeline) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.answered < p.submitted {
		p.room.Wait()
	}
}

func (p *pipeline) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

func (p *pipeline) runApplier() {
	for {
		p.mu.Lock()
		for p.applied == p.submitted && p.err == nil {
			p.submit.Wait()
		}
		item, stopped := p.ring[p.applied%pipelineDepth], p.err != nil
		p.mu.Unlock()
		if stopped {
			return
		}
		if err := p.db.apply(item.batch); err != nil {
			p.db.fail(err)
			return
		}
		p.mu.Lock()
		p.applied++
		p.apply.Signal()
		p.mu.Unlock()
		if !p.db.waitsForSync() && !p.answer(item) {
			return
		}
	}
}

func (p *pipeline) runSyncer() {
	for n := uint64(0); ; n++ {
		p.mu.Lock()
		for n == p.applied && p.err == nil {
			p.apply.Wait()
		}
		item, stopped := p.ring[n%pipelineDepth], p.err != nil
		p.mu.Unlock()
		if stopped {
			return
		}
		// Apply hides an error of the log until here.
		if err := item.batch.SyncWait(); err != nil {
			p.db.fail(err)
			return
		}
		if !p.answer(item) {
			return
		}
	}
}

// answer reports the oldest item as committed, unless the database has failed
// meanwhile: then the refuser answers it.
func (p *pipeline) answer(item pending) bool {
	p.answering.Lock()
	defer p.answering.Unlock()
	if p.isStopped() {
		return false
	}
	item.done(item.pos, nil)
	p.mu.Lock()
	p.answeredLocked()
	p.mu.Unlock()
	// The batch goes back to Pebble's pool, unless it is larger than most.
	if err := item.batch.Close(); err != nil {
		p.db.fail(fmt.Errorf("close batch: %w", err))
		return false
	}
	return true
}

func (p *pipeline) answeredLocked() {
	p.ring[p.answered%pipelineDepth] = pending{}
	p.answered++
	p.room.Broadcast()
}

// refuseLocked starts the refuser if there is something for it to do.
func (p *pipeline) refuseLocked() {
	if !p.refusing && p.answered < p.submitted {
		p.refusing = true
		go p.refuse()
	}
}

// refuse answers with the error until nothing is left. Batches are not used
// again: a goroutine that will never return may still hold them.
func (p *pipeline) refuse() {
	p.answering.Lock()
	defer p.answering.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.err
	for p.answered < p.submitted {
		done := p.ring[p.answered%pipelineDepth].done
		p.mu.Unlock()
		done(0, err)
		p.mu.Lock()
		p.answeredLocked()
	}
	p.refusing = false
}

// waitsForSync tells whether a Change is reported only when it is fsynced.
func (d *DB) waitsForSync() bool { return !d.opts.Memory && d.opts.Sync == SyncCommit }

// apply writes b to the log and makes it visible.
func (d *DB) apply(b *pebble.Batch) error {
	n := b.Len() // a large batch is taken over by Apply
	if err := d.pauseWrites(); err != nil {
		return err
	}
	var err error
	if d.waitsForSync() {
		err = d.pebble.ApplyNoSyncWait(b, pebble.Sync)
	} else {
		err = d.pebble.Apply(b, pebble.NoSync)
		d.interval.dirty()
	}
	d.resumeWrites()
	if err != nil {
		return err
	}
	d.commits.Add(1)
	d.committedBytes.Add(uint64(n))
	d.watch.wrote(n)
	return nil
}

// intervalSync fsyncs the log a while after the first Change that was reported
// without it. Nothing runs while nothing is committed.
type intervalSync struct {
	db    *DB
	every time.Duration // 0: off

	mu      sync.Mutex
	armed   bool
	closed  bool
	timer   *time.Timer
	running sync.WaitGroup
}

// dirty notes that there is something to sync.
func (s *intervalSync) dirty() {
	if s.every == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed || s.closed {
		return
	}
	s.armed = true
	s.running.Add(1)
	s.timer = time.AfterFunc(s.every, s.sync)
}

func (s *intervalSync) sync() {
	defer s.running.Done()
	s.mu.Lock()
	s.armed = false
	s.mu.Unlock()
	_ = s.db.syncLog() // a failure stops the database
}

// close ends the syncs; what is not synced yet is left to the caller.
func (s *intervalSync) close() {
	s.mu.Lock()
	s.closed = true
	if s.armed && s.timer.Stop() {
		s.armed = false
		s.running.Done()
	}
	s.mu.Unlock()
	s.running.Wait()
}
