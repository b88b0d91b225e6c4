package hocon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of what substitutions make of a text.
const (
	resolveMax      = 4 << 20 // nodes and bytes, those that are visited twice counted twice
	resolveDepthMax = 2000    // substitutions within substitutions
)

// resolver turns nodes into values.
type resolver struct {
	root   *object
	env    func(string) (string, bool)
	active map[*field]int // being resolved, and which value of its history
	done   map[*field]*Value
	budget int
	depth  int
}

func (r *resolver) spend(n int, at Pos) error {
	if r.budget -= n; r.budget < 0 {
		return &Error{Pos: at, Message: "substitutions make this too large"}
	}
	return nil
}

// object resolves the fields of o.
func (r *resolver) object(o *object, at Pos) (*Value, error) {
	v := &Value{kind: Object, pos: at, fields: make(map[string]*Value, len(o.keys)), size: 1}
	for _, key := range o.keys {
		if err := r.spend(1+len(key), at); err != nil {
			return nil, err
		}
		child, err := r.field(o.fields[key])
		if err != nil {
			return nil, err
		}
		if child != nil {
			v.set(key, child)
		}
	}
	return v, nil
}

func (v *Value) set(key string, child *Value) {
	if old := v.fields[key]; old != nil {
		v.size -= old.size
	} else {
		v.keys = append(v.keys, key)
	}
	v.fields[key] = child
	v.size += child.size
}

// field resolves a field; nil is one that an optional substitution left without
// a value. A field that is being resolved refers to what it was before.
func (r *resolver) field(f *field) (*Value, error) {
	if at, ok := r.active[f]; ok {
		return r.valueAt(f, at-1)
	}
	if v, ok := r.done[f]; ok {
		return v, nil
	}
	v, err := r.valueAt(f, len(f.history)-1)
	if err == nil {
		r.done[f] = v
	}
	return v, err
}

// valueAt resolves the value of a field as of the i-th of its history.
func (r *resolver) valueAt(f *field, i int) (*Value, error) {
	if i < 0 {
		return nil, nil
	}
	n := f.history[i]
	if r.depth++; r.depth > resolveDepthMax {
		return nil, &Error{Pos: n.pos, Message: "substitutions within substitutions are too deep"}
	}
	outer, nested := r.active[f]
	r.active[f] = i
	defer func() {
		r.depth--
		delete(r.active, f)
		if nested {
			r.active[f] = outer
		}
	}()
	if n.kind == nodeAppend {
		before, err := r.valueAt(f, i-1)
		if err != nil {
			return nil, err
		}
		return r.add(before, n)
	}
	v, err := r.node(n)
	if err != nil || i == 0 || v != nil && v.kind != Object {
		return v, err
	}
	before, err := r.valueAt(f, i-1)
	if err != nil || v == nil || before.Kind() != Object {
		if v == nil {
			v = before
		}
		return v, err
	}
	return r.merge(before, v)
}

// add resolves += upon the value before it.
func (r *resolver) add(before *Value, n *node) (*Value, error) {
	item, err := r.node(n.parts[0])
	if err != nil {
		return nil, err
	}
	list := &Value{kind: Array, pos: n.pos, size: 1}
	switch before.Kind() {
	case Array:
		list.items, list.size = slices.Clone(before.items), before.size
	case Null:
	default:
		return nil, &Error{Pos: n.pos, Message: "+= to " + before.kind.String()}
	}
	if item != nil {
		list.items, list.size = append(list.items, item), list.size+item.size
	}
	return list, r.spend(list.size, n.pos)
}

// merge returns the object below with the fields of the one above put over it.
func (r *resolver) merge(below, above *Value) (*Value, error) {
	if err := r.spend(1+len(below.keys)+len(above.keys), above.pos); err != nil {
		return nil, err
	}
	v := &Value{kind: Object, pos: above.pos, keys: slices.Clone(below.keys), fields: maps.Clone(below.fields), size: below.size}
	for _, key := range above.keys {
		child := above.fields[key]
		if old := v.fields[key]; old.Kind() == Object && child.kind == Object {
			var err error
			if child, err = r.merge(old, child); err != nil {
				return nil, err
			}
		}
		v.set(key, child)
	}
	return v, nil
}

func (r *resolver) node(n *node) (*Value, error) {
	if err := r.spend(1, n.pos); err != nil {
		return nil, err
	}
	switch n.kind {
	case nodeNull:
		return &Value{kind: Null, pos: n.pos, size: 1}, nil
	case nodeObject:
		return r.object(n.object, n.pos)
	case nodeArray:
		v := &Value{kind: Array, pos: n.pos, size: 1}
		for _, part := range n.parts {
			item, err := r.node(part)
			if err != nil {
				return nil, err
			}
			if item != nil {
				v.items, v.size = append(v.items, item), v.size+item.size
			}
		}
		return v, nil
	case nodeConcat:
		return r.concat(n)
	case nodeSubst:
		return r.substitute(n)
	}
	return &Value{kind: Text, pos: n.pos, text: n.text, size: 1 + len(n.text)}, nil
}

// substitute looks a path up in the text, then in the environment.
func (r *resolver) substitute(n *node) (*Value, error) {
	paths := [][]string{n.path}
	if len(n.base) > 0 {
		paths = [][]string{slices.Concat(n.base, n.path), n.path}
	}
	for _, path := range paths {
		v, err := r.lookup(path)
		if err != nil {
			if e := (*Error)(nil); errors.As(err, &e) {
				return nil, e
			}
			return nil, &Error{Pos: n.pos, Message: err.Error()}
		}
		if v != nil {
			moved := *v
			moved.pos = n.pos // an error about it belongs to where it is used
			return &moved, r.spend(v.size, n.pos)
		}
	}
	name := strings.Join(n.path, ".")
	if r.env != nil {
		if s, ok := r.env(name); ok {
			return &Value{kind: Text, pos: n.pos, text: s, size: 1 + len(s)}, r.spend(1+len(s), n.pos)
		}
	}
	if n.optional {
		return nil, nil
	}
	return nil, &Error{Pos: n.pos, Message: fmt.Sprintf("nothing is called %s, neither here nor in the environment", name)}
}

// lookup returns the value at path, nil if there is none. Objects on the way
// are not resolved whole: one may refer to a field of itself.
func (r *resolver) lookup(path []string) (*Value, error) {
	o := r.root
	for i, key := range path {
		f := o.fields[key]
		if f == nil {
			return nil, nil
		}
		if n := f.history[len(f.history)-1]; len(f.history) == 1 && n.kind == nodeObject && i < len(path)-1 {
			o = n.object
			continue
		}
		v, err := r.field(f)
		for _, key := range path[i+1:] {
			v = v.Get(key)
		}
		return v, err
	}
	return nil, nil
}

// concat joins texts, lists or objects.
func (r *resolver) concat(n *node) (*Value, error) {
	var out *Value
	var text strings.Builder
	for _, part := range n.parts {
		v, err := r.node(part)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if v.kind == Null {
			v.kind, v.text = Text, "null"
		}
		switch {
		case part.kind == nodeSpace && (out == nil || out.kind != Text):
			// White space counts between texts alone.
		case out == nil:
			out = v
			text.WriteString(v.text)
		case out.kind == Text && v.kind == Text:
			text.WriteString(v.text)
		case part.kind == nodeSpace:
		case out.kind == Object && v.kind == Object:
			if out, err = r.merge(out, v); err != nil {
				return nil, err
			}
		case out.kind == Array && v.kind == Array:
			out = &Value{kind: Array, pos: n.pos, items: slices.Concat(out.items, v.items), size: out.size + v.size}
		default:
			return nil, &Error{Pos: v.pos, Message: fmt.Sprintf("%s cannot follow %s", v.kind, out.kind)}
		}
		if err := r.spend(1+len(v.items), n.pos); err != nil {
			return nil, err
		}
	}
	if out != nil && out.kind == Text {
		s := text.String()
		out = &Value{kind: Text, pos: n.pos, text: s, size: 1 + len(s)}
	}
	return out, nil
}
