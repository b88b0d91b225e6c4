package mqtt

import (
	"encoding/binary"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// Packet identifiers of deliveries: those of a session's own queue are derived,
// those of shared queues are given out above them.
const (
	ownIDs   = 32767
	sharedID = 32768
)

// packetID is the identifier of a message of the session's own queue. It follows
// from the sequence, so that it is the same after a crash; the term above the
// counter of 40 bits does not count.
func packetID(s core.Seq) uint16 { return uint16(1 + uint64(s)&(1<<40-1)%ownIDs) }

// flightState says how far a delivery has come.
type flightState uint8

const (
	flightSent     flightState = iota
	flightReceived             // PUBREC has come, and PUBREL waits for the commit
	flightReleased             // PUBREL is written, and PUBCOMP is to come
)

// flight is a delivery with QoS 1 or 2 that is under way.
type flight struct {
	source  *source // nil: of a connection before
	receipt core.Receipt
	qos     byte
	state   flightState
	stored  bool // there is a record that PUBCOMP is to come
}

// freeIDLocked returns an identifier for a shared delivery, 0 if there is none.
func (c *conn) freeIDLocked() uint16 {
	for range ownIDs {
		id := sharedID + c.nextID
		c.nextID = (c.nextID + 1) % sharedID
		if _, taken := c.flights[id]; !taken {
			return id
		}
	}
	return 0
}

// acknowledged carries out an acknowledgement.
func (c *conn) acknowledged(t wire.Type, a wire.Ack) error {
	switch t {
	case wire.PUBACK:
		return c.puback(a)
	case wire.PUBREC:
		return c.pubrec(a)
	case wire.PUBREL:
		c.pubrel(a.ID)
		return nil
	}
	return c.pubcomp(a.ID)
}

// puback ends a delivery with QoS 1.
func (c *conn) puback(a wire.Ack) error {
	c.mu.Lock()
	f, ok := c.flights[a.ID]
	if ok && f.qos == 2 {
		c.mu.Unlock()
		return wire.Fail(wire.ProtocolError, "a PUBACK answers a PUBLISH of QoS 2")
	}
	if ok {
		delete(c.flights, a.ID)
		c.wakeSourcesLocked()
	}
	c.mu.Unlock()
	if ok {
		c.done(f, a.Reason)
	}
	return nil
}

// done settles a delivery, with the next flush.
func (c *conn) done(f flight, r wire.Reason) {
	s := f.source
	action := core.SettleDelete
	if r >= wire.Unspecified && s.kind == sourceShared && s.group.filter == "" {
		action = core.SettleReject
	}
	if len(s.acked) == 0 {
		c.settles = append(c.settles, s)
	}
	s.acked = append(s.acked, core.Settlement{Receipt: f.receipt, Action: action})
	if len(s.acked) >= receiveMax {
		c.flush()
	}
}

// flush does what was put off until nothing more is there to read.
func (c *conn) flush() {
	for i, s := range c.settles {
		s.settle(s.acked)
		s.acked = s.acked[:0]
		c.settles[i] = nil
	}
	c.settles = c.settles[:0]
}

// pubrec takes that a message of QoS 2 has come. PUBREL is written when that is
// durable.
func (c *conn) pubrec(a wire.Ack) error {
	c.mu.Lock()
	f, ok := c.flights[a.ID]
	switch {
	case !ok:
		// Of a message that is not there any more, or of none.
		r := wire.Success
		if c.version == wire.V5 {
			r = wire.IDNotFound
		}
		if a.Reason < wire.Unspecified {
			c.putLocked(wire.AppendAck(c.beginLocked(), c.version, wire.PUBREL, a.ID, r))
		}
		c.mu.Unlock()
		return nil
	case f.qos != 2:
		c.mu.Unlock()
		return wire.Fail(wire.ProtocolError, "a PUBREC answers a PUBLISH of QoS 1")
	case f.state == flightReleased:
		c.putLocked(wire.AppendAck(c.beginLocked(), c.version, wire.PUBREL, a.ID, wire.Success))
		fallthrough
	case f.state == flightReceived:
		c.mu.Unlock()
		return nil
	case a.Reason >= wire.Unspecified:
		delete(c.flights, a.ID)
		c.wakeSourcesLocked()
		c.mu.Unlock()
		c.done(f, a.Reason)
		return nil
	}
	f.state = flightReceived
	c.flights[a.ID] = f
	c.mu.Unlock()
	return c.received2(a.ID, f)
}

// received2 settles a message of QoS 2 and notes that PUBCOMP is to come.
func (c *conn) received2(id uint16, f flight) error {
	settled := core.Settlement{Receipt: f.receipt, Action: core.SettleDelete}
	released := func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer c.calledLocked()
		if err != nil {
			c.endLocked(endLost, reasonOf(err), "")
			return
		}
		f.state = flightReleased
		c.flights[id] = f
		c.putLocked(wire.AppendAck(c.beginLocked(), c.version, wire.PUBREL, id, wire.Success))
	}
	c.expectCall()
	if !f.stored {
		err := c.client.SettleAsync(f.source.queue, []core.Settlement{settled}, func(_ []error, err error) { released(err) })
		if err != nil {
			released(nil) // the queue has gone, and all that was in it
		}
		return nil
	}
	order := binary.BigEndian.AppendUint64(nil, uint64(f.receipt.Ref.Seq))
	tx := c.client.Begin()
	_ = tx.PutRecord(state.WithID(state.Out(c.key), id), order) // the name and the value are short
	_ = tx.Settle(f.source.queue, settled)                      // the action is one
	err := tx.CommitAsync(func(_ []core.Published, err error) { released(err) })
	if err != nil {
		// The message has gone meanwhile. What is to come remains.
		tx = c.client.Begin()
		_ = tx.PutRecord(state.WithID(state.Out(c.key), id), order)
		if err = tx.CommitAsync(func(_ []core.Published, err error) { released(err) }); err != nil {
			c.called()
			return coreError(err)
		}
	}
	return nil
}

// pubcomp ends a delivery with QoS 2. Nobody waits for its record to go.
func (c *conn) pubcomp(id uint16) error {
	c.mu.Lock()
	f, ok := c.flights[id]
	if ok && f.state != flightReleased {
		c.mu.Unlock()
		return wire.Fail(wire.ProtocolError, "a PUBCOMP answers no PUBREL")
	}
	if ok {
		delete(c.flights, id)
		c.wakeSourcesLocked()
	}
	c.mu.Unlock()
	if !ok || !f.stored {
		return nil
	}
	tx := c.client.Begin()
	_ = tx.DropRecord(state.WithID(state.Out(c.key), id))
	c.expectCall()
	if err := tx.CommitAsync(func([]core.Published, error) { c.called() }); err != nil {
		c.called()
		return coreError(err)
	}
	return nil
}
