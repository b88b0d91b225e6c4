package stomp

import (
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
)

// Topics of STOMP have levels between dots, and those of the core between
// slashes. What would be mistaken within a level is written as %XX, so that each
// topic has a name here that leads back to it.

// topicFilter reads a topic or a filter. '*' is one level, and '>' or '#' at the
// end all that follow.
func topicFilter(name string) (filter string, wild, ok bool) {
	levels := strings.Split(strings.ReplaceAll(name, ".", "/"), "/")
	for i, level := range levels {
		switch {
		case level == "*":
			levels[i], wild = "+", true
		case level == ">" || level == "#":
			if i < len(levels)-1 {
				return "", false, false
			}
			levels[i], wild = "#", true
		default:
			if levels[i] = unescapePath(level); strings.ContainsAny(levels[i], "+#") {
				return "", false, false
			}
		}
	}
	filter = strings.Join(levels, "/")
	return filter, wild, match.CheckFilter(filter) == nil
}

// appendTopic appends how a topic, or a filter, is written here.
func appendTopic(b []byte, filter string) []byte {
	for level := range strings.SplitSeq(filter, "/") {
		switch level {
		case "+":
			b = append(b, '*')
		case "#":
			b = append(b, '>')
		default:
			for i := range len(level) {
				switch level[i] {
				case '.':
					b = append(b, "%2E"...)
				case '*':
					b = append(b, "%2A"...)
				case '>':
					b = append(b, "%3E"...)
				case '%':
					b = append(b, "%25"...)
				default:
					b = append(b, level[i])
				}
			}
		}
		b = append(b, '.')
	}
	return b[:len(b)-1]
}

// virtualPrefix begins the name of a virtual topic of ActiveMQ. The queue
// Consumer.NAME.VirtualTopic.TOPIC gets what is published to it.
const virtualPrefix = "VirtualTopic."

// virtualBindings returns the binding of a queue to the virtual topic that its
// name tells, if it does.
func virtualBindings(queue string) []core.Binding {
	rest, ok := strings.CutPrefix(queue, "Consumer.")
	if !ok {
		return nil
	}
	consumer, topic, ok := strings.Cut(rest, ".")
	if !ok || consumer == "" || !strings.HasPrefix(topic, virtualPrefix) || topic == virtualPrefix {
		return nil
	}
	filter, _, ok := topicFilter(topic)
	if !ok {
		return nil
	}
	return []core.Binding{{Filter: filter, Queue: queue, Origin: core.OriginSTOMP}}
}

// bindVirtual binds a queue that was there to its virtual topic.
func (c *conn) bindVirtual(queue string) error {
	for _, b := range virtualBindings(queue) {
		if err := c.client.Bind(c.ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// toPublish returns the publish of what goes to a topic.
func (c *conn) toPublish(o *outgoing) core.TopicPublish {
	return core.TopicPublish{
		Topic: o.to.topic, Messages: []core.Message{o.msg}, Retain: o.retain, From: c.publisher(), Unreliable: o.transient,
	}
}

// publisher names this client, for subscriptions that leave out its own messages.
func (c *conn) publisher() string {
	if c.clientID != "" {
		return "stomp:" + c.clientID
	}
	return "stomp:/" + c.session
}
