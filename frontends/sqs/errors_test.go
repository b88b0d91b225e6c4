package sqs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// coreSentinels reads the names and texts of the core's errors from its source,
// so that a new one cannot be forgotten here.
func coreSentinels(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../core/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
			return true
		}
		call, ok := spec.Values[0].(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			t.Fatalf("%s is not made by errors.New", spec.Names[0].Name)
		}
		text, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name] = text
		return true
	})
	if len(found) < 10 {
		t.Fatalf("found only %d errors in core/errors.go", len(found))
	}
	return found
}

func TestEveryErrorOfTheCoreIsMapped(t *testing.T) {
	mapped := map[string]bool{}
	for _, c := range coreFaults() {
		if mapped[c.err.Error()] {
			t.Errorf("%q is mapped twice", c.err)
		}
		mapped[c.err.Error()] = true
	}
	for name, text := range coreSentinels(t) {
		if !mapped[text] {
			t.Errorf("core.%s (%q) is not mapped", name, text)
		}
	}
}

func TestEveryFaultHasItsWire(t *testing.T) {
	internal := faultInternal.wire()
	for f := faultUnavailable; f < faultEnd; f++ {
		w := f.wire()
		if w == internal {
			t.Errorf("fault %d has no wire of its own", f)
		}
		if w.code == "" || w.shape == "" || w.status < 400 {
			t.Errorf("fault %d is told as %+v", f, w)
		}
	}
}
