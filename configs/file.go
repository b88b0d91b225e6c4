package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// fileBytesMax bounds a configuration file.
const fileBytesMax = 1 << 20

// file reads the YAML file at path. It walks the syntax tree instead of
// decoding into Config, so that each value knows its line and one bad key does
// not hide the next.
func (b *builder) file(path string) {
	info, err := os.Stat(path)
	var data []byte
	if err == nil {
		data, err = readFile(path, fileBytesMax)
	}
	if err != nil {
		b.fail("configuration: %w", err)
		return
	}
	b.yaml(path, data, func(w fileWalk, n ast.Node) {
		w.mode = permissions(info)
		w.section(n, "")
	})
}

// yaml gives the only document of data, which comes from path, to walk.
func (b *builder) yaml(path string, data []byte, walk func(fileWalk, ast.Node)) {
	if err := checkNesting(data); err != nil {
		b.fail("%s: %w", path, err)
		return
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		quote := !mayHoldSecret(string(data))
		b.fail("%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, quote)))
		return
	}
	w := fileWalk{builder: b, path: path, lines: strings.Split(string(data), "\n"), into: b.keys, fields: b.fields}
	seen := false
	for _, doc := range tree.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType:
		case seen:
			w.failAt(doc.Body, "a second document; one file is one configuration")
		default:
			seen = true
			walk(w, doc.Body)
		}
	}
}

// fileWalk reads keys of a file: those of Config, or those of one queue.
type fileWalk struct {
	*builder
	path  string
	mode  fs.FileMode
	lines []string

	fields map[string]Field
	into   []string // the keys of fields, in order
	queue  *Queue   // nil: keys of Config
	under  string   // what stands before the keys in messages: "queues.orders."
}

// mayHoldSecret tells whether text is not to be quoted in an error.
func mayHoldSecret(text string) bool {
	return strings.Contains(strings.ToLower(text), "secret")
}

// failAt reports a mistake with its place and the line it stands on.
func (w fileWalk) failAt(n ast.Node, format string, args ...any) {
	pos := n.GetToken().Position
	msg := fmt.Sprintf(format, args...)
	if pos.Line < 1 || pos.Line > len(w.lines) {
		w.fail("%s: %s", w.path, msg)
		return
	}
	line := strings.TrimRight(w.lines[pos.Line-1], "\r")
	if mayHoldSecret(line) {
		w.fail("%s:%d:%d: %s", w.path, pos.Line, pos.Column, msg)
		return
	}
	w.fail("%s:%d:%d: %s\n    %s\n    %*s", w.path, pos.Line, pos.Column, msg, line, pos.Column, "^")
}

// section reads the keys of one mapping; prefix is "" or ends with a dot.
func (w fileWalk) section(n ast.Node, prefix string) {
	m, ok := n.(ast.MapNode)
	if !ok {
		if w.under+prefix == "" {
			w.failAt(n, "expected keys with values")
		} else {
			w.failAt(n, "%s is a section: expected keys below it", strings.TrimSuffix(w.under+prefix, "."))
		}
		return
	}
	for it := m.MapRange(); it.Next(); {
		key := prefix + it.Key().GetToken().Value
		_, leaf := w.fields[key]
		switch {
		case leaf && w.fields[key].Kind == kindKeys:
			w.accessKeys(key, it.Value())
		case leaf:
			w.value(key, it.Value())
		case w.isSection(key):
			// A section with nothing below it is as good as none.
			if it.Value().Type() != ast.NullType {
				w.section(it.Value(), key+".")
			}
		default:
			w.failAt(it.Key(), "unknown key %s%s%s", w.under, key, didYouMean(key, w.names()))
		}
	}
}

func (w fileWalk) isSection(key string) bool {
	for _, k := range w.into {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// names lists the keys and the sections.
func (w fileWalk) names() []string {
	out := append([]string(nil), w.into...)
	for _, k := range w.into {
		if i := strings.LastIndexByte(k, '.'); i > 0 {
			out = append(out, k[:i])
		}
	}
	return out
}

// value reads the value of one key. A key without a value keeps its default.
func (w fileWalk) value(key string, n ast.Node) {
	f := w.fields[key]
	switch {
	case n.Type() == ast.NullType:
		return
	case f.Kind == "queues":
		w.queues(n)
		return
	case f.Kind == kindBindings:
		w.bindings(key, n)
		return
	case f.Kind == "queue":
		q := Queue{}
		w.settings(&q, key, n)
		w.out.Config.AutoCreateQueue = &q
		w.out.origins[key] = w.origin(n)
		return
	case f.Kind == "map":
		w.pairs(f, n)
		return
	}
	text, err := nodeText(n)
	switch {
	case err != nil:
		w.failAt(n, "%s%s: %s", w.under, key, err)
	case n.Type() == ast.SequenceType && f.Kind != "list":
		w.failAt(n, "%s%s: expected one value, not a list", w.under, key)
	case w.queue != nil:
		if err = f.check(text); err == nil {
			err = f.setIn(reflect.ValueOf(w.queue).Elem(), text)
		}
		if err != nil {
			w.failAt(n, "%s%s", w.under, err)
		}
		w.out.origins[w.under+key] = w.origin(n)
	default:
		if err := w.put(key, text, w.origin(n)); err != nil {
			w.failAt(n, "%s", err)
		}
	}
}

// accessKeys reads a list of access keys. A file with secrets in it must be its
// owner's alone.
func (w fileWalk) accessKeys(key string, n ast.Node) {
	keys, mistakes := readKeys(n)
	for _, m := range mistakes {
		pos := m.at.GetToken().Position
		w.fail("%s:%d:%d: %s: %s", w.path, pos.Line, pos.Column, key, m.text)
	}
	if holdsSecret(keys) && w.mode&0o077 != 0 {
		w.fail("%s holds secrets and can be read by other users (mode %04o): chmod 600 it, or use secret_file", w.path, w.mode)
	}
	w.out.Config.SQS.AccessKeys = keys
	w.out.origins[key] = w.origin(n)
}

// origin says where n stands.
func (w fileWalk) origin(n ast.Node) string {
	if strings.HasPrefix(w.path, "--") || strings.HasPrefix(w.path, "environment ") {
		return w.path
	}
	return fmt.Sprintf("file %s:%d", w.path, n.GetToken().Position.Line)
}

// queues reads queues by name.
func (w fileWalk) queues(n ast.Node) {
	m, ok := n.(ast.MapNode)
	if !ok {
		w.failAt(n, "queues: expected names with settings below them, such as orders: {}")
		return
	}
	for it := m.MapRange(); it.Next(); {
		q := Queue{Name: it.Key().GetToken().Value}
		w.out.origins["queues."+q.Name] = w.origin(it.Key())
		w.settings(&q, "queues."+q.Name, it.Value())
		w.out.Config.putQueue(q)
	}
	w.out.origins["queues"] = w.origin(n)
}

// settings reads the keys of one queue.
func (w fileWalk) settings(q *Queue, under string, n ast.Node) {
	if n.Type() == ast.NullType {
		return
	}
	w.queue, w.under, w.fields, w.into = q, under+".", map[string]Field{}, nil
	for _, f := range QueueFields() {
		w.fields[f.Key] = f
		w.into = append(w.into, f.Key)
	}
	w.section(n, "")
}

// pairs reads names with values.
func (w fileWalk) pairs(f Field, n ast.Node) {
	m, ok := n.(ast.MapNode)
	if !ok {
		w.failAt(n, "%s%s: expected names with values below them", w.under, f.Key)
		return
	}
	out := map[string]string{}
	for it := m.MapRange(); it.Next(); {
		name := it.Key().GetToken().Value
		if it.Value().Type() == ast.NullType {
			out[name] = ""
			continue
		}
		text, err := nodeText(it.Value())
		if err == nil && it.Value().Type() == ast.SequenceType {
			err = errors.New("expected one value, not a list")
		}
		if err != nil {
			w.failAt(it.Value(), "%s%s.%s: %s", w.under, f.Key, name, err)
			continue
		}
		out[name] = text
	}
	reflect.ValueOf(w.queue).Elem().FieldByIndex(f.index).Set(reflect.ValueOf(out))
}

// nodeText returns a scalar or a list of scalars as it would be written in the
// environment.
func nodeText(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		var parts []string
		for _, v := range n.Values {
			s, err := nodeText(v)
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, ","), nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		// As written: account 000000000000 stays twelve digits without quotes.
		return n.GetToken().Value, nil
	case *ast.MappingNode, *ast.MappingValueNode:
		return "", fmt.Errorf("expected a value, not keys")
	}
	return "", fmt.Errorf("expected a plain value; anchors, aliases and tags are not supported")
}
