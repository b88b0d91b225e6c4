package hocon

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is what a value is.
type Kind uint8

// The kinds. Numbers and booleans are Text: what they are is for the reader to
// say.
const (
	Null Kind = iota
	Text
	Array
	Object
)

// String names the kind as an error does.
func (k Kind) String() string {
	return [...]string{"null", "a value", "a list", "an object"}[k]
}

// Pos is a place in a text. Lines and columns count from 1; columns are bytes.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String returns the place as file:line:column.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Error is what is wrong, and where.
type Error struct {
	Pos     Pos
	Message string
}

// Error returns the place and the message.
func (e *Error) Error() string { return e.Pos.String() + ": " + e.Message }

// Value is a value with its place. The methods of a nil Value are those of an
// absent one: it is null, without keys.
type Value struct {
	kind   Kind
	pos    Pos
	text   string
	keys   []string // of an object, in the order of the file
	fields map[string]*Value
	items  []*Value
	size   int // of the tree below, itself included
}

// Kind tells what v is.
func (v *Value) Kind() Kind {
	if v == nil {
		return Null
	}
	return v.kind
}

// Pos tells where v was written.
func (v *Value) Pos() Pos { return v.pos }

// Text returns the text of a Text, "" of others.
func (v *Value) Text() string {
	if v == nil {
		return ""
	}
	return v.text
}

// Keys lists the keys of an object in the order of the file.
func (v *Value) Keys() []string {
	if v == nil {
		return nil
	}
	return v.keys
}

// Get returns the value of a key of an object; nil if there is none.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	return v.fields[key]
}

// Items lists the items of an array.
func (v *Value) Items() []*Value {
	if v == nil {
		return nil
	}
	return v.items
}

// fail returns an error at v.
func (v *Value) fail(format string, args ...any) error {
	return &Error{Pos: v.pos, Message: fmt.Sprintf(format, args...)}
}

// Bool reads true, yes, on, false, no and off.
func (v *Value) Bool() (bool, error) {
	if v.kind == Text {
		switch v.text {
		case "true", "yes", "on":
			return true, nil
		case "false", "no", "off":
			return false, nil
		}
	}
	return false, v.fail("%s is not true or false", v.quoted())
}

// Int reads a whole number.
func (v *Value) Int() (int64, error) {
	if v.kind == Text {
		if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
			return n, nil
		}
		// 3.0 is a whole number too. Beyond 2^53 not every one has a float.
		if f, err := strconv.ParseFloat(v.text, 64); err == nil && f == float64(int64(f)) && f > -1<<53 && f < 1<<53 {
			return int64(f), nil
		}
	}
	return 0, v.fail("%s is not a whole number", v.quoted())
}

// Duration reads a number with a unit, such as 10 seconds, 5s or 300 millis. A
// number alone is of milliseconds.
func (v *Value) Duration() (time.Duration, error) {
	if v.kind == Text {
		number, unit := splitUnit(v.text)
		if f, err := strconv.ParseFloat(number, 64); err == nil {
			if of, ok := durationUnit(unit); ok && f*float64(of) > -1<<63 && f*float64(of) < 1<<63 {
				return time.Duration(f * float64(of)), nil
			}
		}
	}
	return 0, v.fail("%s is not a duration such as 10 seconds", v.quoted())
}

func durationUnit(unit string) (time.Duration, bool) {
	switch unit {
	case "ns", "nano", "nanos", "nanosecond", "nanoseconds":
		return time.Nanosecond, true
	case "us", "micro", "micros", "microsecond", "microseconds":
		return time.Microsecond, true
	case "", "ms", "milli", "millis", "millisecond", "milliseconds":
		return time.Millisecond, true
	case "s", "second", "seconds":
		return time.Second, true
	case "m", "minute", "minutes":
		return time.Minute, true
	case "h", "hour", "hours":
		return time.Hour, true
	case "d", "day", "days":
		return 24 * time.Hour, true
	}
	return 0, false
}

// Bytes reads a size, such as 256K, 1 MiB or 10 kB. A number alone is of bytes;
// a single letter is a power of two.
func (v *Value) Bytes() (int64, error) {
	if v.kind == Text {
		number, unit := splitUnit(v.text)
		if f, err := strconv.ParseFloat(number, 64); err == nil && f >= 0 {
			if of, ok := sizeUnit(unit); ok && f*float64(of) < 1<<63 {
				return int64(f * float64(of)), nil
			}
		}
	}
	return 0, v.fail("%s is not a size such as 256K", v.quoted())
}

func sizeUnit(unit string) (int64, bool) {
	switch unit {
	case "", "B", "b", "byte", "bytes":
		return 1, true
	case "kB", "kilobyte", "kilobytes":
		return 1e3, true
	case "MB", "megabyte", "megabytes":
		return 1e6, true
	case "GB", "gigabyte", "gigabytes":
		return 1e9, true
	case "TB", "terabyte", "terabytes":
		return 1e12, true
	case "K", "k", "Ki", "KiB", "kibibyte", "kibibytes":
		return 1 << 10, true
	case "M", "m", "Mi", "MiB", "mebibyte", "mebibytes":
		return 1 << 20, true
	case "G", "g", "Gi", "GiB", "gibibyte", "gibibytes":
		return 1 << 30, true
	case "T", "t", "Ti", "TiB", "tebibyte", "tebibytes":
		return 1 << 40, true
	}
	return 0, false
}

// splitUnit splits "10 seconds" or "5s".
func splitUnit(s string) (number, unit string) {
	s = strings.TrimSpace(s)
	end := strings.LastIndexAny(s, "0123456789.") + 1
	return s[:end], strings.TrimSpace(s[end:])
}

// quoted shows v in an error.
func (v *Value) quoted() string {
	if v.kind != Text {
		return v.kind.String()
	}
	const most = 60
	if len(v.text) > most {
		return strconv.Quote(v.text[:most]) + "..."
	}
	return strconv.Quote(v.text)
}
