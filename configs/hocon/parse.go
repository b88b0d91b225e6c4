package hocon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of what is read.
const (
	TextBytesMax = 1 << 20 // of a text with all that it includes
	depthMax     = 64      // of nested values, and segments of a path
	includesMax  = 32      // files
)

// Include is an include statement.
type Include struct {
	// Kind is "file", "classpath" or "url"; empty if the statement names only a
	// path.
	Kind     string
	Path     string
	Required bool
	Pos      Pos
}

// Options say where a text comes from and what it may reach.
type Options struct {
	// Name is the name of the text in errors.
	Name string
	// Include returns the text that a statement includes and its name. A nil
	// text includes nothing. Without the function include is refused.
	Include func(Include) (text []byte, name string, err error)
	// Env looks up what a substitution does not find in the text.
	Env func(name string) (string, bool)
}

// Parse reads a text and resolves its substitutions. The value is an object.
// Errors are of type *Error.
func Parse(text []byte, o Options) (*Value, error) {
	s := &session{options: o}
	root, err := s.read(text, o.Name, nil, 0)
	if err != nil {
		return nil, err
	}
	r := &resolver{root: root, env: o.Env, active: map[*field]int{}, done: map[*field]*Value{}, budget: resolveMax}
	return r.object(root, Pos{File: o.Name, Line: 1, Column: 1})
}

// session is one Parse with the files that it includes.
type session struct {
	options  Options
	bytes    int
	includes int
}

// read parses one text, which is included at base.
func (s *session) read(text []byte, name string, base []string, depth int) (*object, error) {
	p := &parser{session: s, text: strings.TrimPrefix(string(text), "\ufeff"), file: name, line: 1, base: base, depth: depth}
	if s.bytes += len(text); s.bytes > TextBytesMax {
		return nil, p.fail(p.here(), "more than %d bytes", TextBytesMax)
	}
	if !utf8.ValidString(p.text) {
		return nil, p.fail(p.here(), "not UTF-8")
	}
	p.skip(true)
	var root *object
	var err error
	switch {
	case p.peek() == '[':
		return nil, p.fail(p.here(), "a list, not keys with values")
	case p.peek() == '{':
		p.next()
		root, err = p.fields('}', base)
	default:
		root, err = p.fields(0, base)
	}
	if err != nil {
		return nil, err
	}
	if p.skip(true); p.at < len(p.text) {
		return nil, p.unexpected("the end")
	}
	return root, nil
}

type parser struct {
	session *session
	text    string
	file    string
	base    []string
	depth   int

	at     int
	line   int
	lineAt int // where the line starts
}

func (p *parser) here() Pos { return Pos{File: p.file, Line: p.line, Column: p.at - p.lineAt + 1} }

func (p *parser) fail(at Pos, format string, args ...any) error {
	return &Error{Pos: at, Message: fmt.Sprintf(format, args...)}
}

// unexpected reports the character that stands here.
func (p *parser) unexpected(wanted string) error {
	if p.at >= len(p.text) {
		return p.fail(p.here(), "the text ends where %s was expected", wanted)
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return p.fail(p.here(), "%q where %s was expected", r, wanted)
}

// peek returns the byte that stands here, 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) starts(s string) bool { return strings.HasPrefix(p.text[p.at:], s) }

func (p *parser) next() {
	if p.text[p.at] == '\n' {
		p.line++
		p.lineAt = p.at + 1
	}
	p.at++
}

func (p *parser) advance(n int) {
	for range n {
		p.next()
	}
}

// skip passes over white space and comments, over line ends too if it may. It
// tells whether it passed one.
func (p *parser) skip(lines bool) (newline bool) {
	for p.at < len(p.text) {
		switch {
		case p.peek() == '\n':
			if !lines {
				return false
			}
			newline = true
			p.next()
		case p.peek() == '#' || p.starts("//"):
			for p.at < len(p.text) && p.peek() != '\n' {
				p.at++
			}
		default:
			n := spaceAt(p.text[p.at:])
			if n == 0 {
				return newline
			}
			p.at += n
		}
	}
	return newline
}

// spaceAt returns how long the white space is that s starts with; a line end is
// none.
func spaceAt(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == ' ' || r == '\t' || r == '\r' || r == '\f' || r == '\v' || r == '\u00a0' || r == '\ufeff' || r == '\u2028' || r == '\u3000' {
		return n
	}
	return 0
}

// fields reads the fields of an object up to end, which is passed over; 0 is the
// end of the text. path is where the object stands; nil in a list.
func (p *parser) fields(end byte, path []string) (*object, error) {
	if p.depth++; p.depth > depthMax {
		return nil, p.fail(p.here(), "nested more than %d levels deep", depthMax)
	}
	defer func() { p.depth-- }()
	start := p.here()
	o := newObject()
	for {
		p.skip(true)
		switch {
		case p.at >= len(p.text):
			if end != 0 {
				return nil, p.fail(start, "this object does not end")
			}
			return o, nil
		case p.peek() == end:
			p.next()
			return o, nil
		}
		var err error
		if p.atInclude() {
			err = p.includeInto(o, path)
		} else {
			err = p.field(o, path)
		}
		if err != nil {
			return nil, err
		}
		newline := p.skip(true)
		if p.peek() == ',' {
			p.next()
		} else if !newline && p.at < len(p.text) && p.peek() != end {
			return nil, p.unexpected("a comma or the end of the line")
		}
	}
}

// field reads one key with its value into o.
func (p *parser) field(o *object, path []string) error {
	key, err := p.path(":=+{")
	if err != nil {
		return err
	}
	whole := slices.Concat(path, key)
	p.skip(false)
	adds := p.starts("+=")
	switch {
	case adds:
		p.advance(2)
	case p.peek() == ':' || p.peek() == '=':
		p.next()
	case p.peek() == '{':
	default:
		return p.unexpected("= or { after a key")
	}
	p.skip(true)
	n, err := p.value(whole)
	if err != nil {
		return err
	}
	if adds {
		n = &node{kind: nodeAppend, pos: n.pos, parts: []*node{n}, open: true}
	}
	o.put(key[0], wrap(key[1:], n))
	return nil
}

// path reads the names of a key or of a substitution, up to one of the bytes of
// end or the end of the line.
func (p *parser) path(end string) ([]string, error) {
	var names []string
	var name strings.Builder
	var space string // before what comes next in the same name
	named := false
	add := func(s string) {
		if named {
			name.WriteString(space)
		}
		name.WriteString(s)
		space, named = "", true
	}
	for p.at < len(p.text) {
		switch c := p.peek(); {
		case c == '"':
			s, err := p.quoted()
			if err != nil {
				return nil, err
			}
			add(s)
		case c == '.' || strings.IndexByte(end+"\n#", c) >= 0 || p.starts("//"):
			if !named {
				return nil, p.unexpected("a key")
			}
			if names = append(names, name.String()); len(names) > depthMax {
				return nil, p.fail(p.here(), "a path of more than %d names", depthMax)
			}
			if c != '.' {
				return names, nil
			}
			name.Reset()
			space, named = "", false
			p.next()
		case isReserved(c):
			return nil, p.unexpected("a key")
		default:
			if n := spaceAt(p.text[p.at:]); n > 0 {
				space += p.text[p.at : p.at+n]
				p.at += n
				continue
			}
			_, n := utf8.DecodeRuneInString(p.text[p.at:])
			add(p.text[p.at : p.at+n])
			p.at += n
		}
	}
	return nil, p.unexpected("a value after the key")
}

// isReserved tells whether c must be quoted.
func isReserved(c byte) bool { return strings.IndexByte("$\"{}[]:=,+#`^?!@*&\\", c) >= 0 }

// value reads a value: one or more parts that stand on a line.
func (p *parser) value(path []string) (*node, error) {
	start := p.here()
	var parts []*node
	for {
		spaceStart := p.at
		spaceHere := p.here()
		for n := spaceAt(p.text[p.at:]); n > 0; n = spaceAt(p.text[p.at:]) {
			p.at += n
		}
		space := p.text[spaceStart:p.at]
		if c := p.peek(); p.at >= len(p.text) || c == '\n' || c == ',' || c == '}' || c == ']' || c == '#' || p.starts("//") {
			break
		}
		if len(parts) > 0 && space != "" {
			parts = append(parts, &node{kind: nodeSpace, pos: spaceHere, text: space})
		}
		n, err := p.part(path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
	}
	switch len(parts) {
	case 0:
		return nil, p.unexpected("a value")
	case 1:
		return parts[0], nil
	}
	return &node{kind: nodeConcat, pos: start, parts: parts, open: slices.ContainsFunc(parts, func(n *node) bool { return n.open })}, nil
}

// part reads one part of a value.
func (p *parser) part(path []string) (*node, error) {
	at := p.here()
	switch c := p.peek(); {
	case c == '{':
		p.next()
		o, err := p.fields('}', path)
		return &node{kind: nodeObject, pos: at, object: o, open: err == nil && o.open()}, err
	case c == '[':
		return p.array()
	case c == '"':
		s, err := p.quoted()
		return &node{kind: nodeText, pos: at, text: s}, err
	case p.starts("${"):
		return p.substitution()
	case isReserved(c):
		return nil, p.fail(at, "%q must be in quotes", c)
	}
	start := p.at
	for p.at < len(p.text) {
		c := p.peek()
		if isReserved(c) || c == '\n' || p.starts("//") || spaceAt(p.text[p.at:]) > 0 {
			break
		}
		p.at++
	}
	if p.text[start:p.at] == "null" {
		return &node{kind: nodeNull, pos: at, text: "null"}, nil
	}
	return &node{kind: nodeText, pos: at, text: p.text[start:p.at]}, nil
}

func (o *object) open() bool {
	for _, f := range o.fields {
		for _, n := range f.history {
			if n.open {
				return true
			}
		}
	}
	return false
}

// array reads a list; its items are separated by commas or line ends.
func (p *parser) array() (*node, error) {
	list := &node{kind: nodeArray, pos: p.here()}
	if p.depth++; p.depth > depthMax {
		return nil, p.fail(list.pos, "nested more than %d levels deep", depthMax)
	}
	defer func() { p.depth-- }()
	p.next()
	for {
		p.skip(true)
		switch p.peek() {
		case 0:
			return nil, p.fail(list.pos, "this list does not end")
		case ']':
			p.next()
			return list, nil
		}
		n, err := p.value(nil)
		if err != nil {
			return nil, err
		}
		list.parts = append(list.parts, n)
		list.open = list.open || n.open
		newline := p.skip(true)
		if p.peek() == ',' {
			p.next()
		} else if !newline && p.at < len(p.text) && p.peek() != ']' {
			return nil, p.unexpected("a comma or the end of the line")
		}
	}
}

// substitution reads ${path} or ${?path}.
func (p *parser) substitution() (*node, error) {
	n := &node{kind: nodeSubst, pos: p.here(), open: true, base: p.base}
	p.advance(2)
	if p.peek() == '?' {
		n.optional = true
		p.next()
	}
	var err error
	if n.path, err = p.path("}"); err != nil {
		return nil, err
	}
	if p.peek() != '}' {
		return nil, p.unexpected("}")
	}
	p.next()
	return n, nil
}

// quoted reads "..." or """...""".
func (p *parser) quoted() (string, error) {
	start := p.here()
	if p.starts(`"""`) {
		p.advance(3)
		end := strings.Index(p.text[p.at:], `"""`)
		if end < 0 {
			return "", p.fail(start, "this string does not end")
		}
		for p.at+end+3 < len(p.text) && p.text[p.at+end+3] == '"' {
			end++ // further quotes belong to the string
		}
		s := p.text[p.at : p.at+end]
		p.advance(end + 3)
		return s, nil
	}
	p.next()
	var b strings.Builder
	for p.at < len(p.text) && p.peek() != '\n' {
		switch c := p.peek(); c {
		case '"':
			p.next()
			return b.String(), nil
		case '\\':
			if err := p.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			p.at++
		}
	}
	return "", p.fail(start, "this string does not end")
}

// escape reads an escape of JSON.
func (p *parser) escape(b *strings.Builder) error {
	at := p.here()
	rest := p.text[p.at+1:]
	if rest == "" {
		return p.fail(at, "this string does not end")
	}
	if i := strings.IndexByte(`"\/bfnrt`, rest[0]); i >= 0 {
		b.WriteByte("\"\\/\b\f\n\r\t"[i])
		p.at += 2
		return nil
	}
	if r, ok := unit(rest); ok {
		p.at += 6
		if utf16.IsSurrogate(r) {
			low, ok := rune(0), false
			if p.peek() == '\\' {
				low, ok = unit(p.text[p.at+1:])
			}
			if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
				return p.fail(at, "half of a character")
			}
			p.at += 6
		}
		b.WriteRune(r)
		return nil
	}
	return p.fail(at, "not an escape of JSON")
}

// unit reads the UTF-16 unit of an escape: u and four hexadecimal digits.
func unit(s string) (rune, bool) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:5], 16, 16)
	return rune(n), err == nil
}
