package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// output writes the data of a command in the form that -o names.
type output struct {
	form string
	w    io.Writer
}

// addOutput gives cmd the flag -o.
func addOutput(cmd *cobra.Command, w io.Writer, standard string) *output {
	o := &output{w: w}
	cmd.Flags().StringVarP(&o.form, "output", "o", standard, "`FORMAT` of the data: table, json, yaml or name")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if forms := []string{"table", "json", "yaml", "name"}; !slices.Contains(forms, o.form) {
			return fmt.Errorf("--output is %q, not one of %s", o.form, strings.Join(forms, ", "))
		}
		return nil
	}
	return o
}

// show writes value as JSON or YAML, or t, or the names alone.
func (o *output) show(value any, t table, names ...string) error {
	switch o.form {
	case "json":
		return o.json(value, jsontext.WithIndent("  "))
	case "yaml":
		b, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return err
		}
		if b, err = yaml.JSONToYAML(b); err != nil {
			return err
		}
		_, err = o.w.Write(b)
		return err
	case "name":
		_, err := io.WriteString(o.w, lines(names))
		return err
	}
	return t.write(o.w)
}

func (o *output) json(value any, options ...json.Options) error {
	b, err := json.Marshal(value, append(options, json.Deterministic(true))...)
	if err != nil {
		return err
	}
	_, err = o.w.Write(append(b, '\n'))
	return err
}

func lines(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\n") + "\n"
}

// table is text in columns.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(row ...string) { t.rows = append(t.rows, row) }

func (t table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if t.header != nil {
		fmt.Fprintln(tw, strings.Join(t.header, "\t"))
	}
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// isTerminal tells whether a stream is one that a person sits at.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprint(n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f%ci", v, units[i])
}
