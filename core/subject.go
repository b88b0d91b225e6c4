package core

import (
	"bytes"

	"github.com/leasemq/broker/core/selector"
)

// subject shows a message to selectors:
//
//   - JMSPriority, JMSTimestamp (when it was sent, milliseconds), JMSMessageID,
//     JMSXGroupID, and priority and content-type as STOMP calls them;
//   - JMSCorrelationID, JMSType and JMSDeliveryMode are the attributes of those
//     names, or the STOMP headers correlation-id, type and persistent;
//   - any other name is that of an attribute: a number if its type is SQS's Number,
//     unknown if it is Binary, else a string. Of several with one name the first
//     counts.
//
// What is shown never changes while a message is in its queue. A subject is used
// by one goroutine at a time.
type subject struct {
	s   Stored
	id  []byte
	get func(name string) (selector.Value, bool)
}

func newSubject() *subject {
	x := &subject{id: make([]byte, 0, 36)}
	x.get = x.value
	return x
}

// matches tells whether the message of a record is selected.
func (x *subject) matches(sel *selector.Selector, rec []byte) (bool, error) {
	if err := x.show(rec); err != nil {
		return false, err
	}
	ok := x.selected(sel)
	x.s = Stored{} // the record is not kept
	return ok, nil
}

// show has x show the message of a record, which is kept.
func (x *subject) show(rec []byte) error { return decodeRecord(rec, &x.s) }

// selected tells whether a selector selects what is shown.
func (x *subject) selected(sel *selector.Selector) bool { return sel.Match(x.get) }

func (x *subject) value(name string) (selector.Value, bool) {
	switch name {
	case "JMSPriority":
		return selector.Int(int64(x.s.Priority)), true
	case "JMSTimestamp":
		return selector.Int(x.s.EnqueuedAt), true
	case "JMSMessageID":
		x.id, _ = x.s.ID.AppendText(x.id[:0])
		return selector.Bytes(x.id), true
	case "JMSXGroupID":
		return selector.Bytes(x.s.Group), len(x.s.Group) > 0
	case "JMSDeliveryMode":
		return x.deliveryMode(), true
	}
	if v, ok := x.attribute(name); ok {
		return v, true
	}
	switch name {
	case "JMSCorrelationID":
		return x.attribute("correlation-id")
	case "JMSType":
		return x.attribute("type")
	case "content-type":
		return selector.Bytes(x.s.ContentType), len(x.s.ContentType) > 0
	case "priority":
		return selector.Int(int64(x.s.Priority)), true
	}
	return selector.Value{}, false
}

// deliveryMode is PERSISTENT unless the sender has said otherwise.
func (x *subject) deliveryMode() selector.Value {
	if v, ok := x.attribute("JMSDeliveryMode"); ok {
		return v
	}
	if b, _, ok := x.find("persistent"); ok && string(b) == "false" {
		return selector.String("NON_PERSISTENT")
	}
	return selector.String("PERSISTENT")
}

func (x *subject) attribute(name string) (selector.Value, bool) {
	b, typ, ok := x.find(name)
	switch {
	case !ok || bytes.HasPrefix(typ, []byte("Binary")):
		return selector.Value{}, false
	case bytes.HasPrefix(typ, []byte("Number")):
		return selector.Number(b), true
	}
	return selector.Bytes(b), true
}

// find returns the value and type of the first attribute of a name that the
// sender has set.
func (x *subject) find(name string) (value, typ []byte, ok bool) {
	r := reader{b: x.s.attributes}
	for range x.s.attributeCount {
		kind, n := AttributeKind(r.byte()), r.bytes()
		typ, value = r.bytes(), r.bytes()
		if kind != AttributeSystem && string(n) == name {
			return value, typ, !r.bad
		}
	}
	return nil, nil, false
}

// Selected tells whether a selector selects m.
func (m *Stored) Selected(sel *selector.Selector) bool {
	x := newSubject()
	x.s = *m
	return x.selected(sel)
}
