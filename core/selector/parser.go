package selector

import "unicode/utf8"

// op says what a node does.
type op uint8

const (
	opLiteral op = iota
	opName
	opNot
	opAnd
	opOr
	opEqual
	opNotEqual
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opBetween // a BETWEEN b AND c
	opIn
	opLike
	opIsNull
	opNegate
	opPlus // a sign: it makes a number
	opAdd
	opSubtract
	opMultiply
	opDivide
)

// node is a part of a selector. Which fields are used depends on its op.
type node struct {
	op      op
	negated bool // NOT BETWEEN, NOT IN, NOT LIKE, IS NOT NULL
	a, b, c *node
	value   Value
	name    string
	list    []Value
	like    pattern
}

// shape is what a node can be used as.
type shape uint8

const (
	shapeAny shape = iota // a name
	shapeBool
	shapeNumber
	shapeString
)

func (n *node) shape() shape {
	switch n.op {
	case opName:
		return shapeAny
	case opLiteral:
		switch n.value.kind {
		case kindBool:
			return shapeBool
		case kindString:
			return shapeString
		}
		return shapeNumber
	case opNegate, opPlus, opAdd, opSubtract, opMultiply, opDivide:
		return shapeNumber
	}
	return shapeBool
}

// parser is one of recursive descent, with one token ahead.
type parser struct {
	lexer
	token token
	depth int
}

func (p *parser) parse() (*node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	at := p.token.at
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.token.kind != tokenEnd {
		return nil, p.unexpected("the end")
	}
	return n, p.wantBool(n, at)
}

func (p *parser) advance() (err error) {
	p.token, err = p.next()
	return err
}

// is tells whether the next token is that sign or word.
func (p *parser) is(text string) bool {
	return (p.token.kind == tokenSign || p.token.kind == tokenWord) && p.token.text == text
}

// take goes past a sign or word if it is the next.
func (p *parser) take(text string) (bool, error) {
	if !p.is(text) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) want(text string) error {
	if ok, err := p.take(text); ok || err != nil {
		return err
	}
	return p.unexpected(text)
}

func (p *parser) unexpected(wanted string) error {
	t := &p.token
	switch t.kind {
	case tokenEnd:
		return syntaxError(t.at, "the end, where %s is expected", wanted)
	case tokenNumber, tokenString:
		return syntaxError(t.at, "a literal, where %s is expected", wanted)
	}
	return syntaxError(t.at, "%q, where %s is expected", t.text, wanted)
}

func (p *parser) wantBool(n *node, at int) error {
	if s := n.shape(); s == shapeNumber || s == shapeString {
		return syntaxError(at, "a value, where a condition is expected")
	}
	return nil
}

func (p *parser) wantNumber(n *node, at int) error {
	if s := n.shape(); s == shapeBool || s == shapeString {
		return syntaxError(at, "a number is expected")
	}
	return nil
}

// deeper counts what stands within each other.
func (p *parser) deeper() error {
	if p.depth++; p.depth > depthMax {
		return syntaxError(p.token.at, "nested deeper than %d", depthMax)
	}
	return nil
}

func (p *parser) or() (*node, error) {
	return p.chain(p.and, map[string]op{"OR": opOr}, p.wantBool)
}

func (p *parser) and() (*node, error) {
	return p.chain(p.not, map[string]op{"AND": opAnd}, p.wantBool)
}

// chain reads parts that words or signs join, from the left. want refuses a part
// that cannot be joined.
func (p *parser) chain(part func() (*node, error), joints map[string]op, want func(n *node, at int) error) (*node, error) {
	at := p.token.at
	n, err := part()
	for err == nil && (p.token.kind == tokenSign || p.token.kind == tokenWord) {
		o, ok := joints[p.token.text]
		if !ok {
			break
		}
		if err = want(n, at); err == nil {
			err = p.advance()
		}
		if err != nil {
			break
		}
		at = p.token.at
		var right *node
		if right, err = part(); err == nil {
			n, err = &node{op: o, a: n, b: right}, want(right, at)
		}
	}
	return n, err
}

func (p *parser) not() (*node, error) {
	ok, err := p.take("NOT")
	if err != nil || !ok {
		if err != nil {
			return nil, err
		}
		return p.predicate()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	at := p.token.at
	n, err := p.not()
	if err != nil {
		return nil, err
	}
	return &node{op: opNot, a: n}, p.wantBool(n, at)
}

func comparison(t *token) (op, bool) {
	if t.kind != tokenSign {
		return 0, false
	}
	switch t.text {
	case "=":
		return opEqual, true
	case "<>":
		return opNotEqual, true
	case "<":
		return opLess, true
	case "<=":
		return opLessEqual, true
	case ">":
		return opGreater, true
	case ">=":
		return opGreaterEqual, true
	}
	return 0, false
}

// predicate reads a comparison, or what stands alone.
func (p *parser) predicate() (*node, error) {
	at := p.token.at
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	if o, ok := comparison(&p.token); ok {
		return p.compare(o, left, at)
	}
	if ok, err := p.take("IS"); ok || err != nil {
		return p.isNull(left, at, err)
	}
	negated, err := p.take("NOT")
	if err != nil {
		return nil, err
	}
	n := &node{a: left, negated: negated}
	switch {
	case p.is("BETWEEN"):
		return n, p.between(n, at)
	case p.is("IN"):
		return n, p.in(n, at)
	case p.is("LIKE"):
		return n, p.likes(n, at)
	case negated:
		return nil, p.unexpected("BETWEEN, IN or LIKE")
	}
	return left, nil
}

func (p *parser) compare(o op, left *node, at int) (*node, error) {
	ordered := o != opEqual && o != opNotEqual
	if ordered {
		if err := p.wantNumber(left, at); err != nil {
			return nil, err
		}
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	at = p.token.at
	right, err := p.sum()
	if err == nil && ordered {
		err = p.wantNumber(right, at)
	}
	if err != nil {
		return nil, err
	}
	if _, ok := comparison(&p.token); ok {
		return nil, p.unexpected("AND, OR or the end")
	}
	return &node{op: o, a: left, b: right}, nil
}

func (p *parser) isNull(left *node, at int, err error) (*node, error) {
	n := &node{op: opIsNull, a: left}
	if err == nil {
		n.negated, err = p.take("NOT")
	}
	if err == nil {
		err = p.want("NULL")
	}
	if err == nil {
		err = wantName(left, at)
	}
	return n, err
}

func wantName(n *node, at int) error {
	if n.op != opName {
		return syntaxError(at, "a name is expected")
	}
	return nil
}

func (p *parser) between(n *node, at int) (err error) {
	n.op = opBetween
	if err := p.wantNumber(n.a, at); err != nil {
		return err
	}
	for _, part := range []**node{&n.b, &n.c} {
		if err := p.advance(); err != nil { // past BETWEEN, then past AND
			return err
		}
		at = p.token.at
		if *part, err = p.sum(); err != nil {
			return err
		}
		if err := p.wantNumber(*part, at); err != nil {
			return err
		}
		if part == &n.b && !p.is("AND") {
			return p.unexpected("AND")
		}
	}
	return nil
}

func (p *parser) in(n *node, at int) error {
	n.op = opIn
	if err := wantName(n.a, at); err != nil {
		return err
	}
	if err := p.advance(); err != nil {
		return err
	}
	if err := p.want("("); err != nil {
		return err
	}
	for {
		v, err := p.listed()
		if err != nil {
			return err
		}
		n.list = append(n.list, v)
		more, err := p.take(",")
		if err != nil {
			return err
		}
		if !more {
			return p.want(")")
		}
	}
}

// listed reads a literal in the list of IN.
func (p *parser) listed() (Value, error) {
	minus, err := p.take("-")
	if err != nil {
		return Value{}, err
	}
	t := p.token
	switch {
	case t.kind == tokenString && !minus:
		return String(t.text), p.advance()
	case t.kind != tokenNumber:
		return Value{}, p.unexpected("a literal")
	}
	n, err := p.literal(minus)
	if err != nil {
		return Value{}, err
	}
	if minus {
		return negate(n.value), nil
	}
	return n.value, nil
}

func (p *parser) likes(n *node, at int) error {
	n.op = opLike
	if err := wantName(n.a, at); err != nil {
		return err
	}
	if err := p.advance(); err != nil {
		return err
	}
	text := p.token
	if text.kind != tokenString {
		return p.unexpected("a pattern in quotes")
	}
	if err := p.advance(); err != nil {
		return err
	}
	escape := rune(-1)
	ok, err := p.take("ESCAPE")
	if err != nil {
		return err
	}
	if ok {
		t := p.token
		if t.kind != tokenString || utf8.RuneCountInString(t.text) != 1 {
			return syntaxError(t.at, "one sign in quotes is expected")
		}
		escape, _ = utf8.DecodeRuneInString(t.text)
		if err := p.advance(); err != nil {
			return err
		}
	}
	if len(text.text) > patternBytesMax {
		return syntaxError(text.at, "a pattern of %d bytes, over %d", len(text.text), patternBytesMax)
	}
	if n.like, ok = newPattern(text.text, escape); !ok {
		return syntaxError(text.at, "nothing follows the escape")
	}
	return nil
}

func (p *parser) sum() (*node, error) {
	return p.chain(p.product, map[string]op{"+": opAdd, "-": opSubtract}, p.wantNumber)
}

func (p *parser) product() (*node, error) {
	return p.chain(p.signed, map[string]op{"*": opMultiply, "/": opDivide}, p.wantNumber)
}

func (p *parser) signed() (*node, error) {
	minus := p.is("-")
	if !minus && !p.is("+") {
		return p.primary()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	at := p.token.at
	var n *node
	var err error
	if p.token.kind == tokenNumber {
		n, err = p.literal(minus)
	} else {
		n, err = p.signed()
	}
	if err != nil {
		return nil, err
	}
	o := opPlus
	if minus {
		o = opNegate
	}
	return &node{op: o, a: n}, p.wantNumber(n, at)
}

// literal reads a number, after a minus or not.
func (p *parser) literal(minus bool) (*node, error) {
	t := p.token
	if t.least && !minus {
		return nil, syntaxError(t.at, "no integer of 64 bits")
	}
	return &node{op: opLiteral, value: t.value}, p.advance()
}

func (p *parser) primary() (*node, error) {
	t := p.token
	switch t.kind {
	case tokenNumber:
		return p.literal(false)
	case tokenString:
		return &node{op: opLiteral, value: String(t.text)}, p.advance()
	case tokenName:
		if err := checkName(&t); err != nil {
			return nil, err
		}
		return &node{op: opName, name: t.text}, p.advance()
	}
	switch {
	case p.is("TRUE") || p.is("FALSE"):
		return &node{op: opLiteral, value: Bool(t.text == "TRUE")}, p.advance()
	case !p.is("("):
		return nil, p.unexpected("a name, a literal or a parenthesis")
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	return n, p.want(")")
}

// checkName refuses names that say nothing lasting of a message.
func checkName(t *token) error {
	switch t.text {
	case "JMSDestination", "JMSReplyTo", "JMSExpiration", "JMSRedelivered", "JMSXDeliveryCount":
		return syntaxError(t.at, "%s cannot be used in a selector", t.text)
	}
	return nil
}
