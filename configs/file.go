package configs

import (
	"fmt"
	"io/fs"
	"os"
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
	if err == nil && info.Size() > fileBytesMax {
		err = fmt.Errorf("%s: larger than %d bytes", path, fileBytesMax)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		b.fail("configuration: %w", err)
		return
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		quote := !mayHoldSecret(string(data))
		b.fail("%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, quote)))
		return
	}
	w := fileWalk{builder: b, path: path, mode: permissions(info), lines: strings.Split(string(data), "\n")}
	seen := false
	for _, doc := range tree.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType:
		case seen:
			w.failAt(doc.Body, "a second document; one file is one configuration")
		default:
			seen = true
			w.section(doc.Body, "")
		}
	}
}

type fileWalk struct {
	*builder
	path  string
	mode  fs.FileMode
	lines []string
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
		if prefix == "" {
			w.failAt(n, "expected keys with values")
		} else {
			w.failAt(n, "%s is a section: expected keys below it", strings.TrimSuffix(prefix, "."))
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
			w.failAt(it.Key(), "unknown key %s%s", key, didYouMean(key, w.names()))
		}
	}
}

func (w fileWalk) isSection(key string) bool {
	for _, k := range w.keys {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// names lists the keys and the sections.
func (w fileWalk) names() []string {
	out := append([]string(nil), w.keys...)
	for _, k := range w.keys {
		if i := strings.LastIndexByte(k, '.'); i > 0 {
			out = append(out, k[:i])
		}
	}
	return out
}

// value reads the value of one key. A key without a value keeps its default.
func (w fileWalk) value(key string, n ast.Node) {
	text, err := nodeText(n)
	list := n.Type() == ast.SequenceType
	wantList := w.fields[key].Kind == "list"
	switch {
	case n.Type() == ast.NullType:
	case err != nil:
		w.failAt(n, "%s: %s", key, err)
	case list && !wantList:
		w.failAt(n, "%s: expected one value, not a list", key)
	default:
		origin := fmt.Sprintf("file %s:%d", w.path, n.GetToken().Position.Line)
		if err := w.put(key, text, origin); err != nil {
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
	w.out.origins[key] = fmt.Sprintf("file %s:%d", w.path, n.GetToken().Position.Line)
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
