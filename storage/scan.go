package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// scan holds the buffers of one read. A point read has its key in lower.
type scan struct {
	db           *DB
	lower, upper []byte
	options      pebble.IterOptions
}

func (d *DB) scan() *scan {
	s := d.scans.Get().(*scan)
	s.lower, s.upper = s.lower[:0], s.upper[:0]
	return s
}

// within bounds a walk to the keys of a space that have prefix and sort after
// the given one.
func (s *scan) within(space byte, prefix, after string) {
	s.lower = append(append(s.lower, space), prefix...)
	s.upper = successor(append(s.upper, s.lower...))
	if after >= prefix && after != "" {
		s.lower = append(append(s.lower[:1], after...), 0)
	}
}

func (s *scan) release() { s.db.scans.Put(s) }

// walk visits the records with lower <= key < upper, in order, until visit
// answers false or fails. Key and value are valid during the call.
func (s *scan) walk(what string, visit func(key, value []byte) (more bool, err error)) error {
	d := s.db
	if string(s.lower) >= string(s.upper) {
		return nil
	}
	if !d.enter() {
		return core.ErrStopped
	}
	defer d.leave()
	s.options.LowerBound, s.options.UpperBound = s.lower, s.upper
	it, err := d.pebble.NewIter(&s.options)
	if err != nil {
		return fmt.Errorf("read %s: %w", what, d.readError(err))
	}
	err = visitAll(it, visit)
	if closeErr := it.Close(); err == nil {
		err = closeErr // it repeats Error
	}
	if err != nil {
		if errors.Is(err, errKey) {
			err = fmt.Errorf("%w: %w", core.ErrCorrupt, err)
		}
		return fmt.Errorf("read %s: %w", what, d.readError(err))
	}
	return nil
}

func visitAll(it *pebble.Iterator, visit func(key, value []byte) (bool, error)) error {
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		more, err := visit(it.Key(), v)
		if err != nil {
			return fmt.Errorf("key %x: %w", it.Key(), err)
		}
		if !more {
			return nil
		}
	}
	return it.Error()
}
