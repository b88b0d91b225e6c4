package stomp

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/selector"
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
	kind   subscriptionKind
	shown  string // destination of its messages; empty: as they were sent
	filter string // of topics, that queue is bound by
	mode   ackMode
	limit  int   // messages that may be unacknowledged
	bytes  int64 // and bytes
	hold   int64 // milliseconds; 0: for ever

	selector  *selector.Selector // what is received of a queue
	sieve     *selector.Selector // what its binding selects of topics
	exclusive bool               // no other consumer of STOMP receives beside it
	priority  int                // those with less wait until it is busy
	busy      atomic.Bool        // it has no credit or room
	private   bool               // its queue is to be its own, and gone with it
	browse    bool               // it looks, and takes nothing
	noEnd     bool               // it is not told when it has seen all
	noLocal   bool               // what its own client publishes is left out
	replies   bool               // the client has not asked for it, but for replies

	ctx      context.Context
	cancel   context.CancelFunc
	consumer *core.Consumer // has message groups to itself; nil: it may have none
	pumping  bool           // its goroutine runs

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
	s := &subscription{conn: c}
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
	bad = s.options(f)
	if bad == nil {
		bad = c.mayAdd(s)
	}
	if bad == nil {
		bad = s.open(f, d)
	}
	if bad != nil {
		return bad
	}
	c.addSubscription(s, f.Get("receipt"))
	return nil
}

// open sees to it that there is a queue to receive from.
func (s *subscription) open(f *frame.Frame, d destination) *fault {
	c := s.conn
	if s.browse && d.kind != toQueue {
		return fail("Unsupported header", "'browser' is for queues alone.")
	}
	if d.kind != toTopic && subscriptionName(f) != "" {
		return fail("Invalid destination", "A durable subscription is to a topic, and not to '%.200s'.", d.text)
	}
	if s.private && d.kind == toQueue {
		return fail("Unsupported header", "'exclusive' would make '%.200s' a queue of this connection: subscribe to /temp-queue/NAME for one,"+
			" or use 'activemq.exclusive' to be the one consumer of a queue.", d.text)
	}
	switch d.kind {
	case toTopic:
		return s.openTopic(f, d)
	case toTempTopic:
		s.shown = d.text
		d, bad := c.target(d)
		if bad != nil {
			return bad
		}
		return s.openTransient(d)
	case toTemp:
		s.kind, s.shown = ofTemporary, d.text
		var bad *fault
		if s.queue, bad = c.temporary(d.text); bad == nil {
			c.dropReplies(s.queue)
		}
		return bad
	case toMany:
		return fail("Invalid destination", "A subscription has one destination, and '%.200s' is several.", d.text)
	case toReply:
		return fail("Access refused", "'%.200s' can only be sent to.", d.text)
	}
	s.queue = d.queue
	err := c.prepare(d)
	if err == nil {
		err = c.bindVirtual(d.queue)
	}
	if err != nil {
		return coreFault(err, d.text)
	}
	return nil
}

// mayAdd tells whether there is room for s, before anything is done for it.
func (c *conn) mayAdd(s *subscription) *fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.subs[s.key]; there {
		return fail("Duplicated subscription identifier", "A subscription identified by '%.200s' already exists.", s.key)
	}
	if len(c.subs) >= subscriptionsMax {
		return fail("Too many subscriptions", "A connection has at most %d.", subscriptionsMax)
	}
	return nil
}

func (c *conn) addSubscription(s *subscription, receipt string) {
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	if !s.browse && s.kind != ofTransient && s.kind != ofTemporary {
		if s.selector == nil && !c.server.options.LooseGroups {
			s.consumer = c.client.NewConsumer()
		}
		c.server.lines.enter(s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subCount++
	s.number = c.subCount
	c.subs[s.key], c.byNumber[s.number] = s, s
	c.answers.push(answer{receipt: receipt, done: true, starts: s})
	c.tellLocked()
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
	if text, ok := f.Lookup("selector"); ok {
		sel, err := selector.Parse(text)
		if err != nil {
			return fail("Invalid selector", "%v.", err)
		}
		s.selector = sel
	}
	for _, h := range f.Headers {
		if bad := s.option(h.Name, strings.TrimSpace(h.Value)); bad != nil {
			return bad
		}
	}
	if s.browse {
		s.mode = ackAuto
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
	case "activemq.priority", "x-priority":
		n, err := strconv.Atoi(value)
		if err != nil {
			return invalidHeader(name, value, "a number")
		}
		s.priority = n
	case "activemq.exclusive":
		return flag(&s.exclusive, name, value)
	case "exclusive":
		return flag(&s.private, name, value)
	case "browser":
		return flag(&s.browse, name, value)
	case "browser-end":
		end := true
		bad := flag(&end, name, value)
		s.noEnd = !end
		return bad
	case "activemq.noLocal", "no-local":
		return flag(&s.noLocal, name, value)
	case "activemq.retroactive", "include-seq", "from-seq":
		if value == "false" {
			return nil
		}
		return fail("Unsupported header", "'%s' is not supported.", name)
	}
	return nil
}

// flag reads a header that is true or false.
func flag(to *bool, name, value string) *fault {
	if value != "true" && value != "false" {
		return invalidHeader(name, value, "true or false")
	}
	*to = value == "true"
	return nil
}

// unsubscribe ends a subscription. What is not acknowledged stays so for a while,
// and then is delivered again.
func (c *conn) unsubscribe(f *frame.Frame) *fault {
	key, ok := f.Lookup("id")
	name := subscriptionName(f)
	if !ok {
		text, there := f.Lookup("destination")
		if name == "" && (c.version != frame.V10 || !there) {
			return missingHeader(frame.Unsubscribe, "id")
		}
		key = "/" + text
	}
	c.mu.Lock()
	s := c.subs[key]
	if s == nil && name != "" {
		s = c.durableLocked(c.durableQueue(name))
	}
	if s == nil {
		c.mu.Unlock()
		if name != "" {
			return c.forgetDurable(f, name)
		}
		return fail("Subscription not found", "There is no subscription identified by '%.200s'.", key)
	}
	batch := s.stopLocked()
	c.forgetLocked()
	c.mu.Unlock()
	c.server.left([]*subscription{s})
	if len(batch) > 0 {
		c.settle(s.queue, batch)
	}
	if bad := s.close(f, name); bad != nil {
		return bad
	}
	c.receiptNow(f)
	return nil
}

// stopLocked ends a subscription, and returns what becomes of what it holds.
func (s *subscription) stopLocked() []core.Settlement {
	delete(s.conn.subs, s.key)
	s.stopped, s.stoppedAt = true, s.conn.server.now()
	s.cancel()
	s.ready.Broadcast()
	return s.leaveLocked(nil)
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
