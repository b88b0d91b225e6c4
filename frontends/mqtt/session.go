package mqtt

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// load returns the record of a session, nil if there is none.
func (s *Server) load(ctx context.Context, key string) (*state.Session, error) {
	b, err := s.client.Record(ctx, state.Name(key))
	if err != nil || b == nil {
		return nil, err
	}
	rec, err := state.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("session %q: %w", key, err)
	}
	return rec, nil
}

// openSession makes the session of a client that logs in. It returns the record of
// the one that goes on, nil for a new one.
func (c *conn) openSession(in *wire.Connect, e *entry) (*state.Session, error) {
	s := c.server
	rec, err := s.load(c.ctx, c.key)
	if err != nil {
		return nil, err
	}
	if rec != nil && (rec.ClientID != c.id || rec.Principal != c.principal && !s.over(rec)) {
		return nil, wire.Fail(wire.NotAuthorized, "the client identifier is another user's")
	}
	if rec != nil && rec.Will != nil && !rec.Connected && rec.WillAt <= s.now() && !in.Clean {
		// It was due before the client came back.
		if err := s.fireWill(c.ctx, c.key, rec); err != nil {
			return nil, err
		}
	}
	had := rec != nil
	if rec != nil && (in.Clean || s.over(rec)) {
		if err := s.erase(c.ctx, c.key, rec); err != nil {
			return nil, err
		}
		rec = nil
	}
	if rec == nil {
		s.registry.mu.Lock()
		e.sent = nil
		s.registry.mu.Unlock()
	}
	c.record = state.Session{ClientID: c.id, Principal: c.principal, Expiry: s.expiryOf(in), Connected: true, Will: willOf(in.Will)}
	c.stored = c.record.Expiry > 0
	if rec != nil {
		c.record.Subs = rec.Subs
		if !c.stored {
			// It goes on, and ends with this connection: its queue is stored all the same.
			c.stored = true
		}
	}
	c.flights = make(map[uint16]flight)
	c.received = make(map[uint16]bool)
	if !c.stored && c.record.Will == nil && !had {
		return nil, nil
	}
	return rec, c.putRecord()
}

// over tells whether a session has ended already.
func (s *Server) over(rec *state.Session) bool {
	if rec.Connected { // when the node went down
		return s.openedAt+int64(rec.Expiry)*1000 <= s.now()
	}
	return rec.Deadline <= s.now()
}

// hasRecord tells whether something is stored of the session.
func (c *conn) hasRecord() bool { return c.stored || c.record.Will != nil }

// putRecord stores the record of the session, or drops it if there is nothing to
// store.
func (c *conn) putRecord() error {
	tx := c.client.Begin()
	var err error
	if c.hasRecord() {
		err = tx.PutRecord(state.Name(c.key), c.record.Append(nil))
	} else {
		err = tx.DropRecord(state.Name(c.key))
	}
	if err == nil {
		_, err = tx.Commit(c.ctx)
	}
	return err
}

// resume takes up a session where it was left.
func (c *conn) resume(rec *state.Session) error {
	if err := c.resumeIDs(); err != nil {
		return err
	}
	queue := state.Queue(c.key)
	bindings, err := c.client.Bindings(c.ctx, queue, "", core.QueueBindingsMax)
	stored := err == nil
	if err != nil && !errors.Is(err, core.ErrNoQueue) {
		return err
	}
	var subs []state.Sub
	for i := range bindings {
		sub, err := state.DecodeSub(bindings[i].Filter, bindings[i].Options.Data)
		if err != nil {
			continue // bound by somebody else
		}
		subs = append(subs, sub)
	}
	for _, sub := range append(subs, rec.Subs...) {
		if d, ok := shared(sub.Filter); ok {
			err := c.join(d, sub, true)
			if err != nil && !errors.Is(err, core.ErrNoQueue) {
				return err
			}
			stored = stored || err == nil && sub.QoS == 2 // it has the queue made
			continue
		}
		if err := c.bindLoose(sub); err != nil {
			return err
		}
		c.subs.put(sub)
	}
	if !stored {
		return nil
	}
	if err := c.boundAgain(queue); err != nil {
		return err
	}
	if err := c.releaseLost(queue); err != nil {
		return err
	}
	c.startFirm(queue)
	return nil
}

// resumeIDs reads the packet identifiers of QoS 2 that are half done, and says
// PUBREL again, in order.
func (c *conn) resumeIDs() error {
	err := c.client.Records(c.ctx, state.In(c.key), "", func(name string, _ []byte) bool {
		if id, ok := state.ID(name); ok {
			c.received[id] = false
		}
		return true
	})
	if err != nil {
		return err
	}
	type waiting struct {
		id    uint16
		order uint64
	}
	var out []waiting
	err = c.client.Records(c.ctx, state.Out(c.key), "", func(name string, value []byte) bool {
		if id, ok := state.ID(name); ok && len(value) == 8 {
			out = append(out, waiting{id, binary.BigEndian.Uint64(value)})
		}
		return true
	})
	if err != nil {
		return err
	}
	slices.SortFunc(out, func(a, b waiting) int { return cmp.Compare(a.order, b.order) })
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.beginLocked()
	for _, w := range out {
		c.flights[w.id] = flight{state: flightReleased, qos: 2, stored: true}
		b = wire.AppendAck(b, c.version, wire.PUBREL, w.id, wire.Success)
	}
	c.putLocked(b)
	return nil
}

// releaseLost says PUBREL for what was sent with QoS 2 before and is not there any
// more: the client may have it, and waits.
func (c *conn) releaseLost(queue string) error {
	c.server.registry.mu.Lock()
	sent := c.entry.sent
	c.entry.sent = nil
	c.server.registry.mu.Unlock()
	if len(sent) == 0 {
		return nil
	}
	last := core.Seq(0)
	gone := make(map[core.Seq]uint16, len(sent))
	for id, seq := range sent {
		gone[seq] = id
		last = max(last, seq)
	}
	var at core.PeekPos
	for {
		page, next, err := c.client.Peek(c.ctx, queue, at, 256)
		if err != nil {
			return err
		}
		over := next == at
		for i := range page {
			if at := page[i].ExpiresAt; at == 0 || at > c.server.now() { // it is sent again
				delete(gone, page[i].Seq)
			}
			over = over || page[i].Seq >= last
		}
		if at = next; over {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.beginLocked()
	for _, id := range gone {
		if _, taken := c.flights[id]; !taken {
			c.flights[id] = flight{state: flightReleased, qos: 2}
			b = wire.AppendAck(b, c.version, wire.PUBREL, id, wire.Success)
		}
	}
	c.putLocked(b)
	return nil
}

// leave gives back what the session holds, at its old places, and stores what is
// to come of it.
func (c *conn) leave() {
	c.keepFromOthers()
	if c.owner != nil {
		if err := c.client.ReleaseOwner(c.owner, false); err != nil {
			c.server.complain("release a session", err)
		}
	}
	if c.entry == nil {
		return
	}
	c.leaveGroups()
	c.keepSent()
	if err := c.closeSession(); err != nil {
		c.server.complain("close a session", err)
	}
	c.server.registry.release(c.entry)
}

// keepSent remembers what was sent with QoS 2 and not answered.
func (c *conn) keepSent() {
	if !c.stored || c.firm == nil {
		return
	}
	c.mu.Lock()
	var sent map[uint16]core.Seq
	for id, f := range c.flights {
		if f.qos == 2 && f.state == flightSent && f.source == c.firm {
			if sent == nil {
				sent = make(map[uint16]core.Seq)
			}
			sent[id] = f.receipt.Ref.Seq
		}
	}
	c.mu.Unlock()
	c.server.registry.mu.Lock()
	c.entry.sent = sent
	c.server.registry.mu.Unlock()
}

// closeSession stores when the session ends and its will is due, and does what is
// due now.
func (c *conn) closeSession() error {
	s, rec := c.server, &c.record
	if !c.hasRecord() || c.ended == endDrained {
		return nil // after the next start the session counts as lost
	}
	if d := c.final; d != nil && d.HasExpiry {
		rec.Expiry = min(d.SessionExpiry, uint32(s.options.SessionExpiryMax.Seconds()))
	}
	if c.noWill {
		rec.Will = nil
	}
	now := s.now()
	rec.Connected, rec.Deadline, rec.WillAt = false, now+int64(rec.Expiry)*1000, 0
	if rec.Will != nil {
		rec.WillAt = now + int64(min(rec.Will.Delay, rec.Expiry))*1000
	}
	if rec.Expiry == 0 && c.stored {
		s.registry.mu.Lock()
		c.entry.sent = nil
		s.registry.mu.Unlock()
		return s.erase(context.Background(), c.key, rec)
	}
	tx := c.client.Begin()
	if rec.Will != nil && rec.WillAt <= now {
		if err := tx.PublishTopic(willPublish(rec)); err != nil {
			return err
		}
		rec.Will = nil
	}
	var err error
	if rec.Expiry == 0 {
		err = tx.DropRecord(state.Name(c.key))
	} else {
		err = tx.PutRecord(state.Name(c.key), rec.Append(nil))
	}
	if err == nil {
		_, err = tx.Commit(context.Background())
	}
	if err == nil && rec.Expiry > 0 {
		s.schedule(rec)
	}
	return err
}

// fireWill publishes the will of a session.
func (s *Server) fireWill(ctx context.Context, key string, rec *state.Session) error {
	tx := s.client.Begin()
	if err := tx.PublishTopic(willPublish(rec)); err != nil {
		return err
	}
	left := *rec
	left.Will, left.WillAt = nil, 0
	if err := tx.PutRecord(state.Name(key), left.Append(nil)); err != nil {
		return err
	}
	if _, err := tx.Commit(ctx); err != nil {
		return err
	}
	*rec = left
	return nil
}

// erase ends a session: its will first, then its queue, then all that is stored of
// it.
func (s *Server) erase(ctx context.Context, key string, rec *state.Session) error {
	if rec.Will != nil {
		if err := s.fireWill(ctx, key, rec); err != nil {
			return err
		}
	}
	if err := s.client.Delete(ctx, state.Queue(key)); err != nil && !errors.Is(err, core.ErrNoQueue) {
		return err
	}
	for _, sub := range rec.Subs {
		if d, ok := shared(sub.Filter); ok {
			s.quit(d, key)
		}
	}
	names := []string{state.Name(key)}
	for _, prefix := range []string{state.In(key), state.Out(key)} {
		err := s.client.Records(ctx, prefix, "", func(name string, _ []byte) bool {
			names = append(names, name)
			return true
		})
		if err != nil {
			return err
		}
	}
	slices.Reverse(names) // the record last
	for chunk := range slices.Chunk(names, core.TxOpsMax) {
		tx := s.client.Begin()
		for _, name := range chunk {
			if err := tx.DropRecord(name); err != nil {
				return err
			}
		}
		if _, err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}
