package stomp

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// Bounds of one receive.
const (
	receiveMax  = 64
	receiveWait = time.Hour
	// receivePause keeps a subscription from spinning when the core does not
	// let it wait: the node is about to stop.
	receivePause = 10 * time.Millisecond
)

// startLocked starts the goroutine of a subscription.
func (c *conn) startLocked(s *subscription) {
	switch {
	case s.stopped:
	case s.browse:
		c.pumps.Go(s.look)
	default:
		s.pumping = true
		c.pumps.Go(s.pump)
	}
}

// wakePumpsLocked lets subscriptions look again whether they may receive.
func (c *conn) wakePumpsLocked() {
	for _, s := range c.subs {
		s.ready.Broadcast()
	}
}

// pump receives and delivers until the subscription or the connection ends.
func (s *subscription) pump() {
	c := s.conn
	defer s.pumped()
	var got []core.Delivery
	for {
		most, bytes, ok := s.await()
		if !ok {
			return
		}
		if !frontends.PeerAlive(c.socket) {
			s.pause() // the reader is about to find out
			continue
		}
		began := time.Now()
		var err error
		got, err = c.client.Receive(s.ctx, s.queue, core.ReceiveOptions{
			Max: most, MaxBytes: bytes, Wait: receiveWait, Alive: s.mayReceive, Owner: c.owner, Selector: s.selector, Consumer: s.consumer,
		}, got[:0])
		s.deliver(got)
		clear(got) // the messages themselves are large
		switch {
		case err == nil && len(got) == 0 && time.Since(began) < receivePause:
			s.pause()
		case err == nil || errors.Is(err, context.Canceled):
		case errors.Is(err, core.ErrNoQueue) && s.hasStopped():
			return
		case errors.Is(err, core.ErrNoQueue):
			c.end(fail("Queue was deleted", "Subscription '%.200s' has no queue any more.", s.id))
			return
		default:
			if !errors.Is(err, core.ErrStopped) && !errors.Is(err, core.ErrOverLimit) {
				c.server.complain("receive", err)
			}
			c.end(coreFault(err, ""))
			return
		}
	}
}

// pumped has the groups of a subscription that has ended go to others, unless it
// still holds messages of them.
func (s *subscription) pumped() {
	s.conn.mu.Lock()
	s.pumping = false
	over := s.consumer != nil && s.stopped && s.ledger.open() == 0
	s.conn.mu.Unlock()
	if over {
		s.consumer.Close()
	}
}

func (s *subscription) pause() {
	select {
	case <-time.After(receivePause):
	case <-s.conn.ctx.Done():
	}
}

// await waits until there is credit, and room for what is received, and returns
// how much.
func (s *subscription) await() (most int, bytes int64, ok bool) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if s.stopped || c.ended || c.ctx.Err() != nil {
			return 0, 0, false
		}
		if s.mayReceiveLocked() {
			s.busy.Store(false)
			return min(s.limit-s.used, receiveMax), min(s.bytes-s.unacked, outHigh-c.out.pending()), true
		}
		s.ready.Wait()
	}
}

// mayReceive tells whether there still is credit and room, and a client.
func (s *subscription) mayReceive() bool {
	if !frontends.PeerAlive(s.conn.socket) {
		return false
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return !s.stopped && !s.conn.ended && s.mayReceiveLocked()
}

func (s *subscription) mayReceiveLocked() bool {
	return s.hasRoomLocked() && s.conn.server.lines.admits(s)
}

// hasRoomLocked tells whether there is credit, and room in what is to be written.
func (s *subscription) hasRoomLocked() bool {
	return s.used < s.limit && s.unacked < s.bytes && s.conn.out.pending() < outHigh
}

func (s *subscription) hasStopped() bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.stopped || s.conn.ended
}

// deliver writes what was received. What comes too late for that goes back.
func (s *subscription) deliver(got []core.Delivery) {
	if len(got) == 0 {
		return
	}
	c := s.conn
	now := c.server.now()
	c.mu.Lock()
	if s.stopped || c.ended {
		c.mu.Unlock()
		s.giveBack(got)
		return
	}
	b := c.out.begin()
	for i := range got {
		d := &got[i]
		s.last++
		b = s.appendMessage(b, d, s.last)
		size := int64(len(d.Body))
		s.used++
		s.unacked += size
		s.ledger.add(delivery{seq: s.last, receipt: d.Receipt, size: size, at: now, failed: d.State.Failures, end: c.out.queued + int64(len(b)-len(c.out.buf))})
	}
	if s.mode == ackAuto {
		c.autoOpen += len(got)
	}
	c.server.counters.messages.Add(int64(len(got)))
	c.out.put(b)
	c.out.poke()
	full := !s.hasRoomLocked()
	c.mu.Unlock()
	s.closeGroups(got)
	if full && !s.busy.Swap(true) {
		c.server.lines.yield(s)
	}
}

// closeGroups gives up the groups that end with a message that was delivered.
func (s *subscription) closeGroups(got []core.Delivery) {
	if s.consumer == nil {
		return
	}
	for i := range got {
		d := &got[i]
		if len(d.Group) == 0 || !endsGroup(d) {
			continue
		}
		// One of the same group that came behind it has begun it anew.
		if !slices.ContainsFunc(got[i+1:], func(later core.Delivery) bool { return bytes.Equal(later.Group, d.Group) }) {
			s.consumer.CloseGroup(d.Receipt)
		}
	}
}

// endsGroup tells whether a message is the last of its group: then its number in it
// is negative, as ActiveMQ has it.
func endsGroup(d *core.Delivery) (ends bool) {
	d.Attributes(func(a core.Attribute) bool {
		if a.Name != groupSeqName {
			return true
		}
		ends = len(a.Value) > 1 && a.Value[0] == '-'
		return false
	})
	return ends
}

// giveBack releases what was received and not delivered.
func (s *subscription) giveBack(got []core.Delivery) {
	batch := make([]core.Settlement, len(got))
	for i := range got {
		batch[i] = core.Settlement{Receipt: got[i].Receipt, Action: core.SettleRelease}
	}
	s.conn.settle(s.queue, batch)
}

// doneWith is what a subscription in auto mode has delivered.
type doneWith struct {
	queue string
	batch []core.Settlement
}

// writtenLocked takes out what has been written of subscriptions in auto mode.
func (c *conn) writtenLocked() (done []doneWith) {
	if c.autoOpen == 0 {
		return nil
	}
	for _, s := range c.byNumber {
		if s.mode != ackAuto || s.ledger.open() == 0 {
			continue
		}
		var batch []core.Settlement
		s.ledger.each(func(d *delivery) bool {
			if d.end > c.out.written {
				return false
			}
			batch = append(batch, core.Settlement{Receipt: d.receipt, Action: core.SettleDelete})
			s.settleLocked(d)
			return true
		})
		s.ledger.tidy()
		if len(batch) > 0 {
			c.server.counters.acked.Add(int64(len(batch)))
			c.autoOpen -= len(batch)
			done = append(done, doneWith{queue: s.queue, batch: batch})
		}
	}
	c.forgetLocked()
	return done
}

// settleAll deletes what auto mode is done with. That nobody waits for it costs a
// second delivery at worst.
func (c *conn) settleAll(done []doneWith) {
	for _, d := range done {
		c.settle(d.queue, d.batch)
	}
}

// settleLocked takes a delivery out of the ledger, which is to be tidied then.
func (s *subscription) settleLocked(d *delivery) {
	if d.state != deliveryReserved { // its credit was given back
		s.used--
		s.unacked -= d.size
	}
	s.ledger.settle(d)
}

// forgetLocked drops subscriptions that have ended and hold nothing.
func (c *conn) forgetLocked() {
	if len(c.byNumber) == len(c.subs) {
		return
	}
	for n, s := range c.byNumber {
		if s.stopped && s.ledger.open() == 0 && c.subs[s.key] != s {
			delete(c.byNumber, n)
			if s.consumer != nil && !s.pumping && !c.ended {
				c.pumps.Go(s.consumer.Close) // the core is not called with a lock held
			}
		}
	}
}

// endHolder ends the connection if a message is held for too long. It also forgets
// what a subscription held when it ended: that was delivered again since.
func (c *conn) endHolder(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.byNumber {
		if s.stopped && now-s.stoppedAt > unsubscribeGrace.Milliseconds() {
			s.ledger.each(func(d *delivery) bool {
				if d.state == deliveryOpen {
					s.settleLocked(d)
				}
				return true
			})
			s.ledger.tidy()
		} else if s.holdsTooLongLocked(now) {
			c.server.counters.held.Add(1)
			c.endLocked(fail("Acknowledgement timeout", "A message of subscription '%.200s' was neither acknowledged nor rejected in %v.",
				s.id, time.Duration(s.hold)*time.Millisecond), "")
			return
		}
	}
	c.forgetLocked()
}

// holdsTooLongLocked looks at the oldest message that is not settled. What is
// acknowledged in a transaction is not, until that is committed.
func (s *subscription) holdsTooLongLocked(now int64) (late bool) {
	if s.hold == 0 || s.mode == ackAuto {
		return false
	}
	s.ledger.each(func(d *delivery) bool {
		late = now-d.at > s.hold
		return false
	})
	return late
}
