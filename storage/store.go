package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// readError marks what Pebble calls corruption as core.ErrCorrupt. Pebble's mark
// is invisible to the standard library's errors.Is.
func (d *DB) readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, core.ErrCorrupt):
		d.events.corruptions.Add(1)
		return err
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", core.ErrCorrupt, err)
	}
	return err
}

// get passes the value at s.lower to use, if there is one.
func (s *scan) get(use func(v []byte) error) (found bool, err error) {
	d := s.db
	if !d.enter() {
		return false, core.ErrStopped
	}
	defer d.leave()
	v, closer, err := d.pebble.Get(s.lower)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = errors.Join(use(v), closer.Close())
	}
	return true, err
}

// copyOf returns a copy of the value at s.lower, nil if there is none.
func (s *scan) copyOf(what string) ([]byte, error) {
	var out []byte
	_, err := s.get(func(v []byte) error {
		out = slices.Clone(v)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, s.db.readError(err))
	}
	return out, nil
}

// QueueID implements core.Catalog.
func (d *DB) QueueID(name string) (q core.QID, err error) {
	s := d.scan()
	defer s.release()
	s.lower = append(append(s.lower, spaceName), name...)
	_, err = s.get(func(v []byte) (err error) {
		q, err = decodeName(v)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read name %q: %w", name, d.readError(err))
	}
	return q, nil
}

// QueueRecord implements core.Catalog.
func (d *DB) QueueRecord(q core.QID) ([]byte, error) {
	s := d.scan()
	defer s.release()
	s.lower = appendQID(s.lower, spaceQueue, q)
	return s.copyOf("queue record")
}

// QueueState implements core.Store.
func (d *DB) QueueState(q core.QID) ([]byte, error) {
	s := d.scan()
	defer s.release()
	s.lower = appendQID(s.lower, spaceQueueState, q)
	return s.copyOf("queue state")
}

// Message implements core.Bodies.
func (d *DB) Message(r core.Ref) ([]byte, error) {
	if err := checkPlace(r.Place); err != nil {
		return nil, err
	}
	s := d.scan()
	defer s.release()
	s.lower = appendMessageKey(s.lower, r)
	return s.copyOf("message")
}

// Body implements core.Bodies.
func (d *DB) Body(epoch core.QID, seq core.Seq) ([]byte, error) {
	s := d.scan()
	defer s.release()
	s.lower = appendSeq(appendQID(s.lower, spaceBody, epoch), seq)
	return s.copyOf("body")
}

// Epochs implements core.Bodies.
func (d *DB) Epochs(visit func(epoch core.QID, value []byte) bool) error {
	s := d.scan()
	defer s.release()
	s.lower = append(s.lower, spaceEpoch)
	s.upper = append(s.upper, spaceEpoch+1)
	return s.walk("epochs", func(key, v []byte) (bool, error) {
		epoch, err := parseQID(key, spaceEpoch)
		if err != nil {
			return false, err
		}
		return visit(epoch, v), nil
	})
}

// State implements core.Store.
func (d *DB) State(r core.Ref) (st core.MessageState, ok bool, err error) {
	if err := checkPlace(r.Place); err != nil {
		return st, false, err
	}
	s := d.scan()
	defer s.release()
	s.lower = appendStateKey(s.lower, r)
	ok, err = s.get(func(v []byte) (err error) {
		st, err = decodeState(v)
		return err
	})
	if err != nil {
		return core.MessageState{}, false, fmt.Errorf("read state of %s: %w", r, d.readError(err))
	}
	return st, ok, nil
}

// Dedup implements core.Catalog. Nearly always the answer is no.
func (d *DB) Dedup(minute uint32, q core.QID, hash [16]byte) ([]byte, error) {
	s := d.scan()
	defer s.release()
	s.lower = appendDedupKey(s.lower, minute, q, hash[:])
	return s.copyOf("deduplication entry")
}

// Record implements core.Catalog.
func (d *DB) Record(name string) ([]byte, error) {
	s := d.scan()
	defer s.release()
	s.lower = append(append(s.lower, spaceRecord), name...)
	return s.copyOf("record " + name)
}

// Messages implements core.Store.
func (d *DB) Messages(q core.QID, lane core.Place, from, to core.Seq, visit func(s core.Seq, record []byte) bool) error {
	if err := checkPlace(lane); err != nil {
		return err
	}
	if from >= to {
		return nil
	}
	s := d.scan()
	defer s.release()
	s.lower = appendSeq(appendLanePrefix(s.lower, q, lane), from)
	s.upper = appendSeq(appendLanePrefix(s.upper, q, lane), to)
	prefix := len(s.lower) - 8
	return s.walk("messages", func(key, v []byte) (bool, error) {
		if len(key) != prefix+8 {
			return false, errKey
		}
		return visit(core.Seq(binary.BigEndian.Uint64(key[prefix:])), v), nil
	})
}

// Delayed implements core.Store.
func (d *DB) Delayed(q core.QID, due uint64, seq core.Seq, dueEnd uint64, visit func(due uint64, s core.Seq, record []byte) bool) error {
	if due >= dueEnd || due > dueMax {
		return nil
	}
	s := d.scan()
	defer s.release()
	s.lower = appendMessageKey(s.lower, core.Ref{QID: q, Place: core.Place{Kind: core.PlaceDelayed, N: due}, Seq: seq})
	if dueEnd <= dueMax {
		s.upper = appendLanePrefix(s.upper, q, core.Place{Kind: core.PlaceDelayed, N: dueEnd})
	} else {
		s.upper = successor(appendQID(s.upper, spaceDelayed, q))
	}
	return s.walk("delayed messages", func(key, v []byte) (bool, error) {
		r, err := parseRef(key)
		if err != nil {
			return false, err
		}
		return visit(r.Place.N, r.Seq, v), nil
	})
}

// States implements core.Store.
func (d *DB) States(from core.Ref, visit func(r core.Ref, st core.MessageState) bool) error {
	if err := checkPlace(from.Place); err != nil {
		return err
	}
	s := d.scan()
	defer s.release()
	s.lower = appendStateKey(s.lower, from)
	s.upper = successor(appendQID(s.upper, spaceState, from.QID))
	return s.walk("state records", func(key, v []byte) (bool, error) {
		r, err := parseRef(key)
		if err != nil {
			return false, err
		}
		st, err := decodeState(v)
		if err != nil {
			return false, err
		}
		return visit(r, st), nil
	})
}

// Lanes implements core.Store. The zero place starts at the first lane, even if
// that is the zero place itself.
func (d *DB) Lanes(q core.QID, after core.Place, visit func(p core.Place, value []byte) bool) error {
	if err := checkPlace(after); err != nil {
		return err
	}
	s := d.scan()
	defer s.release()
	s.lower = appendLaneKey(s.lower, q, after)
	if after != (core.Place{}) {
		s.lower = append(s.lower, 0) // no lane key goes on behind another one
	}
	s.upper = successor(appendQID(s.upper, spaceLane, q))
	return s.walk("lanes", func(key, v []byte) (bool, error) {
		_, p, err := parseLane(key)
		if err != nil {
			return false, err
		}
		return visit(p, v), nil
	})
}

// Names implements core.Catalog.
func (d *DB) Names(prefix, after string, visit func(name string, q core.QID) bool) error {
	s := d.scan()
	defer s.release()
	s.within(spaceName, prefix, after)
	return s.walk("names", func(key, v []byte) (bool, error) {
		q, err := decodeName(v)
		if err != nil {
			return false, err
		}
		return visit(string(key[1:]), q), nil
	})
}

// Reaps implements core.Catalog.
func (d *DB) Reaps(visit func(q core.QID) bool) error {
	s := d.scan()
	defer s.release()
	s.lower = append(s.lower, spaceReap)
	s.upper = append(s.upper, spaceReap+1)
	return s.walk("removal marks", func(key, _ []byte) (bool, error) {
		q, err := parseQID(key, spaceReap)
		if err != nil {
			return false, err
		}
		return visit(q), nil
	})
}

// DedupFrom implements core.Catalog.
func (d *DB) DedupFrom() (minute uint32, ok bool, err error) {
	s := d.scan()
	defer s.release()
	s.lower = append(s.lower, spaceDedup)
	s.upper = append(s.upper, spaceDedup+1)
	err = s.walk("deduplication entries", func(key, _ []byte) (more bool, err error) {
		minute, _, _, err = parseDedup(key)
		ok = err == nil
		return false, err
	})
	return minute, ok, err
}

// Records implements core.Catalog.
func (d *DB) Records(prefix, after string, visit func(name string, value []byte) bool) error {
	s := d.scan()
	defer s.release()
	s.within(spaceRecord, prefix, after)
	return s.walk("records", func(key, v []byte) (bool, error) {
		return visit(string(key[1:]), v), nil
	})
}
