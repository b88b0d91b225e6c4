package sqs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonDepthMax bounds the nesting of a request. The deepest member that an
// action has is at 6.
const jsonDepthMax = 64

// scanner reads JSON. Its strings are views of b where they hold no escape,
// else of the arena.
type scanner struct {
	b     []byte
	i     int
	depth int
	arena *arena
}

// errSyntax is what every error of the scanner wraps.
var errSyntax = errors.New("malformed JSON")

func (s *scanner) fail(what string) error {
	return fmt.Errorf("%w: %s (at byte %d)", errSyntax, what, s.i)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// object reads an object, or null, and calls member before each value.
func (s *scanner) object(member func(key text) error) error {
	if s.peek() != '{' {
		return s.null("an object")
	}
	return s.list('}', func() error {
		if s.peek() != '"' {
			return s.fail("a member name is missing")
		}
		key, err := s.quoted()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.fail("a colon is missing")
		}
		s.i++
		return member(key)
	})
}

// array reads an array, or null, and calls element before each value.
func (s *scanner) array(element func() error) error {
	if s.peek() != '[' {
		return s.null("an array")
	}
	return s.list(']', element)
}

// list reads what stands between the bracket at i and end.
func (s *scanner) list(end byte, item func() error) error {
	if s.depth == jsonDepthMax {
		return s.fail("the nesting is too deep")
	}
	s.depth++
	s.i++
	if s.peek() == end {
		s.i++
		s.depth--
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case end:
			s.i++
			s.depth--
			return nil
		default:
			return s.fail("a comma or a closing bracket is missing")
		}
	}
}

// str reads a string, or null, which makes a nil text.
func (s *scanner) str() (text, error) {
	if s.peek() != '"' {
		return nil, s.null("a string")
	}
	return s.quoted()
}

// quoted reads the string at i.
func (s *scanner) quoted() (text, error) {
	start := s.i + 1
	n, ascii := plain(s.b[start:])
	end := start + n
	if end == len(s.b) {
		s.i = end
		return nil, s.fail("a string does not end")
	}
	if s.b[end] == '\\' {
		return s.escaped(start)
	}
	s.i = end
	if s.b[end] != '"' {
		return nil, s.fail("a string holds a control sign")
	}
	t := text(s.b[start:end:end])
	if !ascii && !utf8.Valid(t) {
		return nil, s.fail("a string is not UTF-8")
	}
	s.i++
	return t, nil
}

// escaped reads a string with escapes, which begins at start. No escape is
// shorter than what it stands for.
func (s *scanner) escaped(start int) (text, error) {
	dst := s.arena.room(stringEnd(s.b[start:]))
	for i := start; ; {
		n, _ := plain(s.b[i:])
		dst = append(dst, s.b[i:i+n]...)
		i += n
		s.i = i
		switch {
		case i == len(s.b):
			return nil, s.fail("a string does not end")
		case s.b[i] == '"':
			if !utf8.Valid(dst) {
				return nil, s.fail("a string is not UTF-8")
			}
			s.i++
			return s.arena.commit(dst), nil
		case s.b[i] != '\\':
			return nil, s.fail("a string holds a control sign")
		}
		var used int
		if dst, used = appendUnescaped(dst, s.b[i:]); used == 0 {
			return nil, s.fail("an escape is not valid")
		}
		i += used
	}
}

// stringEnd returns where the string that b starts inside of ends.
func stringEnd(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(b)
}

// appendUnescaped appends what the escape that b starts with stands for, and
// returns its length in b, 0 if it is not valid.
func appendUnescaped(dst, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return dst, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return append(dst, c), 2
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'u':
		r, ok := hex4(b[2:])
		if !ok {
			return dst, 0
		}
		if !utf16.IsSurrogate(r) {
			return utf8.AppendRune(dst, r), 6
		}
		if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
			return dst, 0
		}
		low, ok := hex4(b[8:])
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return dst, 0
		}
		return utf8.AppendRune(dst, r), 12
	}
	return dst, 0
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var d [2]byte
	_, err := hex.Decode(d[:], b[:4])
	return rune(d[0])<<8 | rune(d[1]), err == nil
}

// integer reads a number without a fraction or an exponent, or null.
func (s *scanner) integer() (integer, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return integer{}, s.null("a number")
	}
	start := s.i
	whole, err := s.number()
	if err != nil {
		return integer{}, err
	}
	if !whole {
		return integer{}, s.fail("a number is not whole")
	}
	i, _ := parseInteger(text(s.b[start:s.i:s.i]))
	return i, nil
}

// parseInteger reads t and keeps to the ends of the range for what is beyond.
func parseInteger(t text) (integer, bool) {
	n, err := strconv.ParseInt(t.view(), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return integer{n: math.MinInt64, sent: t}, false
	}
	return integer{n: n, sent: t}, true
}

// number moves over the number at i and tells whether it is a plain integer.
func (s *scanner) number() (whole bool, err error) {
	if s.b[s.i] == '-' {
		s.i++
	}
	first := s.i
	if !s.digits() || s.b[first] == '0' && s.i > first+1 {
		return false, s.fail("a number is not valid")
	}
	whole = true
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if whole = false; !s.digits() {
			return false, s.fail("a number is not valid")
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if whole = false; !s.digits() {
			return false, s.fail("a number is not valid")
		}
	}
	return whole, nil
}

// digits moves over digits and tells whether there was one.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

// null reads null where want was expected.
func (s *scanner) null(want string) error {
	if !s.literal("null") {
		return s.fail("expected " + want)
	}
	return nil
}

func (s *scanner) literal(word string) bool {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

// skip reads any value.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(func(text) error { return s.skip() })
	case c == '[':
		return s.array(s.skip)
	case c == '"':
		_, err := s.quoted()
		return err
	case c == '-' || '0' <= c && c <= '9':
		_, err := s.number()
		return err
	case s.literal("null") || s.literal("true") || s.literal("false"):
		return nil
	}
	return s.fail("a value is missing")
}
