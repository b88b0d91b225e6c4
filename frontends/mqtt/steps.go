package mqtt

import (
	"encoding/binary"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// stepsMax bounds the steps of QoS 2 that are put off.
const stepsMax = 64

// step is one of QoS 2 that is to be stored. Those of packets that come together
// share a transaction.
type step struct {
	kind   wire.Type // that has come: PUBREC, PUBREL or PUBCOMP
	id     uint16
	answer uint64 // of a PUBREL
	flight flight // of a PUBREC
}

// putOff stores a step with the next flush.
func (c *conn) putOff(s step) {
	c.steps = append(c.steps, s)
	if len(c.steps) >= stepsMax {
		c.flush()
	}
}

// releasing tells whether the release of a packet identifier is put off.
func (c *conn) releasing(id uint16) bool {
	for i := range c.steps {
		if c.steps[i].kind == wire.PUBREL && c.steps[i].id == id {
			return true
		}
	}
	return false
}

// flush does what was put off until nothing more is there to read.
func (c *conn) flush() {
	for i, s := range c.settles {
		s.settle(s.acked)
		s.acked = s.acked[:0]
		c.settles[i] = nil
	}
	c.settles = c.settles[:0]
	if len(c.steps) == 0 {
		return
	}
	steps := c.steps
	c.steps = nil
	if c.take(steps, true) == nil {
		return
	}
	// A message has gone meanwhile. What is to come of it remains.
	for i := range steps {
		one := steps[i : i+1 : i+1]
		if c.take(one, true) == nil {
			continue
		}
		if err := c.take(one, false); err != nil {
			c.end(endLost, reasonOf(err), "")
			return
		}
	}
}

// take stores steps, in order, and goes on with them when that is durable. Messages
// that have been delivered are settled with it.
func (c *conn) take(steps []step, settle bool) error {
	tx := c.client.Begin()
	for i := range steps {
		s := &steps[i]
		switch s.kind { // the names are short, and so is the value
		case wire.PUBREC:
			order := binary.BigEndian.AppendUint64(nil, uint64(s.flight.receipt.Ref.Seq))
			_ = tx.PutRecord(state.WithID(c.outName, s.id), order)
			if settle {
				_ = tx.Settle(s.flight.source.queue, core.Settlement{Receipt: s.flight.receipt, Action: core.SettleDelete})
			}
		case wire.PUBREL:
			_ = tx.DropRecord(state.WithID(c.inName, s.id))
		default:
			_ = tx.DropRecord(state.WithID(c.outName, s.id))
		}
	}
	c.expectCall()
	err := tx.CommitAsync(func(_ []core.Published, err error) { c.taken(steps, err) })
	if err != nil {
		c.called()
	}
	return err
}

// taken goes on with steps that are durable.
func (c *conn) taken(steps []step, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.calledLocked()
	if err != nil {
		c.endLocked(endLost, reasonOf(err), "")
		return
	}
	b := c.beginLocked()
	for i := range steps {
		s := &steps[i]
		switch s.kind {
		case wire.PUBREC:
			s.flight.state = flightReleased
			c.flights[s.id] = s.flight
			b = wire.AppendAck(b, c.version, wire.PUBREL, s.id, wire.Success)
		case wire.PUBREL:
			c.answers.at(s.answer).done = true
		case wire.PUBCOMP:
			delete(c.flights, s.id)
		}
	}
	c.wakeSourcesLocked()
	c.putLocked(b)
	c.tellLocked()
}
