package mqtt

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// Bounds of one receive.
const (
	receiveMax  = 64
	receiveWait = time.Hour
	// receivePause keeps a source from spinning when the core does not let it
	// wait: the node is about to stop.
	receivePause = 10 * time.Millisecond
)

// sourceKind says what a queue is to a session.
type sourceKind uint8

const (
	sourceFirm   sourceKind = iota // what is delivered with QoS 1 and 2
	sourceLoose                    // what is delivered with QoS 0
	sourceShared                   // a queue that others consume as well
)

// source is a queue that a session is delivered from. conn.mu guards it, but for
// what its goroutine alone uses.
type source struct {
	conn  *conn
	queue string
	kind  sourceKind
	group destination // of a shared one
	sub   state.Sub   // the same

	ready   sync.Cond // there may be room again, or it is over
	waiting bool      // for room
	stopped bool

	acked []core.Settlement // the reader's own: what it has to settle

	// The goroutine's own.
	held    []core.Delivery // received, for which there was no room
	moves   []core.Delivery // of a group, that the session's own queue gets
	matched matched
	meta    meta
	out     wire.Outgoing
	done    []core.Settlement
}

// start makes s deliver.
func (c *conn) start(s *source) *source {
	s.conn = c
	s.ready.L = &c.mu
	c.mu.Lock()
	c.sources = append(c.sources, s)
	c.mu.Unlock()
	c.pumps.Go(s.run)
	return s
}

// stop ends s. What it has delivered can still be acknowledged.
func (s *source) stop() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	s.stopped = true
	s.ready.Broadcast()
	for i, have := range c.sources {
		if have == s {
			c.sources = append(c.sources[:i:i], c.sources[i+1:]...)
			break
		}
	}
}

// hasStopped tells whether the source has ended, and its connection has not.
func (s *source) hasStopped() bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.stopped && s.conn.ended == endNot
}

// wakeSourcesLocked lets sources look again whether they may receive.
func (c *conn) wakeSourcesLocked() {
	for _, s := range c.sources {
		if s.waiting || c.ended != endNot {
			s.ready.Broadcast()
		}
	}
}

// run receives and delivers until the source or the connection ends.
func (s *source) run() {
	c := s.conn
	var got []core.Delivery
	for {
		most, ok := s.await()
		if !ok {
			if s.hasStopped() {
				s.giveBack(s.held)
			}
			return
		}
		if len(s.held) > 0 {
			held := s.held
			s.held = nil
			s.deliver(held)
			continue
		}
		if s.kind == sourceShared && !frontends.PeerAlive(c.socket) {
			s.pause() // the reader is about to find out
			continue
		}
		began := time.Now()
		var err error
		got, err = c.client.Receive(c.ctx, s.queue, core.ReceiveOptions{
			Max: most, MaxBytes: outHigh, Wait: receiveWait, Alive: s.mayReceive, Owner: c.owner,
		}, got[:0])
		s.deliver(got)
		clear(got) // the messages themselves are large
		switch {
		case err == nil && len(got) == 0 && time.Since(began) < receivePause:
			s.pause()
		case err == nil || errors.Is(err, context.Canceled):
		case errors.Is(err, core.ErrNoQueue) && s.hasStopped():
			return
		default:
			if !errors.Is(err, core.ErrNoQueue) {
				c.server.complain("receive", err)
			}
			c.end(endLost, reasonOf(err), "a queue of the session can not be received from")
			return
		}
	}
}

func (s *source) pause() {
	select {
	case <-time.After(receivePause):
	case <-s.conn.ctx.Done():
	}
}

// await waits until there is room for a message, and returns for how many.
func (s *source) await() (most int, ok bool) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if s.stopped || c.ended != endNot || c.ctx.Err() != nil {
			return 0, false
		}
		if n := s.roomLocked(); n > 0 {
			return min(n, receiveMax), true
		}
		s.waiting = true
		s.ready.Wait()
		s.waiting = false
	}
}

// mayReceive tells whether there still is room, and a client.
func (s *source) mayReceive() bool {
	// What others consume as well is left to them by a client that has gone.
	if s.kind == sourceShared && !frontends.PeerAlive(s.conn.socket) {
		return false
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return !s.stopped && s.conn.ended == endNot && s.roomLocked() > 0
}

// roomLocked returns how many messages the client may be sent. What is held comes
// before anything else, and waits until its packet identifier is free.
func (s *source) roomLocked() int {
	c := s.conn
	if c.out.pending() >= outHigh {
		return 0
	}
	if s.kind == sourceLoose {
		return receiveMax
	}
	if len(s.held) > 0 && s.kind == sourceFirm {
		if _, taken := c.flights[packetID(s.held[0].Seq)]; taken {
			return 0
		}
	}
	return c.window - len(c.flights) - c.moved
}

// deliver writes what was received. What there is no room for is held. What comes
// too late goes back, all at once with the owner if the connection has ended: one
// by one, the next connection could get what lies behind it first.
func (s *source) deliver(got []core.Delivery) {
	if len(got) == 0 {
		return
	}
	c := s.conn
	c.mu.Lock()
	if s.stopped || c.ended != endNot {
		over := c.ended != endNot
		c.mu.Unlock()
		if !over {
			s.giveBack(got)
		}
		return
	}
	now := c.server.now()
	b := c.beginLocked()
	n := 0
	for ; n < len(got); n++ {
		more, ok := s.appendLocked(b, &got[n], now)
		if !ok {
			break
		}
		b = more
	}
	c.putLocked(b)
	var back []core.Delivery
	if n < len(got) {
		if s.kind == sourceShared {
			back = got[n:]
		} else {
			s.held = append([]core.Delivery(nil), got[n:]...)
		}
	}
	c.mu.Unlock()
	s.giveBack(back)
	if len(s.done) > 0 {
		s.settle(s.done)
		s.done = s.done[:0]
	}
	s.move()
}

// appendLocked appends the PUBLISH of d. It returns false if there is no room for
// it now.
func (s *source) appendLocked(b []byte, d *core.Delivery, now int64) ([]byte, bool) {
	c := s.conn
	qos, ok := s.compose(d, now)
	o := &s.out
	if ok && qos == 2 && s.kind == sourceShared && c.stored {
		c.moved++
		s.moves = append(s.moves, *d)
		return b, true
	}
	if ok && qos > 0 {
		if len(c.flights) >= c.window {
			return b, false
		}
		if s.kind == sourceShared {
			o.ID = c.freeIDLocked()
		} else {
			o.ID = packetID(d.Seq)
		}
		if _, taken := c.flights[o.ID]; taken || o.ID == 0 {
			return b, false
		}
	}
	if !ok || !c.fits(o) {
		s.done = append(s.done, core.Settlement{Receipt: d.Receipt, Action: core.SettleDelete})
		return b, true
	}
	if qos > 0 {
		c.flights[o.ID] = flight{source: s, receipt: d.Receipt, qos: qos, stored: c.stored && s.kind == sourceFirm}
	} else {
		s.done = append(s.done, core.Settlement{Receipt: d.Receipt, Action: core.SettleDelete})
	}
	if s.kind == sourceFirm && c.moved > 0 && s.meta.shared {
		c.moved--
	}
	c.server.counts.sent.Add(1)
	return o.Append(b, c.version), true
}

// move puts messages of QoS 2 that a group has given to this session into its own
// queue: no other member may get them any more, even if this one is away.
func (s *source) move() {
	if len(s.moves) == 0 {
		return
	}
	c := s.conn
	tx := c.client.Begin()
	var err error
	for i := range s.moves {
		d := &s.moves[i]
		if err == nil {
			err = tx.Settle(s.queue, core.Settlement{Receipt: d.Receipt, Action: core.SettleDelete})
		}
		if err == nil {
			err = tx.Publish(state.Queue(c.key), copyOf(&d.Stored, string(d.Topic), c.server.now(), property(propShared, []byte(s.sub.Filter))))
		}
	}
	if err == nil {
		_, err = tx.Commit(c.ctx)
	}
	if err != nil {
		c.mu.Lock()
		c.moved -= len(s.moves)
		c.mu.Unlock()
		if !errors.Is(err, context.Canceled) {
			c.server.complain("give a message of a group to its member", err)
			s.pause()
		}
		s.giveBack(s.moves)
	}
	clear(s.moves)
	s.moves = s.moves[:0]
}

// fits tells whether the client takes a packet of that size, and gives its topic
// an alias if it can have one.
func (c *conn) fits(o *wire.Outgoing) bool {
	if c.aliasMax > 0 {
		if alias, ok := c.outAlias[string(o.Topic)]; ok {
			o.Alias, o.Topic = alias, nil
		} else if len(c.outAlias) < c.aliasMax {
			if c.outAlias == nil {
				c.outAlias = make(map[string]uint16)
			}
			o.Alias = uint16(len(c.outAlias) + 1)
			if o.Len(c.version) <= c.maxPacket {
				c.outAlias[string(o.Topic)] = o.Alias
				return true
			}
		}
	}
	if c.maxPacket < 1<<30 && o.Len(c.version) > c.maxPacket {
		c.server.counts.tooLarge.Add(1)
		return false
	}
	return true
}

// giveBack releases what was received and not delivered.
func (s *source) giveBack(got []core.Delivery) {
	if len(got) == 0 {
		return
	}
	batch := make([]core.Settlement, len(got))
	for i := range got {
		batch[i] = core.Settlement{Receipt: got[i].Receipt, Action: core.SettleRelease}
	}
	s.settle(batch)
}

// settle settles without anybody waiting for it.
func (s *source) settle(batch []core.Settlement) {
	err := s.conn.client.SettleAsync(s.queue, batch, func([]error, error) {})
	if err != nil && !errors.Is(err, core.ErrNoQueue) {
		s.conn.server.complain("settle deliveries", err)
	}
}
