package sqs

import (
	"strconv"
	"time"

	"github.com/leasemq/broker/core"
)

// delayMax is the longest DelaySeconds.
const delayMax = 900

// groupBytesMax is the length of a group, deduplication or attempt id.
const groupBytesMax = 128

// traceHeader is the one system attribute that may be sent. The HTTP header of
// the same meaning sets it too.
const traceHeader = "AWSTraceHeader"

// Texts of AWS.
const (
	textNoDedupID = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
	textNoGroup   = "The request must contain the parameter MessageGroupId."
	textCharacter = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
	textQueueType = "The request include parameter that is not valid for this queue type."
)

func sendMessage(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	e := &c.params.one
	if len(e.body) == 0 {
		return missing("MessageBody")
	}
	if q.Config.Kind == core.KindFIFO && e.group == nil {
		return missing("MessageGroupId")
	}
	if limit := c.messageBytesMax(&q); messageBytes(e) > limit {
		return fail(faultInvalidParameter, "One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", limit)
	}
	d, err := c.addMessage(&q, e)
	if err != nil {
		return err
	}
	c.published, err = c.client.Publish(contextOfWork(), q.Name, c.messages, c.published[:0])
	if err != nil {
		return err
	}
	c.answer.open("SendMessage")
	c.writeSent(&q, &c.published[0], &d)
	c.answer.close("SendMessage", c.id())
	return nil
}

// writeSent writes what SendMessage and a batch tell of a message.
func (c *call) writeSent(q *core.Queue, p *core.Published, d *digests) {
	a := &c.answer
	a.digestField("MD5OfMessageBody", &d.body)
	a.digestField("MD5OfMessageAttributes", &d.attributes)
	a.digestField("MD5OfMessageSystemAttributes", &d.system)
	a.beginPlain("MessageId")
	a.b, _ = p.ID.AppendText(a.b) // which never fails
	a.endPlain("MessageId")
	if q.Config.Kind == core.KindFIFO {
		a.beginPlain("SequenceNumber")
		a.b = appendSequence(a.b, p.Seq)
		a.endPlain("SequenceNumber")
	}
}

// appendSequence appends s as SQS writes it: 20 digits, which order as text.
func appendSequence(dst []byte, s core.Seq) []byte {
	var digits [20]byte
	n := len(strconv.AppendUint(digits[:0], uint64(s), 10))
	for range len(digits) - n {
		dst = append(dst, '0')
	}
	return append(dst, digits[:n]...)
}

func sendMessageBatch(c *call) error {
	const action = "SendMessageBatch"
	q, err := c.queue()
	if err != nil {
		return err
	}
	if err := c.checkBatch(action); err != nil {
		return err
	}
	if err := c.checkSendBatch(&q); err != nil {
		return err
	}
	for i := range c.params.entries {
		e := &c.params.entries[i]
		r := result{sent: len(c.messages)}
		if limit := c.messageBytesMax(&q); messageBytes(e) > limit {
			r.failure = fail(faultInvalidParameter, "One or more parameters cannot be validated. Reason: Message must be shorter than %d bytes.", limit)
		} else if r.digests, err = c.addMessage(&q, e); err != nil {
			r.failure = asFailure(err)
		}
		c.results = append(c.results, r)
	}
	if len(c.messages) > 0 {
		if c.published, err = c.client.Publish(contextOfWork(), q.Name, c.messages, c.published[:0]); err != nil {
			return err
		}
	}
	c.writeBatch(action, func(r *result) { c.writeSent(&q, &c.published[r.sent], &r.digests) })
	return nil
}

// checkSendBatch finds what fails a whole batch of sends.
func (c *call) checkSendBatch(q *core.Queue) error {
	total := 0
	for i := range c.params.entries {
		e := &c.params.entries[i]
		switch {
		case len(e.body) == 0:
			return missing("SendMessageBatchRequestEntry." + strconv.Itoa(i+1) + ".MessageBody")
		case q.Config.Kind == core.KindFIFO && e.group == nil:
			return fail(faultInvalidParameter, textNoGroup)
		case q.Config.Kind == core.KindFIFO && e.dedupID == nil && !q.Config.ContentDedup:
			return fail(faultInvalidParameter, textNoDedupID)
		}
		total += messageBytes(e)
	}
	if limit := c.server.options.MessageBytesMax; total > limit {
		return fail(faultBatchTooLong, "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", limit, total)
	}
	return nil
}

// messageBytesMax is how large a message of q may be.
func (c *call) messageBytesMax(q *core.Queue) int {
	if n := q.Config.MaxMessageBytes; n > 0 && n < int64(c.server.options.MessageBytesMax) {
		return int(n)
	}
	return c.server.options.MessageBytesMax
}

// messageBytes is the size of a message as limits count it: body, and name,
// type and value of its attributes, but for system attributes.
func messageBytes(e *entry) int {
	n := len(e.body)
	for i := range e.attributes {
		a := &e.attributes[i]
		n += len(a.name) + len(a.dataType) + len(a.str) + base64Bytes(a.binary)
	}
	return n
}

// base64Bytes is how many bytes b stands for.
func base64Bytes(b text) int {
	n := len(b)
	for n > 0 && b[n-1] == '=' {
		n--
	}
	return n * 6 / 8
}

// addMessage checks e and appends the message to c.messages.
func (c *call) addMessage(q *core.Queue, e *entry) (d digests, err error) {
	if !validText(e.body) {
		return d, fail(faultInvalidMessageContents, textCharacter)
	}
	delay, err := checkDelay(q, e)
	if err != nil {
		return d, err
	}
	if err := checkGroup(q, e); err != nil {
		return d, err
	}
	start := len(c.attributes)
	if d.attributes, err = c.addAttributes(e); err != nil {
		return d, err
	}
	if d.system, err = c.addSystemAttributes(e); err != nil {
		return d, err
	}
	d.body.set(e.body)
	m := core.Message{
		Body:       e.body,
		Attributes: c.attributes[start:len(c.attributes):len(c.attributes)],
		Group:      e.group.view(),
		DedupID:    e.dedupID.view(),
		Delay:      delay,
		Origin:     core.OriginSQS,
	}
	if r := &q.Config.Routes; r.PublishTopic != "" {
		if _, err := r.Topic(&m); err != nil { // fails this entry of a batch alone
			return d, err
		}
	}
	c.messages = append(c.messages, m)
	return d, nil
}

func checkDelay(q *core.Queue, e *entry) (time.Duration, error) {
	const queueDelay = -1
	if !e.delay.isSet() {
		return queueDelay, nil
	}
	if e.delay.n < 0 || e.delay.n > delayMax {
		return 0, invalid(e.delay.sent, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
	}
	if q.Config.Kind != core.KindFIFO {
		return time.Duration(e.delay.n) * time.Second, nil
	}
	if e.delay.n != 0 {
		return 0, invalid(e.delay.sent, "DelaySeconds", textQueueType)
	}
	return queueDelay, nil
}

func checkGroup(q *core.Queue, e *entry) error {
	if e.group != nil && !validGroup(e.group) {
		return invalidGroup(e.group, "MessageGroupId")
	}
	if e.dedupID == nil {
		if q.Config.Kind == core.KindFIFO && !q.Config.ContentDedup {
			return fail(faultInvalidParameter, textNoDedupID)
		}
		return nil
	}
	if q.Config.Kind != core.KindFIFO {
		return invalid(e.dedupID, "MessageDeduplicationId", textQueueType)
	}
	if !validGroup(e.dedupID) {
		return invalidGroup(e.dedupID, "MessageDeduplicationId")
	}
	return nil
}

// validGroup tells whether id is of 1 to 128 letters, digits and punctuation
// signs.
func validGroup(id text) bool {
	if len(id) == 0 || len(id) > groupBytesMax {
		return false
	}
	for _, b := range id {
		if b <= ' ' || b >= 0x7F {
			return false
		}
	}
	return true
}

func invalidGroup(id text, parameter string) error {
	return invalid(id, parameter, parameter+" can only include alphanumeric and punctuation characters. 1 to 128 in length.")
}
