package cluster

import (
	"errors"
	"fmt"

	"github.com/leasemq/broker/core"
)

// batchBytesMax bounds a batch of several parts. The core's groups have about
// 4 MiB, and one more operation.
const batchBytesMax = 32 << 20

// ErrDiverged says that the log does not go on from what this node has applied:
// the log has lost or changed records that were acknowledged, or this node has
// applied others. The member stops.
var ErrDiverged = errors.New("log and state have diverged")

// Chain is the apply rule: it judges the records of the log one after another.
// The primary, standbys and a restart all ask it, and it knows nothing else than
// the position that it starts from and the bytes of the records. So each node
// that has looked at the same records has applied the same.
//
// It relies on what every writer does: who begins an epoch has applied all records
// before its own, and each record names the last valid one. A record of a lower
// epoch was in flight when its writer was deposed, and is skipped. Where it lies
// the log has refused one of the primary, so that those which the primary had
// sent behind that one do not fit, and are skipped too. All others must fit, or
// log and state have diverged.
type Chain struct {
	at      core.LogPosition
	parts   []byte // of a batch whose last part is to come
	open    bool   // there are such parts
	skipped bool   // a record, since the last valid one
	lax     bool   // tests only: everything is valid
}

// Step is what one record means.
type Step struct {
	Kind  Kind
	Valid bool   // false: skipped
	Epoch *Epoch // of a valid epoch record
	Batch []byte // of the record that completes a batch: its Changes are to be applied
	Time  int64
}

// NewChain starts behind at, which is of a whole batch.
func NewChain(at core.LogPosition) *Chain { return &Chain{at: at} }

// At returns where the chain stands.
func (c *Chain) At() core.LogPosition { return c.at }

// Whole tells whether a chain that starts at At judges as this one does: no part
// of an incomplete batch lies before it, and no record that was skipped.
func (c *Chain) Whole() bool { return !c.open && !c.skipped }

// Step judges the record at seq, which must be the next one. After an error the
// chain is of no use.
func (c *Chain) Step(seq uint64, data []byte) (Step, error) {
	if seq != c.at.Seq+1 {
		return Step{}, fmt.Errorf("record %d follows %d: %w", seq, c.at.Seq, ErrDiverged)
	}
	r, err := DecodeRecord(data)
	if err != nil {
		return Step{}, fmt.Errorf("record %d: %w", seq, err)
	}
	c.at.Seq = seq
	s := Step{Kind: r.Kind, Time: r.Time}
	if c.stale(&r) && !c.lax {
		c.skipped = true
		return s, nil
	}
	if err := c.fits(&r); err != nil && !c.lax {
		return Step{}, fmt.Errorf("record %d, %s of epoch %d: %w", seq, r.Kind, r.Epoch, err)
	}
	s.Valid, c.skipped = true, false
	c.at.Time = max(c.at.Time, r.Time)
	switch r.Kind {
	case KindEpoch:
		if s.Epoch, err = decodeEpoch(r.Body); err != nil {
			return Step{}, fmt.Errorf("record %d: %w", seq, err)
		}
		c.at.Epoch = r.Epoch
		c.parts, c.open = nil, false // what was cut off never happened
	case KindBatch:
		if s.Batch, err = c.part(r.Body); err != nil {
			return Step{}, fmt.Errorf("record %d: %w", seq, err)
		}
	default:
		return s, nil
	}
	c.at.Hash = HashOf(data)
	return s, nil
}

// stale tells whether r is to be skipped.
func (c *Chain) stale(r *Record) bool {
	return r.Epoch < c.at.Epoch ||
		c.skipped && r.Epoch == c.at.Epoch && r.Kind != KindEpoch && r.Prev != c.at.Hash
}

// fits tells whether a record that is not stale continues the chain.
func (c *Chain) fits(r *Record) error {
	switch {
	case r.Prev != c.at.Hash:
		return fmt.Errorf("it follows another record than the last valid one: %w", ErrDiverged)
	case r.Kind == KindEpoch && r.Epoch == c.at.Epoch:
		return fmt.Errorf("the epoch has begun before: %w", ErrDiverged)
	case r.Kind != KindEpoch && r.Epoch != c.at.Epoch:
		return fmt.Errorf("the epoch, after %d, has not begun: %w", c.at.Epoch, ErrDiverged)
	}
	return nil
}

// part adds a part and returns the batch if it was the last one.
func (c *Chain) part(body []byte) ([]byte, error) {
	if len(body) < 1 || body[0]&^(partFirst|partLast) != 0 {
		return nil, fmt.Errorf("part of a batch: %w", ErrMalformed)
	}
	first, last := body[0]&partFirst != 0, body[0]&partLast != 0
	body = body[1:]
	if first == c.open && !c.lax {
		return nil, fmt.Errorf("part of another batch: %w", ErrMalformed)
	}
	if first && last {
		return body, nil
	}
	if len(c.parts)+len(body) > batchBytesMax {
		return nil, fmt.Errorf("batch of more than %d bytes: %w", batchBytesMax, ErrMalformed)
	}
	c.parts, c.open = append(c.parts, body...), true
	if !last {
		return nil, nil
	}
	whole := c.parts
	c.parts, c.open = nil, false
	return whole, nil
}
