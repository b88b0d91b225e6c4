package storage

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// Bounds of a digest.
const (
	digestVersion    = 1         // of what is hashed
	digestSliceBytes = 256 << 10 // between two pauses
	digestPauseMax   = 10 * time.Millisecond
	digestsMax       = 4 // at once: each keeps what is deleted meanwhile from being given free
)

var errDigests = fmt.Errorf("%d digests are under way", digestsMax)

// digests are those under way.
type digests struct {
	running int
	waiting []*boundary
}

// boundary is a digest that waits for a batch.
type boundary struct {
	seq uint64
	got chan *pebble.Snapshot // of right after the batch; capacity 1
}

// Digest hashes all keys and values that replicas share, as they are now, and
// returns the position of what was applied last. It is equal on two databases
// that have applied the same records, in whatever batches. It takes as much time
// for pauses as for work.
func (d *DB) Digest(ctx context.Context) (core.LogPosition, [sha256.Size]byte, error) {
	return d.DigestAt(ctx, 0, 0)
}

// DigestAt is Digest of the state right after the first batch at or above seq. If
// that does not come within wait, or has passed, it is of the state as it is then:
// the position tells.
func (d *DB) DigestAt(ctx context.Context, seq uint64, wait time.Duration) (core.LogPosition, [sha256.Size]byte, error) {
	at, sum, err := d.digest(ctx, seq, wait)
	if err != nil {
		return core.LogPosition{}, sum, fmt.Errorf("digest: %w", err)
	}
	return at, sum, nil
}

func (d *DB) digest(ctx context.Context, seq uint64, wait time.Duration) (at core.LogPosition, sum [sha256.Size]byte, err error) {
	if !d.enter() {
		return at, sum, core.ErrStopped
	}
	defer d.leave()
	b, err := d.awaitBatch(seq)
	if err != nil {
		return at, sum, err
	}
	defer d.digestEnded()
	snapshot, err := d.snapshotAt(ctx, b, wait)
	if err != nil {
		return at, sum, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if at, err = d.positionIn(snapshot); err != nil {
		return at, sum, err
	}
	h := sha256.New()
	h.Write([]byte{digestVersion})
	if err := d.hashAll(ctx, snapshot, h); err != nil {
		return at, sum, err
	}
	h.Sum(sum[:0])
	return at, sum, nil
}

// awaitBatch counts a digest, and has Apply take its snapshot. It returns nil if
// the batch is in already.
func (d *DB) awaitBatch(seq uint64) (*boundary, error) {
	d.applied.mu.Lock()
	defer d.applied.mu.Unlock()
	w := &d.applied.digests
	if w.running >= digestsMax {
		return nil, errDigests
	}
	w.running++
	if !d.opts.Replicated || d.applied.at.Seq >= seq {
		return nil, nil
	}
	b := &boundary{seq: seq, got: make(chan *pebble.Snapshot, 1)}
	w.waiting = append(w.waiting, b)
	return b, nil
}

func (d *DB) digestEnded() {
	d.applied.mu.Lock()
	defer d.applied.mu.Unlock()
	d.applied.digests.running--
}

// snapshotAt waits for the snapshot of b, or takes one now.
func (d *DB) snapshotAt(ctx context.Context, b *boundary, wait time.Duration) (*pebble.Snapshot, error) {
	if b == nil {
		return d.pebble.NewSnapshot(), nil
	}
	err := d.pauseDigest(ctx, wait, b.got)
	d.applied.mu.Lock()
	w := &d.applied.digests
	w.waiting = slices.DeleteFunc(w.waiting, func(other *boundary) bool { return other == b })
	d.applied.mu.Unlock()
	var snapshot *pebble.Snapshot
	select { // nobody else sends to it any more
	case snapshot = <-b.got:
	default:
	}
	switch {
	case err != nil && snapshot != nil:
		return nil, errors.Join(err, snapshot.Close())
	case err != nil:
		return nil, err
	case snapshot == nil:
		return d.pebble.NewSnapshot(), nil
	}
	return snapshot, nil
}

// pauseDigest waits, until there is something in got, and fails when the digest
// is to end.
func (d *DB) pauseDigest(ctx context.Context, wait time.Duration, got chan *pebble.Snapshot) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case s := <-got:
		got <- s
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.guard.closed:
		return core.ErrStopped
	case <-d.failed:
		return d.failure
	}
}

// snapshotForDigestsLocked takes the snapshots of those that wait for what was just
// applied. Nothing else is applied meanwhile.
func (d *DB) snapshotForDigestsLocked() {
	w := &d.applied.digests
	w.waiting = slices.DeleteFunc(w.waiting, func(b *boundary) bool {
		if d.applied.at.Seq < b.seq {
			return false
		}
		b.got <- d.pebble.NewSnapshot()
		return true
	})
}

// hashAll hashes what replicas share: all spaces but that of the engine.
func (d *DB) hashAll(ctx context.Context, from pebble.Reader, h hash.Hash) (err error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceEngine + 1}, UpperBound: []byte{0xff}})
	if err != nil {
		return d.readError(err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil {
			err = d.readError(closeErr) // it repeats Error
		}
	}()
	var lengths [2 * binary.MaxVarintLen64]byte
	start, left := time.Now(), digestSliceBytes
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return d.readError(err)
		}
		k := it.Key()
		h.Write(binary.AppendUvarint(binary.AppendUvarint(lengths[:0], uint64(len(k))), uint64(len(v))))
		h.Write(k)
		h.Write(v)
		if left -= len(k) + len(v); left > 0 {
			continue
		}
		if err := d.pauseDigest(ctx, min(time.Since(start), digestPauseMax), nil); err != nil {
			return err
		}
		start, left = time.Now(), digestSliceBytes
	}
	return d.readError(it.Error())
}

// positionIn reads what was applied last to what from sees.
func (d *DB) positionIn(from pebble.Reader) (core.LogPosition, error) {
	v, closer, err := from.Get([]byte(keyPosition))
	if errors.Is(err, pebble.ErrNotFound) {
		return core.LogPosition{}, nil
	}
	if err != nil {
		return core.LogPosition{}, d.readError(err)
	}
	p, err := decodePosition(v)
	if err = errors.Join(err, closer.Close()); err != nil {
		return core.LogPosition{}, d.readError(err)
	}
	if p.log == nil {
		return core.LogPosition{Seq: uint64(p.pos), Time: p.time}, nil
	}
	return *p.log, nil
}
