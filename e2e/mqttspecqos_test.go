package e2e

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// specQoS are the tests of delivery: acknowledgements, resends and order.
func specQoS() []specCase {
	return []specCase{
		{"3.3.1-1 4.3.2-3 4.3.3-3 4.4.0-1", "3.3.1-1 4.3.2-1 4.4.0-1", (*spec).sentAgain},
		{"4.4.0-1", "4.4.0-1", (*spec).notSentAgainWhileConnected},
		{"4.4.0-2", "", (*spec).refusedIsNotSentAgain},
		{"4.3.2-5", "4.3.2-2", (*spec).identifierIsFreeAfterPuback},
		{"4.3.3-4 4.3.3-5 4.3.3-6", "4.3.3-1", (*spec).pubrelIsSentAgain},
		{"4.3.3-7", "", (*spec).sentDoesNotExpire},
		{"4.3.3-9", "", (*spec).identifierIsFreeAfterRefusal},
		{"4.3.3-10", "4.3.3-2", (*spec).qos2Twice},
		{"4.3.3-10", "4.3.3-2", (*spec).qos2TwiceAfterResume},
		{"4.3.3-12", "4.3.3-2", (*spec).identifierIsFreeAfterPubcomp},
		{"4.3.3-13", "", (*spec).qos2GoesOnAfterExpiry},
		{"4.6.0-2 4.6.0-3", "4.6.0-2 4.6.0-3", (*spec).answersInOrder},
		{"4.6.0-1 4.6.0-4", "4.6.0-1 4.6.0-4", (*spec).resendsInOrder},
		{"4.6.0-5 4.6.0-6", "4.6.0-5 4.6.0-6", (*spec).messagesInOrder},
	}
}

// specTransport are the tests of what MQTT is carried by.
func specTransport() []specCase {
	return []specCase{
		{"4.2-1", "7.1.1-1", (*spec).anySegments},
		{"6.0.0-1", "6.0.0-1", (*spec).textFrame},
		{"6.0.0-2", "6.0.0-2", (*spec).anyFrames},
		{"6.0.0-3 6.0.0-4", "6.0.0-3 6.0.0-4", (*spec).subprotocol},
	}
}

// persistent connects a session that is subscribed to x with QoS 2.
func (s *spec) persistent(id string) *specClient {
	s.Helper()
	c := s.connect(specConnect{id: s.id(id), stay: true})
	c.subscribe(s.topic("x"), 2)
	return c
}

// again resumes a session.
func (s *spec) again(id string) *specClient {
	s.Helper()
	c := s.connect(specConnect{id: s.id(id), stay: true})
	if !c.present {
		s.Error("the session is not there")
	}
	return c
}

func (s *spec) sentAgain() {
	c := s.persistent("same")
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1}, mqMessage{topic: s.topic("x"), payload: "b", qos: 2})
	for round := range 4 {
		for i, want := range []string{"a", "b"} {
			m := c.message()
			if m.payload != want || m.qos != byte(i+1) || m.dup != (round > 0) {
				s.Errorf("message %+v in round %d", m, round)
			}
			if round == 0 {
				c.last = m.pid
			}
			if i == 1 && m.pid != c.last {
				s.Errorf("message %+v had the identifier %d", m, c.last)
			}
		}
		last := c.last
		c.drop()
		if round == 2 { // never sent yet
			s.put(mqMessage{topic: s.topic("x"), payload: "c", qos: 1})
		}
		c = s.again("same")
		c.last = last
	}
	c.expect("a", "b", "c")
	c.alive()
	c.drop()
	s.again("same").silent()
}

func (s *spec) notSentAgainWhileConnected() {
	c := s.persistent("same")
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1}, mqMessage{topic: s.topic("x"), payload: "b", qos: 2})
	c.message()
	m := c.message()
	time.Sleep(time.Second)
	c.silent()
	c.send(mqAnswer(mqPUBREC, m.pid))
	c.answered(mqPUBREL, m.pid)
	c.silent()
}

func (s *spec) refusedIsNotSentAgain() {
	c := s.persistent("same")
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1}, mqMessage{topic: s.topic("x"), payload: "b", qos: 2})
	a, b := c.message(), c.message()
	c.send(mqAnswer(mqPUBACK, a.pid, 0x80), mqAnswer(mqPUBREC, b.pid, 0x99))
	c.alive()
	c.leave()
	s.again("same").silent()
}

func (s *spec) identifierIsFreeAfterPuback() {
	watch := s.listener(s.topic("x"), 1)
	c := s.connect(specConnect{})
	for _, dup := range []bool{false, true, true} {
		c.deliver(mqMessage{topic: s.topic("x"), payload: "a", qos: 1, pid: 7, dup: dup})
	}
	watch.expect("a", "a", "a")
	watch.silent()
}

func (s *spec) pubrelIsSentAgain() {
	c := s.persistent("same")
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2}, mqMessage{topic: s.topic("x"), payload: "b", qos: 2})
	a, b := c.message(), c.message()
	c.send(mqAnswer(mqPUBREC, a.pid), mqAnswer(mqPUBREC, b.pid))
	c.answered(mqPUBREL, a.pid)
	c.answered(mqPUBREL, b.pid)
	for range 2 {
		c.drop()
		c = s.again("same")
		c.answered(mqPUBREL, a.pid)
		c.answered(mqPUBREL, b.pid)
		c.silent()
	}
	c.send(mqAnswer(mqPUBREC, a.pid)) // a client may say it once more
	c.answered(mqPUBREL, a.pid)
	c.send(mqAnswer(mqPUBCOMP, a.pid), mqAnswer(mqPUBCOMP, b.pid))
	c.alive()
	c.leave()
	s.again("same").silent()
}

// sentDoesNotExpire waits for longer than the expiry of messages that were sent.
// After a resume the broker may send PUBREL where it has no message any more.
func (s *spec) sentDoesNotExpire() {
	c := s.persistent("same")
	for _, payload := range []string{"a", "b"} {
		s.put(mqMessage{topic: s.topic("x"), payload: payload, qos: 2, props: mqProps{mqLong(mqMessageExpiry, 1)}})
	}
	a, b := c.message(), c.message()
	time.Sleep(1500 * time.Millisecond)
	c.send(mqAnswer(mqPUBREC, a.pid))
	c.answered(mqPUBREL, a.pid)
	c.send(mqAnswer(mqPUBCOMP, a.pid))
	c.alive()
	c.drop()
	c = s.again("same")
	p := c.packet()
	if p.kind() == mqPUBLISH {
		if m := s.takeMessage(p); m.pid != b.pid || m.payload != "b" || !m.dup {
			s.Errorf("message %+v", m)
		}
		c.send(mqAnswer(mqPUBREC, b.pid))
		p = c.packet()
	}
	if p.kind() != mqPUBREL || p.pid() != b.pid {
		s.Errorf("packet %#x %x came instead of PUBREL", p.head, p.body)
	}
	c.send(mqAnswer(mqPUBCOMP, b.pid))
	c.silent()
}

// identifierIsFreeAfterRefusal has a message refused, if the broker refuses what is
// published about itself.
func (s *spec) identifierIsFreeAfterRefusal() {
	watch := s.listener(s.topic("x"), 2)
	c := s.connect(specConnect{})
	c.publish(mqMessage{topic: "$SYS/" + s.topic("x"), qos: 2, pid: 9})
	if reason := c.answered(mqPUBREC, 9); reason < 0x80 {
		s.Skip("the broker refuses no message")
	}
	c.deliver(mqMessage{topic: s.topic("x"), payload: "a", qos: 2, pid: 9})
	watch.expect("a")
	watch.silent()
}

func (s *spec) qos2Twice() {
	watch := s.listener(s.topic("x"), 2)
	c := s.connect(specConnect{})
	m := mqMessage{topic: s.topic("x"), payload: "a", qos: 2, pid: 3}
	for range 4 {
		c.publish(m)
		if reason := c.answered(mqPUBREC, 3); reason >= 0x80 {
			s.Errorf("PUBREC has the reason %#x", reason)
		}
		m.dup = true
	}
	watch.expect("a")
	watch.silent()
	for range 2 {
		c.send(mqAnswer(mqPUBREL, 3))
		c.answered(mqPUBCOMP, 3)
	}
	watch.silent()
}

func (s *spec) qos2TwiceAfterResume() {
	watch := s.listener(s.topic("x"), 2)
	c := s.connect(specConnect{id: s.id("same"), stay: true})
	m := mqMessage{topic: s.topic("x"), payload: "a", qos: 2, pid: 3}
	for range 3 {
		c.publish(m)
		c.answered(mqPUBREC, 3)
		c.drop()
		c = s.again("same")
		m.dup = true
	}
	c.send(mqAnswer(mqPUBREL, 3))
	c.answered(mqPUBCOMP, 3)
	watch.expect("a")
	m.payload = "b"
	c.deliver(m) // the identifier is free, whatever DUP says
	watch.expect("b")
	watch.silent()
}

func (s *spec) identifierIsFreeAfterPubcomp() {
	watch := s.listener(s.topic("x"), 2)
	c := s.connect(specConnect{})
	for _, payload := range []string{"a", "b", "b"} {
		c.deliver(mqMessage{topic: s.topic("x"), payload: payload, qos: 2, pid: 3})
	}
	watch.expect("a", "b", "b")
	watch.silent()
}

func (s *spec) qos2GoesOnAfterExpiry() {
	id := s.id("away")
	away := s.connect(specConnect{id: id, stay: true})
	away.subscribe(s.topic("x"), 2)
	away.leave()
	c := s.connect(specConnect{})
	m := mqMessage{topic: s.topic("x"), qos: 2, pid: 3, props: mqProps{mqLong(mqMessageExpiry, 1)}}
	c.publish(m)
	c.answered(mqPUBREC, 3)
	time.Sleep(1500 * time.Millisecond)
	m.dup = true
	c.publish(m)
	c.answered(mqPUBREC, 3)
	c.send(mqAnswer(mqPUBREL, 3))
	if reason := c.answered(mqPUBCOMP, 3); reason != 0 {
		s.Errorf("PUBCOMP has the reason %#x", reason)
	}
}

// answersInOrder publishes without waiting.
func (s *spec) answersInOrder() {
	const messages = 100
	c := s.connect(specConnect{})
	for i := range messages {
		c.publish(mqMessage{topic: s.topic("x"), qos: 1, pid: uint16(i*7 + 1)})
	}
	for i := range messages {
		c.answered(mqPUBACK, uint16(i*7+1))
	}
	for i := range messages / 10 {
		c.publish(mqMessage{topic: s.topic("x"), qos: 2, pid: uint16(i*7 + 1)})
	}
	for i := range messages / 10 {
		c.answered(mqPUBREC, uint16(i*7+1))
	}
	for i := range messages / 10 {
		c.send(mqAnswer(mqPUBREL, uint16(i*7+1)))
	}
	for i := range messages / 10 {
		c.answered(mqPUBCOMP, uint16(i*7+1))
	}
}

func (s *spec) resendsInOrder() {
	const messages = 18
	c := s.persistent("same")
	for i := range messages {
		s.put(mqMessage{topic: s.topic("x"), payload: fmt.Sprint(i), qos: byte(1 + i%2)})
	}
	var sent []mqMessage
	for range messages {
		sent = append(sent, c.message())
	}
	c.send(mqAnswer(mqPUBREC, sent[1].pid), mqAnswer(mqPUBREC, sent[3].pid), mqAnswer(mqPUBACK, sent[4].pid))
	c.answered(mqPUBREL, sent[1].pid)
	c.answered(mqPUBREL, sent[3].pid)
	c.alive()
	c.drop()
	c = s.again("same")
	c.answered(mqPUBREL, sent[1].pid)
	c.answered(mqPUBREL, sent[3].pid)
	for i, want := range sent {
		if i == 1 || i == 3 || i == 4 {
			continue
		}
		if m := c.message(); m.payload != want.payload || m.pid != want.pid || m.qos != want.qos || !m.dup {
			s.Errorf("message %+v came, not %+v again", m, want)
		}
	}
	c.silent()
}

func (s *spec) messagesInOrder() {
	const messages = 100
	all := []*specClient{s.listener(s.topic("+"), 0), s.listener(s.topic("x"), 1), s.listener(s.topic("#"), 2)}
	for qos := range byte(3) {
		p := s.connect(specConnect{})
		for i := range messages {
			m := mqMessage{topic: s.topic("x"), payload: fmt.Sprint(i), qos: qos}
			if qos == 2 {
				p.deliver(m)
			} else {
				p.publish(m)
			}
		}
		for _, c := range all {
			for i := range messages {
				if m := c.take(); m.payload != fmt.Sprint(i) {
					s.Fatalf("message %q of QoS %d came instead of %d", m.payload, qos, i)
				}
			}
		}
	}
}

// anySegments sends packets byte by byte, and many at once.
func (s *spec) anySegments() {
	c := s.dial()
	all := s.connectPacket(specConnect{id: s.id("a")}) + s.subscribe(1, "", mqFilter(s.topic("x"), 0)) +
		s.publish(mqMessage{topic: s.topic("x"), payload: strings.Repeat("x", 200)})
	for i := range len(all) {
		c.send(all[i : i+1])
	}
	c.connack()
	c.suback(1)
	c.expect(strings.Repeat("x", 200))
	c.send(strings.Repeat(s.publish(mqMessage{topic: s.topic("x"), payload: "y"}), 50))
	for range 50 {
		c.expect("y")
	}
}

// web connects over WebSocket.
func (s *spec) web(protocols ...string) (*websocket.Conn, error) {
	s.Helper()
	if s.server.web == "" {
		s.Skip("the address for WebSocket is not known")
	}
	ws, _, err := websocket.Dial(s.Context(), "ws://"+s.server.web+"/mqtt", &websocket.DialOptions{Subprotocols: protocols})
	if err == nil {
		s.Cleanup(func() { _ = ws.CloseNow() })
	}
	return ws, err
}

// webClient connects over WebSocket and logs in.
func (s *spec) webClient() (*websocket.Conn, *specClient) {
	s.Helper()
	ws, err := s.web("mqtt")
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), 4*specAnswerMax)
	s.Cleanup(cancel)
	c := s.over(websocket.NetConn(ctx, ws, websocket.MessageBinary))
	c.send(s.connectPacket(specConnect{id: s.id("web")}))
	if code := c.connack(); code != 0 {
		s.Fatalf("CONNACK has the code %#x", code)
	}
	return ws, c
}

func (s *spec) textFrame() {
	ws, c := s.webClient()
	if err := ws.Write(s.Context(), websocket.MessageText, []byte("\xc0\x00")[:0]); err != nil {
		s.Fatal(err)
	}
	if err := ws.Write(s.Context(), websocket.MessageText, []byte("00")); err != nil {
		s.Log(err) // it may be closed already
	}
	if _, err := io.ReadAll(c.conn); err != nil && s.Context().Err() != nil {
		s.Errorf("the connection was not closed: %v", err)
	}
}

func (s *spec) anyFrames() {
	_, c := s.webClient() // each write is a frame
	c.send(s.subscribe(1, "", mqFilter(s.topic("x"), 1)) + mqRaw(mqPINGREQ<<4) + "\x30")
	c.suback(1)
	c.want(mqPINGRESP)
	rest := s.publish(mqMessage{topic: s.topic("x"), payload: "a"})[1:]
	for i := range len(rest) {
		c.send(rest[i : i+1])
	}
	c.expect("a")
}

func (s *spec) subprotocol() {
	if ws, err := s.web("other", "mqtt"); err != nil {
		s.Error(err)
	} else if ws.Subprotocol() != "mqtt" {
		s.Errorf("the subprotocol is %q", ws.Subprotocol())
	}
	ws, err := s.web("other")
	if err == nil && ws.Subprotocol() != "" {
		s.Errorf("the subprotocol is %q", ws.Subprotocol())
	}
}
