package selector

// eval returns the value of n for a message.
func (n *node) eval(get func(name string) (Value, bool)) Value {
	switch n.op {
	case opLiteral:
		return n.value
	case opName:
		if v, ok := get(n.name); ok {
			return v
		}
		return Value{}
	case opNot:
		return not(condition(n.a.eval(get)))
	case opAnd, opOr:
		return n.evalJoin(get)
	case opBetween:
		return n.evalBetween(get)
	case opIn:
		return n.flip(n.evalIn(n.a.eval(get)))
	case opLike:
		return n.flip(n.evalLike(n.a.eval(get)))
	case opIsNull:
		return n.flip(Bool(n.a.eval(get).unknown()))
	case opNegate, opPlus:
		return n.evalSign(n.a.eval(get))
	case opAdd, opSubtract, opMultiply, opDivide:
		return calculate(n.op, n.a.eval(get), n.b.eval(get))
	}
	return compare(n.op, n.a.eval(get), n.b.eval(get))
}

// condition takes a value for a condition. One of another type is false.
func condition(v Value) Value {
	if v.kind == kindBool || v.kind == kindUnknown {
		return v
	}
	v, _ = v.boolean()
	return Bool(v.isTrue())
}

func not(v Value) Value {
	if v.unknown() {
		return v
	}
	return Bool(!v.isTrue())
}

// flip applies the NOT of a predicate.
func (n *node) flip(v Value) Value {
	if n.negated {
		return not(v)
	}
	return v
}

func (n *node) evalJoin(get func(name string) (Value, bool)) Value {
	decides := n.op == opOr // the value that needs no other
	a := condition(n.a.eval(get))
	if !a.unknown() && a.isTrue() == decides {
		return a
	}
	b := condition(n.b.eval(get))
	if !b.unknown() && b.isTrue() == decides || a.unknown() == b.unknown() {
		return b
	}
	return Value{}
}

func (n *node) evalBetween(get func(name string) (Value, bool)) Value {
	v := n.a.eval(get)
	low := compare(opGreaterEqual, v, n.b.eval(get))
	high := compare(opLessEqual, v, n.c.eval(get))
	switch {
	case low.isFalse() || high.isFalse():
		return n.flip(Bool(false))
	case low.unknown() || high.unknown():
		return Value{}
	}
	return n.flip(Bool(true))
}

func (n *node) evalIn(v Value) Value {
	if v.unknown() {
		return v
	}
	for _, w := range n.list {
		if compare(opEqual, v, w).isTrue() {
			return Bool(true)
		}
	}
	return Bool(false)
}

func (n *node) evalLike(v Value) Value {
	if v.unknown() {
		return v
	}
	return Bool(v.kind == kindString && n.like.match(v.text))
}

func (n *node) evalSign(v Value) Value {
	v, ok := v.number()
	switch {
	case !ok:
		return Value{}
	case n.op == opNegate:
		return negate(v)
	}
	return v
}

func negate(v Value) Value {
	if v.kind == kindInt {
		return Int(-int64(v.bits))
	}
	return Float(-v.float())
}

// compare compares two values. Those of unlike types are neither equal nor not.
func compare(o op, a, b Value) Value {
	if a.unknown() || b.unknown() {
		return Value{}
	}
	if o == opEqual || o == opNotEqual {
		same, alike := equal(a, b)
		return Bool(alike && same == (o == opEqual))
	}
	a, ok := a.number()
	if !ok {
		return Bool(false)
	}
	if b, ok = b.number(); !ok {
		return Bool(false)
	}
	if a.kind == kindInt && b.kind == kindInt {
		return Bool(ordered(o, int64(a.bits), int64(b.bits)))
	}
	return Bool(ordered(o, a.float(), b.float()))
}

func ordered[T int64 | float64](o op, a, b T) bool {
	switch o {
	case opLess:
		return a < b
	case opLessEqual:
		return a <= b
	case opGreater:
		return a > b
	}
	return a >= b
}

// equal compares two values that are there. alike is false when their types
// cannot be brought together.
func equal(a, b Value) (same, alike bool) {
	switch {
	case a.kind == kindString && b.kind == kindString:
		return a.text == b.text, true
	case a.kind == kindBool || b.kind == kindBool:
		a, ok := a.boolean()
		if !ok {
			return false, false
		}
		b, ok := b.boolean()
		return a.bits == b.bits, ok
	}
	a, ok := a.number()
	if !ok {
		return false, false
	}
	if b, ok = b.number(); !ok {
		return false, false
	}
	if a.kind == kindInt && b.kind == kindInt {
		return a.bits == b.bits, true
	}
	return a.float() == b.float(), true
}

// calculate does arithmetic as Java does it.
func calculate(o op, a, b Value) Value {
	a, ok := a.number()
	if !ok {
		return Value{}
	}
	if b, ok = b.number(); !ok {
		return Value{}
	}
	if a.kind == kindInt && b.kind == kindInt {
		x, y := int64(a.bits), int64(b.bits)
		switch {
		case o == opAdd:
			return Int(x + y)
		case o == opSubtract:
			return Int(x - y)
		case o == opMultiply:
			return Int(x * y)
		case y == 0:
			return Value{}
		}
		return Int(x / y)
	}
	x, y := a.float(), b.float()
	switch o {
	case opAdd:
		return Float(x + y)
	case opSubtract:
		return Float(x - y)
	case opMultiply:
		return Float(x * y)
	}
	return Float(x / y)
}
