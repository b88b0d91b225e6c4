package selector

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// FuzzParse looks for texts that make the parser or a match panic, or take long,
// and for conditions that hold together with their opposite.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "a = 1", "a > 5 AND b LIKE '%x_y%' ESCAPE '!' OR NOT (c IN ('x', -1) AND d IS NOT NULL)", "-9223372036854775808 / a = 0x1F",
		"a BETWEEN 1 AND 2.5e3 AND \"x-y\" <> 'it''s'", "hyphenated_props:a-b = .5f", "((((a", "NOT NOT a", "a LIKE '%a%a%a%a'", "1 / 0 = a",
	} {
		f.Add(s, "7", "aaaa")
	}
	f.Fuzz(func(t *testing.T, text, a, b string) {
		began := time.Now()
		s, err := Parse(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), ErrSyntax.Error()) {
				t.Errorf("%q: error %v", text, err)
			}
			return
		}
		get := func(name string) (Value, bool) {
			switch name {
			case "a":
				return String(a), true
			case "b":
				return String(b), true
			case "c":
				return Int(int64(len(a))), true
			}
			return Value{}, false
		}
		matched := s.Match(get)
		if not := (&Selector{root: &node{op: opNot, a: rootOf(s)}}); s != nil && matched && not.Match(get) {
			t.Errorf("%q holds and does not", text)
		}
		if name, value, ok := s.Equality(); ok && matched {
			if v, _ := get(name); v != String(value) {
				t.Errorf("%q selects a message of which %s is not %q", text, name, value)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%q took %v", text, took)
		}
	})
}

func rootOf(s *Selector) *node {
	if s == nil {
		return &node{value: Bool(true)}
	}
	return s.root
}

// FuzzLike compares LIKE with a regular expression.
func FuzzLike(f *testing.F) {
	f.Add("a%b_c", "aXXbYc")
	f.Add("%!%%", "100%")
	f.Add("_%_", "äö")
	f.Fuzz(func(t *testing.T, text, s string) {
		text, s = strings.ToValidUTF8(text, ""), strings.ToValidUTF8(s, "")
		if len(text) > patternBytesMax {
			return
		}
		p, ok := newPattern(text, '!')
		if !ok {
			return
		}
		var re strings.Builder
		escaped := false
		for _, r := range text {
			switch {
			case escaped:
				re.WriteString(regexp.QuoteMeta(string(r)))
				escaped = false
			case r == '!':
				escaped = true
			case r == '%':
				re.WriteString("(?s:.*)")
			case r == '_':
				re.WriteString("(?s:.)")
			default:
				re.WriteString(regexp.QuoteMeta(string(r)))
			}
		}
		want, err := regexp.MatchString(`\A(?:`+re.String()+`)\z`, s)
		if err != nil {
			return
		}
		if got := p.match(s); got != want {
			t.Errorf("%q LIKE %q is %v", s, text, got)
		}
	})
}
