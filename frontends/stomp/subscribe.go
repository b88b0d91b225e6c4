package stomp

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// ackMode says how a subscription acknowledges.
type ackMode uint8

const (
	ackAuto       ackMode = iota // a message is done with when it has been written
	ackClient                    // an ACK is of a message and all before it
	ackIndividual                // an ACK is of one message
)

// Bounds of subscriptions.
const (
	subscriptionsMax = 1000 // of a connection
	subscriptionID   = 1024 // bytes
)

// unsubscribeGrace is how long an ACK may trail behind an UNSUBSCRIBE.
const unsubscribeGrace = 5 * time.Second

// subscription is one of a connection. conn.mu guards what changes.
type subscription struct {
	conn   *conn
	id     string // as the client names it; in 1.0 it may be empty
	key    string // in conn.subs
	number uint64 // names it in ack ids
	queue  string
	mode   ackMode
	limit  int   // messages that may be unacknowledged
	bytes  int64 // and bytes
	hold   int64 // milliseconds; 0: for ever

	ready   sync.Cond // there may be credit and room
	stopped bool      // nothing more is delivered
	// stoppedAt is when, in milliseconds: the client may acknowledge for
	// unsubscribeGrace.
	stoppedAt int64
	ledger    ledger
	last      uint64 // sequence of the newest delivery
	used      int    // of limit
	unacked   int64  // bytes of used
}

// subscribe begins a subscription, when all before it is answered.
func (c *conn) subscribe(f *frame.Frame) *fault {
	text, ok := f.Lookup("destination")
	if !ok {
		return fail("Missing destination", "SUBSCRIBE must have the header 'destination'.")
	}
	d, bad := c.place(text)
	if bad != nil {
		return bad
	}
	s := &subscription{conn: c, queue: d.queue}
	s.ready.L = &c.mu
	s.id, ok = f.Lookup("id")
	s.key = s.id
	switch {
	case !ok && c.version != frame.V10:
		return missingHeader(frame.Subscribe, "id")
	case !ok:
		s.key = "/" + text // no id begins like that but by intent
	case len(s.id) > subscriptionID:
		return invalidHeader("id", s.id, "of at most 1024 bytes")
	}
	if bad := s.options(f); bad != nil {
		return bad
	}
	if _, err := c.client.Queue(c.ctx, d.queue); err != nil {
		if errors.Is(err, core.ErrNoQueue) {
			err = c.declare(d)
		}
		if err != nil {
			return coreFault(err, d.text)
		}
	}
	return c.addSubscription(s, f.Get("receipt"))
}

func (c *conn) addSubscription(s *subscription, receipt string) *fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.subs[s.key]; there {
		return fail("Duplicated subscription identifier", "A subscription identified by '%.200s' already exists.", s.key)
	}
	if len(c.subs) >= subscriptionsMax {
		return fail("Too many subscriptions", "A connection has at most %d.", subscriptionsMax)
	}
	c.subCount++
	s.number = c.subCount
	c.subs[s.key], c.byNumber[s.number] = s, s
	c.answers.push(answer{receipt: receipt, done: true, starts: s})
	c.tellLocked()
	return nil
}

// options reads what a SUBSCRIBE asks for.
func (s *subscription) options(f *frame.Frame) *fault {
	o := &s.conn.server.options
	s.limit, s.bytes = o.Prefetch, o.PrefetchBytes
	if o.Hold > 0 {
		s.hold = o.Hold.Milliseconds()
	}
	switch mode, ok := f.Lookup("ack"); {
	case !ok || mode == "auto":
	case mode == "client":
		s.mode = ackClient
	case mode == "client-individual":
		s.mode = ackIndividual
	default:
		return invalidHeader("ack", mode, "auto, client or client-individual")
	}
	if _, ok := f.Lookup("selector"); ok {
		return fail("Unsupported header", "'selector' is not supported yet.")
	}
	for _, h := range f.Headers {
		if bad := s.option(h.Name, strings.TrimSpace(h.Value)); bad != nil {
			return bad
		}
	}
	if s.mode == ackAuto {
		// Nothing is ever unacknowledged: other servers deliver all then, too.
		s.limit, s.bytes = core.InFlightMax, 1<<62
	}
	return nil
}

// option reads the dialects of a prefetch.
func (s *subscription) option(name, value string) *fault {
	switch name {
	case "prefetch-count", "activemq.prefetchSize":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return invalidHeader(name, value, "a number of messages")
		}
		if n > 0 { // 0 is no limit of its own
			s.limit = min(n, core.InFlightMax)
		}
	case "consumer-window-size":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < -1 {
			return invalidHeader(name, value, "a number of bytes")
		}
		switch {
		case n == 0: // one message at a time
			s.limit = 1
		case n > 0:
			s.bytes = n
		}
	case "credit":
		count, bytes, both := strings.Cut(value, ",")
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil || n < 1 {
			return invalidHeader(name, value, "a number of messages, and maybe one of bytes")
		}
		s.limit = min(n, core.InFlightMax)
		if both {
			b, err := strconv.ParseInt(strings.TrimSpace(bytes), 10, 64)
			if err != nil || b < 1 {
				return invalidHeader(name, value, "a number of messages, and maybe one of bytes")
			}
			s.bytes = b
		}
	case "x-consumer-timeout":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 {
			return invalidHeader(name, value, "a number of milliseconds")
		}
		s.hold = n
	}
	return nil
}

// unsubscribe ends a subscription. What is not acknowledged stays so for a while,
// and then is delivered again.
func (c *conn) unsubscribe(f *frame.Frame) *fault {
	key, ok := f.Lookup("id")
	if !ok {
		text, there := f.Lookup("destination")
		if c.version != frame.V10 || !there {
			return missingHeader(frame.Unsubscribe, "id")
		}
		key = "/" + text
	}
	c.mu.Lock()
	s := c.subs[key]
	if s == nil {
		c.mu.Unlock()
		return fail("Subscription not found", "There is no subscription identified by '%.200s'.", key)
	}
	delete(c.subs, key)
	s.stopped, s.stoppedAt = true, c.server.now()
	s.ready.Broadcast()
	batch := s.leaveLocked(nil)
	c.mu.Unlock()
	if len(batch) > 0 {
		c.settle(s.queue, batch)
	}
	c.receiptNow(f)
	return nil
}

// leaveLocked has the open deliveries of a subscription that has ended delivered
// again, after a while in which an ACK may still come.
func (s *subscription) leaveLocked(batch []core.Settlement) []core.Settlement {
	s.ledger.each(func(d *delivery) bool {
		if d.state == deliveryOpen && s.mode != ackAuto {
			batch = append(batch, core.Settlement{Receipt: d.receipt, Action: core.SettleExtend, Delay: unsubscribeGrace})
		}
		return true
	})
	return batch
}
