package core

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/leasemq/broker/core/match"
)

// A retained value is the last message that was published to a topic with Retain:
// a node-wide record, named by the topic, of which the value is the message's own
// record. Nothing of it is kept in memory.
const retainedPrefix = "retained/"

// retainedSlots is how many groups of topics are told apart by retainedTable.
const retainedSlots = 1 << 12

// retainedTable tells the sweep of expired values what it must leave alone. It is
// guarded by the sequencer.
type retainedTable struct {
	wrote  [retainedSlots]uint64 // by hash of the topic: newest group that wrote a value
	expiry atomic.Int64          // no value expires before it, milliseconds; 0: look
}

// retain appends what the publish keeps of its last message. Without a body that
// is nothing, in the place of what was there. The sequencer is held.
func (f *fan) retain(g *group) {
	p := f.publish
	if !p.Retain || len(f.base) == 0 {
		return
	}
	t := &f.engine.retained
	t.wrote[groupHash(p.Topic)%retainedSlots] = g.n
	name := []byte(retainedPrefix + p.Topic)
	last := len(f.base) - 1
	if len(f.msgs[last].Body) == 0 {
		g.put(Edit{Kind: EditDropRecord, Key: name})
		return
	}
	rec := f.base[last].rec
	g.put(Edit{Kind: EditPutRecord, Key: name, Value: rec})
	if at := recordExpiresAt(rec); at != 0 && at < t.expiry.Load() {
		t.expiry.Store(at)
	}
}

// Retained calls visit with the retained value of each topic that a filter
// matches, until it returns false. What was published before the call is there;
// what is published meanwhile may be. Nothing is held while visit runs.
func (c *Client) Retained(ctx context.Context, filter string, visit func(topic string, m *Stored) bool) error {
	e := c.engine
	if match.CheckFilter(filter) != nil {
		return ErrInvalidTopic
	}
	if err := e.read(ctx); err != nil {
		return err
	}
	more := true
	show := func(topic string, rec []byte) (bool, error) {
		if at := recordExpiresAt(rec); at != 0 && at <= e.clock.now() || !match.Matches(filter, topic) {
			return true, nil
		}
		var m Stored
		if err := decodeRecord(rec, &m); err != nil {
			return false, err
		}
		more = visit(topic, &m)
		return more, ctx.Err()
	}
	literal, wild := cutLiteral(filter)
	if name := strings.TrimSuffix(literal, "/"); !wild || name != literal {
		// The topic itself: of "a/#" the parent, which lies apart from "a/".
		rec, err := e.store.Record(retainedPrefix + name)
		if err == nil && rec != nil {
			if err = checkRecord(rec); err == nil {
				_, err = show(name, rec)
			}
		}
		if err != nil || !wild || !more {
			return err
		}
	}
	return e.walkRetained(literal, show)
}

// cutLiteral returns what the topics that a filter matches begin with, and whether
// a wildcard follows it.
func cutLiteral(filter string) (string, bool) {
	i := strings.IndexAny(filter, "+#")
	if i < 0 {
		return filter, false
	}
	return filter[:i], true
}

// walkRetained calls visit with the values of the topics that begin with prefix,
// in the order of their names.
func (e *Engine) walkRetained(prefix string, visit func(topic string, rec []byte) (bool, error)) error {
	var bad error
	err := e.walkRecords(retainedPrefix+prefix, "", func(name string, rec []byte) bool {
		if bad = checkRecord(rec); bad != nil {
			return false
		}
		var more bool
		more, bad = visit(name[len(retainedPrefix):], rec)
		return more && bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}

// sweepRetained removes the values that have expired, if there may be any.
func (e *Engine) sweepRetained() {
	t := &e.retained
	if at := t.expiry.Load(); at > e.clock.now() {
		return
	}
	if _, err := e.seq.begin(); err != nil {
		return
	}
	t.expiry.Store(recordTimeMax + 1) // publishes from now on set it lower
	e.seq.end()
	e.seq.settle() // those of before are read below
	next := int64(recordTimeMax + 1)
	durable := e.seq.durableGroup()
	err := e.walkRetained("", func(topic string, rec []byte) (bool, error) {
		at := recordExpiresAt(rec)
		switch {
		case at == 0:
		case at > e.clock.now():
			next = min(next, at)
		default:
			if err := e.dropRetained(topic, durable); err != nil {
				return false, err
			}
		}
		return !e.stopped(), nil
	})
	if err != nil {
		e.complain("expire retained values", err)
		next = 0
	}
	for {
		at := t.expiry.Load()
		if at <= next || t.expiry.CompareAndSwap(at, next) {
			return
		}
	}
}

// dropRetained removes a value that was read after group durable was, unless
// another may have come in its place.
func (e *Engine) dropRetained(topic string, durable uint64) error {
	g, err := e.seq.begin()
	if err != nil {
		return err
	}
	defer e.seq.end()
	if e.retained.wrote[groupHash(topic)%retainedSlots] <= durable {
		g.put(Edit{Kind: EditDropRecord, Key: []byte(retainedPrefix + topic)})
	}
	return nil
}
