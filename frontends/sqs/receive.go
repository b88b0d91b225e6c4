package sqs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
)

// Bounds of a receive.
const (
	receiveMax      = 10
	waitSecondsMax  = 20
	visibilityMax   = 43_200   // seconds: 12 hours
	receiveBytesMax = 10 << 20 // of bodies in one answer: ten of the largest that SQS can send
)

func receiveMessage(c *call) error {
	name, err := c.queueName()
	if err != nil {
		return err
	}
	o, err := c.receiveOptions()
	if err != nil {
		return err
	}
	wanted, err := c.systemNames()
	if err != nil {
		return err
	}
	if c.server.options.AutoCreate {
		// Before the receive, not after it has failed: a queue that is deleted
		// under a long poll stays deleted.
		if _, err := c.queueNamed(name); err != nil {
			return err
		}
	}
	c.deliveries, err = c.client.Receive(c.ctx, name, o, c.deliveries[:0])
	switch {
	case errors.Is(err, context.Canceled):
		// The node drains, or the peer has gone: an empty answer is true for the
		// one and lost on the other.
		c.deliveries = c.deliveries[:0]
		c.http.SetConnectionClose()
	case err != nil:
		return err
	}
	c.giveBackUnsent(name)
	c.growAnswer()
	isFIFO := strings.HasSuffix(name, fifoSuffix)
	c.answer.open("ReceiveMessage")
	if len(c.deliveries) > 0 {
		c.answer.beginList("Messages")
		for i := range c.deliveries {
			c.writeMessage(&c.deliveries[i], wanted, isFIFO)
		}
		c.answer.endList()
	} else {
		c.answer.emptyList("Messages")
	}
	c.answer.close("ReceiveMessage", c.id())
	return nil
}

// growAnswer makes room for large bodies at once, and counts it.
func (c *call) growAnswer() {
	size := 0
	for i := range c.deliveries {
		size += len(c.deliveries[i].Body)
	}
	c.letGo() // what was granted may not have been given
	if size > bufferKeptBytesMax {
		c.answer.b = slices.Grow(c.answer.b, size+size/8) // for escapes, attributes and the rest
		c.hold(int64(cap(c.answer.b)))
	}
}

func (c *call) receiveOptions() (core.ReceiveOptions, error) {
	p := &c.params
	o := core.ReceiveOptions{Max: 1, MaxBytes: receiveBytesMax, Visibility: -1, Wait: -1, Alive: c.alive, Grant: c.grant}
	if p.max.isSet() {
		if p.max.n < 1 || p.max.n > receiveMax {
			return o, invalid(p.max.sent, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
		}
		o.Max = int(p.max.n)
	}
	if p.wait.isSet() {
		if p.wait.n < 0 || p.wait.n > waitSecondsMax {
			return o, invalid(p.wait.sent, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
		}
		o.Wait = time.Duration(p.wait.n) * time.Second
	}
	if v := p.one.visibility; v.isSet() {
		if v.n < 0 || v.n > visibilityMax {
			return o, invalidVisibility(v)
		}
		o.Visibility = time.Duration(v.n) * time.Second
	}
	if p.attemptID != nil {
		if !validGroup(p.attemptID) {
			return o, invalidGroup(p.attemptID, "ReceiveRequestAttemptId")
		}
		o.AttemptID = string(p.attemptID) // the core keeps it for five minutes
	}
	return o, nil
}

func invalidVisibility(v integer) error {
	return invalid(v.sent, "VisibilityTimeout", "Must be between 0 and 43200, if provided.")
}

// systemName is a set of system attributes.
type systemName uint16

const (
	nameSenderID systemName = 1 << iota
	nameSentTimestamp
	nameReceiveCount
	nameFirstReceived
	nameSequenceNumber
	nameDedupID
	nameGroupID
	nameTraceHeader
	nameSourceARN
	nameAll = 1<<iota - 1
)

// systemNames returns which system attributes are asked for. Names that SQS does
// not have are ignored.
func (c *call) systemNames() (wanted systemName, err error) {
	for _, n := range c.params.names {
		switch n.view() {
		case "All":
			wanted |= nameAll
		case "SenderId":
			wanted |= nameSenderID
		case "SentTimestamp":
			wanted |= nameSentTimestamp
		case "ApproximateReceiveCount":
			wanted |= nameReceiveCount
		case "ApproximateFirstReceiveTimestamp":
			wanted |= nameFirstReceived
		case "SequenceNumber":
			wanted |= nameSequenceNumber
		case "MessageDeduplicationId":
			wanted |= nameDedupID
		case "MessageGroupId":
			wanted |= nameGroupID
		case traceHeader:
			wanted |= nameTraceHeader
		case "DeadLetterQueueSourceArn":
			wanted |= nameSourceARN
		}
	}
	return wanted, nil
}

// writeMessage writes one received message.
func (c *call) writeMessage(d *core.Delivery, wanted systemName, isFIFO bool) {
	a := &c.answer
	body, encoded := c.server.shownBody(d)
	c.attributes = c.attributes[:0]
	if len(c.params.messageNames) > 0 || wanted&nameTraceHeader != 0 {
		c.loadAttributes(d, encoded)
	}
	a.beginItem("Message")
	a.beginPlain("MessageId")
	a.b, _ = d.ID.AppendText(a.b) // which never fails
	a.endPlain("MessageId")
	a.beginPlain("ReceiptHandle")
	if d.Receipt == (core.Receipt{}) {
		a.b = append(a.b, peekedHandle...)
	} else {
		a.b = c.client.AppendHandle(a.b, d.Receipt)
	}
	a.endPlain("ReceiptHandle")
	var sum digest
	sum.set(body)
	a.digestField("MD5OfBody", &sum)
	a.field("Body", body)
	if wanted != 0 {
		start := a.beginMap("Attributes")
		c.writeSystem(d, wanted, isFIFO)
		a.endMap(start)
	}
	c.writeAttributes()
	a.endItem("Message")
}

// bodyEncoding is the message attribute that tells that a body is shown in
// base64: it came by another protocol and is no text that SQS can show.
const bodyEncoding = "LeaseMQ.BodyEncoding"

// contentType is the message attribute that has the header of that name, which a
// message from STOMP may have.
const contentType = "content-type"

// loadAttributes puts the attributes of d, whose body may be shown in base64, into
// c.attributes.
func (c *call) loadAttributes(d *core.Delivery, encoded bool) {
	if d.Origin == core.OriginMQTT {
		c.loadMQTT(d, encoded)
		return
	}
	if encoded {
		c.attributes = append(c.attributes, core.Attribute{Name: bodyEncoding, Type: "String", Value: []byte("base64")})
	}
	if len(d.ContentType) > 0 && d.Origin == core.OriginSTOMP {
		c.attributes = append(c.attributes, core.Attribute{Name: contentType, Value: d.ContentType})
	}
	d.Attributes(func(a core.Attribute) bool {
		c.attributes = append(c.attributes, a)
		return true
	})
}

// writeSystem writes the system attributes in wanted that d has.
func (c *call) writeSystem(d *core.Delivery, wanted systemName, isFIFO bool) {
	a := &c.answer
	if wanted&nameSenderID != 0 {
		a.member("Attribute", "SenderId", bytesOf(c.server.options.Account))
	}
	if wanted&nameSentTimestamp != 0 {
		a.number("SentTimestamp", d.EnqueuedAt)
	}
	if wanted&nameReceiveCount != 0 {
		a.number("ApproximateReceiveCount", int64(d.PriorReceives)+int64(d.State.Receives))
	}
	if wanted&nameFirstReceived != 0 {
		a.number("ApproximateFirstReceiveTimestamp", d.State.FirstReceived)
	}
	if wanted&nameSequenceNumber != 0 && isFIFO {
		a.beginMember("Attribute", "SequenceNumber")
		a.b = appendSequence(a.b, d.Seq)
		a.endMember("Attribute")
	}
	if wanted&nameDedupID != 0 && len(d.DedupID) > 0 {
		a.member("Attribute", "MessageDeduplicationId", d.DedupID)
	}
	if wanted&nameGroupID != 0 && len(d.Group) > 0 {
		a.member("Attribute", "MessageGroupId", d.Group)
	}
	if wanted&nameTraceHeader != 0 {
		for i := range c.attributes {
			if s := &c.attributes[i]; s.Kind == core.AttributeSystem && s.Name == traceHeader {
				a.member("Attribute", traceHeader, s.Value)
			}
		}
	}
	if wanted&nameSourceARN != 0 && d.DeadLetter.Source != "" {
		a.member("Attribute", "DeadLetterQueueSourceArn", bytesOf(c.server.arn(d.DeadLetter.Source)))
	}
}

// number writes a system attribute that is a number.
func (a *answer) number(name string, n int64) {
	a.beginMember("Attribute", name)
	a.b = strconv.AppendInt(a.b, n, 10)
	a.endMember("Attribute")
}

// writeAttributes writes the message attributes that are asked for, and their
// digest.
func (c *call) writeAttributes() {
	c.order = c.order[:0]
	if len(c.params.messageNames) == 0 {
		return
	}
	for i := range c.attributes {
		s := &c.attributes[i]
		if s.Kind == core.AttributeUser && c.wantsAttribute(s.Name) {
			if s.Type == "" { // from another protocol
				s.Type = "String"
				if !validText(s.Value) {
					s.Type = "Binary"
				}
			}
			c.order = append(c.order, i)
		}
	}
	// Another protocol may repeat a name, which a map cannot: the last wins.
	slices.SortStableFunc(c.order, func(i, j int) int { return strings.Compare(c.attributes[i].Name, c.attributes[j].Name) })
	c.order = dropRepeated(c.order, c.attributes)
	if len(c.order) == 0 {
		return
	}
	a := &c.answer
	sum := c.digestAttributes(c.attributes, c.order)
	a.digestField("MD5OfMessageAttributes", &sum)
	start := a.beginMap("MessageAttributes")
	for _, i := range c.order {
		s := &c.attributes[i]
		a.beginEntry("MessageAttribute", s.Name)
		if isBinary(s.Type) {
			a.binaryField("BinaryValue", s.Value)
		} else {
			a.field("StringValue", s.Value)
		}
		a.field("DataType", bytesOf(s.Type))
		a.endEntry("MessageAttribute")
	}
	a.endMap(start)
}

// dropRepeated keeps the last of each run of equal names.
func dropRepeated(order []int, attributes []core.Attribute) []int {
	kept := order[:0]
	for n, i := range order {
		if n+1 == len(order) || attributes[order[n+1]].Name != attributes[i].Name {
			kept = append(kept, i)
		}
	}
	return kept
}

// wantsAttribute tells whether MessageAttributeNames has name: All, .*, the name,
// or a prefix followed by .*, which is plain text: "col.*" has "color" too.
func (c *call) wantsAttribute(name string) bool {
	for _, n := range c.params.messageNames {
		switch pattern := n.view(); {
		case pattern == "All" || pattern == ".*" || pattern == name:
			return true
		case strings.HasSuffix(pattern, ".*") && strings.HasPrefix(name, pattern[:len(pattern)-2]):
			return true
		}
	}
	return false
}
