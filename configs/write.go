package configs

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Write writes the keys of c that want accepts as a file that Load reads. The
// text that note returns for a key stands behind it as a comment; note may be
// nil.
func Write(w io.Writer, c Config, want func(Field) bool, note func(Field) string) error {
	var b strings.Builder
	section := ""
	for _, f := range Fields() {
		if !want(f) {
			continue
		}
		name, indent := f.Key, ""
		if at := strings.LastIndexByte(f.Key, '.'); at >= 0 {
			if f.Key[:at] != section {
				section = f.Key[:at]
				fmt.Fprintf(&b, "%s:\n", section)
			}
			name, indent = f.Key[at+1:], "  "
		}
		line, below := indent+name+":", ""
		if m, ok := f.Value(c).(yaml.MapSlice); ok && len(m) > 0 {
			below = block(m, indent+"  ")
		} else {
			line += " " + flow(f.Value(c))
		}
		if note != nil {
			line = fmt.Sprintf("%-40s # %s", line, note(f))
		}
		b.WriteString(line + "\n" + below)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// block writes a map as lines of YAML.
func block(m yaml.MapSlice, indent string) string {
	var b strings.Builder
	for _, item := range m {
		b.WriteString(indent + scalar(fmt.Sprint(item.Key)) + ":")
		if below, ok := item.Value.(yaml.MapSlice); ok && len(below) > 0 {
			b.WriteString("\n" + block(below, indent+"  "))
		} else {
			b.WriteString(" " + flow(item.Value) + "\n")
		}
	}
	return b.String()
}

// flow writes what Field.Value returns as YAML in one line.
func flow(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return scalar(v)
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = scalar(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []yaml.MapSlice:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = flow(m)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MapSlice:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = scalar(fmt.Sprint(item.Key)) + ": " + flow(item.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v) // numbers and booleans
}

// inOrder sorts a map by its names.
func inOrder(m map[string]string) yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, yaml.MapItem{Key: name, Value: m[name]})
	}
	return out
}

// scalar writes a text so that every YAML reader takes it for one: in quotes
// unless it cannot be anything else.
func scalar(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	words := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", "-.inf", ".nan"}
	_, isFloat := strconv.ParseFloat(s, 64)
	_, isInt := strconv.ParseInt(s, 0, 64)
	if strings.ContainsAny(s, letters) && strings.Trim(s, letters+"0123456789./-") == "" && !strings.HasPrefix(s, "-") &&
		isFloat != nil && isInt != nil && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x10000 && !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
