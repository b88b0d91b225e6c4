package e2e

import (
	"errors"
	"os"
	"strings"
)

// specMalformed are the tests of packets that are none.
func specMalformed() []specCase {
	return []specCase{
		{"1.5.4-1 3.3.2-1 4.13.1-1", "1.5.3-1 3.3.2-1 4.8.0-1", (*spec).topicIsNotUTF8},
		{"1.5.4-2 4.7.3-2", "1.5.3-2 4.7.3-2", (*spec).nullCharacter},
		{"1.5.4-3", "1.5.3-3", (*spec).byteOrderMarkStays},
		{"1.5.5-1", "", (*spec).integersAreShort},
		{"1.5.7-1", "", (*spec).userPropertyIsNotUTF8},
		{"2.1.3-1 3.14.1-1 3.15.1-1", "2.2.2-1 2.2.2-2 3.14.1-1", (*spec).reservedFlags},
		{"3.6.1-1", "3.6.1-1", (*spec).flagsOfPubrel},
		{"3.8.1-1", "3.8.1-1", (*spec).flagsOfSubscribe},
		{"3.10.1-1", "3.10.1-1", (*spec).flagsOfUnsubscribe},
		{"2.2.1-3", "2.3.1-1", (*spec).identifierZero},
		{"3.3.1-2", "3.3.1-2", (*spec).againWithQoS0},
		{"3.3.1-4", "3.3.1-4", (*spec).qos3},
		{"3.3.2-2 4.7.0-1", "3.3.2-2 4.7.1-1", (*spec).wildcardInTopic},
		{"3.3.2-8", "", (*spec).aliasZero},
		{"3.3.2-9 3.2.2-17", "", (*spec).aliasTooHigh},
		{"3.3.2-7", "", (*spec).aliasOfAnotherConnection},
		{"3.3.2-13", "", (*spec).responseTopicIsNotUTF8},
		{"3.3.2-14", "", (*spec).responseTopicWithWildcard},
		{"3.3.2-19", "", (*spec).contentTypeIsNotUTF8},
		{"3.3.4-6", "", (*spec).subscriptionIDOfClient},
		{"3.3.4-7", "", (*spec).receiveMaximumOfServer},
		{"3.2.2-15", "", (*spec).packetTooLarge},
		{"3.8.3-1", "3.8.3-1", (*spec).filterIsNotUTF8},
		{"3.8.3-2", "3.8.3-3", (*spec).subscribeToNothing},
		{"3.8.3-5", "3.8.3-4", (*spec).reservedOptions},
		{"3.8.3-4", "", (*spec).sharedWithNoLocal},
		{"3.10.3-1", "3.10.3-1", (*spec).unsubscribeIsNotUTF8},
		{"3.10.3-2", "3.10.3-2", (*spec).unsubscribeFromNothing},
		{"4.12.0-7", "", (*spec).authWithoutMethod},
		{"4.13.1-1", "4.8.0-1", (*spec).brokenPackets},
		{"4.13.1-1", "", (*spec).brokenProperties},
	}
}

// Reason codes.
const (
	mqNoMatch          = 0x10
	mqNoSubscription   = 0x11
	mqMalformed        = 0x81
	mqProtocolError    = 0x82
	mqBadVersion       = 0x84
	mqBadClientID      = 0x85
	mqBadUser          = 0x86
	mqNotAuthorized    = 0x87
	mqBadAuthMethod    = 0x8c
	mqKeepAliveTimeout = 0x8d
	mqTakenOver        = 0x8e
	mqBadFilter        = 0x8f
	mqBadTopic         = 0x90
	mqNoIdentifier     = 0x92
	mqReceiveExceeded  = 0x93
	mqBadAlias         = 0x94
	mqTooLarge         = 0x95
)

// refused wants each packet, sent on a connection of its own, to end it.
func (s *spec) refused(packets []string, reasons ...byte) {
	s.Helper()
	for _, p := range packets {
		c := s.connect(specConnect{})
		c.send(p)
		before := s.Failed()
		if c.closed(reasons...); s.Failed() && !before {
			s.Logf("the packet was %q", p)
		}
	}
}

func notUTF8() []string {
	return []string{"a\xff", "a\xc0\xaf", "\xed\xa0\x80", "\xed\xbf\xbf/a", "\xf4\x90\x80\x80", "a\xc3"}
}

// each makes a packet of each string.
func each(values []string, packet func(string) string) []string {
	var all []string
	for _, v := range values {
		all = append(all, packet(v))
	}
	return all
}

func (s *spec) topicIsNotUTF8() {
	s.refused(each(notUTF8(), func(v string) string { return s.publish(mqMessage{topic: v}) }), mqMalformed, mqProtocolError, mqBadTopic)
}

func (s *spec) nullCharacter() {
	s.refused([]string{
		s.publish(mqMessage{topic: "a\x00b"}),
		s.subscribe(1, "", mqFilter("a\x00b", 0)),
		s.unsubscribe(1, "a\x00b"),
	}, mqMalformed, mqProtocolError, mqBadTopic, mqBadFilter)
	c := s.dial()
	c.send(s.connectPacket(specConnect{id: "a\x00b"}))
	s.notConnected(c, 2, mqMalformed, mqBadClientID)
}

func (s *spec) byteOrderMarkStays() {
	const mark = "\ufeff"
	c := s.listener(mark+s.topic("x"), 0)
	plain := s.listener(s.topic("x"), 0)
	s.put(mqMessage{topic: mark + s.topic("x"), payload: mark})
	if m := c.take(); m.topic != mark+s.topic("x") || m.payload != mark {
		s.Errorf("%q came to %q", m.payload, m.topic)
	}
	plain.silent()
}

func (s *spec) integersAreShort() {
	s.refused([]string{
		"\xc0\x80\x00",                 // a length of zero
		"\x30\x84\x00\x00\x01a\x00",    // a length of four
		"\x30\x05\x00\x01a\x80\x00",    // properties of zero bytes
		"\xc0\x80\x80\x80\x80\x00",     // five bytes
		"\x30\xff\xff\xff\xff\x01\x00", // five bytes
	}, mqMalformed, mqProtocolError, mqTooLarge)
}

func (s *spec) userPropertyIsNotUTF8() {
	s.refused([]string{
		s.publish(mqMessage{topic: "a", props: mqProps{mqPair("k\xff", "v")}}),
		s.publish(mqMessage{topic: "a", props: mqProps{mqPair("k", "v\xff")}}),
		s.publish(mqMessage{topic: "a", props: mqProps{mqPair("k", "v\x00")}}),
	}, mqMalformed)
}

func (s *spec) reservedFlags() {
	packets := []string{"\xc1\x00", "\xc8\x00", mqRaw(0x41, mq16(1)), mqRaw(0x52, mq16(1)), mqRaw(0x74, mq16(1)), "\xe1\x00", "\xe2\x00"}
	if s.v == 5 {
		packets = append(packets, "\xf1\x00", "\xe1\x01\x00", "\xf8\x02\x18\x00")
	}
	packets = append(packets, "\x00\x00", mqRaw(0xb0, mq16(1)), "\xd0\x00", mqRaw(0x90, mq16(1), s.block(), "\x00"), "\x20\x02\x00\x00")
	if s.v < 5 {
		packets = append(packets, "\xf0\x00")
	}
	s.refused(packets, mqMalformed, mqProtocolError)
}

func (s *spec) flagsOfPubrel() {
	s.refused([]string{mqRaw(0x60, mq16(1)), mqRaw(0x63, mq16(1)), mqRaw(0x66, mq16(1))}, mqMalformed)
}

func (s *spec) flagsOfSubscribe() {
	body := mq16(1) + s.block() + mqFilter(s.topic("x"), 0)
	s.refused([]string{mqRaw(0x80, body), mqRaw(0x83, body), mqRaw(0x8a, body)}, mqMalformed)
}

func (s *spec) flagsOfUnsubscribe() {
	body := mq16(1) + s.block() + mqString(s.topic("x"))
	s.refused([]string{mqRaw(0xa0, body), mqRaw(0xa3, body), mqRaw(0xaa, body)}, mqMalformed)
}

func (s *spec) identifierZero() {
	s.refused([]string{
		s.publish(mqMessage{topic: s.topic("x"), qos: 1}),
		s.publish(mqMessage{topic: s.topic("x"), qos: 2}),
		s.subscribe(0, "", mqFilter(s.topic("x"), 0)),
		s.unsubscribe(0, s.topic("x")),
	}, mqMalformed, mqProtocolError)
}

func (s *spec) againWithQoS0() {
	s.refused([]string{s.publish(mqMessage{topic: s.topic("x"), dup: true})}, mqMalformed, mqProtocolError)
	c := s.listener(s.topic("x"), 2)
	s.put(mqMessage{topic: s.topic("x"), payload: "a"})
	if m := c.take(); m.dup || m.qos != 0 {
		s.Errorf("message %+v", m)
	}
}

func (s *spec) qos3() {
	s.refused([]string{s.publish(mqMessage{topic: s.topic("x"), qos: 3, pid: 1}), mqRaw(0x3f, mqString("a"), mq16(1), s.block())}, mqMalformed, mqProtocolError)
}

func (s *spec) wildcardInTopic() {
	s.refused(each([]string{"#", "+", "a/#", "a/+/b", "a#", "+a"}, func(v string) string {
		return s.publish(mqMessage{topic: v})
	}), mqMalformed, mqProtocolError, mqBadTopic)
}

func (s *spec) aliasZero() {
	s.refused([]string{s.publish(mqMessage{topic: s.topic("x"), props: mqProps{mqShort(mqAlias, 0)}})}, mqBadAlias, mqMalformed, mqProtocolError)
}

func (s *spec) aliasTooHigh() {
	c := s.connect(specConnect{})
	most := c.props.number(mqAliasMax, 0)
	c.send(s.publish(mqMessage{topic: s.topic("x"), props: mqProps{mqShort(mqAlias, uint16(most+1))}}))
	c.closed(mqBadAlias, mqProtocolError)
}

func (s *spec) aliasOfAnotherConnection() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true})
	c.deliver(mqMessage{topic: s.topic("x"), props: mqProps{mqShort(mqAlias, 1)}})
	c.deliver(mqMessage{props: mqProps{mqShort(mqAlias, 1)}})
	c.leave()
	c = s.connect(specConnect{id: id, stay: true})
	c.send(s.publish(mqMessage{props: mqProps{mqShort(mqAlias, 1)}}))
	c.closed(mqBadAlias, mqProtocolError)
}

func (s *spec) responseTopicIsNotUTF8() {
	s.refused(each(notUTF8(), func(v string) string {
		return s.publish(mqMessage{topic: "a", props: mqProps{mqText(mqResponseTopic, v)}})
	}), mqMalformed, mqProtocolError, mqBadTopic)
}

func (s *spec) responseTopicWithWildcard() {
	s.refused(each([]string{"a/#", "+/a", "#"}, func(v string) string {
		return s.publish(mqMessage{topic: "a", props: mqProps{mqText(mqResponseTopic, v)}})
	}), mqMalformed, mqProtocolError, mqBadTopic)
}

func (s *spec) contentTypeIsNotUTF8() {
	s.refused(each(notUTF8(), func(v string) string {
		return s.publish(mqMessage{topic: "a", props: mqProps{mqText(mqContentType, v)}})
	}), mqMalformed, mqProtocolError)
}

func (s *spec) subscriptionIDOfClient() {
	s.refused([]string{s.publish(mqMessage{topic: "a", props: mqProps{mqSubID(1)}})}, mqMalformed, mqProtocolError)
}

// receiveMaximumOfServer sends what the broker takes, and one more. None of it is
// released, so that each counts.
func (s *spec) receiveMaximumOfServer() {
	c := s.connect(specConnect{})
	most := c.props.number(mqReceiveMax, 65535)
	if most > 5000 {
		s.Skipf("a receive maximum of %d is not tested", most)
	}
	m := mqMessage{topic: s.topic("x"), qos: 2}
	for range most {
		c.publish(m)
	}
	for range most {
		c.want(mqPUBREC)
	}
	c.publish(m)
	c.closed(mqReceiveExceeded, mqProtocolError)
}

func (s *spec) packetTooLarge() {
	c := s.connect(specConnect{})
	most := c.props.number(mqMaxPacket, 0)
	if most == 0 || most > 8<<20 {
		s.Skipf("a maximum packet size of %d is not tested", most)
	}
	c.send(string([]byte{mqPUBLISH << 4}), mqVar(most+1))
	c.closed(mqTooLarge)
}

func (s *spec) filterIsNotUTF8() {
	s.refused(each(notUTF8(), func(v string) string { return s.subscribe(1, "", mqFilter(v, 0)) }), mqMalformed, mqProtocolError, mqBadFilter)
}

func (s *spec) subscribeToNothing() {
	s.refused([]string{s.subscribe(1, "")}, mqMalformed, mqProtocolError)
}

func (s *spec) reservedOptions() {
	options := pick(s, []byte{3, 0x30, 0x40, 0x80, 0xff}, []byte{3, 4, 8, 0x10, 0x40, 0x80})
	for _, o := range options {
		s.refused([]string{
			s.subscribe(1, "", mqFilter(s.topic("x"), o)),
			s.subscribe(1, "", mqFilter(s.topic("y"), 0)+mqFilter(s.topic("x"), o)),
		}, mqMalformed, mqProtocolError)
	}
}

func (s *spec) sharedWithNoLocal() {
	s.refused([]string{s.subscribe(1, "", mqFilter("$share/g/"+s.topic("x"), 4))}, mqProtocolError)
}

func (s *spec) unsubscribeIsNotUTF8() {
	s.refused(each(notUTF8(), func(v string) string { return s.unsubscribe(1, v) }), mqMalformed, mqProtocolError, mqBadFilter)
}

func (s *spec) unsubscribeFromNothing() {
	s.refused([]string{s.unsubscribe(1)}, mqMalformed, mqProtocolError)
}

func (s *spec) authWithoutMethod() {
	s.refused([]string{"\xf0\x00", mqRaw(mqAUTH<<4, "\x19", s.block(mqText(mqAuthMethod, "x"))), mqRaw(mqAUTH<<4, "\x18", s.block())}, mqMalformed, mqProtocolError, mqBadAuthMethod, mqNotAuthorized)
}

// brokenPackets are packets whose parts do not fit into them.
func (s *spec) brokenPackets() {
	s.refused([]string{
		"\x30\x00",              // a PUBLISH of nothing
		"\x30\x01\x00",          // half the length of a topic
		"\x30\x03\x00\x05a",     // a topic beyond the end
		"\x32\x04\x00\x01a\x00", // half a packet identifier
		"\x40\x01\x00",          // half a packet identifier
		"\x40\x00", "\x50\x00", "\x62\x00", "\x70\x00",
		"\x82\x02\x00\x01", // a SUBSCRIBE without a filter
		mqRaw(0x82, mq16(1), s.block(), mqString("a")),   // no options
		mqRaw(0x82, mq16(1), s.block(), "\x00\x05a\x00"), // a filter beyond the end
		mqRaw(0xa2, mq16(1), s.block(), "\x00\x05a"),     // the same
		"\xc0\x01\x00",             // a PINGREQ with a body
		"\xff\xff\xff\xff\xff\xff", // noise
	}, mqMalformed, mqProtocolError, mqTooLarge, mqBadTopic)
	if s.v == 5 {
		return
	}
	s.refused([]string{mqRaw(0xe0, "\x00"), mqRaw(0x40, mq16(1), "\x00"), mqRaw(0x62, mq16(1), "\x00")})
}

// brokenProperties are properties that are not whole, not known, of another
// packet, or there twice.
func (s *spec) brokenProperties() {
	publish := func(props ...string) string { return s.publish(mqMessage{topic: s.topic("x"), props: props}) }
	once := []string{
		mqByte(mqPayloadFormat, 1), mqLong(mqMessageExpiry, 1), mqText(mqContentType, "a"),
		mqText(mqResponseTopic, "a"), mqText(mqCorrelationData, "a"), mqShort(mqAlias, 1),
	}
	packets := each(once, func(p string) string { return publish(p, p) })
	packets = append(packets,
		mqRaw(0x30, mqString("a"), "\x7f\x00"), // beyond the end
		mqRaw(0x30, mqString("a"), "\x02\x03\x00"),
		publish("\x00\x00"), publish("\x7f\x00"), publish(mqLong(mqSessionExpiry, 1)), publish(mqByte(mqPayloadFormat, 2)),
		s.publish(mqMessage{}), // neither a topic nor an alias
		s.subscribe(1, mqSubID(0), mqFilter("a", 0)),
		s.subscribe(1, mqSubID(1)+mqSubID(2), mqFilter("a", 0)),
		s.subscribe(1, mqByte(mqPayloadFormat, 0), mqFilter("a", 0)),
		s.subscribe(1, "\x0b\xff\xff\xff\xff\x7f", mqFilter("a", 0)),
		mqRaw(mqDISCONNECT<<4, "\x00", s.block(mqLong(mqSessionExpiry, 1))), // it was zero
		mqRaw(mqDISCONNECT<<4, "\x00", s.block(mqShort(mqReceiveMax, 1))),
		mqRaw(mqPUBREL<<4|2, mq16(1), "\x00", s.block(mqText(mqReasonString, "a"), mqText(mqReasonString, "b"))),
		mqRaw(mqPUBACK<<4, mq16(1), "\x55"), // no such reason
	)
	s.refused(packets, mqMalformed, mqProtocolError, mqBadAlias)
}

// notConnected wants a CONNECT to be refused, with a CONNACK or without, of a code
// of MQTT 3.1.1 or of a reason of MQTT 5.
func (s *spec) notConnected(c *specClient, v3 byte, reasons ...byte) {
	s.Helper()
	p, err := c.read(specAnswerMax)
	if err == nil {
		if p.kind() != mqCONNACK || len(p.body) < 2 || p.body[0] != 0 {
			s.Fatalf("packet %#x %x came instead of a CONNACK that refuses", p.head, p.body)
		}
		allowed := pick(s, string(reasons), string([]byte{v3}))
		if code := p.body[1]; code == 0 || !strings.Contains(allowed, string([]byte{code})) {
			s.Errorf("CONNACK has the code %#x, want one of %#x", code, allowed)
		}
		p, err = c.read(specAnswerMax)
	}
	if err == nil {
		s.Fatalf("packet %#x %x came after the refusal", p.head, p.body)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.Fatal("the connection is open after the refusal")
	}
}
