package core

import (
	"time"

	"github.com/leasemq/broker/core/selector"
)

// Principal is who is connected.
type Principal struct {
	Name   string // empty: anonymous
	Origin Origin
}

// Client is the one door into the core: a connected principal. Authorization,
// limits and interceptors sit here, so that no frontend can forget them. It is
// safe for concurrent use.
type Client struct {
	engine    *Engine
	principal Principal
}

// ReceiveOptions says what to receive and how it is leased.
type ReceiveOptions struct {
	Max        int           // messages, at least 1
	MaxBytes   int64         // of bodies; 0: no limit; at least one message is given
	Visibility time.Duration // timed leases; negative: the queue's
	Wait       time.Duration // how long to wait for a first message; 0: do not; negative: the queue's ReceiveWait
	// Alive, if set, is asked right before a lease is taken after a wait, and
	// tells whether the peer is still there. False ends the receive with
	// context.Canceled, and the message goes to the next waiter.
	Alive func() bool
	// Watch, if set, is parked in the place of the caller if there is nothing, and
	// called when there may be. Until then it is not received with, and Wait does
	// not count. It is not for a Selector.
	Watch *Watch
	// Grant, if set, is asked before each message is taken whether the caller has
	// room for it; bytes is its size, 0 if only storage knows it. False ends the
	// receive with what it has; the first message is given all the same. It is
	// called with the queue's lock held.
	Grant func(bytes int64) bool
	// AttemptID (FIFO) makes a repeat of the same receive within 5 minutes
	// answer with the same messages and receipts.
	AttemptID string
	// Owner makes session leases: without a deadline, owned by the session.
	Owner *Owner
	// Selector, if set, lets only messages through that it selects; others stay
	// where they are. On FIFO queues a group whose first message it does not
	// select waits. Beyond 1,024 selectors in use on one queue: ErrOverLimit.
	Selector *selector.Selector
	// Consumer, if set, keeps message groups of a standard queue to itself.
	Consumer *Consumer
}

// SettleAction is what to do with a delivery.
type SettleAction uint8

// The actions.
const (
	SettleDelete     SettleAction = iota // done with it: never delivered again
	SettleExtend                         // timed leases: set the visibility timeout to Delay, from now; 0 makes it ready at once
	SettleRelease                        // back to its old place, ready after Delay; not a failure
	SettleReject                         // a failure: redelivered by the queue's policy, or dead-lettered
	SettleDeadLetter                     // to the dead-letter queue at once; without one it is dropped
)

// Settlement settles one delivery.
type Settlement struct {
	Handle  string  // text form, or
	Receipt Receipt // when Handle is empty
	Action  SettleAction
	// Delay is how long an extended lease lasts, a released message waits, or a
	// rejected one whose queue's policy has no delay.
	Delay time.Duration
}

// PeekPos is where a Peek goes on; the zero value starts at the oldest.
type PeekPos struct {
	Place Place
	Seq   Seq
}

// Peeked is a message seen without a lease.
type Peeked struct {
	Stored
	State    MessageState // zero: never received
	Place    Place
	InFlight bool
}
