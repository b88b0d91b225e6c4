package mqtt

import (
	"context"
	"errors"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// receiveMax bounds one receive.
const receiveMax = 64

// receivePause is how long a source waits for the reader to find out that the
// client has gone, or before it tries again what has failed.
const receivePause = 10 * time.Millisecond

// sourceKind says what a queue is to a session.
type sourceKind uint8

const (
	sourceFirm   sourceKind = iota // what is delivered with QoS 1 and 2
	sourceLoose                    // what is delivered with QoS 0
	sourceShared                   // a queue that others consume as well
)

// source is a queue that a session is delivered from. conn.mu guards it, but for
// what its goroutine alone uses. It has one only while there is something to do:
// in between it is parked in the line of its queue, or waits for room.
type source struct {
	conn  *conn
	queue string
	kind  sourceKind
	group destination // of a shared one
	sub   state.Sub   // the same

	running bool // it has a goroutine, or had the last one
	again   bool // which is to look again
	waiting bool // for room
	stopped bool

	acked []core.Settlement // the reader's own: what it has to settle

	// The goroutine's own.
	watch   *core.Watch
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
	s.watch = core.NewWatch(s.kick)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = append(c.sources, s)
	s.kickLocked()
	return s
}

// kick has s look whether there is something to do. The core calls it.
func (s *source) kick() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.kickLocked()
}

func (s *source) kickLocked() {
	switch {
	case s.running:
		s.again = true
	case !s.overLocked():
		s.running, s.waiting = true, false
		s.conn.pumps.Add(1)
		s.conn.server.crew.do(s)
	}
}

// stop ends s. What it has delivered can still be acknowledged.
func (s *source) stop() {
	c := s.conn
	c.mu.Lock()
	s.stopped = true
	running := s.running
	for i, have := range c.sources {
		if have == s {
			c.sources = append(c.sources[:i:i], c.sources[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
	if !running { // else its goroutine does
		s.leave()
	}
}

// leave gives up the place in the line, and what was received and is not
// delivered, unless that goes back with the owner.
func (s *source) leave() {
	s.watch.Leave()
	if s.hasStopped() {
		s.giveBack(s.held)
		s.held = nil
	}
}

// leaveSources has the sources of a connection that has ended leave, and waits for
// them.
func (c *conn) leaveSources() {
	c.mu.Lock()
	var idle []*source
	for _, s := range c.sources {
		if !s.running {
			idle = append(idle, s)
		}
	}
	c.mu.Unlock()
	for _, s := range idle {
		s.leave()
	}
	c.pumps.Wait()
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
		if s.waiting {
			s.kickLocked()
		}
	}
}

func (s *source) do() {
	defer s.conn.pumps.Done()
	s.run()
}

// run receives and delivers until there is nothing to do.
func (s *source) run() {
	c := s.conn
	got, _ := c.server.deliveries.Get().(*[]core.Delivery)
	if got == nil {
		got = new([]core.Delivery)
	}
	defer c.server.deliveries.Put(got)
	for {
		most, over := s.look()
		switch {
		case over:
			s.leave()
			return
		case most == 0:
			return
		case len(s.held) > 0:
			held := s.held
			s.held = nil
			s.deliver(held)
			continue
		case s.kind == sourceShared && !frontends.PeerAlive(c.socket):
			// What others consume as well is left to them by a client that has gone.
			s.watch.Leave()
			s.pause() // the reader is about to find out
			continue
		}
		if parked := s.receive(most, got); parked && s.rest() {
			return
		}
	}
}

// look tells for how many messages there is room. If there is none, s rests until
// it is kicked by who makes room.
func (s *source) look() (most int, over bool) {
	for full := false; ; full = true {
		if full {
			s.watch.Leave() // what it was called for is for others
		}
		s.conn.mu.Lock()
		if s.overLocked() {
			s.conn.mu.Unlock()
			return 0, true
		}
		n := s.roomLocked()
		s.again = false
		if full && n <= 0 {
			s.waiting, s.running = true, false
		}
		s.conn.mu.Unlock()
		if full || n > 0 {
			return max(0, min(n, receiveMax)), false
		}
	}
}

func (s *source) overLocked() bool {
	return s.stopped || s.conn.ended != endNot || s.conn.ctx.Err() != nil
}

// rest ends the goroutine of s, unless there is more to do.
func (s *source) rest() bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.again || s.overLocked() {
		return false
	}
	s.running = false
	return true
}

// receive receives and delivers, by way of room. It tells whether there was
// nothing, and s is parked.
func (s *source) receive(most int, room *[]core.Delivery) (parked bool) {
	c := s.conn
	got, err := c.client.Receive(c.ctx, s.queue, core.ReceiveOptions{
		Max: most, MaxBytes: outHigh, Owner: c.owner, Watch: s.watch,
	}, (*room)[:0])
	s.deliver(got)
	clear(got) // the messages themselves are large
	*room = got
	switch {
	case err == nil:
		return len(got) == 0
	case errors.Is(err, context.Canceled), errors.Is(err, core.ErrNoQueue) && s.hasStopped():
		return false
	case !errors.Is(err, core.ErrNoQueue):
		c.server.complain("receive", err)
	}
	c.end(endLost, reasonOf(err), "a queue of the session can not be received from")
	return false
}

func (s *source) pause() {
	select {
	case <-time.After(receivePause):
	case <-s.conn.ctx.Done():
	}
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
