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
	Flag    string   // "sync", without dashes; empty: none
	Kind    string   // "string", "bool", "integer", "duration", "list" or "access keys"
	OneOf   []string // the values allowed; empty: see Config.Check
	Doc     string
	Default string // as it is written in a file

	index []int // of the struct field, from Config
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
		if sf.Type.Kind() == reflect.Struct {
			out = appendFields(out, v.Field(i), key+".", at)
			continue
		}
		f := Field{
			Key:     key,
			Env:     EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")),
			Flag:    sf.Tag.Get("flag"),
			Kind:    kindOf(sf.Type),
			Doc:     sf.Tag.Get("doc"),
			Default: text(v.Field(i)),
			index:   at,
		}
		if f.Flag == "" && f.Kind != kindKeys {
			f.Flag = strings.NewReplacer(".", "-", "_", "-").Replace(key)
		}
		if o := sf.Tag.Get("oneof"); o != "" {
			f.OneOf = strings.Split(o, "|")
		}
		out = append(out, f)
	}
	return out
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() == reflect.Int:
		return "integer"
	case t.Kind() == reflect.String:
		return "string"
	case t == reflect.TypeFor[[]string]():
		return "list"
	case t == reflect.TypeFor[[]AccessKey]():
		return kindKeys
	}
	panic("configs: no setter for type " + t.String())
}

// Text returns the value of the key in c as it is written in the environment,
// with secrets hidden.
func (f Field) Text(c Config) string {
	return text(reflect.ValueOf(c).FieldByIndex(f.index))
}

// Value returns the value of the key in c, with secrets hidden.
func (f Field) Value(c Config) any {
	v := reflect.ValueOf(c).FieldByIndex(f.index).Interface()
	if keys, ok := v.([]AccessKey); ok {
		return shown(keys)
	}
	return v
}

func text(v reflect.Value) string {
	switch list := v.Interface().(type) {
	case []string:
		return strings.Join(list, ",")
	case []AccessKey:
		return keysText(list)
	}
	return fmt.Sprint(v.Interface())
}

// set writes the value that s spells to the key in c. Lists are separated by
// commas. Bounds are checked later, when every source has been read.
func (f Field) set(c *Config, s string) error {
	v := reflect.ValueOf(c).Elem().FieldByIndex(f.index)
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
	case "duration":
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%s: %q is not a duration such as 100ms or 2s", f.Key, s)
		}
		v.SetInt(int64(d))
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
