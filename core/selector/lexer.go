package selector

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// blanks are what may stand between tokens.
const blanks = " \t\n\f\r"

// tokenKind says what a token is. Signs and words have their own spelling.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenSign
	tokenWord // one of the reserved words, in capitals
	tokenName
	tokenString
	tokenNumber
)

type token struct {
	kind  tokenKind
	at    int    // where it begins
	text  string // sign, word, name, or the string itself
	value Value  // of a number
	least bool   // the number is 1<<63: with a minus before it, the least integer
}

// lexer splits a selector into tokens.
type lexer struct {
	text    string
	at      int
	hyphens bool // names may hold hyphens
}

// syntaxError reports what is wrong at a position of the text.
func syntaxError(at int, format string, args ...any) error {
	return fmt.Errorf("%w: position %d: %s", ErrSyntax, at+1, fmt.Sprintf(format, args...))
}

// reserved tells whether a word in capitals cannot be a name.
func reserved(word string) bool {
	switch word {
	case "AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE":
		return true
	}
	return false
}

// next returns the next token.
func (l *lexer) next() (token, error) {
	rest := strings.TrimLeft(l.text[l.at:], blanks)
	l.at = len(l.text) - len(rest)
	t := token{at: l.at}
	if rest == "" {
		return t, nil
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case r == utf8.RuneError && size == 1:
		return t, syntaxError(l.at, "not UTF-8")
	case r == '\'':
		return l.quoted(t, tokenString, '\'')
	case r == '"':
		return l.quoted(t, tokenName, '"')
	case r >= '0' && r <= '9', r == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		return l.number(t)
	case startsName(r):
		return l.word(t), nil
	}
	for _, sign := range [...]string{"<>", "<=", ">=", "<", ">", "=", "(", ")", ",", "+", "-", "*", "/"} {
		if strings.HasPrefix(rest, sign) {
			t.kind, t.text = tokenSign, sign
			l.at += len(sign)
			return t, nil
		}
	}
	return t, syntaxError(l.at, "unexpected %q", r)
}

func startsName(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) }

func (l *lexer) inName(r rune) bool {
	return startsName(r) || unicode.IsDigit(r) || l.hyphens && r == '-'
}

// word reads a name or a reserved word.
func (l *lexer) word(t token) token {
	rest := l.text[l.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return !l.inName(r) })
	if end < 0 {
		end = len(rest)
	}
	t.kind, t.text = tokenName, rest[:end]
	l.at += end
	if upper := strings.ToUpper(t.text); reserved(upper) {
		t.kind, t.text = tokenWord, upper
	}
	return t
}

// quoted reads up to the closing quote; a doubled one stands for itself.
func (l *lexer) quoted(t token, k tokenKind, quote byte) (token, error) {
	var b strings.Builder
	i := l.at + 1
	for {
		n := strings.IndexByte(l.text[i:], quote)
		if n < 0 {
			return t, syntaxError(l.at, "the quote is not closed")
		}
		b.WriteString(l.text[i : i+n])
		i += n + 1
		if i == len(l.text) || l.text[i] != quote {
			break
		}
		b.WriteByte(quote)
		i++
	}
	t.kind, t.text = k, b.String()
	switch {
	case !utf8.ValidString(t.text):
		return t, syntaxError(l.at, "not UTF-8")
	case k == tokenName && t.text == "":
		return t, syntaxError(l.at, "an empty name")
	}
	l.at = i
	return t, nil
}

// number reads a literal as Java writes it.
func (l *lexer) number(t token) (token, error) {
	s := l.text[l.at:]
	t.kind = tokenNumber
	end, whole := numberEnd(s)
	body := s[:end]
	if end < len(s) {
		switch c := s[end] | 0x20; {
		case c == 'l' && whole:
			end++
		case (c == 'f' || c == 'd') && !isHex(body):
			end, whole = end+1, false
		}
	}
	if r, _ := utf8.DecodeRuneInString(s[end:]); end < len(s) && (startsName(r) || unicode.IsDigit(r) || r == '.') {
		return t, syntaxError(t.at, "%q does not end a number", r)
	}
	l.at += end
	if !whole {
		f, err := strconv.ParseFloat(body, 64)
		if err != nil {
			return t, syntaxError(t.at, "%s is no number", body)
		}
		t.value = Float(f)
		return t, nil
	}
	base := 10
	switch {
	case isHex(body):
		base, body = 16, body[2:]
	case len(body) > 1 && body[0] == '0':
		base, body = 8, body[1:]
	}
	n, err := strconv.ParseUint(body, base, 64)
	t.least = n == 1<<63 && base == 10
	if err != nil || n > math.MaxInt64 && !t.least {
		return t, syntaxError(t.at, "%s is no integer of 64 bits", s[:end])
	}
	t.value = Int(int64(n))
	return t, nil
}

func isHex(s string) bool { return len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x' }

// numberEnd returns where the number at the front of s ends, and whether it is an
// integer.
func numberEnd(s string) (end int, whole bool) {
	digits := func(i int, hex bool) int {
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || hex && s[i]|0x20 >= 'a' && s[i]|0x20 <= 'f') {
			i++
		}
		return i
	}
	if isHex(s) {
		return digits(2, true), true
	}
	end, whole = digits(0, false), true
	if end < len(s) && s[end] == '.' {
		end, whole = digits(end+1, false), false
	}
	if end < len(s) && s[end]|0x20 == 'e' {
		i := end + 1
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if to := digits(i, false); to > i {
			end, whole = to, false
		}
	}
	return end, whole
}
