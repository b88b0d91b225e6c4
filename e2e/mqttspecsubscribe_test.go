package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// specSubscribes are the tests of SUBSCRIBE and UNSUBSCRIBE.
func specSubscribes() []specCase {
	return []specCase{
		{"2.2.1-6 3.8.4-1 3.8.4-2 3.10.4-4 3.10.4-5", "2.3.1-7 3.8.4-1 3.8.4-2 3.10.4-4", (*spec).identifiersOfSubscribe},
		{"3.8.3-3", "", (*spec).noLocal},
		{"3.8.4-3", "3.8.4-3", (*spec).subscriptionIsReplaced},
		{"3.8.4-4", "3.8.4-3", (*spec).replacementLosesNothing},
		{"3.8.4-5 3.8.4-6 3.8.4-7 3.9.3-1 3.9.3-2", "3.8.4-4 3.8.4-5 3.9.3-1 3.9.3-2", (*spec).manyFilters},
		{"3.8.4-8", "3.8.4-6", (*spec).lowerQoS},
		{"3.10.4-1", "3.10.4-1", (*spec).unsubscribeIsExact},
		{"3.10.4-2", "3.10.4-2", (*spec).unsubscribed},
		{"3.10.4-3", "3.10.4-3", (*spec).deliveryEndsAfterUnsubscribe},
		{"3.10.4-5 3.11.3-2", "3.10.4-5", (*spec).unsubscribeFromUnknown},
		{"3.10.4-6 3.11.3-1 3.11.3-2", "3.10.4-6", (*spec).unsubscribeFromMany},
	}
}

// specShared are the tests of shared subscriptions, which MQTT 3.1.1 does not know.
func specShared() []specCase {
	return []specCase{
		{"4.8.2-1 4.8.2-2", "", (*spec).sharedFilters},
		{"4.8.2-3", "", (*spec).sharedQoS},
		{"4.8.2-4", "", (*spec).sharedCompletes},
		{"4.8.2-5", "", (*spec).sharedIsNotMoved},
		{"4.8.2-6", "", (*spec).sharedIsDiscarded},
	}
}

// specTopics are the tests of topics and filters.
func specTopics() []specCase {
	return []specCase{
		{"4.7.1-1", "3.8.3-2 4.7.1-2", (*spec).multiLevelWildcard},
		{"4.7.1-2", "4.7.1-3", (*spec).singleLevelWildcard},
		{"4.7.1-1 4.7.1-2", "4.7.1-2 4.7.1-3", (*spec).matching},
		{"4.7.2-1", "4.7.2-1", (*spec).dollarTopics},
		{"4.7.3-1", "4.7.3-1", (*spec).emptyTopics},
		{"4.7.3-3", "4.7.3-3", (*spec).longTopics},
		{"4.7.3-4", "4.7.3-4", (*spec).noNormalization},
	}
}

func (s *spec) identifiersOfSubscribe() {
	c := s.connect(specConnect{})
	for _, pid := range []uint16{1, 255, 256, 65535} {
		c.send(s.subscribe(pid, "", mqFilter(s.topic("x"), 1)))
		if codes := c.suback(pid); codes != "\x01" {
			s.Errorf("SUBACK has %x", codes)
		}
		c.send(s.unsubscribe(pid, s.topic("x")))
		if codes := c.codes(mqUNSUBACK, pid); codes != pick(s, "\x00", "") {
			s.Errorf("UNSUBACK has %x", codes)
		}
	}
}

func (s *spec) noLocal() {
	c, other := s.connect(specConnect{}), s.connect(specConnect{})
	for options := range byte(3) {
		c.subscribe(s.topic("x"), options|4)
		other.subscribe(s.topic("x"), options)
		for qos := range byte(3) {
			c.deliver(mqMessage{topic: s.topic("x"), payload: "own", qos: qos})
			other.expect("own")
		}
		c.silent()
		s.put(mqMessage{topic: s.topic("x"), payload: "other", qos: 1})
		c.expect("other")
		other.expect("other")
	}
}

func (s *spec) subscriptionIsReplaced() {
	c := s.connect(specConnect{})
	for _, granted := range []byte{2, 0, 1, 0, 2} {
		c.subscribe(s.topic("x"), granted, pick(s, mqSubID(int(granted)+1), ""))
		s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2})
		m := c.take()
		if m.qos != granted {
			s.Errorf("message %+v of a subscription with QoS %d", m, granted)
		}
		if got := m.props.all(mqSubscriptionID); s.v == 5 && !slices.Equal(got, mqProps{mqSubID(int(granted) + 1)}) {
			s.Errorf("subscription identifiers %q", got)
		}
		c.silent()
	}
}

// replacementLosesNothing subscribes again and again while messages come.
func (s *spec) replacementLosesNothing() {
	const messages = 100
	s.put(mqMessage{topic: s.topic("x"), payload: "kept", qos: 1, retain: true})
	c := s.listener(s.topic("x"), 1)
	c.expect("kept")
	p := s.connect(specConnect{})
	for i := range messages {
		p.publish(mqMessage{topic: s.topic("x"), payload: fmt.Sprint(i), qos: 1})
		if i%10 == 0 {
			c.send(s.subscribe(c.next(), "", mqFilter(s.topic("x"), 1)))
		}
	}
	for next, kept := 0, 0; next < messages || kept < messages/10; {
		packet := c.packet()
		if packet.kind() == mqSUBACK {
			continue
		}
		m := s.takeMessage(packet)
		c.send(mqAnswer(mqPUBACK, m.pid))
		switch {
		case m.retain && m.payload == "kept":
			kept++
		case m.payload == fmt.Sprint(next) && !m.retain:
			next++
		default:
			s.Fatalf("message %+v came instead of %d", m, next)
		}
	}
}

func (s *spec) manyFilters() {
	c := s.connect(specConnect{})
	c.send(s.subscribe(1, "", mqFilter(s.topic("a"), 2), mqFilter(s.topic("b"), 0), mqFilter(s.topic("c"), 1), mqFilter(s.topic("b"), 1), mqFilter(s.topic("d/#"), 2)))
	if codes := c.suback(1); codes != "\x02\x00\x01\x01\x02" {
		s.Errorf("SUBACK has %x", codes)
	}
	for topic, qos := range map[string]byte{"a": 2, "b": 1, "c": 1, "d/e": 2} {
		s.put(mqMessage{topic: s.topic(topic), payload: topic, qos: 2})
		if m := c.take(); m.payload != topic || m.qos != qos {
			s.Errorf("message %+v", m)
		}
	}
	c.silent()
}

func (s *spec) lowerQoS() {
	for granted := range byte(3) {
		c := s.listener(s.topic("x"), granted)
		for qos := range byte(3) {
			s.put(mqMessage{topic: s.topic("x"), qos: qos})
			if m := c.take(); m.qos != min(qos, granted) {
				s.Errorf("message %+v of QoS %d to a subscription with %d", m, qos, granted)
			}
		}
		c.leave()
	}
}

func (s *spec) unsubscribeIsExact() {
	c := s.connect(specConnect{})
	filters := []string{s.topic("x"), s.topic("+"), s.topic("#"), s.topic("x/")}
	for i, f := range filters {
		c.subscribe(f, byte(i%3))
	}
	c.unsubscribe(s.topic("X"), s.topic("y"), s.topic("x/#"), s.topic(""))
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1})
	c.expect("a")
	for i, f := range filters {
		c.unsubscribe(f)
		s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1})
		if i < 2 {
			c.expect("a")
		}
	}
	c.silent()
}

func (s *spec) unsubscribed() {
	c := s.connect(specConnect{})
	for qos := range byte(3) {
		c.subscribe(s.topic("x"), qos)
		s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2})
		c.expect("a")
		if codes := c.unsubscribe(s.topic("x")); codes != pick(s, "\x00", "") {
			s.Errorf("UNSUBACK has %x", codes)
		}
		s.put(mqMessage{topic: s.topic("x"), payload: "b", qos: 2}, mqMessage{topic: s.topic("x"), payload: "c"})
		c.silent()
	}
}

// deliveryEndsAfterUnsubscribe unsubscribes between PUBLISH and its answers, and
// lets the connection fail.
func (s *spec) deliveryEndsAfterUnsubscribe() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true})
	c.subscribe(s.topic("x"), 2)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2}, mqMessage{topic: s.topic("x"), payload: "b", qos: 1},
		mqMessage{topic: s.topic("x"), payload: "c", qos: 2})
	a, b, third := c.message(), c.message(), c.message()
	c.unsubscribe(s.topic("x"))
	c.send(mqAnswer(mqPUBREC, a.pid))
	c.answered(mqPUBREL, a.pid)
	c.send(mqAnswer(mqPUBCOMP, a.pid))
	c.alive()
	c.drop()
	c = s.connect(specConnect{id: id, stay: true})
	for _, want := range []mqMessage{b, third} {
		if m := c.take(); m.payload != want.payload || m.pid != want.pid || m.qos != want.qos || !m.dup {
			s.Errorf("message %+v came, not %+v again", m, want)
		}
	}
	c.silent()
}

func (s *spec) unsubscribeFromUnknown() {
	c := s.connect(specConnect{})
	if codes := c.unsubscribe(s.topic("x")); codes != pick(s, "\x11", "") {
		s.Errorf("UNSUBACK has %x", codes)
	}
}

func (s *spec) unsubscribeFromMany() {
	c := s.connect(specConnect{})
	for _, topic := range []string{"a", "b", "c"} {
		c.subscribe(s.topic(topic), 1)
	}
	if codes := c.unsubscribe(s.topic("a"), s.topic("none"), s.topic("c"), s.topic("a")); codes != pick(s, "\x00\x11\x00\x11", "") {
		s.Errorf("UNSUBACK has %x", codes)
	}
	for _, topic := range []string{"a", "b", "c"} {
		s.put(mqMessage{topic: s.topic(topic), payload: topic, qos: 1})
	}
	c.expect("b")
	c.silent()
}

// badFilter wants a filter to be refused: with a code, or by the end of the
// connection.
func (s *spec) badFilter(filters ...string) {
	s.Helper()
	for _, f := range filters {
		c := s.connect(specConnect{})
		c.send(s.subscribe(1, "", mqFilter(f, 0)))
		p, err := c.read(specAnswerMax)
		switch {
		case err != nil:
		case p.kind() == mqSUBACK:
			_, codes := s.takeProps(string(p.body[2:]))
			if codes == "" || codes[0] < 0x80 {
				s.Errorf("%q is granted: %x", f, codes)
			}
		case s.v < 5 || p.kind() != mqDISCONNECT || !slices.Contains([]byte{mqMalformed, mqProtocolError, mqBadFilter}, p.reason()):
			s.Errorf("%q is answered by %#x %x", f, p.head, p.body)
		}
	}
}

func (s *spec) sharedFilters() {
	s.badFilter("$share", "$share/", "$share//", "$share/g", "$share/g/", "$share//x", "$share/+/x", "$share/#/x", "$share/g+/x", "$share/g#/x")
	c := s.listener("$share/g/"+s.topic("x"), 1)
	other := s.listener("$share/h/"+s.topic("+"), 1)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1})
	c.expect("a")
	other.expect("a")
	c.silent()
}

// members are subscribed to one shared subscription.
func (s *spec) members(n int, o specConnect, qos byte) []*specClient {
	s.Helper()
	var all []*specClient
	for i := range n {
		o.id = s.id(fmt.Sprintf("m%d", i))
		c := s.connect(o)
		c.subscribe("$share/g/"+s.topic("x"), qos)
		all = append(all, c)
	}
	return all
}

// first returns the member that a message came to, with the message.
func (s *spec) first(members []*specClient) (int, mqMessage) {
	s.Helper()
	deadline := time.Now().Add(specAnswerMax)
	for time.Now().Before(deadline) {
		for i, c := range members {
			if p, err := c.read(10 * time.Millisecond); err == nil {
				return i, s.takeMessage(p)
			}
		}
	}
	s.Fatal("no member received the message")
	return 0, mqMessage{}
}

func (s *spec) sharedQoS() {
	for qos := range byte(3) {
		all := s.members(2, specConnect{}, qos)
		s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2})
		i, m := s.first(all)
		if m.qos != qos || m.retain {
			s.Errorf("message %+v came with a granted QoS of %d", m, qos)
		}
		all[1-i].silent()
		for _, c := range all {
			c.unsubscribe("$share/g/" + s.topic("x"))
		}
	}
}

// sharedCompletes lets the connection fail before and after PUBREC.
func (s *spec) sharedCompletes() {
	all := s.members(2, specConnect{stay: true}, 2)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2})
	i, m := s.first(all)
	if m.qos != 2 {
		s.Fatalf("message %+v", m)
	}
	all[i].drop()
	all[1-i].silent()
	c := s.connect(specConnect{id: all[i].id, stay: true})
	if again := c.message(); again.pid != m.pid || again.payload != "a" || !again.dup || again.qos != 2 {
		s.Errorf("message %+v came, not %+v again", again, m)
	}
	c.send(mqAnswer(mqPUBREC, m.pid))
	c.answered(mqPUBREL, m.pid)
	c.drop()
	c = s.connect(specConnect{id: all[i].id, stay: true})
	c.answered(mqPUBREL, m.pid)
	c.send(mqAnswer(mqPUBCOMP, m.pid))
	c.silent()
	all[1-i].silent()
}

// sharedIsNotMoved ends the session of a member in the middle of a delivery.
func (s *spec) sharedIsNotMoved() {
	all := s.members(2, specConnect{stay: true}, 2)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 2})
	i, m := s.first(all)
	if m.qos != 2 {
		s.Fatalf("message %+v", m)
	}
	all[i].send(mqRaw(mqDISCONNECT<<4, "\x00", s.block(mqLong(mqSessionExpiry, 0))))
	all[i].closed()
	all[1-i].silent()
}

func (s *spec) sharedIsDiscarded() {
	all := s.members(2, specConnect{}, 2)
	for _, qos := range []byte{1, 2} {
		s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: qos})
		i, m := s.first(all)
		all[i].send(mqAnswer(mqPUBACK+qos-1, m.pid, 0x97))
		all[1-i].silent()
		all[i].silent()
	}
}

func (s *spec) multiLevelWildcard() {
	s.badFilter("a#", "a/b#", "a/#/b", "#/a", "##", "a/##", "+#")
	c := s.listener(s.topic("a/#"), 1)
	for _, rest := range []string{"a", "a/", "a/b", "a/b/c"} {
		s.put(mqMessage{topic: s.topic(rest), payload: rest, qos: 1})
		c.expect(rest)
	}
	s.put(mqMessage{topic: s.topic("ab"), qos: 1}, mqMessage{topic: s.topic("b/a"), qos: 1})
	c.silent()
}

func (s *spec) singleLevelWildcard() {
	s.badFilter("a+", "+a", "a/b+", "a/+b/c", "++", "a/++")
	c := s.listener("+/+/"+s.mark, 1)
	c.subscribe(s.topic("+"), 1)
	for _, topic := range []string{"a/b/" + s.mark, "//" + s.mark, s.topic("x"), s.topic("")} {
		s.put(mqMessage{topic: topic, payload: topic, qos: 1})
		c.expect(topic)
	}
	s.put(mqMessage{topic: s.mark, qos: 1}, mqMessage{topic: s.topic("x/y"), qos: 1}, mqMessage{topic: "a/" + s.mark, qos: 1})
	c.silent()
}

// matching is a table of what matches, and what does not.
func (s *spec) matching() {
	topics := []string{"a", "a/b", "a/b/c", "a//c", "/a", "a/", "b", "A", "a/$b", "$a"}
	for filter, want := range map[string]string{
		"a":     "a",
		"+":     "a b A $a",
		"a/+":   "a/b a/ a/$b",
		"a/+/c": "a/b/c a//c",
		"#":     strings.Join(topics, " "),
		"+/+":   "a/b /a a/ a/$b",
		"/+":    "/a",
		"+/b":   "a/b",
		"a/+/+": "a/b/c a//c",
		"a/b/#": "a/b a/b/c",
		"+/a/#": "/a",
		"a/$b":  "a/$b",
	} {
		c := s.listener(s.topic(filter), 1)
		c.subscribe(c.id, 1)
		for _, topic := range topics {
			s.put(mqMessage{topic: s.topic(topic), payload: topic, qos: 1})
		}
		s.put(mqMessage{topic: c.id, payload: "end", qos: 1})
		var got []string
		for m := c.take(); m.payload != "end"; m = c.take() {
			got = append(got, m.payload)
		}
		if !slices.Equal(got, strings.Fields(want)) {
			s.Errorf("%s matches %q, not %q", filter, got, strings.Fields(want))
		}
		c.leave()
	}
}

// dollarTopics subscribes to what the broker publishes about itself.
func (s *spec) dollarTopics() {
	exact := s.listener("$SYS/broker/version", 0)
	if m := exact.take(); m.topic != "$SYS/broker/version" || m.payload == "" {
		s.Errorf("message %+v", m)
	}
	s.listener("+/broker/version", 0).silent()
	s.listener("+/broker/#", 0).silent()
	all := s.listener("#", 0)
	deadline := time.Now().Add(specSilence)
	for {
		p, err := all.read(time.Until(deadline))
		if err != nil {
			break
		}
		if m := s.takeMessage(p); strings.HasPrefix(m.topic, "$") {
			s.Fatalf("# matches %s", m.topic)
		}
	}
	if s.v == 5 {
		s.listener("$share/g/+/broker/version", 0).silent()
	}
}

func (s *spec) emptyTopics() {
	s.refused([]string{s.publish(mqMessage{topic: ""})}, mqMalformed, mqProtocolError, mqBadTopic, mqBadAlias)
	s.badFilter("")
}

// longTopics are as long as the wire lets them be. A broker may refuse them.
func (s *spec) longTopics() {
	topic := s.topic(strings.Repeat("x", 200))
	c := s.listener(topic, 1)
	s.put(mqMessage{topic: topic, payload: "a", qos: 1})
	c.expect("a")
	c = s.connect(specConnect{})
	c.send(s.publish(mqMessage{topic: strings.Repeat("x", 65535), qos: 1, pid: 1}))
	p, err := c.read(specAnswerMax)
	if err == nil && p.kind() != mqPUBACK && (s.v < 5 || p.kind() != mqDISCONNECT) {
		s.Errorf("packet %#x %x came", p.head, p.body)
	}
	if s.v < 5 || err == nil && p.kind() == mqPUBACK {
		return
	}
	if err == nil && p.reason() != mqBadTopic && p.reason() != mqTooLarge {
		s.Errorf("DISCONNECT has the reason %#x", p.reason())
	}
}

func (s *spec) noNormalization() {
	topics := []string{"a//b", "a/b", "A/b", "a/b/", "/a/b", "a/./b", "a/../b", "a/%62", "a/b ", "a/é", "a/e\u0301", "a/\u00c5", "a/\u212b", "a/\U0001f600", "a/\ufffd", "a.b"}
	var all []*specClient
	for _, topic := range topics {
		all = append(all, s.listener(s.topic(topic), 1))
	}
	for _, topic := range topics {
		s.put(mqMessage{topic: s.topic(topic), payload: topic, qos: 1})
	}
	for i, c := range all {
		if m := c.take(); m.payload != topics[i] || m.topic != s.topic(topics[i]) {
			s.Errorf("message %+v came to %q", m, topics[i])
		}
	}
	time.Sleep(specSilence)
	for _, c := range all {
		c.alive()
		if len(c.held) > 0 {
			s.Errorf("%d more messages came to one client", len(c.held))
		}
	}
}
