package broker_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// module is the path that imports of this module start with.
const module = "github.com/leasemq/broker"

// The limits of the house.
const (
	fileLinesMax        = 600
	testFileLinesMax    = 1000
	functionLinesMax    = 80
	interfaceMethodsMax = 8
)

// room says what the packages below a folder may import of this module. Each
// entry is a folder; "x/..." takes its subfolders in. Standard library and
// other modules are open to all.
type room struct {
	folder  string
	imports []string
	tests   []string // what its test files may import besides
}

// rooms are ordered from the most particular: the first that fits rules.
func rooms() []room {
	anything := []string{"..."}
	return []room{
		{"core/selector", nil, nil},
		{"core", []string{"core/..."}, []string{"storage"}},
		{"storage", []string{"core/...", "storage/..."}, nil},
		{"cluster/relay", nil, []string{"frontends"}},
		{"cluster", []string{"core/...", "cluster/..."}, []string{"storage"}},
		{"configs/hocon", nil, nil},
		{"configs", []string{"configs/..."}, nil},
		{"frontends/frontendtest", []string{"core/...", "frontends", "storage"}, nil},
		{"frontends/*", []string{"core/...", "frontends"}, []string{"storage", "frontends/frontendtest"}},
		{"frontends", []string{"core/..."}, []string{"storage"}},
		{"plugins/*", []string{"core/...", "plugins"}, []string{"storage"}},
		{"plugins", []string{"core/..."}, nil},
		{"cmd", anything, nil},
		{"e2e", anything, nil},
		{".", []string{"core/...", "storage/...", "cluster/...", "frontends/...", "plugins/...", "configs"}, []string{"."}},
	}
}

// allowed lists the exceptions: what a finding starts with, and why it stands.
// One that excuses nothing is a finding itself.
func allowed() map[string]string {
	return map[string]string{
		"cmd/broker/version.go: package-level var version":  "the linker sets it: -ldflags -X needs a variable",
		"cmd/broker/version.go: package-level var revision": "the linker sets it: -ldflags -X needs a variable",
	}
}

func TestHouseRules(t *testing.T) {
	findings := inspect(os.DirFS("."))
	excused := map[string]bool{}
	for _, f := range findings {
		ok := false
		for prefix := range allowed() {
			if strings.HasPrefix(f, prefix) {
				ok, excused[prefix] = true, true
			}
		}
		if !ok {
			t.Error(f)
		}
	}
	for prefix := range allowed() {
		if !excused[prefix] {
			t.Errorf("the exception %q excuses nothing: remove it", prefix)
		}
	}
}

// TestHouseRulesCanFail breaks each rule once.
func TestHouseRulesCanFail(t *testing.T) {
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	const doc = "// Package x is here.\npackage x\n"
	imports := func(p string) string { return doc + fmt.Sprintf("import _ %q\n", module+p) }
	for name, c := range map[string]struct{ file, source, want string }{
		"core imports storage":          {"core/a.go", imports("/storage"), "core/a.go: imports storage"},
		"core imports the root":         {"core/a.go", imports(""), "core/a.go: imports ."},
		"storage imports a frontend":    {"storage/a.go", imports("/frontends/sqs"), "storage/a.go: imports frontends/sqs"},
		"cluster imports storage":       {"cluster/a.go", imports("/storage"), "cluster/a.go: imports storage"},
		"the relay imports frontends":   {"cluster/relay/a.go", imports("/frontends"), "cluster/relay/a.go: imports frontends"},
		"a frontend imports another":    {"frontends/sqs/a.go", imports("/frontends/stomp"), "frontends/sqs/a.go: imports frontends/stomp"},
		"a frontend imports storage":    {"frontends/sqs/a.go", imports("/storage"), "frontends/sqs/a.go: imports storage"},
		"a frontend imports configs":    {"frontends/sqs/a.go", imports("/configs"), "frontends/sqs/a.go: imports configs"},
		"shared imports one":            {"frontends/a.go", imports("/frontends/sqs"), "frontends/a.go: imports frontends/sqs"},
		"a plugin imports a frontend":   {"plugins/p/a.go", imports("/frontends"), "plugins/p/a.go: imports frontends"},
		"configs imports core":          {"configs/a.go", imports("/core"), "configs/a.go: imports core"},
		"a selector imports core":       {"core/selector/a.go", imports("/core"), "core/selector/a.go: imports core"},
		"hocon imports configs":         {"configs/hocon/a.go", imports("/configs"), "configs/hocon/a.go: imports configs"},
		"the root imports cmd":          {"a.go", imports("/cmd/broker/bench"), "a.go: imports cmd/broker/bench"},
		"a folder without a rule":       {"util/a.go", doc, "util: no rule"},
		"a test imports across":         {"frontends/sqs/a_test.go", imports("/frontends/stomp"), "frontends/sqs/a_test.go: imports frontends/stomp"},
		"no package comment":            {"core/selector/a.go", "package selector\n", "core/selector: no package comment"},
		"a comment that names no one":   {"core/selector/a.go", "// This is.\npackage selector\n", "core/selector: no package comment"},
		"a long file":                   {"core/a.go", doc + lines(fileLinesMax, ""), "core/a.go: 602 lines"},
		"a long test":                   {"core/a_test.go", doc + lines(testFileLinesMax, ""), "core/a_test.go: 1002 lines"},
		"a long function":               {"core/a.go", doc + "func f() {\n" + lines(functionLinesMax, "") + "}\n", "core/a.go: function f has 82 lines"},
		"a long method":                 {"core/a.go", doc + "type T int\nfunc (T) f() {\n" + lines(functionLinesMax, "") + "}\n", "core/a.go: function f has 82 lines"},
		"a wide interface":              {"core/a.go", doc + "type I interface { A(); B(); C(); D(); E(); F(); G(); H(); J() }\n", "core/a.go: an interface has 9 methods"},
		"a wide interface in a literal": {"core/a.go", doc + "func f(interface { A(); B(); C(); D(); E(); F(); G(); H(); J() }) {}\n", "core/a.go: an interface has 9 methods"},
		"init":                          {"core/a.go", doc + "func init() {}\n", "core/a.go: func init"},
		"a variable":                    {"core/a.go", doc + "var count int\n", "core/a.go: package-level var count"},
		"a variable in a group":         {"core/a.go", doc + "import \"errors\"\nvar (\n\tErrA = errors.New(\"a\")\n\ttable = map[int]int{}\n)\n", "core/a.go: package-level var table"},
		"an error that is not":          {"core/a.go", doc + "var ErrCount = 1\n", "core/a.go: package-level var ErrCount"},
		"undocumented function":         {"core/a.go", doc + "func Open() {}\n", "core/a.go: Open has no comment"},
		"undocumented type":             {"core/a.go", doc + "type Queue struct{}\n", "core/a.go: Queue has no comment"},
		"undocumented method":           {"core/a.go", doc + "// T is.\ntype T int\nfunc (T) Close() {}\n", "core/a.go: Close has no comment"},
		"a comment on something else":   {"core/a.go", doc + "// Opens it.\nfunc Open() {}\n", "core/a.go: Open has no comment"},
		"an empty name":                 {"common/a.go", doc, "common: a package called common"},
		"not Go":                        {"core/a.go", "package\n", "core/a.go: "},
	} {
		t.Run(name, func(t *testing.T) {
			house := soundHouse()
			house[c.file] = &fstest.MapFile{Data: []byte(c.source)}
			findings := inspect(house)
			if !slices.ContainsFunc(findings, func(f string) bool { return strings.HasPrefix(f, c.want) }) {
				t.Errorf("findings %q lack %q", findings, c.want)
			}
		})
	}
}

func TestHouseRulesCanPass(t *testing.T) {
	if findings := inspect(soundHouse()); len(findings) > 0 {
		t.Errorf("findings in a sound house: %q", findings)
	}
}

// soundHouse breaks no rule. It uses what the rules allow.
func soundHouse() fstest.MapFS {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"doc.go": file("// Package broker is the door.\npackage broker\nimport _ \"" + module + "/frontends/sqs\"\n"),
		"core/doc.go": file("// Package core is the domain.\npackage core\nimport (\n\t\"errors\"\n\t\"fmt\"\n\t_ \"" + module + "/core/match\"\n)\n" +
			"// Errors.\nvar (\n\tErrA = errors.New(\"a\")\n\tErrB = fmt.Errorf(\"b: %w\", ErrA)\n)\n" +
			"var _ fmt.Stringer = Kind(0)\n// Kind is a kind.\ntype Kind int\n// String names it.\nfunc (Kind) String() string { return \"\" }\n" +
			"// Wide embeds: a name counts as one.\ntype Wide interface { Narrow; A(); B(); C(); D(); E(); F(); G() }\n// Narrow is narrow.\ntype Narrow interface { H(); I() }\n"),
		"core/match/match.go":              file("// Package match matches.\npackage match\n"),
		"core/core_test.go":                file("package core_test\nimport _ \"" + module + "/storage\"\nvar seed = 1\nfunc init() {}\n"),
		"storage/doc.go":                   file("// Package storage stores.\npackage storage\nimport _ \"" + module + "/core\"\n"),
		"frontends/doc.go":                 file("// Package frontends is shared.\npackage frontends\n"),
		"frontends/sqs/doc.go":             file("// Package sqs speaks SQS.\npackage sqs\nimport (\n\t_ \"" + module + "/core\"\n\t_ \"" + module + "/frontends\"\n\t_ \"" + module + "/frontends/sqs/wire\"\n)\n"),
		"frontends/sqs/wire/doc.go":        file("// Package wire is below.\npackage wire\n"),
		"frontends/sqs/sqs_test.go":        file("package sqs\nimport (\n\t_ \"" + module + "/storage\"\n\t_ \"" + module + "/frontends/frontendtest\"\n)\n"),
		"frontends/frontendtest/doc.go":    file("// Package frontendtest tests.\npackage frontendtest\nimport _ \"" + module + "/storage\"\n"),
		"cmd/broker/main.go":               file("// Command broker runs.\npackage main\nimport _ \"" + module + "\"\n"),
		"core/testdata/broken.go":          file("package\n"),
		"core/generated.go":                file("// Code generated by stringer. DO NOT EDIT.\n\npackage core\n"),
		"node_modules/x/x.go":              file("package\n"),
		".cache/x/x.go":                    file("package\n"),
		"core/match/with_blank_test.go":    file("package match\n"),
		"frontends/frontendtest/x_test.go": file("package frontendtest\n"),
	}
}

// inspector collects what breaks the rules.
type inspector struct {
	findings   []string
	documented map[string]bool // package folders, whether one file has the comment
}

func (in *inspector) find(format string, args ...any) {
	in.findings = append(in.findings, fmt.Sprintf(format, args...))
}

// inspect returns what breaks the rules of the house in fsys, sorted.
func inspect(fsys fs.FS) []string {
	in := &inspector{documented: map[string]bool{}}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || name == "node_modules" || name != "." && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			source, err := fs.ReadFile(fsys, p)
			if err != nil {
				return err
			}
			in.file(p, source)
		}
		return nil
	})
	if err != nil {
		in.find("%v", err)
	}
	for folder, ok := range in.documented {
		if !ok {
			in.find("%s: no package comment that starts with its name", folder)
		}
		if _, ok := roomOf(folder); !ok {
			in.find("%s: no rule says what it may import", folder)
		}
		if slices.Contains([]string{"util", "utils", "common", "helpers", "models", "types", "manager"}, path.Base(folder)) {
			in.find("%s: a package called %s", folder, path.Base(folder))
		}
	}
	slices.Sort(in.findings)
	return in.findings
}

func (in *inspector) file(p string, source []byte) {
	tokens := token.NewFileSet()
	f, err := parser.ParseFile(tokens, p, source, parser.ParseComments)
	if err != nil {
		in.find("%s: %v", p, err)
		return
	}
	test := strings.HasSuffix(p, "_test.go")
	in.imports(p, f, test)
	if ast.IsGenerated(f) {
		return
	}
	most := fileLinesMax
	if test {
		most = testFileLinesMax
	}
	if n := bytes.Count(source, []byte("\n")); n > most {
		in.find("%s: %d lines, over %d", p, n, most)
	}
	if !test {
		folder := path.Dir(p)
		in.documented[folder] = in.documented[folder] || introduces(f)
		in.declarations(p, f)
	}
	in.sizes(p, f, tokens)
}

// introduces tells whether f has a package comment in the usual form.
func introduces(f *ast.File) bool {
	text := f.Doc.Text()
	return strings.HasPrefix(text, "Package "+f.Name.Name+" ") || f.Name.Name == "main" && strings.HasPrefix(text, "Command ")
}

// roomOf returns the room that rules folder.
func roomOf(folder string) (room, bool) {
	for _, r := range rooms() {
		base, below := r.folder, folder
		if strings.HasSuffix(base, "/*") {
			// The room is the folder right below base.
			base = strings.TrimSuffix(base, "/*")
			rest, ok := strings.CutPrefix(below, base+"/")
			if !ok {
				continue
			}
			first, _, _ := strings.Cut(rest, "/")
			r.imports = append(slices.Clone(r.imports), path.Join(base, first)+"/...")
			return r, true
		}
		if base == folder || base != "." && strings.HasPrefix(folder, base+"/") {
			return r, true
		}
	}
	return room{}, false
}

func (in *inspector) imports(p string, f *ast.File, test bool) {
	r, _ := roomOf(path.Dir(p))
	may := r.imports
	if test {
		// A test outside of its package imports that package.
		may = slices.Concat(r.imports, r.tests, []string{path.Dir(p)})
	}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || imported != module && !strings.HasPrefix(imported, module+"/") {
			continue
		}
		folder := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
		if folder == "" {
			folder = "."
		}
		if !slices.ContainsFunc(may, func(pattern string) bool { return covers(pattern, folder) }) {
			in.find("%s: imports %s, which it must not know", p, folder)
		}
	}
}

func covers(pattern, folder string) bool {
	base, deep := strings.CutSuffix(pattern, "...")
	if !deep {
		return pattern == folder
	}
	base = strings.TrimSuffix(base, "/")
	return base == "" || folder == base || strings.HasPrefix(folder, base+"/")
}

// sizes checks functions and interfaces, wherever they stand.
func (in *inspector) sizes(p string, f *ast.File, tokens *token.FileSet) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if lines := tokens.Position(n.End()).Line - tokens.Position(n.Pos()).Line + 1; lines > functionLinesMax {
				in.find("%s: function %s has %d lines, over %d", p, n.Name.Name, lines, functionLinesMax)
			}
		case *ast.InterfaceType:
			if methods := n.Methods.NumFields(); methods > interfaceMethodsMax {
				in.find("%s: an interface has %d methods, over %d", p, methods, interfaceMethodsMax)
			}
		}
		return true
	})
}

// declarations checks what a file that is not a test declares.
func (in *inspector) declarations(p string, f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				in.find("%s: func init", p)
			}
			if d.Name.IsExported() && exportedReceiver(d.Recv) {
				in.comment(p, d.Name.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					if d.Tok == token.VAR {
						in.variables(p, spec)
					}
				case *ast.TypeSpec:
					doc := spec.Doc
					if doc == nil {
						doc = d.Doc
					}
					if spec.Name.IsExported() {
						in.comment(p, spec.Name.Name, doc)
					}
				}
			}
		}
	}
}

func exportedReceiver(recv *ast.FieldList) bool {
	if recv == nil {
		return true
	}
	t := recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func (in *inspector) comment(p, name string, doc *ast.CommentGroup) {
	text := strings.TrimSpace(doc.Text())
	for _, article := range []string{"A ", "An ", "The "} {
		text = strings.TrimPrefix(text, article)
	}
	if !regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `\b`).MatchString(text) {
		in.find("%s: %s has no comment that starts with its name", p, name)
	}
}

// variables allows errors, and the blank name that proves an interface.
func (in *inspector) variables(p string, spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if name.Name == "_" {
			continue
		}
		if i < len(spec.Values) && isError(name.Name, spec.Values[i]) {
			continue
		}
		in.find("%s: package-level var %s", p, name.Name)
	}
}

// isError tells whether a variable is an error by its name and its value.
func isError(name string, value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok || !strings.HasPrefix(strings.ToLower(name), "err") {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "New" || sel.Sel.Name == "Errorf")
}
