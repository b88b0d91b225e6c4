package mqtt

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// What a message keeps of MQTT, as properties.
const (
	propQoS           = core.AttributeQoS    // '0' to '2'
	propRetain        = core.AttributeRetain // "true": it was published to be retained
	propClientID      = "mqtt.clientId"      // of the publisher
	propResponseTopic = "mqtt.responseTopic" //
	propCorrelation   = "mqtt.correlationData"
	propFormat        = "mqtt.payloadFormat" // "1": the payload is UTF-8
	propRetained      = "mqtt.retained"      // a copy of a retained value, for the subscription of this filter
	propShared        = "mqtt.shared"        // of a group, moved to the queue of a member: its subscription
)

// message returns what a PUBLISH says, as the core takes it. It holds views of p
// and of the connection's own, and is good until the next.
func (c *conn) message(topic string, p *wire.Publish) core.TopicPublish {
	a := append(c.attrs[:0], core.Attribute{Kind: core.AttributeProperty, Name: propQoS, Value: digit(p.QoS)})
	if p.Retain {
		a = append(a, property(propRetain, []byte("true")))
	}
	a = append(a, property(propClientID, []byte(c.id)))
	if c.version == wire.V5 {
		a = appendProperties(a, p)
	}
	c.attrs = a
	m := core.Message{Body: p.Payload, Attributes: a, ContentType: string(p.ContentType), Origin: core.OriginMQTT}
	if p.HasExpiry {
		m.TTL = max(1, time.Duration(p.Expiry)) * time.Second
	}
	c.msgs[0] = m
	return core.TopicPublish{Topic: topic, Messages: c.msgs[:], Retain: p.Retain, From: c.from, Unreliable: p.QoS == 0}
}

// digit returns a QoS in one byte.
func digit(qos byte) []byte { return []byte{'0' + qos} }

func property(name string, value []byte) core.Attribute {
	return core.Attribute{Kind: core.AttributeProperty, Name: name, Value: value}
}

func appendProperties(a []core.Attribute, p *wire.Publish) []core.Attribute {
	if p.ResponseTopic != nil {
		a = append(a, property(propResponseTopic, p.ResponseTopic))
	}
	if p.Correlation != nil {
		a = append(a, property(propCorrelation, p.Correlation))
	}
	if p.Format {
		a = append(a, property(propFormat, []byte("1")))
	}
	if p.Users > 0 {
		p.EachUser(func(name, value []byte) {
			a = append(a, core.Attribute{Kind: core.AttributeUser, Name: string(name), Type: "String", Value: value})
		})
	}
	return a
}

// compose fills s.out with the PUBLISH of d, but for its packet identifier, and
// returns its QoS. It returns false if the message is not to be sent. conn.mu is
// held.
func (s *source) compose(d *core.Delivery, now int64) (qos byte, ok bool) {
	c := s.conn
	s.out = wire.Outgoing{Topic: d.Topic, Payload: d.Body, Properties: c.props[:0]}
	o := &s.out
	if len(o.Topic) == 0 { // it was sent straight to the queue
		o.Topic = []byte(s.queue)
	}
	s.meta = meta{qos: 1, five: c.version == wire.V5, own: d.Origin == core.OriginMQTT, stomp: d.Origin == core.OriginSTOMP}
	m := &s.meta
	if m.five {
		if len(d.ContentType) > 0 && len(d.ContentType) <= wire.StringMax && utf8.Valid(d.ContentType) {
			o.Properties = wire.AppendContentType(o.Properties, d.ContentType)
		}
		if d.ExpiresAt > 0 {
			o.Properties = wire.AppendExpiry(o.Properties, uint32(min(max(0, d.ExpiresAt-now+999)/1000, 1<<32-1)))
		}
	}
	d.Attributes(func(a core.Attribute) bool {
		o.Properties = m.read(&a, o.Properties)
		return true
	})
	qos, ok = s.grant(m, o)
	o.QoS, o.Dup = qos, qos > 0 && d.Redelivered
	c.props = o.Properties
	return qos, ok
}

// grant decides with which QoS, RETAIN and identifiers of subscriptions a message
// is delivered.
func (s *source) grant(m *meta, o *wire.Outgoing) (qos byte, ok bool) {
	c := s.conn
	only := (*state.Sub)(nil)
	switch {
	case s.kind == sourceShared:
		only = &s.sub
	case m.filter != "":
		if only = c.subscriptionLocked(m.filter); only == nil {
			only = &state.Sub{QoS: m.qos}
		}
		o.Retain = m.retained
	}
	if only != nil {
		o.Retain = o.Retain || only.RetainPublished && m.retain
		if only.ID > 0 && m.five {
			o.Properties = wire.AppendSubscriptionID(o.Properties, only.ID)
		}
		return min(m.qos, only.QoS), true
	}
	found := &s.matched
	c.subs.match(o.Topic, found)
	if m.five {
		for _, sub := range found.subs {
			if sub.ID > 0 {
				o.Properties = wire.AppendSubscriptionID(o.Properties, sub.ID)
			}
		}
	}
	o.Retain = found.retain && m.retain
	if s.kind == sourceLoose {
		// What is also in the firm queue is delivered from there.
		return 0, m.qos == 0 || found.qos == 0
	}
	if len(found.subs) == 0 {
		return m.qos, true // unsubscribed since it was queued
	}
	return min(m.qos, found.qos), true
}

// subscriptionLocked returns the subscription of a filter, shared or not, nil if
// there is none any more.
func (c *conn) subscriptionLocked(filter string) *state.Sub {
	for _, s := range c.sources {
		if s.kind == sourceShared && s.sub.Filter == filter {
			return &s.sub
		}
	}
	return c.subs.find(filter)
}

// copyOf makes a message for another queue of one that was stored.
func copyOf(m *core.Stored, topic string, now int64, more core.Attribute) core.Message {
	out := core.Message{
		ID: m.ID, Body: slices.Clone(m.Body), Topic: topic, Delay: -1, Origin: m.Origin,
		ContentType: string(m.ContentType), TraceParent: string(m.TraceParent),
	}
	if m.ExpiresAt > 0 {
		out.TTL = max(time.Duration(m.ExpiresAt-now), 1) * time.Millisecond
	}
	m.Attributes(func(a core.Attribute) bool {
		a.Value = slices.Clone(a.Value)
		out.Attributes = append(out.Attributes, a)
		return true
	})
	out.Attributes = append(out.Attributes, more)
	return out
}

// meta is what the attributes of a message say.
type meta struct {
	five     bool // properties can be told
	own      bool // it came by MQTT
	stomp    bool
	qos      byte
	retain   bool   // it was published to be retained
	retained bool   // it is a copy of a retained value
	shared   bool   // a group has given it to this session
	filter   string // of the subscription that it is for alone
}

// read takes one attribute in, and appends the property that it becomes.
func (m *meta) read(a *core.Attribute, b []byte) []byte {
	switch {
	case a.Kind == core.AttributeProperty:
		return m.readProperty(a, b)
	case a.Kind != core.AttributeUser, !m.own && (a.Name == propQoS || a.Name == propRetain):
		return b // of a user of another protocol, for its route
	case m.stomp:
		if done, ok := m.readHeader(a, &b); ok {
			return done
		}
	}
	if !m.five || !sound(a.Name) {
		return b
	}
	if utf8.Valid(a.Value) && len(a.Value) <= wire.StringMax {
		return wire.AppendUser(b, a.Name, a.Value)
	}
	if text := base64.StdEncoding.EncodeToString(a.Value); len(text) <= wire.StringMax {
		return wire.AppendUser(b, a.Name, text)
	}
	return b
}

func (m *meta) readProperty(a *core.Attribute, b []byte) []byte {
	switch a.Name {
	case propQoS:
		if len(a.Value) == 1 && a.Value[0] >= '0' && a.Value[0] <= '2' {
			m.qos = a.Value[0] - '0'
		}
	case "persistent": // STOMP has it as a property, too
		if m.stomp && string(a.Value) == "false" {
			m.qos = 0
		}
	case propRetain, "retain":
		m.retain = m.retain || string(a.Value) == "true"
	case propRetained:
		m.retained, m.filter = true, string(a.Value)
	case propShared:
		m.shared, m.filter = true, string(a.Value)
	case propResponseTopic:
		if m.five {
			return wire.AppendResponseTopic(b, a.Value)
		}
	case propCorrelation:
		if m.five {
			return wire.AppendCorrelation(b, a.Value)
		}
	case propFormat:
		if m.five {
			return wire.AppendFormat(b)
		}
	}
	return b
}

// readHeader takes a header of STOMP in that MQTT has another word for.
func (m *meta) readHeader(a *core.Attribute, b *[]byte) ([]byte, bool) {
	switch a.Name {
	case "reply-to":
		if topic, ok := topicOfReply(string(a.Value)); ok && m.five {
			return wire.AppendResponseTopic(*b, topic), true
		}
	case "correlation-id":
		if m.five && len(a.Value) <= wire.StringMax {
			return wire.AppendCorrelation(*b, a.Value), true
		}
	}
	return nil, false
}

// topicOfReply returns the topic that a destination of STOMP names: its levels are
// separated by dots or slashes, and percent-encoded.
func topicOfReply(destination string) (topic string, ok bool) {
	topic, ok = strings.CutPrefix(destination, "/topic/")
	if !ok || topic == "" {
		return "", false
	}
	levels := strings.Split(strings.ReplaceAll(topic, ".", "/"), "/")
	for i, l := range levels {
		decoded, err := url.PathUnescape(l)
		if err != nil || !sound(decoded) || strings.ContainsAny(decoded, "+#/") {
			return "", false
		}
		levels[i] = decoded
	}
	topic = strings.Join(levels, "/")
	return topic, len(topic) <= wire.StringMax
}

// sound tells whether s can be a string of MQTT.
func sound(s string) bool {
	return len(s) <= wire.StringMax && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// willOf returns what is stored of a will.
func willOf(w *wire.Will) *state.Will {
	if w == nil {
		return nil
	}
	out := &state.Will{
		Topic: w.Topic, Payload: w.Payload, QoS: w.QoS, Retain: w.Retain, Format: w.Format, Delay: w.Delay, Expiry: w.Expiry,
		ContentType: w.ContentType, ResponseTopic: w.ResponseTopic, Correlation: w.Correlation,
	}
	for _, u := range w.Users {
		out.Users = append(out.Users, [2]string{u.Name, u.Value})
	}
	return out
}

// willPublish returns the publish of a session's will.
func willPublish(rec *state.Session) core.TopicPublish {
	w := rec.Will
	a := []core.Attribute{property(propQoS, []byte{'0' + w.QoS})}
	if w.Retain {
		a = append(a, property(propRetain, []byte("true")))
	}
	a = append(a, property(propClientID, []byte(rec.ClientID)))
	if w.ResponseTopic != "" {
		a = append(a, property(propResponseTopic, []byte(w.ResponseTopic)))
	}
	if w.Correlation != nil {
		a = append(a, property(propCorrelation, w.Correlation))
	}
	if w.Format {
		a = append(a, property(propFormat, []byte("1")))
	}
	for _, u := range w.Users {
		a = append(a, core.Attribute{Kind: core.AttributeUser, Name: u[0], Type: "String", Value: []byte(u[1])})
	}
	return core.TopicPublish{
		Topic: w.Topic, Retain: w.Retain, From: "mqtt:" + rec.ClientID, Unreliable: w.QoS == 0,
		Messages: []core.Message{{
			Body: w.Payload, ContentType: w.ContentType, Attributes: a, Origin: core.OriginMQTT, TTL: time.Duration(w.Expiry) * time.Second,
		}},
	}
}
