package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// EnvPrefix starts the name of every environment variable that sets a key.
const EnvPrefix = "BROKER_"

// Field describes one key.
type Field struct {
	Key     string   // "storage.sync"
	Env     string   // "BROKER_STORAGE_SYNC"
	Flag    string   // "sync", without dashes; empty: it has none
	Kind    string   // "string", "bool", "integer", "number", "duration", "size", "list", "map", "access keys", "bindings", "queue" or "queues"
	OneOf   []string // the values allowed; empty: see Config.Check
	Doc     string
	Default string // as it is written in a file

	index []int // of the struct field, from Config or Queue
}

// Fields lists every key in the order of Config.
func Fields() []Field {
	defaults := Default()
	return appendFields(nil, reflect.ValueOf(defaults), "", nil)
}

func appendFields(out []Field, v reflect.Value, prefix string, index []int) []Field {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		key := prefix + sf.Tag.Get("yaml")
		at := append(append([]int(nil), index...), i)
		if key == prefix+"-" {
			continue
		}
		if sf.Type.Kind() == reflect.Struct {
			out = appendFields(out, v.Field(i), key+".", at)
			continue
		}
		f := Field{
			Key:     key,
			Env:     EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")),
			Flag:    sf.Tag.Get("flag"),
			Kind:    kindOf(sf),
			Doc:     sf.Tag.Get("doc"),
			Default: text(v.Field(i)),
			index:   at,
		}
		if f.Flag == "" && f.Kind != kindKeys && f.Kind != kindBindings && f.Kind != "queue" && f.Kind != "queues" {
			f.Flag = strings.NewReplacer(".", "-", "_", "-").Replace(key)
		}
		if o := sf.Tag.Get("oneof"); o != "" {
			f.OneOf = strings.Split(o, "|")
		}
		out = append(out, f)
	}
	return out
}

func kindOf(sf reflect.StructField) string {
	t := sf.Type
	if t.Kind() == reflect.Pointer && t.Elem() != reflect.TypeFor[Queue]() {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return "bool"
	case sf.Tag.Get("unit") == "bytes":
		return "size"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "integer"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.String:
		return "string"
	case t == reflect.TypeFor[[]string]():
		return "list"
	case t == reflect.TypeFor[[]AccessKey]():
		return kindKeys
	case t == reflect.TypeFor[[]Binding]():
		return kindBindings
	case t == reflect.TypeFor[map[string]string]():
		return "map"
	case t == reflect.TypeFor[*Queue]():
		return "queue"
	case t == reflect.TypeFor[[]Queue]():
		return "queues"
	}
	panic("configs: no setter for type " + t.String())
}

// Text returns the value of the key in c as it is written in the environment,
// with secrets hidden.
func (f Field) Text(c Config) string {
	return text(reflect.ValueOf(c).FieldByIndex(f.index))
}

// Value returns the value of the key in c as it is written in a file: plain
// data with secrets hidden, or nil if there is none.
func (f Field) Value(c Config) any {
	v := reflect.ValueOf(c).FieldByIndex(f.index)
	switch x := v.Interface().(type) {
	case time.Duration:
		return text(v)
	case []AccessKey:
		return shown(x)
	case []Binding:
		return bindingValues(x)
	case *Queue:
		if x == nil {
			return nil
		}
		return x.values()
	case []Queue:
		return queueValues(x)
	}
	return v.Interface()
}

// TextOf returns the value of a key of QueueFields in q, and whether q has one.
func (f Field) TextOf(q Queue) (string, bool) {
	v := reflect.ValueOf(q).FieldByIndex(f.index)
	return text(v), !v.IsZero()
}

func text(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	switch x := v.Interface().(type) {
	case []string:
		return strings.Join(x, ",")
	case []AccessKey:
		return keysText(x)
	case []Binding:
		if len(x) == 0 {
			return ""
		}
		return flow(bindingValues(x))
	case map[string]string:
		if len(x) == 0 {
			return ""
		}
		return flow(inOrder(x))
	case *Queue:
		return flow(x.values())
	case []Queue:
		if len(x) == 0 {
			return ""
		}
		return flow(queueValues(x))
	case time.Duration:
		return DurationText(x)
	}
	return fmt.Sprint(reflect.Indirect(v).Interface())
}

// set writes the value that s spells to the key in c.
func (f Field) set(c *Config, s string) error { return f.setIn(reflect.ValueOf(c).Elem(), s) }

// setIn writes the value that s spells to the key in target, a Config or a
// Queue. Lists are separated by commas. Bounds are checked later, when every
// source has been read.
func (f Field) setIn(target reflect.Value, s string) error {
	v := target.FieldByIndex(f.index)
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch f.Kind {
	case "string":
		v.SetString(s)
	case "bool":
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%s: %q is not true or false", f.Key, s)
		}
		v.SetBool(b)
	case "integer":
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%s: %q is not a whole number", f.Key, s)
		}
		v.SetInt(int64(n))
	case "number":
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fmt.Errorf("%s: %q is not a number", f.Key, s)
		}
		v.SetFloat(n)
	case "duration":
		d, err := ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%s: %q is not a duration such as 100ms or 2s", f.Key, s)
		}
		v.SetInt(int64(d))
	case "size":
		n, err := ParseSize(s)
		if err != nil {
			return fmt.Errorf("%s: %q is not a size such as 256KiB", f.Key, s)
		}
		v.SetInt(n)
	case "list":
		v.Set(reflect.ValueOf(splitList(s)))
	case kindKeys:
		keys, err := parseKeys(s)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Key, err)
		}
		v.Set(reflect.ValueOf(keys))
	}
	return nil
}

// splitList splits s at commas. An empty s is an empty list.
func splitList(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
