package selector

import (
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// kind is the type of a value.
type kind uint8

const (
	kindUnknown kind = iota
	kindBool
	kindInt
	kindFloat
	kindString
)

// Value is a header or property of a message. The zero Value is unknown, as one
// that is not there.
type Value struct {
	kind kind
	bits uint64 // of a boolean, an integer or a float
	text string
}

// String returns a string.
func String(s string) Value { return Value{kind: kindString, text: s} }

// Bytes returns a string that is a view of b: b must not change while it is used.
func Bytes(b []byte) Value { return String(unsafe.String(unsafe.SliceData(b), len(b))) }

// Int returns an integer.
func Int(n int64) Value { return Value{kind: kindInt, bits: uint64(n)} }

// Float returns a number with a fraction.
func Float(f float64) Value { return Value{kind: kindFloat, bits: math.Float64bits(f)} }

// Bool returns a boolean.
func Bool(b bool) Value {
	if b {
		return Value{kind: kindBool, bits: 1}
	}
	return Value{kind: kindBool}
}

// Number returns the number that b spells in decimal, unknown if it spells none.
func Number(b []byte) Value {
	v, _ := parseNumber(Bytes(b).text)
	return v
}

// Text returns the text of a string.
func (v Value) Text() (string, bool) { return v.text, v.kind == kindString }

func (v Value) unknown() bool  { return v.kind == kindUnknown }
func (v Value) isTrue() bool   { return v.kind == kindBool && v.bits == 1 }
func (v Value) isFalse() bool  { return v.kind == kindBool && v.bits == 0 }
func (v Value) isNumber() bool { return v.kind == kindInt || v.kind == kindFloat }

func (v Value) float() float64 {
	if v.kind == kindInt {
		return float64(int64(v.bits))
	}
	return math.Float64frombits(v.bits)
}

// number reads v as a number.
func (v Value) number() (Value, bool) {
	if v.kind == kindString {
		return parseNumber(v.text)
	}
	return v, v.isNumber()
}

// boolean reads v as a boolean.
func (v Value) boolean() (Value, bool) {
	switch {
	case v.kind == kindBool:
		return v, true
	case v.kind != kindString:
	case strings.EqualFold(v.text, "true"):
		return Bool(true), true
	case strings.EqualFold(v.text, "false"):
		return Bool(false), true
	}
	return Value{}, false
}

// numberBytesMax bounds what is taken for a number.
const numberBytesMax = 64

// parseNumber reads a number in decimal. What strconv takes besides, such as
// "inf" and "0x1p-2", is none.
func parseNumber(s string) (Value, bool) {
	if len(s) == 0 || len(s) > numberBytesMax {
		return Value{}, false
	}
	digits, whole := false, true
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits = true
		case c == '.' || c == 'e' || c == 'E':
			whole = false
		case c != '+' && c != '-':
			return Value{}, false
		}
	}
	if !digits {
		return Value{}, false
	}
	if whole {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return Int(n), true
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return Value{}, false
	}
	return Float(f), true
}
