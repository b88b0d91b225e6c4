package stomp

import (
	"bytes"
	"errors"
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// Bounds of the transactions of a connection.
const (
	txsMax     = 64
	txOpsMax   = core.TxOpsMax // in all
	txBytesMax = 16 << 20      // of messages, in all
)

// transaction keeps what is done when it is committed. conn.mu guards it.
type transaction struct {
	sends  []outgoing
	marks  []txMark
	bytes  int
	queues map[string]destination // that are sent to
}

// txMark is an ACK or NACK.
type txMark struct {
	sub    *subscription
	seq    uint64
	action core.SettleAction
}

func noTransaction(name string) *fault {
	return fail("Transaction not found", "There is no transaction '%.200s'.", name)
}

// transact begins or ends a transaction.
func (c *conn) transact(f *frame.Frame) *fault {
	name, ok := f.Lookup("transaction")
	if !ok || name == "" {
		return missingHeader(f.Command, "transaction")
	}
	if f.Command == frame.Begin {
		return c.begin(f, name)
	}
	c.mu.Lock()
	tx := c.txs[name]
	delete(c.txs, name)
	c.mu.Unlock()
	if tx == nil {
		return noTransaction(name)
	}
	if f.Command == frame.Commit {
		defer c.dropTx(tx)
		return c.commit(f, tx)
	}
	c.dropTx(tx)
	c.mu.Lock()
	left := tx.abortLocked(c.server.now())
	c.mu.Unlock()
	for s, batch := range left {
		c.settle(s.queue, batch)
	}
	c.receiptNow(f)
	return nil
}

// dropTx gives up the room of a transaction that has ended.
func (c *conn) dropTx(tx *transaction) { c.server.inTxs.Add(-int64(tx.bytes)) }

func (c *conn) begin(f *frame.Frame, name string) *fault {
	c.mu.Lock()
	_, there := c.txs[name]
	full := len(c.txs) >= txsMax
	if !there && !full {
		c.txs[name] = &transaction{queues: make(map[string]destination)}
	}
	c.mu.Unlock()
	switch {
	case there:
		return fail("Transaction exists", "The transaction '%.200s' has begun already.", name)
	case full:
		return fail("Too many transactions", "A connection has at most %d.", txsMax)
	}
	c.receiptNow(f)
	return nil
}

// sendLater keeps a message for its transaction.
func (c *conn) sendLater(f *frame.Frame, name string, o outgoing) *fault {
	var size int
	o.msg, size = keep(o.msg)
	parts := o.parts()
	c.mu.Lock()
	tx := c.txs[name]
	if tx == nil {
		c.mu.Unlock()
		return noTransaction(name)
	}
	bad := c.txRoomLocked(len(parts), size)
	if most := c.server.options.TransactionBytes; bad == nil && c.server.inTxs.Add(int64(size)) > most {
		c.server.inTxs.Add(-int64(size))
		bad = fail("Too many transactions", "All open transactions of all connections come to %d bytes at most.", most)
	}
	if bad == nil {
		tx.sends = append(tx.sends, parts...)
		tx.bytes += size
		for _, part := range parts {
			if part.to.kind == toQueue {
				tx.queues[part.to.queue] = part.to
			}
		}
	}
	c.mu.Unlock()
	if bad == nil {
		c.receiptNow(f)
	}
	return bad
}

// keep copies what m has of the frame.
func keep(m core.Message) (core.Message, int) {
	size := len(m.Body)
	for i := range m.Attributes {
		size += len(m.Attributes[i].Name) + len(m.Attributes[i].Value)
	}
	m.Body = bytes.Clone(m.Body)
	attrs := make([]core.Attribute, len(m.Attributes))
	for i, a := range m.Attributes {
		a.Name, a.Value = strings.Clone(a.Name), bytes.Clone(a.Value)
		attrs[i] = a
	}
	m.Attributes = attrs
	return m, size
}

// txRoomLocked tells whether transactions may grow by n operations and size bytes.
func (c *conn) txRoomLocked(n, size int) *fault {
	for _, t := range c.txs {
		n += len(t.sends) + len(t.marks)
		size += t.bytes
	}
	if n > txOpsMax || size > txBytesMax {
		return fail("Transaction too large", "All open transactions of a connection have at most %d operations and %d bytes.", txOpsMax, txBytesMax)
	}
	return nil
}

// reserveLocked keeps an ACK or NACK. The credit of what it is of is free: a client
// may acknowledge more in one transaction than it may hold.
func (tx *transaction) reserveLocked(s *subscription, seq uint64, action core.SettleAction) *fault {
	n := 0
	s.coveredLocked(seq, func(*delivery) { n++ })
	if n == 0 {
		return nil
	}
	if bad := s.conn.txRoomLocked(n, 0); bad != nil {
		return bad
	}
	s.coveredLocked(seq, func(d *delivery) {
		d.state = deliveryReserved
		s.used--
		s.unacked -= d.size
		tx.marks = append(tx.marks, txMark{sub: s, seq: d.seq, action: action})
	})
	s.ready.Signal()
	return nil
}

// abortLocked makes what was reserved wait for an ACK again. It returns what is to
// be done for subscriptions that have ended since.
func (tx *transaction) abortLocked(now int64) map[*subscription][]core.Settlement {
	left := make(map[*subscription][]core.Settlement)
	for _, m := range tx.marks {
		if d := m.sub.ledger.find(m.seq); d != nil {
			d.state = deliveryOpen
			m.sub.used++
			m.sub.unacked += d.size
		}
		if m.sub.stopped {
			m.sub.stoppedAt, left[m.sub] = now, nil
		}
	}
	for s := range left {
		left[s] = s.leaveLocked(nil)
	}
	return left
}

// commit carries out a transaction as one Change.
func (c *conn) commit(f *frame.Frame, t *transaction) *fault {
	for _, d := range t.queues {
		if err := c.prepare(d); err != nil {
			return coreFault(err, d.text)
		}
	}
	tx := c.client.Begin()
	var err error
	for i := range t.sends {
		err = errors.Join(err, c.stage(tx, &t.sends[i]))
	}
	c.mu.Lock()
	for _, m := range t.marks {
		if d := m.sub.ledger.find(m.seq); d != nil {
			err = errors.Join(err, tx.Settle(m.sub.queue, d.settlement(m.action)))
		}
	}
	n := c.answers.push(answer{receipt: f.Get("receipt"), size: t.bytes})
	c.mu.Unlock()
	if err == nil {
		err = tx.CommitAsync(func(_ []core.Published, err error) {
			c.server.counters.passed(tx.Topics())
			if err != nil {
				c.settleAnswer(n, coreFault(err, ""))
				return
			}
			c.settleAnswer(n, nil)
		})
	}
	if err != nil {
		c.settleAnswer(n, coreFault(err, ""))
		return nil
	}
	c.mu.Lock()
	for _, m := range t.marks {
		if d := m.sub.ledger.find(m.seq); d != nil {
			c.server.counters.settled(m.action, 1)
			m.sub.settleLocked(d)
			m.sub.ledger.tidy()
		}
	}
	c.forgetLocked()
	c.mu.Unlock()
	return nil
}

func isNoQueue(err error) bool { return errors.Is(err, core.ErrNoQueue) }
