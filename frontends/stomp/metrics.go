package stomp

import (
	"sync/atomic"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// Stats is what a Server has done since it began, and what it has now.
type Stats struct {
	Connections   int64 // open
	Sessions      int64 // of these, logged in
	Subscriptions int64
	Unacked       int64 // messages that subscriptions hold
	// Subscriptions that wait for an ACK, and connections whose socket takes too
	// little.
	OutOfCredit, OutOfRoom int64

	Refused         int64 // connections beyond the limits
	FramesIn        map[string]int64
	FramesOut       map[string]int64
	Delivered       int64 // messages written for subscriptions
	Acked, Nacked   int64 // messages, not frames
	Stalled         int64 // connections that were ended since they took nothing
	SlowSubscribers int64 // and those whose topics came too fast
	HeldTooLong     int64 // and those that sat on a message
	TopicFull       int64 // copies that a full queue refused
}

// commands are the frames that are counted by name; what else comes is other.
func commands() []string {
	return []string{
		frame.Connect, frame.Stomp, frame.Send, frame.Subscribe, frame.Unsubscribe, frame.Ack, frame.Nack,
		frame.Begin, frame.Commit, frame.Abort, frame.Disconnect, otherCommand,
	}
}

const otherCommand = "other"

// counters are those of a Server.
type counters struct {
	in                                      [12]atomic.Int64 // by commands
	connected, messages, receipts, faults   atomic.Int64
	acked, nacked                           atomic.Int64
	stalled, slow, held, topicFull, refused atomic.Int64
}

// read counts a frame that came.
func (c *counters) read(command string) {
	i := len(c.in) - 1
	switch command {
	case frame.Send:
		i = 2
	case frame.Ack:
		i = 5
	default:
		for k, name := range commands() {
			if name == command {
				i = k
				break
			}
		}
	}
	c.in[i].Add(1)
}

// settled counts messages that a client has answered.
func (c *counters) settled(action core.SettleAction, n int) {
	if action == core.SettleDelete {
		c.acked.Add(int64(n))
	} else {
		c.nacked.Add(int64(n))
	}
}

// passed counts the copies of a publish that full queues refused.
func (c *counters) passed(results []core.TopicResult) {
	for i := range results {
		if results[i].Full > 0 {
			c.topicFull.Add(int64(results[i].Full))
		}
	}
}

// Stats returns the counts of now.
func (s *Server) Stats() Stats {
	n := &s.counters
	out := Stats{
		Refused: n.refused.Load(), FramesIn: make(map[string]int64, len(n.in)),
		FramesOut: map[string]int64{
			frame.Connected: n.connected.Load(), frame.Message: n.messages.Load(), frame.Receipt: n.receipts.Load(), frame.Error: n.faults.Load(),
		},
		Delivered: n.messages.Load(), Acked: n.acked.Load(), Nacked: n.nacked.Load(), Stalled: n.stalled.Load(),
		SlowSubscribers: n.slow.Load(), HeldTooLong: n.held.Load(), TopicFull: n.topicFull.Load(),
	}
	for i, name := range commands() {
		out.FramesIn[name] = n.in[i].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		_, _, refused := l.Counts()
		out.Refused += int64(refused)
	}
	for c := range s.conns {
		c.countLocked(&out)
	}
	return out
}

// countLocked adds what a connection has now. The server is locked.
func (c *conn) countLocked(out *Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out.Connections++
	if c.in {
		out.Sessions++
	}
	if c.out.pending() >= outHigh {
		out.OutOfRoom++
	}
	out.Subscriptions += int64(len(c.subs))
	for _, s := range c.byNumber {
		out.Unacked += int64(s.ledger.open())
		if !s.stopped && (s.used >= s.limit || s.unacked >= s.bytes) {
			out.OutOfCredit++
		}
	}
}
