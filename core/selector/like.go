package selector

import (
	"strings"
	"unicode/utf8"
)

// pattern is a pattern of LIKE: pieces between the % signs.
type pattern struct {
	pieces []piece
}

// piece is what has to stand in a row: text, with any one rune after each part but
// the last.
type piece struct {
	parts []string
}

// newPattern reads a pattern; escape is -1 for none. It fails if nothing follows
// the last escape.
func newPattern(text string, escape rune) (pattern, bool) {
	var p pattern
	var one piece
	var part strings.Builder
	end := func() {
		one.parts = append(one.parts, part.String())
		part.Reset()
	}
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			part.WriteRune(r)
			escaped = false
		case r == escape:
			escaped = true
		case r == '_':
			end()
		case r == '%':
			end()
			p.pieces = append(p.pieces, one)
			one = piece{}
		default:
			part.WriteRune(r)
		}
	}
	end()
	p.pieces = append(p.pieces, one)
	return p, !escaped
}

// match tells whether s fits. A piece is looked for from the left, and once found
// never again: the work is at most the length of s times that of the pattern.
func (p *pattern) match(s string) bool {
	last := len(p.pieces) - 1
	n, ok := p.pieces[0].prefix(s)
	if !ok {
		return false
	}
	if last == 0 {
		return n == len(s)
	}
	s = s[n:]
	for i := range p.pieces[1:last] {
		if s, ok = p.pieces[1+i].after(s); !ok {
			return false
		}
	}
	return p.pieces[last].suffix(s)
}

// prefix tells how much of s the piece takes from its front.
func (p *piece) prefix(s string) (int, bool) {
	n := 0
	for i, part := range p.parts {
		if i > 0 {
			_, size := utf8.DecodeRuneInString(s[n:])
			if size == 0 {
				return 0, false
			}
			n += size
		}
		if !strings.HasPrefix(s[n:], part) {
			return 0, false
		}
		n += len(part)
	}
	return n, true
}

// after returns what follows the first place of s at which the piece fits.
func (p *piece) after(s string) (string, bool) {
	for {
		// The first part is found by what is made for that.
		i := strings.Index(s, p.parts[0])
		if i < 0 {
			return "", false
		}
		s = s[i:]
		if n, ok := p.prefix(s); ok {
			return s[n:], true
		}
		_, size := utf8.DecodeRuneInString(s)
		if size == 0 {
			return "", false
		}
		s = s[size:]
	}
}

// suffix tells whether the piece fits at the end of s.
func (p *piece) suffix(s string) bool {
	for i := len(p.parts) - 1; ; i-- {
		rest, ok := strings.CutSuffix(s, p.parts[i])
		if !ok {
			return false
		}
		if i == 0 {
			return true
		}
		_, size := utf8.DecodeLastRuneInString(rest)
		if size == 0 {
			return false
		}
		s = rest[:len(rest)-size]
	}
}
