package sqs

import (
	"bytes"

	"github.com/leasemq/broker/core"
)

// peekPath is where LocalStack shows the messages of a queue without receiving
// them: as the answer to a ReceiveMessage, which is the only action there. The
// queue is named by QueueUrl, or by region, account and name behind the path.
const peekPath = "/_aws/sqs/messages"

const peekedAction = "ReceiveMessage"

// peekedHandle stands where a receipt handle would: nobody holds the message.
const peekedHandle = "SQS/BACKDOOR/ACCESS"

// Bounds of a peek. Bodies in one answer are bounded like those of a receive.
const (
	peekMessagesMax = 1000   // shown
	peekReadMax     = 10_000 // read, with those that are not shown
	peekPageMax     = 32     // read at a time, with the queue locked
)

func isPeekPath(path []byte) bool {
	rest, ok := bytes.CutPrefix(path, []byte(peekPath))
	return ok && (len(rest) == 0 || rest[0] == '/')
}

// peekAction returns what an action is at the path of peeks.
func peekAction(a action) action {
	if a.name == peekedAction {
		return action{name: "PeekMessages", run: peekMessages}
	}
	return action{name: a.name, run: func(*call) error { return notValidHere(a.name) }}
}

// peekMessages shows the messages that a receive would find, oldest first, and
// with ShowInvisible and ShowDelayed also those that it would not.
func peekMessages(c *call) error {
	name, err := c.queueName()
	if err != nil {
		return err
	}
	q, err := c.client.Queue(contextOfWork(), name)
	if err != nil {
		return err
	}
	c.params.messageNames = append(c.params.messageNames[:0], text("All"))
	a := &c.answer
	a.single = true // as LocalStack has it
	a.open(peekedAction)
	shown, size := 0, 0
	var pos core.PeekPos
	for read := 0; read < peekReadMax; read += peekPageMax {
		page, next, err := c.client.Peek(contextOfWork(), name, pos, peekPageMax)
		if err != nil {
			return err
		}
		for i := range page {
			p := &page[i]
			if shown == peekMessagesMax || size > receiveBytesMax || !c.isShown(&q, p) {
				continue
			}
			if shown == 0 {
				a.beginList("Messages")
			}
			d := core.Delivery{Stored: p.Stored, State: p.State}
			c.writeMessage(&d, nameAll, q.Config.Kind == core.KindFIFO)
			shown, size = shown+1, size+len(p.Body)
		}
		if next == pos || shown == peekMessagesMax || size > receiveBytesMax {
			break
		}
		pos = next
	}
	if shown > 0 {
		a.endList()
	} else {
		a.emptyList("Messages")
	}
	a.close(peekedAction, c.id())
	return nil
}

// isShown tells whether a peek shows p, a message of q.
func (c *call) isShown(q *core.Queue, p *core.Peeked) bool {
	now := c.server.now()
	expires := p.EnqueuedAt + q.Config.Retention.Milliseconds()
	switch {
	case p.ExpiresAt > 0 && p.ExpiresAt <= now, q.Config.Retention > 0 && expires <= now:
		return false
	case p.InFlight:
		return c.params.showInvisible
	case p.State.Receives > 0 || c.params.showDelayed:
		return true
	}
	if q.Config.Kind == core.KindFIFO {
		return p.EnqueuedAt+q.Config.Delay.Milliseconds() <= now
	}
	return p.Place.Kind != core.PlaceDelayed || p.Place.N <= uint64(now)
}
