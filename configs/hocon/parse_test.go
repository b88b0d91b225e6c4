package hocon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/configs/hocon"
)

// show writes a value in one line, so that tests can compare it.
func show(v *hocon.Value) string {
	switch v.Kind() {
	case hocon.Object:
		var parts []string
		for _, key := range v.Keys() {
			parts = append(parts, key+":"+show(v.Get(key)))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case hocon.Array:
		var parts []string
		for _, item := range v.Items() {
			parts = append(parts, show(item))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case hocon.Null:
		return "null"
	}
	return fmt.Sprintf("%q", v.Text())
}

// options have two variables and three files.
func options() hocon.Options {
	return hocon.Options{
		Name: "x.conf",
		Env: func(name string) (string, bool) {
			s, ok := map[string]string{"PORT": "9999", "EMPTY": ""}[name]
			return s, ok
		},
		Include: func(inc hocon.Include) ([]byte, string, error) {
			text, ok := map[string]string{
				"more.conf": "more = 1, here = ${more}\n", "bad.conf": "a = 1\nb = :", "self.conf": `include "self.conf"`,
			}[inc.Path]
			switch {
			case inc.Kind == "classpath":
				return nil, "", nil
			case ok:
				return []byte(text), inc.Path, nil
			case inc.Required:
				return nil, "", errors.New("no such file")
			}
			return nil, "", nil
		},
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":                   {"", "{}"},
		"braces":                  {"{ a: 1 }", `{a:"1"}`},
		"separators":              {"a=1, b : 2\nc 3=4,\n\n d{e=5}", `{a:"1" b:"2" c 3:"4" d:{e:"5"}}`},
		"comments":                {"# one\n// two\na = 1 # three\nb = 2 // four\n", `{a:"1" b:"2"}`},
		"carriage returns":        {"a = 1\r\nb {\r\n c = x y\r\n}\r\n", `{a:"1" b:{c:"x y"}}`},
		"byte order mark":         {"\ufeffa = 1", `{a:"1"}`},
		"dotted keys":             {"a.b.c = 1\na.b.d = 2\na { e = 3 }", `{a:{b:{c:"1" d:"2"} e:"3"}}`},
		"quoted keys":             {`"q.fifo" { x = 1 }, a."b.c" = 2, "" = 3`, `{q.fifo:{x:"1"} a:{b.c:"2"} :"3"}`},
		"keys of digits":          {"01-queue { }, -x = 1", `{01-queue:{} -x:"1"}`},
		"unquoted":                {"a = 10 seconds  \nb = 0.0.0.0\nc = a/b\nd = x - y", `{a:"10 seconds" b:"0.0.0.0" c:"a/b" d:"x - y"}`},
		"escapes":                 {`a = "q\"\\\/\n\tü€\ud83d\ude00"`, "{a:\"q\\\"\\\\/\\n\\tü€😀\"}"},
		"quotes keep what is not": {`a = "x # y // z", b = "  "`, `{a:"x # y // z" b:"  "}`},
		"triple quotes":           {"a = \"\"\"one \\n \"two\"\nthree\"\"\"\"\nb = 2", `{a:"one \\n \"two\"\nthree\"" b:"2"}`},
		"joined texts":            {`a = one "two  "three`, `{a:"one two  three"}`},
		"zeros stay":              {"a = 000000000000", `{a:"000000000000"}`},
		"null":                    {`a = null, b = "null", c = null x`, `{a:null b:"null" c:"null x"}`},
		"lists":                   {"a = [1, 2\n3,\n]\nb = [], c = [[1],{x=1}]", `{a:["1" "2" "3"] b:[] c:[["1"] {x:"1"}]}`},
		"value on the next line":  {"a =\n  1\nb\t{\n}", `{a:"1" b:{}}`},
		"later wins":              {"a = 1, a = 2, b = {x=1}, b = 3, c = 4, c = {y=5}", `{a:"2" b:"3" c:{y:"5"}}`},
		"objects are merged":      {"a { x = 1, y { z = 2 } }\na { y { w = 3 }, x = 4 }", `{a:{x:"4" y:{z:"2" w:"3"}}}`},
		"joined objects":          {"a = {x=1} {y=2, x=3}", `{a:{x:"3" y:"2"}}`},
		"joined lists":            {"a = [1] [2]", `{a:["1" "2"]}`},
		"+=":                      {"a += 1\na += 2, b = [0], b += {x=1}, c.d += 1, c.d += 2", `{a:["1" "2"] b:["0" {x:"1"}] c:{d:["1" "2"]}}`},

		"substitution":          {"a = 1, b = ${a}, c = x${a}y ${a}", `{a:"1" b:"1" c:"x1y 1"}`},
		"of what follows":       {"b = ${a.x}, a { x = 1 }", `{b:"1" a:{x:"1"}}`},
		"of the last value":     {"a = 1, b = ${a}, a = 2", `{a:"2" b:"2"}`},
		"of an object":          {"a { x = 1 }, b = ${a} { y = 2 }", `{a:{x:"1"} b:{x:"1" y:"2"}}`},
		"of a list":             {"a = [1], b = ${a} [2]", `{a:["1"] b:["1" "2"]}`},
		"of itself before":      {"a = 1, a = ${a}2, a = ${a}3", `{a:"123"}`},
		"of a field of itself":  {"a { x = 1, y = ${a.x} }", `{a:{x:"1" y:"1"}}`},
		"merged later":          {"a = ${b}, a { y = 2 }, b { x = 1 }", `{a:{x:"1" y:"2"} b:{x:"1"}}`},
		"quoted path":           {`"a.b" = 1, c = ${"a.b"}`, `{a.b:"1" c:"1"}`},
		"absent and optional":   {"a = ${?none}, b = x${?none}, c = 1, c = ${?none}, d = [${?none}, 1]", `{b:"x" c:"1" d:["1"]}`},
		"environment":           {"a = ${PORT}, b = 1, b = ${?PORT}, c = ${?NONE}, d = ${EMPTY}", `{a:"9999" b:"9999" d:""}`},
		"text over environment": {"PORT = 1, a = ${PORT}", `{PORT:"1" a:"1"}`},

		"include":                {"include \"more.conf\"\na = 1", `{more:"1" here:"1" a:"1"}`},
		"include file":           {`include file("more.conf")`, `{more:"1" here:"1"}`},
		"include required":       {`include required(file("more.conf"))`, `{more:"1" here:"1"}`},
		"include nothing":        {"include classpath(\"application.conf\")\ninclude \"none.conf\"\na = 1", `{a:"1"}`},
		"include into an object": {"a { include \"more.conf\" }", `{a:{more:"1" here:"1"}}`},
		"a key called include":   {"include = 1", `{include:"1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := hocon.Parse([]byte(c.text), options())
			if err != nil {
				t.Fatal(err)
			}
			if got := show(v); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	doubled := "a0 = \"0123456789\"\n"
	for i := range 40 {
		doubled += fmt.Sprintf("a%d = ${a%d}${a%d}\n", i+1, i, i)
	}
	lists := strings.NewReplacer("}${", "} ${", `"0123456789"`, "[1, 2]").Replace(doubled)
	chain := "a0 = 1\n"
	for i := range 5000 {
		chain = fmt.Sprintf("a%d = ${a%d}\n", i+1, i) + chain
	}
	for name, c := range map[string]struct{ text, want string }{
		"no value":           {"a =", "x.conf:1:4: the text ends where a value was expected"},
		"no separator":       {"a = 1\n  b", "x.conf:2:4: the text ends where a value after the key was expected"},
		"key alone":          {"a\nb = 1", `x.conf:1:2: '\n' where = or { after a key was expected`},
		"two on a line":      {"a { x = 1 } b = 2", "x.conf:1:15: "},
		"open object":        {"a {\n b = 1", "x.conf:1:4: this object does not end"},
		"open list":          {"a = [1", "x.conf:1:5: this list does not end"},
		"open string":        {"a = \"x\nb = 1", "x.conf:1:5: this string does not end"},
		"open triple":        {`a = """x`, "x.conf:1:5: this string does not end"},
		"open substitution":  {"a = ${b", "x.conf:1:8: "},
		"bad escape":         {`a = "\q"`, "x.conf:1:6: not an escape of JSON"},
		"half a character":   {`a = "\ud83d"`, "x.conf:1:6: half of a character"},
		"star":               {"a {\n  host = *\n}", `x.conf:2:10: '*' must be in quotes`},
		"colon":              {"uri = jdbc:h2:x", "x.conf:1:11: "},
		"two commas":         {"a = 1,,b = 2", "x.conf:1:7: "},
		"empty name":         {"a..b = 1", "x.conf:1:3: '.' where a key was expected"},
		"too many braces":    {"a {}\n}", "x.conf:2:1: '}' where a key was expected"},
		"after the root":     {"{}\nx = 1", "x.conf:2:1: 'x' where the end was expected"},
		"a list":             {"[1]", "x.conf:1:1: a list"},
		"mixed":              {"a = 1 {x=1}", "x.conf:1:7: an object cannot follow a value"},
		"+= to a text":       {"a = 1\na += 2", "x.conf:2:6: += to a value"},
		"nothing there":      {"a = 1\nb = ${c.d}", "x.conf:2:5: nothing is called c.d"},
		"itself":             {"a = ${a}", "x.conf:1:5: nothing is called a"},
		"a circle":           {"a = ${b}\nb = ${a}", "nothing is called a"},
		"inside itself":      {"a { b = ${a} }", "nothing is called a"},
		"in an include":      {`include "bad.conf"`, "bad.conf:2:5: ':' must be in quotes"},
		"required and gone":  {"\ninclude required(file(\"none.conf\"))", "x.conf:2:1: include none.conf: no such file"},
		"includes itself":    {`include "self.conf"`, "one includes itself"},
		"include unfinished": {`include file("more.conf"`, "x.conf:1:25: "},
		"include twice":      {`include file(file("x"))`, "not an include statement"},
		"not UTF-8":          {"a = \xff", "not UTF-8"},
		"deep":               {strings.Repeat("a {", 100), "nested more than 64 levels deep"},
		"deep lists":         {"a = " + strings.Repeat("[", 100), "nested more than 64 levels deep"},
		"long path":          {strings.Repeat("a.", 100) + "b = 1", "a path of more than 64 names"},
		"too large":          {strings.Repeat("#", 1<<20+1), "more than 1048576 bytes"},
		"doubling texts":     {doubled, "substitutions make this too large"},
		"doubling lists":     {lists, "substitutions make this too large"},
		"a long chain":       {chain, "too deep"},
		"many appends":       {strings.Repeat("a += 1\n", 50_000), "too "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := hocon.Parse([]byte(c.text), options())
			if e := (*hocon.Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
	if _, err := hocon.Parse([]byte("include \"x\""), hocon.Options{}); err == nil {
		t.Error("include works without a way to include")
	}
}

func TestValuesAreReadAsWhatIsAskedFor(t *testing.T) {
	const text = `
		d = [10 seconds, 5s, 300 millis, 7, 1.5 m, "2 hours", 1d, 3us, 4 ns, -1 s]
		badd = [soon, 5 fortnights, {}, 1e99 d, "", null]
		s = [1024, 256K, 1 MiB, 10kB, 2 G, 1 TB, 1.5k, 0b]
		bads = [x, -1, 5 parsecs, [], 1e99]
		b = [true, yes, on, false, no, "off"]
		badb = [1, TRUE, null]
		i = [3, -4, 5.0, "6"]
		badi = [3.5, x, 1e300, []]`
	root, err := hocon.Parse([]byte(text), hocon.Options{Name: "x.conf"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(key string, read func(*hocon.Value) (any, error), want ...any) {
		t.Helper()
		items := root.Get(key).Items()
		if len(items) != len(want) {
			t.Fatalf("%s has %d items, want %d", key, len(items), len(want))
		}
		for i, v := range items {
			if got, err := read(v); err != nil || got != want[i] {
				t.Errorf("%s %s is %v, %v, want %v", key, v.Text(), got, err, want[i])
			}
		}
		for _, v := range root.Get("bad" + key).Items() {
			_, err := read(v)
			if e := (*hocon.Error)(nil); !errors.As(err, &e) || e.Pos.Line < 3 {
				t.Errorf("bad%s %s: error is %v", key, show(v), err)
			}
		}
	}
	check("d", func(v *hocon.Value) (any, error) { return v.Duration() },
		10*time.Second, 5*time.Second, 300*time.Millisecond, 7*time.Millisecond, 90*time.Second, 2*time.Hour,
		24*time.Hour, 3*time.Microsecond, 4*time.Nanosecond, -time.Second)
	check("s", func(v *hocon.Value) (any, error) { return v.Bytes() },
		int64(1024), int64(256<<10), int64(1<<20), int64(10_000), int64(2<<30), int64(1e12), int64(1536), int64(0))
	check("b", func(v *hocon.Value) (any, error) { return v.Bool() }, true, true, true, false, false, false)
	check("i", func(v *hocon.Value) (any, error) { return v.Int() }, int64(3), int64(-4), int64(5), int64(6))
}

// FuzzParse wants an answer, and mistakes to be inside the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a = 1", `include classpath("application.conf")` + "\nqueues { a { delay = 5 seconds, tags { x = y } } }",
		"a = ${?b} [1] , a += {x : \"\\u00fc\"}", "a.b.\"c\" = \"\"\"x\"\"\" // y", "{a:[1,2,{b:${a}}]}", "a = ${b}\nb = ${a}",
		"include \"self.conf\"", "a{}\na = ${a}{b:${a}}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := hocon.Parse([]byte(text), options())
		if e := (*hocon.Error)(nil); errors.As(err, &e) {
			if e.Pos.File == "x.conf" && (e.Pos.Line < 1 || e.Pos.Line > strings.Count(text, "\n")+1 || e.Pos.Column < 1 || e.Pos.Column > len(text)+1) {
				t.Errorf("%v is not in the text", err)
			}
			return
		}
		if err != nil || v.Kind() != hocon.Object {
			t.Fatalf("Parse returns %v, %v", v, err)
		}
		if n := len(show(v)); n > 32<<20 {
			t.Errorf("%d bytes became %d", len(text), n)
		}
	})
}
