package stomp

import (
	"errors"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// look shows what is in a queue and leaves it there. At its end stands a MESSAGE
// that says so.
func (s *subscription) look() {
	c := s.conn
	var pos core.PeekPos
	for {
		if _, _, ok := s.await(); !ok {
			return
		}
		page, next, err := c.client.Peek(c.ctx, s.queue, pos, receiveMax)
		if err != nil {
			if !errors.Is(err, core.ErrNoQueue) {
				c.end(coreFault(err, ""))
				return
			}
			page, next = nil, pos
		}
		s.show(page)
		if next == pos {
			break
		}
		pos = next
	}
	s.showEnd()
}

// show writes what was seen.
func (s *subscription) show(page []core.Peeked) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.stopped || c.ended || len(page) == 0 {
		return
	}
	b := c.out.begin()
	for i := range page {
		if p := &page[i]; s.selector == nil || p.Selected(s.selector) {
			s.last++
			b = s.appendMessage(b, &core.Delivery{Stored: p.Stored, State: p.State, Redelivered: p.State.Receives > 0}, s.last)
		}
	}
	c.out.put(b)
	c.out.poke()
}

// showEnd tells that all was shown.
func (s *subscription) showEnd() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.stopped || c.ended || s.noEnd {
		return
	}
	b := frame.AppendCommand(c.out.begin(), frame.Message)
	if s.id != "" {
		b = frame.AppendHeader(b, c.version, "subscription", s.id)
	}
	b = appendQueue(append(b, "destination:"...), c.version, s.queue)
	b = append(b, "message-id:"+core.NewMessageID().String()+"\nbrowser:end\n"...)
	c.out.put(frame.AppendBody(b, nil))
	c.out.poke()
}
