package configs_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/leasemq/broker/configs"
)

var update = flag.Bool("update", false, "write the reference of keys into docs/configuration.md")

// TestReferenceListsTheKeys compares the reference with the fields of Config.
func TestReferenceListsTheKeys(t *testing.T) {
	const path, begin, end = "../docs/configuration.md", "go test ./configs -update\" -->\n", "<!-- end of keys -->"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks around the keys", path)
	}
	want := reference(configs.Fields(), true) + "\n## Keys of a queue\n\n" + reference(configs.QueueFields(), false)
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("%s is not what the keys are; run go test ./configs -update", path)
	}
}

// reference is a table of keys.
func reference(fields []configs.Field, flags bool) string {
	var b strings.Builder
	if flags {
		b.WriteString("| key | flag | default | meaning |\n| --- | --- | --- | --- |\n")
	} else {
		b.WriteString("| key | value | meaning |\n| --- | --- | --- |\n")
	}
	for _, f := range fields {
		value, flag, meaning := "`"+f.Default+"`", "`--"+f.Flag+"`", f.Doc
		if f.Default == "" {
			value = "empty"
		}
		if f.Flag == "" {
			flag = "none"
		}
		if len(f.OneOf) > 0 {
			meaning += " One of `" + strings.Join(f.OneOf, "`, `") + "`."
		}
		if !flags {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Key, f.Kind, meaning)
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Key, flag, value, meaning)
	}
	return b.String()
}
