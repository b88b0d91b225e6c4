package stomp

import (
	"strconv"
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// appendAckID appends the name of a delivery: unique on its connection, and
// without a colon.
func (s *subscription) appendAckID(b []byte, seq uint64) []byte {
	b = strconv.AppendUint(b, s.number, 10)
	return strconv.AppendUint(append(b, '-'), seq, 10)
}

// parseAckID reads what appendAckID wrote.
func parseAckID(id string) (number, seq uint64, ok bool) {
	a, b, ok := strings.Cut(id, "-")
	number, err := strconv.ParseUint(a, 10, 64)
	seq, err2 := strconv.ParseUint(b, 10, 64)
	return number, seq, ok && err == nil && err2 == nil
}

// messageIDBytes is the length of a message id, before what names the delivery.
const messageIDBytes = 36

// deliveryOf returns which delivery an ACK or NACK is of.
func (c *conn) deliveryOf(f *frame.Frame) (number, seq uint64, bad *fault) {
	name := "message-id"
	if c.version == frame.V12 {
		name = "id"
	}
	value, there := f.Lookup(name)
	if !there {
		return 0, 0, missingHeader(f.Command, name)
	}
	id, ok := value, true
	if c.version != frame.V12 {
		if ok = len(value) > messageIDBytes+1; ok {
			id = value[messageIDBytes+1:]
		}
	}
	if ok {
		number, seq, ok = parseAckID(id)
	}
	if !ok {
		wants := "that of a MESSAGE"
		if c.version == frame.V12 {
			wants = "the header 'ack' of a MESSAGE"
		}
		return 0, 0, fail("Message not found", "'%s' of %s is '%.200s', and must be %s.", name, f.Command, value, wants)
	}
	return number, seq, nil
}

// acknowledge settles what an ACK or NACK names.
func (c *conn) acknowledge(f *frame.Frame) *fault {
	number, seq, bad := c.deliveryOf(f)
	if bad != nil {
		return bad
	}
	action := core.SettleDelete
	if f.Command == frame.Nack {
		if action, bad = c.rejection(f); bad != nil {
			return bad
		}
	}
	name := f.Get("transaction")
	c.mu.Lock()
	var tx *transaction
	if name != "" {
		if tx = c.txs[name]; tx == nil {
			c.mu.Unlock()
			return noTransaction(name)
		}
	}
	s := c.byNumber[number]
	if number == 0 || number > c.subCount || s != nil && (seq == 0 || seq > s.last) {
		c.mu.Unlock()
		return fail("Message not found", "%s names a message that was never delivered on this connection.", f.Command)
	}
	if tx != nil {
		if bad = tx.reserveLocked(s, seq, action); bad == nil {
			c.receiptLocked(f) // before a message that there is credit for now
		}
		c.mu.Unlock()
		return bad
	}
	batch := s.takeLocked(seq, action)
	n := uint64(0)
	if len(batch) > 0 {
		n = c.answers.push(answer{receipt: f.Get("receipt")})
		c.forgetLocked()
	}
	c.mu.Unlock()
	if len(batch) == 0 {
		c.receiptNow(f) // settled before, or delivered in auto mode
		return nil
	}
	c.server.counters.settled(action, len(batch))
	c.settleFor(n, s.queue, batch)
	return nil
}

// rejection returns what a NACK does.
func (c *conn) rejection(f *frame.Frame) (core.SettleAction, *fault) {
	deadLetter := c.server.options.NackToDeadLetter
	switch v, ok := f.Lookup("requeue"); {
	case !ok:
	case v == "false":
		deadLetter = true
	case v == "true":
		deadLetter = false
	default:
		return 0, invalidHeader("requeue", v, "true or false")
	}
	if deadLetter {
		return core.SettleDeadLetter, nil
	}
	return core.SettleReject, nil
}

// coveredLocked calls visit with the open deliveries that an ACK of seq is of.
func (s *subscription) coveredLocked(seq uint64, visit func(d *delivery)) {
	if s == nil || s.mode == ackAuto {
		return
	}
	if s.mode == ackIndividual {
		if d := s.ledger.find(seq); d != nil && d.state == deliveryOpen {
			visit(d)
		}
		return
	}
	s.ledger.each(func(d *delivery) bool {
		if d.seq > seq {
			return false
		}
		if d.state == deliveryOpen {
			visit(d)
		}
		return true
	})
}

// takeLocked settles in the ledger what an ACK of seq is of, and returns what the
// core is to do.
func (s *subscription) takeLocked(seq uint64, action core.SettleAction) (batch []core.Settlement) {
	s.coveredLocked(seq, func(d *delivery) {
		batch = append(batch, d.settlement(action))
		s.settleLocked(d)
	})
	if len(batch) > 0 {
		s.ledger.tidy()
		s.ready.Signal()
	}
	return batch
}

// settleFor settles a batch, on which answer n depends. A message that is not
// there any more has been purged or has expired: that is no error.
func (c *conn) settleFor(n uint64, queue string, batch []core.Settlement) {
	err := c.client.SettleAsync(queue, batch, func(_ []error, err error) {
		if err != nil {
			c.settleAnswer(n, coreFault(err, ""))
			return
		}
		c.settleAnswer(n, nil)
	})
	switch {
	case err == nil:
	case isNoQueue(err):
		c.settleAnswer(n, nil) // all its messages are gone
	default:
		c.settleAnswer(n, coreFault(err, ""))
	}
}
