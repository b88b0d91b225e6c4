package selector

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of a selector.
const (
	TextBytesMax    = 8 << 10 // bytes of a selector
	depthMax        = 64      // parentheses, NOTs and signs within each other
	patternBytesMax = 512     // bytes of a pattern of LIKE
)

// ErrSyntax is what every error of Parse wraps.
var ErrSyntax = errors.New("invalid selector")

// Selector is a parsed selector. A nil Selector selects all messages.
type Selector struct {
	text string
	root *node
}

// Prefixes that ActiveMQ takes before a selector.
const (
	prefixConvert    = "convert_string_expressions:"
	prefixHyphenated = "hyphenated_props:"
)

// Parse reads a selector. Of a blank one it returns nil, which selects all. Its
// errors wrap ErrSyntax and tell the position, in bytes from 1.
func Parse(text string) (*Selector, error) {
	if len(text) > TextBytesMax {
		return nil, fmt.Errorf("%w: %d bytes, over %d", ErrSyntax, len(text), TextBytesMax)
	}
	p := parser{lexer: lexer{text: text}}
	p.skipPrefixes()
	if strings.Trim(text[p.at:], blanks) == "" {
		return nil, nil
	}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	return &Selector{text: text, root: root}, nil
}

func (p *parser) skipPrefixes() {
	for {
		rest := p.text[p.at:]
		trimmed := strings.TrimLeft(rest, blanks)
		switch {
		case strings.HasPrefix(trimmed, prefixConvert):
			p.at += len(rest) - len(trimmed) + len(prefixConvert)
		case strings.HasPrefix(trimmed, prefixHyphenated):
			p.at += len(rest) - len(trimmed) + len(prefixHyphenated)
			p.hyphens = true
		default:
			return
		}
	}
}

// Text returns what was parsed.
func (s *Selector) Text() string {
	if s == nil {
		return ""
	}
	return s.text
}

// Equality returns a name and a text that the value of that name must be in every
// message that is selected, so that selectors can be looked up by it. ok is false
// if the selector does not demand such a thing.
func (s *Selector) Equality() (name, text string, ok bool) {
	if s == nil {
		return "", "", false
	}
	return s.root.equality()
}

func (n *node) equality() (name, text string, ok bool) {
	switch n.op {
	case opAnd:
		if name, text, ok = n.a.equality(); ok {
			return name, text, true
		}
		return n.b.equality()
	case opEqual:
		a, b := n.a, n.b
		if b.op == opName {
			a, b = b, a
		}
		if a.op != opName || b.op != opLiteral || b.value.kind != kindString {
			return "", "", false
		}
		if _, isNumber := parseNumber(b.value.text); !isNumber { // which numbers may equal
			return a.name, b.value.text, true
		}
	}
	return "", "", false
}

// Match tells whether a message is selected. get returns a header or property of
// it by name, false for one that is not there; it must answer the same for the
// same message.
func (s *Selector) Match(get func(name string) (Value, bool)) bool {
	return s == nil || condition(s.root.eval(get)).isTrue()
}
