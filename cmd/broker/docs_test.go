package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// TestReferenceListsTheCommands compares docs/cli.md with the command tree.
func TestReferenceListsTheCommands(t *testing.T) {
	const path = "../../docs/cli.md"
	for _, name := range []string{"BROKER_ADMIN", "BROKER_CONFIG"} {
		t.Setenv(name, "") // they change defaults
	}
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the commands are; run go test ./cmd/broker -run Reference -update", path)
	}
}

// reference is the text of docs/cli.md.
func reference() string {
	var b strings.Builder
	b.WriteString(`# Command line

Written by "go test ./cmd/broker -run Reference -update" from the commands themselves.

Data goes to standard output, messages to standard error. ` + "`-o`" + ` chooses the form of the data: table, json, yaml or name.
The client commands reach a broker through ` + "`--admin URL`" + `, or BROKER_ADMIN. Every setting of a node has a flag, a key and a
variable: see [configuration.md](configuration.md).

| exit code | meaning |
| --- | --- |
| 0 | ok |
| 1 | error |
| 2 | command line or configuration |
| 3 | not found |
| 4 | cannot connect |
| 5 | not authorised |
| 6 | conflict |
| 7 | timed out: fewer messages than asked for |
| 8 | not primary |
`)
	root := newRootCommand(streams{strings.NewReader(""), io.Discard, io.Discard})
	root.InitDefaultHelpFlag()
	describe(&b, root)
	// A default that is made up at each start.
	return regexp.MustCompile(`"bench-[0-9a-f]+"`).ReplaceAllString(b.String(), `"bench-..."`)
}

func describe(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.Hidden {
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."))
		if cmd.Long != "" {
			fmt.Fprintf(b, "\n%s\n", cmd.Long)
		}
		fmt.Fprintf(b, "\n```\n%s\n", cmd.UseLine())
		// The root has the flags of serve.
		if flags := cmd.NonInheritedFlags(); flags.HasAvailableFlags() && cmd.HasParent() {
			fmt.Fprintf(b, "\n%s", flags.FlagUsagesWrapped(helpWidth))
		}
		b.WriteString("```\n")
	}
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			describe(b, sub)
		}
	}
}
