package sqs

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/leasemq/broker/core"
)

// Bounds of a message attribute.
const (
	attributeNameMax  = 256
	attributeTypeMax  = 256
	traceHeaderMax    = 1024 // bytes; no limit of a message counts it
	numberDigitsMax   = 38
	numberExponentMax = 126
	numberExponentMin = -128
)

// addAttributes checks the message attributes of e, appends them to
// c.attributes and digests them.
func (c *call) addAttributes(e *entry) (d digest, err error) {
	if e.attributeCount > messageAttributesMax {
		return d, fail(faultInvalidParameter, "Number of message attributes [%d] exceeds the allowed maximum [%d].", e.attributeCount, messageAttributesMax)
	}
	c.order = c.order[:0]
	for i := range e.attributes {
		a := &e.attributes[i]
		if err := checkAttributeName(a.name); err != nil {
			return d, err
		}
		for j := range e.attributes[:i] { // only Query can send one name twice
			if e.attributes[j].name.view() == a.name.view() {
				return d, fail(faultInvalidParameter, "Message (user) attribute name '%s' is repeated.", a.name)
			}
		}
		value, err := c.attributeValue(a)
		if err != nil {
			return d, err
		}
		c.order = append(c.order, len(c.attributes))
		c.attributes = append(c.attributes, core.Attribute{
			Kind: core.AttributeUser, Name: a.name.view(), Type: a.dataType.view(), Value: value,
		})
	}
	return c.digestAttributes(c.attributes, c.order), nil
}

// addSystemAttributes does the same with the message system attributes. The HTTP
// header sets the trace header too, but is not digested: no attribute was sent.
func (c *call) addSystemAttributes(e *entry) (d digest, err error) {
	c.order = c.order[:0]
	for i := range e.system {
		a := &e.system[i]
		if a.name.view() != traceHeader || len(c.order) > 0 {
			return d, fail(faultInvalidParameter, "Message system attribute name '%s' is invalid.", a.name)
		}
		if a.dataType.view() != "String" {
			return d, fail(faultInvalidParameter, "Message system attribute '%s' must be of type 'String'.", a.name)
		}
		value, err := c.attributeValue(a)
		if err != nil {
			return d, err
		}
		if len(value) > traceHeaderMax {
			return d, fail(faultInvalidParameter, "Message system attribute '%s' must be shorter than %d bytes.", a.name, traceHeaderMax)
		}
		c.order = append(c.order, len(c.attributes))
		c.attributes = append(c.attributes, core.Attribute{
			Kind: core.AttributeSystem, Name: traceHeader, Type: "String", Value: value,
		})
	}
	if len(c.order) > 0 {
		return c.digestAttributes(c.attributes, c.order), nil
	}
	if trace := c.http.Request.Header.Peek("X-Amzn-Trace-Id"); len(trace) > 0 && len(trace) <= traceHeaderMax && validText(trace) {
		c.attributes = append(c.attributes, core.Attribute{
			Kind: core.AttributeSystem, Name: traceHeader, Type: "String", Value: trace,
		})
	}
	return d, nil
}

func checkAttributeName(name text) error {
	if len(name) == 0 {
		return fail(faultInvalidParameter, "The message attribute name must not be empty.")
	}
	if len(name) > attributeNameMax {
		return fail(faultInvalidParameter, "Message (user) attribute names must be shorter than 256 Bytes")
	}
	for i, b := range name {
		if !isNameByte(b) && b != '.' {
			return fail(faultInvalidParameter, "Message (user) attributes name can only contain upper and lower score characters, digits, periods, hyphens and underscores. ")
		}
		if b == '.' && (i == 0 || i == len(name)-1 || name[i-1] == '.') {
			return fail(faultInvalidParameter, "Message (user) attributes name can not start or end with a period, and can not have periods in succession.")
		}
	}
	if hasPrefixFold(name, "aws.") || hasPrefixFold(name, "amazon.") {
		return fail(faultInvalidParameter, "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for internal use. Additionally, they cannot start or end with '.'.")
	}
	return nil
}

func hasPrefixFold(b text, prefix string) bool {
	return len(b) >= len(prefix) && strings.EqualFold(b[:len(prefix)].view(), prefix)
}

// attributeValue checks type and value of a, and returns the value as it is kept.
func (c *call) attributeValue(a *attribute) ([]byte, error) {
	if a.isList {
		return nil, fail(faultUnsupported, "Message attribute list values in SendMessage operation are not supported.")
	}
	if len(a.dataType) == 0 {
		return nil, fail(faultInvalidParameter, "The message attribute '%s' must contain non-empty message attribute type.", a.name)
	}
	base, _, _ := strings.Cut(a.dataType.view(), ".")
	if base != "String" && base != "Number" && base != "Binary" {
		return nil, fail(faultInvalidParameter, "The message attribute '%s' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.", a.name)
	}
	if len(a.dataType) > attributeTypeMax || !validText(a.dataType) {
		return nil, fail(faultInvalidParameter, "Message (user) attribute types must be shorter than 256 Bytes")
	}
	value, other := a.str, a.binary
	if base == "Binary" {
		value, other = a.binary, a.str
	}
	switch {
	case len(value) == 0:
		return nil, fail(faultInvalidParameter, "Message (user) attribute '%s' must contain a non-empty value of type '%s'.", a.name, a.dataType)
	case len(other) > 0:
		return nil, fail(faultInvalidParameter, "Message (user) attribute '%s' has a value that is not of its type '%s'.", a.name, a.dataType)
	case base == "Binary":
		return c.decodeBinary(a)
	case !validText(value):
		return nil, fail(faultInvalidParameter, textCharacter)
	case base == "Number" && !validNumber(value):
		return nil, fail(faultInvalidParameter, "Can't cast the value of message (user) attribute '%s' to a number.", a.name)
	}
	return value, nil
}

func (c *call) decodeBinary(a *attribute) ([]byte, error) {
	room := c.arena.room(base64.StdEncoding.DecodedLen(len(a.binary)))
	value, err := base64.StdEncoding.AppendDecode(room, a.binary)
	if err != nil && c.answer.query() {
		return nil, fail(faultInvalidParameter, "The value of message (user) attribute '%s' is not valid base64.", a.name)
	}
	if err != nil {
		return nil, fail(faultMalformed, "The value of message attribute '%s' is not valid base64.", a.name)
	}
	return c.arena.commit(value), nil
}

// validNumber tells whether b is a decimal number within the bounds of SQS: 38
// digits, from 10 to the -128th to 10 to the 126th.
func validNumber(b []byte) bool {
	mantissa, exponentText, hasExponent := b, []byte(nil), false
	if i := bytes.IndexAny(b, "eE"); i >= 0 {
		mantissa, exponentText, hasExponent = b[:i], b[i+1:], true
	}
	exponent := 0
	if hasExponent {
		var err error
		if exponent, err = strconv.Atoi(string(exponentText)); err != nil {
			return false
		}
	}
	if len(mantissa) > 0 && (mantissa[0] == '-' || mantissa[0] == '+') {
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	leading, significant := 0, 0 // zeros before the first other digit; digits from there on
	for _, part := range [2][]byte{whole, fraction} {
		for _, c := range part {
			switch {
			case c < '0' || c > '9':
				return false
			case significant > 0 || c != '0':
				significant++
			default:
				leading++
			}
		}
	}
	if significant == 0 {
		return leading > 0
	}
	magnitude := exponent + len(whole) - 1 - leading // the power of ten of the first digit
	return significant <= numberDigitsMax && numberExponentMin <= magnitude && magnitude <= numberExponentMax
}
