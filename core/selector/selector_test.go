package selector_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/leasemq/broker/core/selector"
)

// headers are those of the message that the tables match against.
func headers() map[string]selector.Value {
	return map[string]selector.Value{
		"i": selector.Int(7), "zero": selector.Int(0), "neg": selector.Int(-3), "f": selector.Float(2.5),
		"most": selector.Int(1<<63 - 1), "s": selector.String("blue"), "empty": selector.String(""),
		"n7": selector.String("7"), "n75": selector.String("7.50"), "nbad": selector.String("7 up"), "inf": selector.String("inf"),
		"yes": selector.Bool(true), "no": selector.Bool(false), "syes": selector.String("True"), "sno": selector.String("false"),
		"quote": selector.String("it's"), "content-type": selector.String("text/plain"), "a-b": selector.Int(1),
		"JMSPriority": selector.Int(4), "JMSType": selector.String("order"), "größe": selector.Int(3), "$_1": selector.Int(1),
		"phone": selector.String("12993"), "word": selector.String("lose"), "under": selector.String("_foo"), "percent": selector.String("100%"),
		"long": selector.String(strings.Repeat("ab", 2000)), "umlaut": selector.String("aäb"),
	}
}

func get(h map[string]selector.Value) func(string) (selector.Value, bool) {
	return func(name string) (selector.Value, bool) {
		v, ok := h[name]
		return v, ok
	}
}

// value tells what a condition comes to: true, false or unknown.
func value(t *testing.T, text string) string {
	t.Helper()
	match := func(text string) bool {
		s, err := selector.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return s.Match(get(headers()))
	}
	yes, no := match(text), match("NOT ("+text+")")
	switch {
	case yes && no:
		t.Errorf("%s is true and false", text)
	case yes:
		return "true"
	case no:
		return "false"
	}
	return "unknown"
}

func TestLogicHasThreeValues(t *testing.T) {
	of := map[string]string{"t": "i = 7", "f": "i = 8", "u": "missing = 7"}
	for table, want := range map[string]string{
		"t AND t": "t", "t AND f": "f", "t AND u": "u", "f AND t": "f", "f AND f": "f", "f AND u": "f", "u AND t": "u", "u AND f": "f", "u AND u": "u",
		"t OR t": "t", "t OR f": "t", "t OR u": "t", "f OR t": "t", "f OR f": "f", "f OR u": "u", "u OR t": "t", "u OR f": "u", "u OR u": "u",
		"NOT t": "f", "NOT f": "t", "NOT u": "u", "NOT NOT t": "t", "NOT t OR t": "t", "NOT (t OR t)": "f",
		"t OR t AND f": "t", "(t OR t) AND f": "f", "f AND t OR t": "t", "f AND (t OR t)": "f", "NOT f AND f": "f", "u OR u AND f": "u",
	} {
		words := strings.Fields(strings.NewReplacer("(", "( ", ")", " )").Replace(table))
		for i, w := range words {
			if c, ok := of[w]; ok {
				words[i] = c
			}
		}
		if got := value(t, strings.Join(words, " ")); got[:1] != want {
			t.Errorf("%s is %s, want %s", table, got, want)
		}
	}
}

// TestValues is one line a case: what it comes to, and the condition.
func TestValues(t *testing.T) {
	table, err := os.ReadFile("testdata/values.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		want, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || want == "#" {
			continue
		}
		if strings.Contains(text, "_props:") || strings.Contains(text, "_expressions:") {
			// A prefix stands at the front only.
			s, err := selector.Parse(text)
			if err != nil || s.Match(get(headers())) != (want == "true") {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		if got := value(t, text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestBlankSelectsAll(t *testing.T) {
	for _, text := range []string{"", "  \t\n", "convert_string_expressions:", " hyphenated_props: "} {
		s, err := selector.Parse(text)
		if err != nil || s != nil || !s.Match(get(nil)) || s.Text() != "" {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	s, err := selector.Parse(" a = 1 ")
	if err != nil || s.Text() != " a = 1 " {
		t.Errorf("%v, %v", s, err)
	}
}

func TestErrorsTellThePosition(t *testing.T) {
	for text, want := range map[string]string{
		"a =":                         "position 4: the end, where a name, a literal or a parenthesis is expected",
		"a = 1 b = 2":                 "position 7: \"b\", where the end is expected",
		"a = 1 AND":                   "position 10: the end",
		"(a = 1":                      "position 7: the end, where ) is expected",
		"a = 1)":                      "position 6: \")\"",
		"a ! 1":                       "position 3: unexpected '!'",
		"a = 'x":                      "position 5: the quote is not closed",
		"\"a = 1":                     "position 1: the quote is not closed",
		"\"\" = 1":                    "position 1: an empty name",
		"a = 7abc":                    "position 5: 'a' does not end a number",
		"a = 1.2.3":                   "position 5: '.' does not end a number",
		"a = 09":                      "position 5: 09 is no integer of 64 bits",
		"a = 0x":                      "position 5: 0x is no integer of 64 bits",
		"a = 9223372036854775808":     "position 5: no integer of 64 bits",
		"a = 18446744073709551615":    "position 5: 18446744073709551615 is no integer",
		"a IN (9223372036854775808)":  "position 7: no integer of 64 bits",
		"a = 1e999":                   "position 5: 1e999 is no number",
		"a > 'x'":                     "position 5: a number is expected",
		"a > TRUE":                    "position 5: a number is expected",
		"'x' < a":                     "position 1: a number is expected",
		"a + 'x' = 1":                 "position 5: a number is expected",
		"'x' + a = 1":                 "position 1: a number is expected",
		"-'x' = 1":                    "position 2: a number is expected",
		"(a = 1) + 1 = 2":             "position 1: a number is expected",
		"a + 1":                       "position 1: a value, where a condition is expected",
		"'x'":                         "position 1: a value",
		"a AND 5":                     "position 7: a value",
		"5 OR a":                      "position 1: a value",
		"NOT 5":                       "position 5: a value",
		"a BETWEEN 1":                 "position 12: the end, where AND is expected",
		"a BETWEEN 1 OR 2":            "position 13: \"OR\", where AND is expected",
		"a BETWEEN 'x' AND 2":         "position 11: a number is expected",
		"'x' BETWEEN 1 AND 2":         "position 1: a number is expected",
		"a IN ()":                     "position 7: \")\", where a literal is expected",
		"a IN ('x'":                   "position 10: the end, where ) is expected",
		"a IN ('x',)":                 "position 11: \")\", where a literal is expected",
		"a IN (b)":                    "position 7: \"b\", where a literal is expected",
		"a IN 'x'":                    "position 6: a literal, where ( is expected",
		"1 IN (1)":                    "position 1: a name is expected",
		"a LIKE 5":                    "position 8: a literal, where a pattern in quotes is expected",
		"a LIKE b":                    "position 8: \"b\", where a pattern in quotes is expected",
		"'x' LIKE 'x'":                "position 1: a name is expected",
		"a LIKE 'x' ESCAPE 'ab'":      "position 19: one sign in quotes is expected",
		"a LIKE 'x' ESCAPE ''":        "position 19: one sign in quotes is expected",
		"a LIKE 'x!' ESCAPE '!'":      "position 8: nothing follows the escape",
		"a IS 5":                      "position 6: a literal, where NULL is expected",
		"5 IS NULL":                   "position 1: a name is expected",
		"a NOT = 5":                   "position 7: \"=\", where BETWEEN, IN or LIKE is expected",
		"a = b = c":                   "position 7: \"=\", where AND, OR or the end is expected",
		"NULL = a":                    "position 1: \"NULL\", where a name",
		"a = NULL":                    "position 5: \"NULL\", where a name",
		"a # 5":                       "position 3: unexpected '#'",
		"a = \xff":                    "position 5: not UTF-8",
		"a = '\xff'":                  "position 5: not UTF-8",
		"größe #":                     "position 9: unexpected '#'",
		"JMSDestination = 'x'":        "position 1: JMSDestination cannot be used in a selector",
		"a = 1 AND JMSRedelivered":    "position 11: JMSRedelivered cannot be used",
		"JMSXDeliveryCount > 2":       "position 1: JMSXDeliveryCount cannot be used",
		"content-type = 'x' #":        "position 20: unexpected '#'",
		"hyphenated_props:a-b = #":    "position 24: unexpected '#'",
		strings.Repeat("(", 65) + "a": "position 65: nested deeper than 64",
		strings.Repeat("NOT ", 65):    "position 261: nested deeper than 64",
		strings.Repeat("- ", 65):      "position 129: nested deeper than 64",
		strings.Repeat(" ", 8<<10+1):  "8193 bytes, over 8192",
		"a LIKE '" + strings.Repeat("x", 513) + "'": "position 8: a pattern of 513 bytes, over 512",
	} {
		_, err := selector.Parse(text)
		if !errors.Is(err, selector.ErrSyntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

func TestLongChainsAreRead(t *testing.T) {
	text := "i = 7" + strings.Repeat(" AND i=7", 1000)
	if got := value(t, text); got != "true" {
		t.Errorf("a chain of a thousand is %s", got)
	}
	if got := value(t, "0"+strings.Repeat("+1", 3000)+"=3000"); got != "true" {
		t.Errorf("a sum of three thousand is %s", got)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	h := headers()
	g := get(h)
	for _, text := range benchmarks() {
		s, err := selector.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { s.Match(g) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

func benchmarks() []string {
	return []string{
		"s = 'blue'",
		"n7 > 5 AND s IN ('red', 'green', 'blue')",
		"phone LIKE '12%3' AND NOT (i BETWEEN 8 AND 10) AND missing IS NULL",
	}
}

func TestEquality(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"color = 'red'":                      "color=red",
		"'red' = color":                      "color=red",
		"size > 5 AND (color = 'red')":       "color=red",
		"color = 'red' AND shape = 'round'":  "color=red",
		"a = 1 AND b = '2' AND c = '' AND d": "c=",
		"color = '1e3'":                      "", // a number equals it
		"color = 'true'":                     "color=true",
		"color = 'red' OR size > 5":          "",
		"NOT color = 'red'":                  "",
		"color <> 'red'":                     "",
		"'red' = 'red'":                      "",
		"color = shape":                      "",
		"color IN ('red')":                   "",
	} {
		s, err := selector.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		name, value, ok := s.Equality()
		if got := name + "=" + value; ok && got != want || ok != (want != "") {
			t.Errorf("%q demands %q, %t, want %q", text, got, ok, want)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	g := get(headers())
	for i, text := range benchmarks() {
		s, err := selector.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !s.Match(g) {
					b.Fatal("no match")
				}
			}
		})
	}
}
