package mqtt

import (
	"github.com/leasemq/broker/core"
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
	flightDone                 // PUBCOMP has come, and waits for the commit
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
	case f.state >= flightReleased:
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
	if f.stored {
		c.putOff(step{kind: wire.PUBREC, id: a.ID, flight: f})
		return nil
	}
	c.release(a.ID, f)
	return nil
}

// release settles a message of QoS 2 of which nothing is stored. PUBREL follows.
func (c *conn) release(id uint16, f flight) {
	c.expectCall()
	settled := []core.Settlement{{Receipt: f.receipt, Action: core.SettleDelete}}
	steps := []step{{kind: wire.PUBREC, id: id, flight: f}}
	err := c.client.SettleAsync(f.source.queue, settled, func(_ []error, err error) { c.taken(steps, err) })
	if err != nil {
		c.taken(steps, nil) // the queue has gone, and all that was in it
	}
}

// pubcomp ends a delivery with QoS 2. Its packet identifier is free when its record
// is gone for good: after a crash PUBREL would else be said again, and release the
// next message of that identifier.
func (c *conn) pubcomp(id uint16) error {
	c.mu.Lock()
	f, ok := c.flights[id]
	switch {
	case !ok, f.state == flightDone:
		c.mu.Unlock()
		return nil
	case f.state != flightReleased:
		c.mu.Unlock()
		return wire.Fail(wire.ProtocolError, "a PUBCOMP answers no PUBREL")
	case f.stored:
		f.state = flightDone
		c.flights[id] = f
		c.mu.Unlock()
		c.putOff(step{kind: wire.PUBCOMP, id: id})
		return nil
	}
	delete(c.flights, id)
	c.wakeSourcesLocked()
	c.mu.Unlock()
	return nil
}
