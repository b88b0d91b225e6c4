package e2e

import (
	"strings"
	"time"
)

// specConnects are the tests of CONNECT and CONNACK.
func specConnects() []specCase {
	return []specCase{
		{"3.1.0-1 3.14.0-1", "3.1.0-1", (*spec).firstIsConnect},
		{"3.1.0-2 3.2.0-2", "3.1.0-2", (*spec).secondConnect},
		{"3.1.2-1", "3.1.2-1 3.2.2-6", (*spec).protocolName},
		{"3.1.2-2", "3.1.2-2", (*spec).protocolVersion},
		{"3.1.2-3", "3.1.2-3", (*spec).reservedConnectFlag},
		{"3.1.2-9", "3.1.2-9", (*spec).willIsNotThere},
		{"3.1.2-11", "3.1.2-11 3.1.2-13", (*spec).willQoSWithoutWill},
		{"3.1.2-13", "3.1.2-15", (*spec).willRetainWithoutWill},
		{"3.1.2-12", "3.1.2-14", (*spec).willQoS3},
		{"3.1.2-16", "3.1.2-18", (*spec).userWithoutFlag},
		{"3.1.2-17", "3.1.2-19", (*spec).flagWithoutUser},
		{"3.1.2-18", "3.1.2-20", (*spec).passwordWithoutFlag},
		{"3.1.2-19", "3.1.2-21", (*spec).flagWithoutPassword},
		{"", "3.1.2-22", (*spec).passwordWithoutUser},
		{"3.1.2-22 3.2.2-22", "3.1.2-24", (*spec).keepAlive},
		{"3.1.2-24 3.1.2-25", "", (*spec).maximumPacketSize},
		{"3.1.2-26 3.3.2-11", "", (*spec).aliasesOfServer},
		{"3.1.2-27", "", (*spec).noAliasesOfServer},
		{"3.1.2-28", "", (*spec).responseInformation},
		{"3.1.2-29", "", (*spec).problemInformation},
		{"3.1.3-1 3.1.3-10", "3.1.3-1", (*spec).orderOfPayload},
		{"3.1.3-3", "3.1.3-3", (*spec).noClientIDField},
		{"3.1.3-4", "3.1.3-4", (*spec).clientIDIsNotUTF8},
		{"3.1.3-5 3.1.4-5", "3.1.3-5 3.1.4-4", (*spec).clientIDs},
		{"3.1.3-6 3.1.3-7 3.2.2-16", "3.1.3-6", (*spec).assignedClientID},
		{"3.1.3-8", "3.1.3-8 3.1.3-9", (*spec).refusedClientID},
		{"3.1.3-11", "3.1.3-10", (*spec).willTopicIsNotUTF8},
		{"3.1.3-12", "3.1.3-11", (*spec).userIsNotUTF8},
		{"3.1.4-1", "3.1.4-1", (*spec).brokenConnect},
		{"3.1.4-3 3.14.4-1 3.14.4-2", "3.1.4-2", (*spec).takeover},
		{"3.1.4-6 3.2.2-6 3.2.2-7 3.2.2-8 4.13.2-1", "3.1.4-5 3.2.2-4 3.2.2-5", (*spec).nothingAfterRefusal},
		{"3.2.0-1", "3.2.0-1", (*spec).connackIsFirst},
		{"3.2.2-1 4.12.0-6", "", (*spec).plainConnack},
		{"3.2.2-9 3.2.2-10 3.2.2-12 3.2.2-13", "", (*spec).everythingIsSupported},
		{"3.2.2-19 3.2.2-20", "", (*spec).connackFits},
		{"3.4.2-2 3.4.2-3 3.5.2-2 3.5.2-3 3.6.2-2 3.6.2-3 3.7.2-2 3.7.2-3 3.9.2-1 3.9.2-2 3.11.2-1 3.11.2-2 3.14.2-3 3.14.2-4", "", (*spec).answersFit},
		{"3.12.4-1", "3.12.4-1", func(s *spec) { s.connect(specConnect{}).alive() }},
		{"3.14.2-1 3.14.2-2", "", (*spec).noExpiryFromServer},
		{"4.12.0-1", "", (*spec).unknownAuthMethod},
	}
}

func (s *spec) firstIsConnect() {
	for _, p := range []string{
		mqRaw(mqPINGREQ << 4), s.publish(mqMessage{topic: s.topic("x")}), s.subscribe(1, "", mqFilter(s.topic("x"), 0)),
		mqRaw(mqDISCONNECT << 4), "\x00\x00", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		c := s.dial()
		c.send(p)
		if got, err := c.read(specAnswerMax); err == nil {
			s.Errorf("%q was answered by %#x %x", p, got.head, got.body)
		}
	}
}

func (s *spec) secondConnect() {
	id := s.id("twice")
	c := s.connect(specConnect{id: id})
	c.send(s.connectPacket(specConnect{id: id}))
	c.closed(mqProtocolError)
}

func (s *spec) protocolName() {
	for _, name := range []string{"MQTX", "mqtt", "", "MQTTT"} {
		c := s.dial()
		c.send(mqRaw(mqCONNECT<<4, mqString(name), string([]byte{s.v, 2}), mq16(0), s.block(), mqString(s.id("a"))))
		if p, err := c.read(specAnswerMax); err == nil && (p.kind() != mqCONNACK || s.v < 5 || p.body[1] != mqBadVersion) {
			s.Errorf("the protocol name %q was answered by %#x %x", name, p.head, p.body)
		}
	}
}

func (s *spec) protocolVersion() {
	for _, v := range []byte{0, 1, 2, 6, 9, 255} {
		c := s.dial()
		c.send(mqRaw(mqCONNECT<<4, mqString("MQTT"), string([]byte{v, 2}), mq16(0), s.block(), mqString(s.id("a"))))
		p := c.packet()
		// What the client speaks is not known: the answer may be of either version.
		if p.kind() != mqCONNACK || len(p.body) < 2 || p.body[0] != 0 || p.body[1] != 1 && p.body[1] != mqBadVersion {
			s.Errorf("version %d was answered by %#x %x", v, p.head, p.body)
		}
		if p, err := c.read(specAnswerMax); err == nil {
			s.Errorf("packet %#x %x came after the refusal", p.head, p.body)
		}
	}
}

// refusedConnects wants each CONNECT to be refused: before MQTT 5 without a word.
func (s *spec) refusedConnects(packets ...string) {
	s.Helper()
	for _, p := range packets {
		c := s.dial()
		c.send(p)
		before := s.Failed()
		if s.v < 5 {
			c.closed()
		} else {
			s.notConnected(c, 0, mqMalformed, mqProtocolError)
		}
		if s.Failed() && !before {
			s.Logf("CONNECT was %q", p)
		}
	}
}

func (s *spec) reservedConnectFlag() {
	s.refusedConnects(s.connectOf(3, 0, s.block()+mqString(s.id("a"))))
}

func (s *spec) willIsNotThere() {
	s.refusedConnects(
		s.connectOf(6, 0, s.block()+mqString(s.id("a"))),
		s.connectOf(6, 0, s.block()+mqString(s.id("a"))+s.block()+mqString("topic")),
	)
}

func (s *spec) willQoSWithoutWill() {
	rest := s.block() + mqString(s.id("a"))
	s.refusedConnects(s.connectOf(0x0a, 0, rest), s.connectOf(0x12, 0, rest))
}

func (s *spec) willRetainWithoutWill() {
	s.refusedConnects(s.connectOf(0x22, 0, s.block()+mqString(s.id("a"))))
}

func (s *spec) willQoS3() {
	s.refusedConnects(s.connectPacket(specConnect{id: s.id("a"), will: &mqMessage{topic: s.topic("will"), qos: 3}}))
	for qos := range byte(3) {
		s.connect(specConnect{will: &mqMessage{topic: s.topic("will"), qos: qos}})
	}
}

func (s *spec) userWithoutFlag() {
	s.refusedConnects(s.connectOf(2, 0, s.block()+mqString(s.id("a"))+mqString("user")))
}

func (s *spec) flagWithoutUser() {
	s.refusedConnects(s.connectOf(0x82, 0, s.block()+mqString(s.id("a"))))
}

func (s *spec) passwordWithoutFlag() {
	s.refusedConnects(s.connectOf(0x82, 0, s.block()+mqString(s.id("a"))+mqString("user")+mqString("password")))
}

func (s *spec) flagWithoutPassword() {
	s.refusedConnects(s.connectOf(0xc2, 0, s.block()+mqString(s.id("a"))+mqString("user")))
}

func (s *spec) passwordWithoutUser() {
	s.refusedConnects(s.connectOf(0x42, 0, s.block()+mqString(s.id("a"))+mqString("password")))
}

func (s *spec) keepAlive() {
	watch := s.listener(s.topic("will"), 0)
	c := s.connect(specConnect{alive: 1, will: &mqMessage{topic: s.topic("will"), payload: "gone"}})
	other := s.connect(specConnect{alive: 1})
	begin := time.Now()
	go func() {
		time.Sleep(time.Second)
		other.send(mqRaw(mqPINGREQ << 4))
	}()
	c.closed(mqKeepAliveTimeout)
	if took := time.Since(begin); took < 1400*time.Millisecond || took > 4*time.Second {
		s.Errorf("the connection ended after %v", took)
	}
	watch.expect("gone") // it ended as if the network had failed
	other.want(mqPINGRESP)
}

// maximumPacketSize has what is too large passed over, and still counted as sent.
func (s *spec) maximumPacketSize() {
	c := s.connect(specConnect{props: []string{mqLong(mqMaxPacket, 100), mqShort(mqReceiveMax, 1)}})
	c.max = 100
	c.subscribe(s.topic("#"), 2)
	for qos := range byte(3) {
		s.put(mqMessage{topic: s.topic("x"), qos: qos, payload: strings.Repeat("x", 200)},
			mqMessage{topic: s.topic("x"), qos: qos, payload: "small"})
		c.expect("small")
	}
	c.silent()
}

func (s *spec) aliasesOfServer() {
	c := s.connect(specConnect{props: []string{mqShort(mqAliasMax, 2)}})
	c.subscribe(s.topic("#"), 0)
	names := make(map[string]string)
	for i := range 12 {
		topic := s.topic(string(rune('a' + i%4)))
		s.put(mqMessage{topic: topic, payload: "x"})
		m := c.take()
		if n := m.props.number(mqAlias, -1); n >= 0 {
			alias, _ := m.props.value(mqAlias)
			if n < 1 || n > 2 {
				s.Fatalf("topic alias %d", n)
			}
			if m.topic != "" {
				names[alias] = m.topic
			}
			m.topic = names[alias]
		}
		if m.topic != topic {
			s.Errorf("a message of %s came as one of %q", topic, m.topic)
		}
	}
}

func (s *spec) noAliasesOfServer() {
	c := s.listener(s.topic("x"), 0)
	for range 3 {
		s.put(mqMessage{topic: s.topic("x")})
		if m := c.take(); m.topic != s.topic("x") || len(m.props.all(mqAlias)) > 0 {
			s.Errorf("message %+v", m)
		}
	}
}

func (s *spec) responseInformation() {
	for _, props := range [][]string{nil, {mqByte(mqRequestResponse, 0)}} {
		if c := s.connect(specConnect{props: props}); len(c.props.all(mqResponseInfo)) > 0 {
			s.Errorf("CONNACK has %q", c.props)
		}
	}
}

// problemInformation has everything fail that a client can have fail, and wants no
// reasons in words.
func (s *spec) problemInformation() {
	c := s.connect(specConnect{props: []string{mqByte(mqRequestProblem, 0)}})
	bare := func(p mqPacket, at int) {
		if len(p.body) <= at {
			return
		}
		props, _ := s.takeProps(string(p.body[at:]))
		if len(props.all(mqReasonString)) > 0 || len(props.all(mqUserProperty)) > 0 {
			s.Errorf("packet %#x has %q", p.head, props)
		}
	}
	c.publish(mqMessage{topic: s.topic("nobody"), qos: 1})
	bare(c.want(mqPUBACK), 3)
	c.publish(mqMessage{topic: s.topic("nobody"), qos: 2})
	bare(c.want(mqPUBREC), 3)
	c.send(mqAnswer(mqPUBREL, 999))
	bare(c.want(mqPUBCOMP), 3)
	c.send(s.unsubscribe(7, s.topic("none")))
	bare(c.want(mqUNSUBACK), 2)
	c.send(s.subscribe(8, "", mqFilter(s.topic("x"), 0)))
	bare(c.want(mqSUBACK), 2)
}

// orderOfPayload uses every field of a CONNECT.
func (s *spec) orderOfPayload() {
	watch := s.listener(s.topic("will"), 1)
	pairs := mqProps{mqPair("b", "1"), mqPair("a", "2"), mqPair("b", "3")}
	id := s.id("full")
	c := s.connect(specConnect{id: id, user: "user", pass: "password", stay: true, will: &mqMessage{
		topic: s.topic("will"), payload: "bytes\x00\xff", qos: 1,
		props: append(mqProps{mqText(mqContentType, "text"), mqText(mqResponseTopic, "answer")}, pairs...),
	}})
	c.drop()
	m := watch.take()
	if m.topic != s.topic("will") || m.payload != "bytes\x00\xff" || m.qos != 1 {
		s.Errorf("the will is %+v", m)
	}
	if s.v == 5 {
		if got := m.props.all(mqUserProperty); strings.Join(got, "") != strings.Join(pairs, "") {
			s.Errorf("the will has the user properties %q", got)
		}
		if v, _ := m.props.value(mqContentType); v != mqString("text") {
			s.Errorf("the will has the content type %q", v)
		}
	}
	if c := s.connect(specConnect{id: id, user: "user", pass: "password", stay: true}); !c.present {
		s.Error("the session is not found under its identifier")
	}
}

func (s *spec) noClientIDField() {
	s.refusedConnects(s.connectOf(2, 0, s.block()))
}

func (s *spec) clientIDIsNotUTF8() {
	for _, id := range notUTF8() {
		s.refusedConnects(s.connectPacket(specConnect{id: id}))
	}
}

func (s *spec) clientIDs() {
	const all = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, id := range []string{"z", all[:23], all[23:46], all[39:]} {
		c := s.connect(specConnect{id: id, stay: true})
		c.alive()
		if c.props.number(mqAssignedID, 0) != 0 {
			s.Errorf("the client identifier %q was changed", id)
		}
		c.leave()
		s.connect(specConnect{id: id})
	}
}

func (s *spec) assignedClientID() {
	a, b := s.connect(specConnect{noID: true}), s.connect(specConnect{noID: true})
	a.subscribe(s.topic("x"), 0)
	b.alive()
	s.put(mqMessage{topic: s.topic("x"), payload: "a"})
	a.expect("a")
	b.silent()
	if s.v < 5 {
		return
	}
	first, ok := a.props.value(mqAssignedID)
	if second, _ := b.props.value(mqAssignedID); !ok || len(first) < 3 || first == second {
		s.Fatalf("the assigned client identifiers are %q and %q", first, second)
	}
	c := s.connect(specConnect{noID: true, stay: true})
	assigned, _ := c.props.value(mqAssignedID)
	c.leave()
	if c = s.connect(specConnect{id: assigned[2:], stay: true}); !c.present {
		s.Error("the session is not found under the assigned identifier")
	}
}

func (s *spec) refusedClientID() {
	if s.v < 5 {
		c, code := s.knock(specConnect{noID: true, stay: true})
		if code != 2 || c.present {
			s.Errorf("CONNACK has the code %#x", code)
		}
		c.closed()
		return
	}
	c := s.dial()
	c.send(s.connectPacket(specConnect{id: strings.Repeat("x", 65535)}))
	p, err := c.read(specAnswerMax)
	if err == nil && (p.kind() != mqCONNACK || len(p.body) < 2) {
		s.Fatalf("packet %#x %x came", p.head, p.body)
	}
	if err == nil && p.body[1] != 0 { // a broker may take it
		if p.body[1] != mqBadClientID && p.body[1] != mqTooLarge {
			s.Errorf("CONNACK has the reason %#x", p.body[1])
		}
		c.closed()
	}
}

func (s *spec) willTopicIsNotUTF8() {
	for _, topic := range notUTF8() {
		s.refusedConnects(s.connectPacket(specConnect{id: s.id("a"), will: &mqMessage{topic: topic}}))
	}
}

func (s *spec) userIsNotUTF8() {
	for _, user := range notUTF8() {
		s.refusedConnects(s.connectPacket(specConnect{id: s.id("a"), user: user}))
	}
}

func (s *spec) brokenConnect() {
	id := mqString(s.id("a"))
	packets := []string{
		"\x10\x00", "\x10\x02\x00\x04", mqRaw(0x11, mqString("MQTT"), string([]byte{s.v, 2}), mq16(0), s.block(), id),
		mqRaw(0x10, mqString("MQTT"), string([]byte{s.v, 2}), "\x00"),
		s.connectOf(2, 0, s.block()+"\x00\x40a"), s.connectOf(2, 0, s.block()+id+"x"),
	}
	for _, p := range packets {
		c := s.dial()
		c.send(p)
		if s.v < 5 || len(p) < 10 {
			c.closed()
		} else {
			s.notConnected(c, 0, mqMalformed, mqProtocolError)
		}
	}
	if s.v < 5 {
		return
	}
	twice := func(p string) string { return s.connectOf(2, 0, s.block(p, p)+id) }
	s.refusedConnects(
		twice(mqLong(mqSessionExpiry, 1)), twice(mqShort(mqReceiveMax, 1)), twice(mqLong(mqMaxPacket, 100)), twice(mqShort(mqAliasMax, 1)),
		twice(mqByte(mqRequestResponse, 1)), twice(mqByte(mqRequestProblem, 1)),
		s.connectOf(2, 0, s.block(mqShort(mqReceiveMax, 0))+id), s.connectOf(2, 0, s.block(mqLong(mqMaxPacket, 0))+id),
		s.connectOf(2, 0, s.block(mqByte(mqRequestResponse, 2))+id), s.connectOf(2, 0, s.block(mqByte(mqRequestProblem, 2))+id),
		s.connectOf(2, 0, s.block(mqText(mqContentType, "a"))+id), s.connectOf(2, 0, s.block(mqShort(mqAlias, 1))+id),
		s.connectOf(2, 0, s.block(mqText(mqAuthData, "a"))+id), // without a method
		s.connectOf(2, 0, "\x05"+id[:4]),
	)
}

func (s *spec) takeover() {
	id := s.id("same")
	first := s.connect(specConnect{id: id})
	first.subscribe(s.topic("x"), 0)
	begin := time.Now()
	second := s.connect(specConnect{id: id, stay: true})
	if took := time.Since(begin); took > 2*time.Second {
		s.Errorf("the takeover took %v", took)
	}
	first.closed(mqTakenOver)
	second.alive()
}

// nothingAfterRefusal sends a PUBLISH with a CONNECT that is refused.
func (s *spec) nothingAfterRefusal() {
	c := s.dial()
	refused := s.connectPacket(specConnect{noID: true, stay: true})
	if s.v == 5 {
		refused = s.connectPacket(specConnect{id: s.id("a"), props: []string{mqText(mqAuthMethod, "none such")}})
	}
	c.send(refused, s.publish(mqMessage{topic: s.topic("x"), payload: "a", retain: true}))
	s.notConnected(c, 2, mqBadAuthMethod, mqNotAuthorized)
	s.listener(s.topic("x"), 0).silent()
}

// connackIsFirst resumes a session that has a message, and subscribes to a retained
// one in the same segment.
func (s *spec) connackIsFirst() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true})
	c.subscribe(s.topic("x"), 1)
	c.leave()
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1}, mqMessage{topic: s.topic("y"), payload: "b", retain: true})
	c = s.dial()
	c.send(s.connectPacket(specConnect{id: id, stay: true}), s.subscribe(1, "", mqFilter(s.topic("y"), 0)), mqRaw(mqPINGREQ<<4))
	if code := c.connack(); code != 0 || !c.present {
		s.Fatalf("CONNACK has the code %#x, a session: %v", code, c.present)
	}
	c.suback(1)
	c.want(mqPINGRESP)
	got := []string{c.take().payload, c.take().payload}
	if strings.Join(got, "") != "ab" && strings.Join(got, "") != "ba" {
		s.Errorf("messages %q", got)
	}
}

func (s *spec) plainConnack() {
	c := s.connect(specConnect{})
	if len(c.props.all(mqAuthMethod)) > 0 || c.present {
		s.Errorf("CONNACK has %q", c.props)
	}
	c.silent()
}

func (s *spec) everythingIsSupported() {
	c := s.connect(specConnect{will: &mqMessage{topic: s.topic("will"), qos: 2, retain: true}})
	if len(c.props.all(mqMaximumQoS)) > 0 || c.props.number(mqRetainAvailable, 1) != 1 {
		s.Errorf("CONNACK has %q", c.props)
	}
	for qos := range byte(3) {
		c.subscribe(s.topic("x"), qos)
	}
}

func (s *spec) connackFits() {
	c := s.dial()
	c.max = 20
	c.send(s.connectPacket(specConnect{id: s.id("a"), props: []string{mqLong(mqMaxPacket, 20), mqText(mqAuthMethod, "none such")}}))
	s.notConnected(c, 0, mqBadAuthMethod, mqNotAuthorized)
}

// answersFit has everything fail, for a client that takes small packets only.
func (s *spec) answersFit() {
	const most = 30 // its CONNACK has to fit
	c, reason := s.knock(specConnect{props: []string{mqLong(mqMaxPacket, most)}})
	if reason != 0 {
		s.Fatalf("CONNACK has the reason %#x", reason)
	}
	c.max = most
	c.publish(mqMessage{topic: s.topic("nobody"), qos: 1})
	c.want(mqPUBACK)
	c.publish(mqMessage{topic: s.topic("nobody"), qos: 2})
	c.want(mqPUBREC)
	c.send(mqAnswer(mqPUBREL, 999))
	if r := c.answered(mqPUBCOMP, 999); r != mqNoIdentifier {
		s.Errorf("PUBCOMP has the reason %#x", r)
	}
	c.send(mqAnswer(mqPUBREC, 31999))
	c.answered(mqPUBREL, 31999)
	c.unsubscribe(s.topic("none"))
	c.send(s.subscribe(8, "", mqFilter(s.topic("x"), 0)))
	c.suback(8)
	c.send(mqRaw(0x60, mq16(1)))
	c.closed(mqMalformed)
}

func (s *spec) noExpiryFromServer() {
	id := s.id("same")
	first := s.connect(specConnect{id: id, stay: true})
	s.connect(specConnect{id: id, stay: true})
	first.closed(mqTakenOver) // it looks
}

func (s *spec) unknownAuthMethod() {
	c := s.dial()
	c.send(s.connectPacket(specConnect{id: s.id("a"), props: []string{mqText(mqAuthMethod, "none such"), mqText(mqAuthData, "x")}}))
	s.notConnected(c, 0, mqBadAuthMethod, mqNotAuthorized)
}
