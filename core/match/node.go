package match

import (
	"slices"
	"strings"
)

// kidsFew is up to how many children are looked through one by one.
const kidsFew = 8

// node is one level of the filters that begin alike. A node without values and
// children does not stay.
type node[V comparable] struct {
	few   []kid[V]            // children by their level, at most kidsFew, or
	many  map[string]*node[V] // when there are more
	plus  *node[V]            // the child of '+'
	here  set[V]              // of filters that end here
	below set[V]              // of filters that end in '#' behind this level
}

type kid[V comparable] struct {
	level string
	node  *node[V]
}

// child returns the child of a level, nil if there is none.
func (n *node[V]) child(level string) *node[V] {
	if n.many != nil {
		return n.many[level]
	}
	for i := range n.few {
		if n.few[i].level == level {
			return n.few[i].node
		}
	}
	return nil
}

// make returns the child of a level of a filter, a new one if there is none.
func (n *node[V]) make(level string) *node[V] {
	if level == "+" {
		if n.plus == nil {
			n.plus = new(node[V])
		}
		return n.plus
	}
	c := n.child(level)
	if c != nil {
		return c
	}
	c, level = new(node[V]), strings.Clone(level) // not the whole filter
	switch {
	case n.many != nil:
		n.many[level] = c
	case len(n.few) < kidsFew:
		n.few = append(n.few, kid[V]{level, c})
	default:
		n.many = make(map[string]*node[V], 2*kidsFew)
		for _, k := range n.few {
			n.many[k.level] = k.node
		}
		n.many[level], n.few = c, nil
	}
	return c
}

// match appends what is below n for the levels of topic that are left. more says
// that there are any.
func (n *node[V]) match(dst []V, topic string, more bool) []V {
	dst = n.below.append(dst)
	if !more {
		return n.here.append(dst)
	}
	level, rest, more := strings.Cut(topic, "/")
	if n.plus != nil {
		dst = n.plus.match(dst, rest, more)
	}
	if c := n.child(level); c != nil {
		dst = c.match(dst, rest, more)
	}
	return dst
}

// remove takes v away from under the rest of a filter, and with it the nodes
// that nothing needs any more.
func (n *node[V]) remove(filter string, more bool, v V) bool {
	if !more {
		return n.here.remove(v)
	}
	level, rest, more := strings.Cut(filter, "/")
	if level == "#" {
		return n.below.remove(v)
	}
	c := n.plus
	if level != "+" {
		c = n.child(level)
	}
	if c == nil || !c.remove(rest, more, v) {
		return false
	}
	if !c.empty() {
		return true
	}
	switch {
	case level == "+":
		n.plus = nil
	case n.many != nil:
		if delete(n.many, level); len(n.many) == 0 {
			n.many = nil
		}
	default:
		n.few = slices.DeleteFunc(n.few, func(k kid[V]) bool { return k.level == level })
	}
	return true
}

func (n *node[V]) empty() bool {
	return len(n.few) == 0 && len(n.many) == 0 && n.plus == nil && n.here.len() == 0 && n.below.len() == 0
}

// set is the values of one filter, in the order that they came but for removals.
// It is small: nearly all are empty or have one.
type set[V comparable] struct{ more *values[V] }

type values[V comparable] struct {
	list  []V
	index map[V]int // when there are many
}

// indexFrom is from how many values on an index finds them.
const indexFrom = 32

func (s *set[V]) len() int {
	if s.more == nil {
		return 0
	}
	return len(s.more.list)
}

func (s *set[V]) append(dst []V) []V {
	if s.more == nil {
		return dst
	}
	return append(dst, s.more.list...)
}

func (v *values[V]) find(x V) int {
	if v.index == nil {
		return slices.Index(v.list, x)
	}
	if i, ok := v.index[x]; ok {
		return i
	}
	return -1
}

func (s *set[V]) add(x V) bool {
	if s.more == nil {
		s.more = &values[V]{list: []V{x}}
		return true
	}
	v := s.more
	if v.find(x) >= 0 {
		return false
	}
	v.list = append(v.list, x)
	switch {
	case v.index != nil:
		v.index[x] = len(v.list) - 1
	case len(v.list) == indexFrom:
		v.index = make(map[V]int, 2*indexFrom)
		for i, x := range v.list {
			v.index[x] = i
		}
	}
	return true
}

// remove puts the last value into the place of x.
func (s *set[V]) remove(x V) bool {
	if s.more == nil {
		return false
	}
	v := s.more
	i := v.find(x)
	if i < 0 {
		return false
	}
	last := len(v.list) - 1
	v.list[i] = v.list[last]
	if v.index != nil {
		v.index[v.list[i]] = i
		delete(v.index, x)
	}
	clear(v.list[last:])
	if v.list = v.list[:last]; last == 0 {
		s.more = nil
	}
	return true
}
