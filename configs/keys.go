package configs

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of access keys.
const (
	AccessKeysMax     = 1000
	accessKeyBytesMax = 128 // of an id, and of a secret
)

// hidden is shown in place of a secret.
const hidden = "HIDDEN"

// kindKeys is the Field.Kind of a list of access keys.
const kindKeys = "access keys"

// Secret is a text that is not shown, whatever prints it.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// AccessKey is what an SQS client signs its requests with.
type AccessKey struct {
	ID string `yaml:"id" json:"id"`
	// Secret is what requests are signed with. Load reads it from SecretFile
	// if that is given.
	Secret     Secret `yaml:"secret,omitempty" json:"secret,omitempty"`
	SecretFile string `yaml:"secret_file,omitempty" json:"secret_file,omitempty"`
}

// String returns the id.
func (k AccessKey) String() string { return k.ID }

// shown returns keys as they may be shown: without what a file holds, and with
// the other secrets hidden.
func shown(keys []AccessKey) []yaml.MapSlice {
	out := make([]yaml.MapSlice, 0, len(keys))
	for _, k := range keys {
		m := yaml.MapSlice{{Key: "id", Value: k.ID}}
		switch {
		case k.SecretFile != "":
			m = append(m, yaml.MapItem{Key: "secret_file", Value: k.SecretFile})
		case k.Secret != "":
			m = append(m, yaml.MapItem{Key: "secret", Value: k.Secret.String()})
		}
		out = append(out, m)
	}
	return out
}

// keysText returns keys, as they may be shown, in the form of the environment.
func keysText(keys []AccessKey) string {
	if len(keys) == 0 {
		return ""
	}
	return flow(shown(keys))
}

// mistake is what is wrong with a list of access keys, and where. It never
// quotes a value, which may be a secret at the wrong place.
type mistake struct {
	at   ast.Node
	text string
}

// parseKeys reads a list of access keys from YAML text.
func parseKeys(s string) ([]AccessKey, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	// The errors of the parser quote the text.
	form := fmt.Errorf("not a list such as [{id: ID, secret_file: FILE}]")
	if checkNesting([]byte(s)) != nil {
		return nil, form
	}
	tree, err := parser.ParseBytes([]byte(s), 0)
	if err != nil || len(tree.Docs) != 1 {
		return nil, form
	}
	keys, mistakes := readKeys(tree.Docs[0].Body)
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("%s", mistakes[0].text)
	}
	return keys, nil
}

// readKeys reads a list of access keys from a syntax tree.
func readKeys(n ast.Node) (keys []AccessKey, mistakes []mistake) {
	if n == nil || n.Type() == ast.NullType {
		return nil, nil
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, []mistake{{n, "expected a list of access keys"}}
	}
	for _, item := range list.Values {
		k, wrong := readKey(item)
		keys, mistakes = append(keys, k), append(mistakes, wrong...)
	}
	return keys, mistakes
}

func readKey(n ast.Node) (k AccessKey, mistakes []mistake) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return k, []mistake{{n, "expected an access key: id, and secret or secret_file"}}
	}
	for it := m.MapRange(); it.Next(); {
		name := it.Key().GetToken().Value
		value, err := nodeText(it.Value())
		switch {
		case err != nil || it.Value().Type() == ast.SequenceType:
			mistakes = append(mistakes, mistake{it.Key(), "expected one value"})
		case name == "id":
			k.ID = value
		case name == "secret":
			k.Secret = Secret(value)
		case name == "secret_file":
			k.SecretFile = value
		default:
			known := []string{"id", "secret", "secret_file"}
			mistakes = append(mistakes, mistake{it.Key(), "not a key of an access key, which has id, and secret or secret_file" + didYouMean(name, known)})
		}
	}
	if len(mistakes) == 0 && (k.Secret == "") == (k.SecretFile == "") {
		mistakes = append(mistakes, mistake{n, "an access key has either secret or secret_file"})
	}
	return k, mistakes
}

// holdsSecret tells whether a secret stands among keys themselves.
func holdsSecret(keys []AccessKey) bool {
	for _, k := range keys {
		if k.Secret != "" {
			return true
		}
	}
	return false
}

// keySecrets reads the files that the access keys in force name.
func (b *builder) keySecrets() {
	for i := range b.out.Config.SQS.AccessKeys {
		k := &b.out.Config.SQS.AccessKeys[i]
		if k.SecretFile == "" {
			continue
		}
		value, err := readSecret(k.SecretFile)
		if err == nil && value == "" {
			err = fmt.Errorf("%s is empty", k.SecretFile)
		}
		if err != nil {
			b.fail("%s: sqs.access_keys: secret of %s: %w", place(b.out.Origin("sqs.access_keys")), k.ID, err)
			continue
		}
		k.Secret = Secret(value)
		b.warnOpen(k.SecretFile)
	}
}

// readSecret returns what the file at path holds, without a final newline.
func readSecret(path string) (string, error) {
	data, err := readFile(path, secretBytesMax)
	return strings.TrimRight(string(data), "\r\n"), err
}

// warnOpen warns if everyone can read the secret in a file. It is no error:
// container platforms mount secrets like that.
func (b *builder) warnOpen(path string) {
	info, err := os.Stat(path)
	if err != nil {
		return // it was read a moment ago
	}
	if mode := permissions(info); mode&0o007 != 0 {
		b.warn("%s holds a secret and is open to every user of this machine (mode %04o)", path, mode)
	}
}

// permissions returns who may do what with a file. Windows has no modes.
func permissions(info fs.FileInfo) fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0
	}
	return info.Mode().Perm()
}

// accessKeys checks the access keys.
func (k *checker) accessKeys(keys []AccessKey) {
	const key = "sqs.access_keys"
	if len(keys) > AccessKeysMax {
		k.fail(key, "%d access keys, over %d", len(keys), AccessKeysMax)
		return
	}
	seen := map[string]bool{}
	for i, a := range keys {
		name := cmp.Or(a.ID, fmt.Sprintf("number %d", i+1))
		switch {
		case !validKeyID(a.ID):
			k.fail(key, "%q: an id has up to %d letters, digits, dots, dashes and underscores", name, accessKeyBytesMax)
		case seen[a.ID]:
			k.fail(key, "%s is there twice", name)
		}
		seen[a.ID] = true
		switch {
		case a.Secret == "" && a.SecretFile == "":
			k.fail(key, "%s has no secret", name)
		case string(a.Secret) == hidden:
			k.fail(key, "%s: %s is shown in place of a secret, and is none", name, hidden)
		case !validSecret(string(a.Secret)):
			k.fail(key, "%s: a secret has up to %d printable ASCII characters, without spaces", name, accessKeyBytesMax)
		}
	}
}

func validKeyID(id string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return id != "" && len(id) <= accessKeyBytesMax && strings.Trim(id, letters) == ""
}

func validSecret(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7F {
			return false
		}
	}
	return len(s) <= accessKeyBytesMax
}
