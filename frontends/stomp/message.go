package stomp

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// Headers of a MESSAGE that tell its past.
const (
	deliveryCountName = "x-delivery-count" // earlier deliveries, as on RabbitMQ
	jmsCountName      = "JMSXDeliveryCount"
	originalName      = "original-destination"
	deathQueueName    = "x-first-death-queue"
	deathReasonName   = "x-first-death-reason"
	groupFirstName    = "JMSXGroupFirstForConsumer"
)

// Headers of message groups.
const (
	groupName    = "JMSXGroupID"
	groupSeqName = "JMSXGroupSeq"
)

// appendMessage appends the MESSAGE of a delivery.
func (s *subscription) appendMessage(b []byte, d *core.Delivery, seq uint64) []byte {
	v := s.conn.version
	b = frame.AppendCommand(b, frame.Message)
	if s.id != "" {
		b = frame.AppendHeader(b, v, "subscription", s.id)
	}
	b = s.appendDestination(b, v, d)
	b = append(b, "message-id:"...)
	b, _ = d.ID.AppendText(b) // which never fails
	if v < frame.V12 && s.mode != ackAuto {
		b = s.appendAckID(append(b, '-'), seq)
	}
	b = append(b, '\n')
	if v == frame.V12 && s.mode != ackAuto {
		b = append(b, "ack:"...)
		b = s.appendAckID(b, seq)
		b = append(b, '\n')
	}
	b = append(b, "redelivered:"...)
	b = append(strconv.AppendBool(b, d.Redelivered), '\n')
	b = appendNumber(b, jmsCountName, int64(d.State.Receives))
	b = appendNumber(b, deliveryCountName, max(int64(d.State.Receives)-1, 0))
	if d.FirstOfGroup {
		b = append(b, groupFirstName+":true\n"...)
	}
	b = appendStored(b, v, &d.Stored)
	return frame.AppendBody(b, d.Body)
}

// appendNumber appends a header whose value is a number.
func appendNumber(b []byte, name string, n int64) []byte {
	b = append(append(b, name...), ':')
	return append(strconv.AppendInt(b, n, 10), '\n')
}

// appendDestination appends the destination as it was sent, but of a message that
// came here as a dead letter: it is told where it was.
func (s *subscription) appendDestination(b []byte, v frame.Version, d *core.Delivery) []byte {
	if s.shown != "" {
		return frame.AppendHeader(b, v, "destination", s.shown)
	}
	dead := d.DeadLetter.Reason != core.DeadLetterNone
	sent := []byte(nil)
	if !dead && d.Origin == core.OriginSTOMP {
		d.Attributes(func(a core.Attribute) bool {
			if a.Kind == core.AttributeProperty && a.Name == destinationName {
				sent = a.Value
			}
			return false // it is the first
		})
	}
	if sent != nil {
		return frame.AppendHeader(b, v, "destination", sent)
	}
	b = append(b, "destination:"...)
	if !dead && d.Topic != nil {
		b = append(b, topicPrefix...)
		b = append(frame.AppendValue(b, v, appendTopic(nil, string(d.Topic))), '\n')
		return b
	}
	b = appendQueue(b, v, s.queue)
	if dead {
		b = append(b, originalName+":"...)
		b = appendQueue(b, v, d.DeadLetter.Source)
		b = frame.AppendHeader(b, v, deathQueueName, d.DeadLetter.Source)
		b = frame.AppendHeader(b, v, deathReasonName, deathReason(d.DeadLetter.Reason))
	}
	return b
}

// appendQueue appends the destination of a queue, and ends the line.
func appendQueue(b []byte, v frame.Version, name string) []byte {
	if strings.HasPrefix(name, durablePrefix) {
		b = append(b, '/')
	} else {
		b = append(b, queuePrefix...)
	}
	return append(frame.AppendValue(b, v, name), '\n')
}

// deathReason is RabbitMQ's word for r.
func deathReason(r core.DeadLetterReason) string {
	switch r {
	case core.DeadLetterExpired:
		return "expired"
	case core.DeadLetterRejected:
		return "rejected"
	}
	return "delivery_limit"
}

// appendStored appends what was sent with a message.
func appendStored(b []byte, v frame.Version, m *core.Stored) []byte {
	if len(m.ContentType) > 0 {
		b = frame.AppendHeader(b, v, "content-type", m.ContentType)
	}
	if len(m.TraceParent) > 0 {
		b = frame.AppendHeader(b, v, "traceparent", m.TraceParent)
	}
	if m.Origin == core.OriginMQTT {
		b = appendMQTT(b, v, m)
	}
	stamped, grouped := false, len(m.Group) == 0
	m.Attributes(func(a core.Attribute) bool {
		if a.Kind == core.AttributeProperty && m.Origin == core.OriginMQTT {
			return true // appendMQTT has those
		}
		switch a.Name {
		case "timestamp":
			stamped = true
		case groupName, "message_group":
			grouped = true
		case "content-type":
			if len(m.ContentType) > 0 {
				return true
			}
		case "destination", frame.ContentLength, "message-id", "ack", "subscription", "redelivered", deliveryCountName, jmsCountName, groupFirstName:
			return true // ours; one of that name came by another protocol
		case "":
			return true // which MQTT may have, and a header may not
		}
		if strings.HasPrefix(a.Type, "Binary") { // of SQS
			b = frame.AppendHeader(b, v, a.Name, base64.StdEncoding.EncodeToString(a.Value))
			return true
		}
		b = frame.AppendHeader(b, v, a.Name, a.Value)
		return true
	})
	if !grouped {
		b = frame.AppendHeader(b, v, groupName, m.Group)
	}
	if !stamped {
		b = appendNumber(b, "timestamp", m.EnqueuedAt)
	}
	return b
}
