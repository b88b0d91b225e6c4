package configs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Sources are where settings come from. Later fields win over earlier ones.
type Sources struct {
	Import  string            // path of a file of ElasticMQ; empty: none
	File    string            // path of a YAML file; empty: none
	Environ []string          // as os.Environ gives it
	Set     []string          // key=value
	Flags   map[string]string // by key
}

// Loaded is the outcome of a load.
type Loaded struct {
	Config Config
	// Warnings are about variables that look like a misspelt key, since container
	// platforms add BROKER_* variables of their own, about secrets that everyone
	// can read, and about what an imported file has and a node has not.
	Warnings []string

	origins map[string]string
}

// Origin says where the value of key comes from: "default", "file
// broker.yaml:7", "environment BROKER_LISTEN", "--set" or "flag --listen".
func (l *Loaded) Origin(key string) string {
	if o, ok := l.origins[key]; ok {
		return o
	}
	return "default"
}

// Load reads the sources, each over the one before. The error joins everything
// that is wrong with them; bounds are left to Config.Check.
func Load(s Sources) (*Loaded, error) {
	b := &builder{
		out:    &Loaded{Config: Default(), origins: map[string]string{}},
		fields: map[string]Field{},
	}
	for _, f := range Fields() {
		b.fields[f.Key] = f
		b.keys = append(b.keys, f.Key)
	}
	if s.Import != "" {
		b.elasticMQ(s.Import, s.Environ)
	}
	if s.File != "" {
		b.file(s.File)
	}
	b.environ(s.Environ)
	for _, kv := range s.Set {
		b.setting(kv)
	}
	for _, key := range b.keys {
		if v, ok := s.Flags[key]; ok {
			b.set(key, v, "flag --"+b.fields[key].Flag)
		}
	}
	b.keySecrets()
	return b.out, errors.Join(b.errs...)
}

// builder collects values, origins and errors of one load.
type builder struct {
	out    *Loaded
	fields map[string]Field
	keys   []string // of fields, in order
	errs   []error
}

func (b *builder) fail(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *builder) warn(format string, args ...any) {
	b.out.Warnings = append(b.out.Warnings, fmt.Sprintf(format, args...))
}

// put writes a value and remembers where it came from.
func (b *builder) put(key, value, origin string) error {
	f := b.fields[key]
	if err := f.check(value); err != nil {
		return err
	}
	if f.Kind == "queue" || f.Kind == "queues" || f.Kind == kindBindings {
		b.yaml(origin, []byte(value), func(w fileWalk, n ast.Node) { w.value(key, n) })
		return nil
	}
	if err := f.set(&b.out.Config, value); err != nil {
		return err
	}
	b.out.origins[key] = origin
	return nil
}

// check holds value against the list of those that are allowed.
func (f Field) check(value string) error {
	if len(f.OneOf) > 0 && !slices.Contains(f.OneOf, value) {
		return fmt.Errorf("%s: %q is not one of %s%s", f.Key, value, strings.Join(f.OneOf, ", "), didYouMean(value, f.OneOf))
	}
	return nil
}

func (b *builder) set(key, value, origin string) {
	if err := b.put(key, value, origin); err != nil {
		b.fail("%s: %w", origin, err)
	}
}

// setting reads one key=value of --set.
func (b *builder) setting(kv string) {
	key, value, ok := strings.Cut(kv, "=")
	if !ok {
		b.fail("--set %s: not of the form key=value", kv)
		return
	}
	if _, ok := b.fields[key]; !ok {
		b.fail("--set: unknown key %s%s", key, didYouMean(key, b.keys))
		return
	}
	if b.fields[key].Kind == kindKeys {
		if keys, err := parseKeys(value); err == nil && holdsSecret(keys) {
			b.fail("--set: %s: everyone on this machine sees a secret on the command line; use secret_file", key)
			return
		}
	}
	b.set(key, value, "--set")
}

// environ reads the variables that name a key, and those that name a file with
// the value of one.
func (b *builder) environ(environ []string) {
	vars := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			vars[name] = value
		}
	}
	var names []string
	byFlag := map[string]string{} // variables that are named after a flag, and should be after its key
	for _, key := range b.keys {
		env := b.fields[key].Env
		names = append(names, strings.TrimPrefix(env, EnvPrefix))
		if flag := b.fields[key].Flag; flag != "" {
			byFlag[EnvPrefix+strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))] = env
		}
		value, plain := vars[env]
		path, file := vars[env+"_FILE"]
		delete(vars, env)
		delete(vars, env+"_FILE")
		switch {
		case plain && file:
			b.fail("environment: both %s and %s_FILE are set", env, env)
		case plain:
			b.set(key, value, "environment "+env)
		case file:
			b.secret(key, env+"_FILE", path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		meant := byFlag[name]
		if near := Nearest(strings.TrimPrefix(name, EnvPrefix), names); meant == "" && near != "" {
			meant = EnvPrefix + near
		}
		if meant != "" {
			b.warn("%s is not a setting; did you mean %s?", name, meant)
		}
	}
}

// secretBytesMax bounds a file that a *_FILE variable names.
const secretBytesMax = 64 << 10

// readFile reads the file at path if it is no larger than most.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	// A device, or a pipe, does not tell how much it holds.
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, most)
	}
	return data, err
}

// secret sets key to what the file at path holds, without a final newline.
func (b *builder) secret(key, env, path string) {
	origin := "environment " + env
	value, err := readSecret(path)
	if err != nil {
		b.fail("%s: %w", origin, err)
		return
	}
	if b.fields[key].Kind == kindKeys {
		b.warnOpen(path)
	}
	b.set(key, value, origin)
}
