package hocon

// nodeKind is what a node of the syntax tree is.
type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeText
	nodeSpace // between two parts of a concatenation
	nodeArray
	nodeObject
	nodeConcat
	nodeSubst
	nodeAppend // += of its only part
)

// node is a value as it was written.
type node struct {
	kind     nodeKind
	pos      Pos
	text     string   // nodeText, nodeSpace
	parts    []*node  // nodeArray, nodeConcat, nodeAppend
	object   *object  // nodeObject
	path     []string // nodeSubst
	base     []string // nodeSubst: where the file that it stands in was included
	optional bool     // nodeSubst
	open     bool     // depends on a substitution or on what was there before
}

// object has the fields of an object in their order.
type object struct {
	keys   []string
	fields map[string]*field
}

// field is one key. As long as what a later value means depends on earlier ones,
// they are kept: it may refer to them or be merged with them.
type field struct {
	history []*node
}

func newObject() *object { return &object{fields: map[string]*field{}} }

// put sets a key. Objects are merged; other values replace.
func (o *object) put(key string, n *node) {
	f := o.fields[key]
	if f == nil {
		o.fields[key] = &field{history: []*node{n}}
		o.keys = append(o.keys, key)
		return
	}
	last := f.history[len(f.history)-1]
	switch {
	case n.kind == nodeObject && last.kind == nodeObject:
		last.object.merge(n.object)
		last.open = last.open || n.open
	case n.open || n.kind == nodeObject && last.open:
		f.history = append(f.history, n)
	default:
		f.history = []*node{n}
	}
}

func (o *object) merge(from *object) {
	for _, key := range from.keys {
		for _, n := range from.fields[key].history {
			o.put(key, n)
		}
	}
}

// wrap puts n below path: a.b = n is a { b = n }.
func wrap(path []string, n *node) *node {
	for i := len(path) - 1; i >= 0; i-- {
		o := newObject()
		o.put(path[i], n)
		n = &node{kind: nodeObject, pos: n.pos, object: o, open: n.open}
	}
	return n
}
