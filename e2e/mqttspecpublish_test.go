package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// specPublishes are the tests of PUBLISH.
func specPublishes() []specCase {
	return []specCase{
		{"2.2.1-2 4.3.1-1", "2.3.1-5 4.3.1-1", (*spec).qos0},
		{"2.2.1-4 4.3.2-1 4.3.2-2 4.3.3-1 4.3.3-2", "2.3.1-4", (*spec).identifiersOfServer},
		{"2.2.1-5 3.3.4-1 4.3.2-4 4.3.3-8 4.3.3-11", "2.3.1-6 3.3.4-1 4.3.2-2 4.3.3-2", (*spec).answersByQoS},
		{"2.2.2-1", "", (*spec).noProperties},
		{"3.3.1-3", "3.3.1-3", (*spec).dupIsNotPassedOn},
		{"3.3.2-3", "3.3.2-3", (*spec).topicIsPassedOn},
		{"3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20", "", (*spec).propertiesArePassedOn},
		{"3.3.2-5 3.3.2-6", "", (*spec).messageExpires},
		{"3.3.2-12", "", (*spec).aliasesOfClient},
		{"3.3.4-2 3.3.4-3 3.3.4-4", "3.3.5-1", (*spec).overlap},
		{"3.3.4-9 3.3.4-10 4.9.0-2 4.9.0-3", "", (*spec).receiveMaximumOfClient},
		{"4.9.0-1 4.9.0-2", "", (*spec).quotaComesBack},
		{"3.4.2-1 3.5.2-1 3.6.2-1 3.7.2-1", "", (*spec).reasonsOfAnswers},
		{"", "3.3.5-2", (*spec).publishThatIsNotAllowed},
	}
}

// specRetained are the tests of retained messages.
func specRetained() []specCase {
	return []specCase{
		{"3.3.1-5", "3.3.1-5 3.3.1-6 3.3.1-8", (*spec).retained},
		{"3.3.1-5", "3.3.1-7", (*spec).retainedByQoS0},
		{"3.3.1-6 3.3.1-7", "3.3.1-10 3.3.1-11", (*spec).retainedIsRemoved},
		{"3.3.1-8", "3.3.1-12", (*spec).notRetained},
		{"3.3.1-9", "", (*spec).retainHandling0},
		{"3.3.1-10", "", (*spec).retainHandling1},
		{"3.3.1-11", "", (*spec).retainHandling2},
		{"3.3.1-12", "3.3.1-9", (*spec).retainFlagIsCleared},
		{"3.3.1-13", "", (*spec).retainAsPublished},
	}
}

func (s *spec) qos0() {
	for options := range byte(3) {
		c := s.listener(s.topic("x"), options)
		s.put(mqMessage{topic: s.topic("x"), payload: "\x00\x01payload"})
		if m := c.take(); m.payload != "\x00\x01payload" || m.qos != 0 || m.dup || m.pid != 0 {
			s.Errorf("message %+v", m)
		}
		c.silent()
	}
}

// identifiersOfServer holds back the answers to twenty messages.
func (s *spec) identifiersOfServer() {
	c := s.listener(s.topic("x"), 2)
	var seen []uint16
	for i := range 20 {
		s.put(mqMessage{topic: s.topic("x"), qos: byte(1 + i%2)})
	}
	for i := range 20 {
		m := c.message()
		if m.pid == 0 || slices.Contains(seen, m.pid) || m.dup || m.qos != byte(1+i%2) {
			s.Errorf("message %+v after %d", m, seen)
		}
		seen = append(seen, m.pid)
	}
}

func (s *spec) answersByQoS() {
	c := s.connect(specConnect{})
	for _, pid := range []uint16{1, 2, 255, 256, 40000, 65535} {
		c.publish(mqMessage{topic: s.topic("x"), qos: 1, pid: pid})
		c.answered(mqPUBACK, pid)
		c.publish(mqMessage{topic: s.topic("x"), qos: 2, pid: pid})
		c.answered(mqPUBREC, pid)
		c.send(mqAnswer(mqPUBREL, pid))
		c.answered(mqPUBCOMP, pid)
	}
	c.publish(mqMessage{topic: s.topic("x")})
	c.silent()
}

// noProperties reads packets that have no properties: each has their length.
func (s *spec) noProperties() {
	c := s.connect(specConnect{})
	c.send(s.subscribe(1, "", mqFilter(s.topic("x"), 0)))
	if p := c.want(mqSUBACK); len(p.body) != 4 || p.body[2] != 0 {
		s.Errorf("SUBACK %x", p.body)
	}
	s.put(mqMessage{topic: s.topic("x"), payload: "a"})
	if m := c.take(); len(m.props) > 0 || m.payload != "a" {
		s.Errorf("message %+v", m)
	}
	c.send(s.unsubscribe(2, s.topic("x")))
	if p := c.want(mqUNSUBACK); len(p.body) != 4 || p.body[2] != 0 {
		s.Errorf("UNSUBACK %x", p.body)
	}
}

func (s *spec) dupIsNotPassedOn() {
	c := s.listener(s.topic("x"), 2)
	p := s.connect(specConnect{})
	for _, qos := range []byte{1, 2} {
		p.deliver(mqMessage{topic: s.topic("x"), qos: qos, dup: true, payload: "a"})
		if m := c.take(); m.dup || m.qos != qos {
			s.Errorf("message %+v", m)
		}
	}
}

func (s *spec) topicIsPassedOn() {
	c := s.listener(s.topic("a/+/#"), 0)
	for _, rest := range []string{"a/b", "a/b/c", "a//c", "a/b/", "a/ b/é", "a/.*>%2E/$x"} {
		s.put(mqMessage{topic: s.topic(rest)})
		if m := c.take(); m.topic != s.topic(rest) {
			s.Errorf("a message of %s came as one of %s", s.topic(rest), m.topic)
		}
	}
	s.put(mqMessage{topic: s.topic("b/b")})
	c.silent()
}

func (s *spec) propertiesArePassedOn() {
	sent := mqProps{
		mqByte(mqPayloadFormat, 1), mqText(mqContentType, "text/é"), mqText(mqResponseTopic, "re/ply"), mqText(mqCorrelationData, "\x00\xff\x01"),
		mqPair("b", "1"), mqPair("a", "2"), mqPair("b", "3"), mqPair("", ""), mqPair("b", "1"),
	}
	id := s.id("away")
	away := s.connect(specConnect{id: id, stay: true})
	away.subscribe(s.topic("x"), 2)
	away.leave()
	here, loose := s.listener(s.topic("x"), 2), s.listener(s.topic("x"), 0)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1, props: sent, retain: true})
	for _, c := range []*specClient{here, loose, s.connect(specConnect{id: id, stay: true}), s.listener(s.topic("x"), 1)} {
		m := c.take()
		if got := m.props.all(mqUserProperty); !slices.Equal(got, sent.all(mqUserProperty)) {
			s.Errorf("user properties %q came", got)
		}
		got, want := slices.Sorted(slices.Values(m.props)), slices.Sorted(slices.Values(sent))
		if !slices.Equal(got, want) {
			s.Errorf("properties %q came, not %q", got, want)
		}
	}
}

func (s *spec) messageExpires() {
	id := s.id("away")
	c := s.connect(specConnect{id: id, stay: true})
	c.subscribe(s.topic("x"), 1)
	c.leave()
	s.put(mqMessage{topic: s.topic("x"), payload: "short", qos: 1, props: mqProps{mqLong(mqMessageExpiry, 1)}},
		mqMessage{topic: s.topic("x"), payload: "long", qos: 1, props: mqProps{mqLong(mqMessageExpiry, 100)}})
	time.Sleep(2100 * time.Millisecond)
	c = s.connect(specConnect{id: id, stay: true})
	m := c.take()
	if left := m.props.number(mqMessageExpiry, 0); m.payload != "long" || left < 90 || left > 98 {
		s.Errorf("message %q came, with %d s left", m.payload, left)
	}
	c.silent()
	s.put(mqMessage{topic: s.topic("x"), qos: 1, props: mqProps{mqLong(mqMessageExpiry, 100)}})
	if left := c.take().props.number(mqMessageExpiry, 0); left < 99 || left > 100 {
		s.Errorf("a message that did not wait has %d s left", left)
	}
}

func (s *spec) aliasesOfClient() {
	c := s.connect(specConnect{})
	most := c.props.number(mqAliasMax, 0)
	if most == 0 {
		s.Skip("the broker takes no topic aliases")
	}
	watch := s.listener(s.topic("#"), 1)
	for round := range 2 {
		for alias := 1; alias <= most; alias++ {
			m := mqMessage{qos: 1, props: mqProps{mqShort(mqAlias, uint16(alias))}}
			if round == 0 {
				m.topic = s.topic(fmt.Sprint(alias))
			}
			c.deliver(m)
			if m := watch.take(); m.topic != s.topic(fmt.Sprint(alias)) || len(m.props) > 0 {
				s.Errorf("message %+v of alias %d", m, alias)
			}
		}
	}
	c.deliver(mqMessage{qos: 1, topic: s.topic("new"), props: mqProps{mqShort(mqAlias, 1)}})
	c.deliver(mqMessage{qos: 1, props: mqProps{mqShort(mqAlias, 1)}})
	for range 2 {
		if m := watch.take(); m.topic != s.topic("new") {
			s.Errorf("message %+v of an alias that was given anew", m)
		}
	}
}

// overlap has one client subscribed four times, to which one message is sent with
// all identifiers: others send one for each subscription.
func (s *spec) overlap() {
	c := s.connect(specConnect{})
	c.subscribe(s.topic("x"), 0, pick(s, mqSubID(1), ""))
	c.subscribe(s.topic("+"), 2, pick(s, mqSubID(200), ""))
	c.subscribe(s.topic("#"), 1)
	c.subscribe(s.topic("x/#"), 0, pick(s, mqSubID(268435455), ""))
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2})
	m := c.take()
	if m.qos != 2 || m.payload != "a" {
		s.Errorf("message %+v", m)
	}
	want := []string{mqSubID(1), mqSubID(200), mqSubID(268435455)}
	if got := slices.Sorted(slices.Values(m.props.all(mqSubscriptionID))); s.v == 5 && !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		s.Errorf("subscription identifiers %q", got)
	}
	c.silent()
	s.put(mqMessage{topic: s.topic("x"), payload: "b"})
	if m := c.take(); m.qos != 0 || m.payload != "b" || s.v == 5 && len(m.props.all(mqSubscriptionID)) != 3 {
		s.Errorf("message %+v", m)
	}
	c.silent()
}

func (s *spec) receiveMaximumOfClient() {
	c := s.connect(specConnect{props: []string{mqShort(mqReceiveMax, 3)}})
	c.subscribe(s.topic("x"), 2)
	for i := range 8 {
		s.put(mqMessage{topic: s.topic("x"), payload: fmt.Sprint(i), qos: byte(1 + i%2)})
	}
	a, b, _ := c.message(), c.message(), c.message()
	c.silent()
	c.alive()
	c.subscribe(s.topic("y"), 0)
	c.deliver(mqMessage{topic: s.topic("z"), qos: 2})
	s.put(mqMessage{topic: s.topic("y"), payload: "loose"})
	if m := c.message(); m.payload != "loose" {
		s.Errorf("message %+v", m)
	}
	c.send(mqAnswer(mqPUBACK, a.pid))
	if m := c.message(); m.payload != "3" {
		s.Errorf("message %+v", m)
	}
	c.send(mqAnswer(mqPUBREC, b.pid))
	c.answered(mqPUBREL, b.pid)
	c.silent() // until PUBCOMP
	c.send(mqAnswer(mqPUBCOMP, b.pid))
	if m := c.message(); m.payload != "4" {
		s.Errorf("message %+v", m)
	}
	c.silent()
}

// quotaComesBack has answers that refuse give quota back, and a new connection
// start with the quota that it asks for.
func (s *spec) quotaComesBack() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true, props: []string{mqShort(mqReceiveMax, 2)}})
	c.subscribe(s.topic("x"), 2)
	for i := range 10 {
		s.put(mqMessage{topic: s.topic("x"), payload: fmt.Sprint(i), qos: byte(1 + i%2)})
	}
	a, b := c.message(), c.message()
	c.send(mqAnswer(mqPUBACK, a.pid, 0x80), mqAnswer(mqPUBREC, b.pid, 0x80))
	if c.message().payload+c.message().payload != "23" {
		s.Error("other messages came")
	}
	c.silent()
	c.drop()
	c = s.connect(specConnect{id: id, stay: true, props: []string{mqShort(mqReceiveMax, 4)}})
	for i := range 4 {
		if m := c.message(); m.payload != fmt.Sprint(i+2) || m.dup != (i < 2) {
			s.Errorf("message %+v", m)
		}
	}
	c.silent()
	c.drop()
	c = s.connect(specConnect{id: id, stay: true, props: []string{mqShort(mqReceiveMax, 1)}})
	c.message()
	c.silent()
}

func (s *spec) reasonsOfAnswers() {
	c := s.connect(specConnect{})
	check := func(got byte, allowed ...byte) {
		s.Helper()
		if !slices.Contains(allowed, got) {
			s.Errorf("the reason is %#x, not one of %#x", got, allowed)
		}
	}
	pid := c.publish(mqMessage{topic: s.topic("nobody"), qos: 1})
	check(c.answered(mqPUBACK, pid), 0, mqNoMatch)
	pid = c.publish(mqMessage{topic: s.topic("nobody"), qos: 2})
	check(c.answered(mqPUBREC, pid), 0, mqNoMatch)
	c.send(mqAnswer(mqPUBREL, pid))
	check(c.answered(mqPUBCOMP, pid), 0)
	c.send(mqAnswer(mqPUBREL, pid))
	check(c.answered(mqPUBCOMP, pid), mqNoIdentifier)
	c.subscribe(s.topic("x"), 2)
	s.put(mqMessage{topic: s.topic("x"), qos: 2})
	m := c.message()
	c.send(mqAnswer(mqPUBREC, m.pid))
	check(c.answered(mqPUBREL, m.pid), 0)
	c.send(mqAnswer(mqPUBCOMP, m.pid))
	c.send(mqAnswer(mqPUBREC, 31999)) // was never sent
	check(c.answered(mqPUBREL, 31999), mqNoIdentifier)
}

// publishThatIsNotAllowed may be acknowledged, or end the connection.
func (s *spec) publishThatIsNotAllowed() {
	watch := s.connect(specConnect{})
	watch.subscribe("$SYS/"+s.topic("x"), 0)
	c := s.connect(specConnect{})
	c.publish(mqMessage{topic: "$SYS/" + s.topic("x"), qos: 1, pid: 5})
	p, err := c.read(specAnswerMax)
	if err == nil && (p.kind() != mqPUBACK || p.pid() != 5) {
		s.Errorf("packet %#x %x came", p.head, p.body)
	}
	watch.silent()
}

func (s *spec) retained() {
	for qos := range byte(3) {
		topic := s.topic(fmt.Sprint(qos))
		s.put(mqMessage{topic: topic, payload: "old", qos: qos, retain: true}, mqMessage{topic: topic, payload: "new", qos: qos, retain: true})
		c := s.listener(topic, 2)
		if m := c.take(); m.payload != "new" || m.qos != qos || !m.retain || m.dup {
			s.Errorf("message %+v", m)
		}
		c.silent()
	}
	all := s.listener(s.topic("#"), 1)
	got := []string{}
	for range 3 {
		m := all.take()
		got = append(got, fmt.Sprint(m.topic[len(m.topic)-1:], m.qos))
	}
	if slices.Sort(got); strings.Join(got, " ") != "00 11 21" {
		s.Errorf("topics and QoS: %q", got)
	}
	all.silent()
}

func (s *spec) retainedByQoS0() {
	s.put(mqMessage{topic: s.topic("x"), payload: "old", qos: 2, retain: true}, mqMessage{topic: s.topic("x"), payload: "new", retain: true})
	if m := s.listener(s.topic("x"), 2).take(); m.payload != "new" || m.qos != 0 || !m.retain {
		s.Errorf("message %+v", m)
	}
}

func (s *spec) retainedIsRemoved() {
	c := s.listener(s.topic("x"), 1)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1, retain: true})
	c.expect("a")
	s.put(mqMessage{topic: s.topic("x"), qos: 1, retain: true})
	if m := c.take(); m.payload != "" || m.retain {
		s.Errorf("message %+v", m)
	}
	s.listener(s.topic("x"), 1).silent()
	s.put(mqMessage{topic: s.topic("x"), qos: 1, retain: true}) // there is none
	s.listener(s.topic("x"), 1).silent()
}

func (s *spec) notRetained() {
	s.put(mqMessage{topic: s.topic("x"), payload: "a"}, mqMessage{topic: s.topic("y"), payload: "kept", retain: true},
		mqMessage{topic: s.topic("y"), payload: "b", qos: 1}, mqMessage{topic: s.topic("y"), qos: 1})
	s.listener(s.topic("x"), 1).silent()
	s.listener(s.topic("y"), 1).expect("kept")
}

func (s *spec) retainHandling0() {
	s.put(mqMessage{topic: s.topic("x"), payload: "a", retain: true, qos: 1})
	c := s.listener(s.topic("x"), 1)
	c.expect("a")
	c.subscribe(s.topic("x"), 1)
	c.expect("a")
	c.silent()
}

func (s *spec) retainHandling1() {
	s.put(mqMessage{topic: s.topic("x"), payload: "a", retain: true, qos: 1})
	c := s.listener(s.topic("x"), 0x11)
	c.expect("a")
	c.subscribe(s.topic("x"), 0x11)
	c.silent()
	c.unsubscribe(s.topic("x"))
	c.subscribe(s.topic("x"), 0x11)
	c.expect("a")
}

func (s *spec) retainHandling2() {
	s.put(mqMessage{topic: s.topic("x"), payload: "a", retain: true, qos: 1})
	c := s.listener(s.topic("x"), 0x21)
	c.silent()
	c.subscribe(s.topic("x"), 0x21)
	c.silent()
	s.put(mqMessage{topic: s.topic("x"), payload: "b", qos: 1})
	c.expect("b")
}

func (s *spec) retainFlagIsCleared() {
	for qos := range byte(3) {
		c := s.listener(s.topic("x"), qos|pick[byte](s, 0x20, 0))
		if s.v < 5 && qos > 0 {
			c.expect("a") // what the round before left
		}
		s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2, retain: true})
		if m := c.take(); m.retain {
			s.Errorf("message %+v", m)
		}
	}
}

func (s *spec) retainAsPublished() {
	c := s.listener(s.topic("x"), 8|1)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1, retain: true}, mqMessage{topic: s.topic("x"), payload: "b", qos: 1},
		mqMessage{topic: s.topic("x"), payload: "c", retain: true})
	for range 3 {
		if m := c.take(); m.retain == (m.payload == "b") {
			s.Errorf("message %+v", m)
		}
	}
	if m := s.listener(s.topic("x"), 8|1).take(); !m.retain {
		s.Errorf("message %+v", m)
	}
}
