package sqs

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/leasemq/broker/core"
)

// mqttPrefix begins the names of the message attributes that tell what MQTT knows
// of a message. A user property of such a name is not shown as an attribute.
const mqttPrefix = "mqtt."

// Names of message attributes. Those of properties are their names in the core.
const (
	mqttTopic           = "mqtt.topic"
	mqttQoS             = "mqtt.qos"
	mqttRetain          = "mqtt.retain"
	mqttClientID        = "mqtt.clientId"
	mqttContentType     = "mqtt.contentType"
	mqttResponseTopic   = "mqtt.responseTopic"
	mqttCorrelationData = "mqtt.correlationData"
	mqttEncoding        = "mqtt.encoding"       // "base64": the body is shown in it
	mqttUserProperties  = "mqtt.userProperties" // all, in order: [{"name":"n","value":"v"}]
)

// shownBody returns the body of d as SQS can show it, and whether that is base64:
// it came by another protocol and is no text, or from a device and all of those are
// to be shown so. An empty one from a device counts as no text, so that it is told
// from a body that got lost.
func (s *Server) shownBody(d *core.Delivery) (body []byte, encoded bool) {
	device := d.Origin == core.OriginMQTT
	if validText(d.Body) && !(device && (s.options.EncodePayloads || len(d.Body) == 0)) {
		return d.Body, false
	}
	return base64.StdEncoding.AppendEncode(nil, d.Body), true
}

// loadMQTT puts what SQS shows of a message from MQTT into c.attributes: what MQTT
// tells of it, its user properties in one attribute, and of them one by one those
// that can be attributes, until there are as many as a message of SQS may have.
func (c *call) loadMQTT(d *core.Delivery, encoded bool) {
	room := messageAttributesMax
	show := func(name, kind string, value []byte) {
		if len(value) > 0 {
			c.attributes = append(c.attributes, core.Attribute{Name: name, Type: kind, Value: value})
			room--
		}
	}
	show(mqttTopic, "", d.Topic)
	show(mqttContentType, "", d.ContentType)
	var all []byte
	d.Attributes(func(a core.Attribute) bool {
		switch {
		case a.Kind == core.AttributeSystem:
			c.attributes = append(c.attributes, a)
		case a.Kind == core.AttributeUser:
			all = appendUserProperty(all, &a)
		case a.Name == mqttQoS:
			show(a.Name, "Number", a.Value)
		case a.Name == mqttCorrelationData:
			show(a.Name, "Binary", a.Value)
		case a.Name == mqttRetain || a.Name == mqttClientID || a.Name == mqttResponseTopic:
			show(a.Name, "", a.Value)
		}
		return true
	})
	if encoded {
		show(mqttEncoding, "String", []byte("base64"))
	}
	if all == nil {
		return
	}
	show(mqttUserProperties, "String", append(all, ']'))
	d.Attributes(func(a core.Attribute) bool {
		if a.Kind == core.AttributeUser && c.mayShow(&a) {
			show(a.Name, "String", a.Value)
		}
		return room > 0
	})
}

// mayShow tells whether a user property can be an attribute. Of those with one
// name the first is.
func (c *call) mayShow(a *core.Attribute) bool {
	return !strings.HasPrefix(a.Name, mqttPrefix) && checkAttributeName(bytesOf(a.Name)) == nil && validText(a.Value) &&
		!slices.ContainsFunc(c.attributes, func(o core.Attribute) bool { return o.Kind == core.AttributeUser && o.Name == a.Name })
}

// appendUserProperty appends a to the JSON of the user properties, which lacks its
// end.
func appendUserProperty(b []byte, a *core.Attribute) []byte {
	if b == nil {
		b = append(b, '[')
	} else {
		b = append(b, ',')
	}
	b = append(b, `{"name":`...)
	b = appendShown(b, bytesOf(a.Name))
	b = append(b, `,"value":`...)
	b = appendShown(b, a.Value)
	return append(b, '}')
}

// appendShown appends b as a JSON string that SQS can show.
func appendShown(dst, b []byte) []byte {
	start := len(dst)
	dst = appendQuoted(dst, b)
	if !hasNonCharacter(dst[start:]) {
		return dst
	}
	shown := bytes.ReplaceAll(dst[start:], []byte("\uFFFE"), []byte(`\ufffe`))
	shown = bytes.ReplaceAll(shown, []byte("\uFFFF"), []byte(`\uffff`))
	return append(dst[:start], shown...)
}
