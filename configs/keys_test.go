package configs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/leasemq/broker/configs"
)

// secret is what no output may hold.
const secret = "wJalrXUtnFEMI/K7MDENG"

const inlineKeys = "sqs:\n  access_keys:\n    - id: orders-api\n      secret: " + secret + "\n"

func TestAccessKeysAreReadFromEverySource(t *testing.T) {
	file := write(t, "key", secret+"\n")
	flow := "[{id: orders-api, secret_file: " + file + "}]"
	for name, s := range map[string]configs.Sources{
		"file":             {File: write(t, "a.yaml", inlineKeys)},
		"file, flow":       {File: write(t, "b.yaml", "sqs: { access_keys: [{ id: orders-api, secret: "+secret+" }] }\n")},
		"secret file":      {File: write(t, "c.yaml", "sqs:\n  access_keys:\n  - secret_file: "+file+"\n    id: orders-api\n")},
		"environment":      {Environ: []string{"BROKER_SQS_ACCESS_KEYS=[{id: orders-api, secret: " + secret + "}]"}},
		"environment file": {Environ: []string{"BROKER_SQS_ACCESS_KEYS_FILE=" + write(t, "keys", "- id: orders-api\n  secret: "+secret+"\n")}},
		"set":              {Set: []string{"sqs.access_keys=" + flow}},
		"the later wins":   {File: write(t, "d.yaml", "sqs: { access_keys: [{ id: other, secret_file: /none }] }\n"), Set: []string{"sqs.access_keys=" + flow}},
	} {
		t.Run(name, func(t *testing.T) {
			l := load(t, s)
			keys := l.Config.SQS.AccessKeys
			if len(keys) != 1 || keys[0].ID != "orders-api" || string(keys[0].Secret) != secret {
				t.Fatalf("got %d keys %v", len(keys), keys)
			}
			if err := l.Config.Check(kinds); err != nil {
				t.Error(err)
			}
			if len(l.Warnings) > 0 {
				t.Errorf("warnings: %q", l.Warnings)
			}
		})
	}
	for name, s := range map[string]configs.Sources{
		"empty list": {File: write(t, "e.yaml", "sqs:\n  access_keys: []\n")},
		"no list":    {File: write(t, "f.yaml", "sqs:\n  access_keys:\n")},
		"empty text": {Environ: []string{"BROKER_SQS_ACCESS_KEYS="}},
	} {
		if keys := load(t, s).Config.SQS.AccessKeys; len(keys) != 0 {
			t.Errorf("%s: %v", name, keys)
		}
	}
}

func TestAccessKeysThatAreRefused(t *testing.T) {
	keys := func(s string) configs.Sources { return configs.Sources{File: write(t, "broker.yaml", "sqs:\n"+s)} }
	for name, c := range map[string]struct {
		sources configs.Sources
		want    string
	}{
		"no list":          {keys("  access_keys: " + secret + "\n"), ":2:16: sqs.access_keys: expected a list"},
		"texts":            {keys("  access_keys: [" + secret + "]\n"), ":2:17: sqs.access_keys: expected an access key"},
		"misspelt":         {keys("  access_keys:\n    - id: a\n      secrte: " + secret + "\n"), ":4:7: sqs.access_keys: not a key of an access key, which has id, and secret or secret_file; did you mean secret?"},
		"misspelt list":    {keys("  acces_keys: [{ id: a, secret: " + secret + " }]\n"), "did you mean sqs.access_keys?"},
		"secret as list":   {keys("  access_keys: [{ id: a, secret: [" + secret + "] }]\n"), "expected one value"},
		"both":             {keys("  access_keys: [{ id: a, secret: " + secret + ", secret_file: x }]\n"), "either secret or secret_file"},
		"neither":          {keys("  access_keys: [{ id: a }]\n"), "either secret or secret_file"},
		"broken":           {keys("  access_keys: [{ id: a, secret: " + secret + "\n"), "broker.yaml: "},
		"no file":          {keys("  access_keys: [{ id: a, secret_file: /none/at/all }]\n"), "broker.yaml:2: sqs.access_keys: secret of a: open /none/at/all"},
		"empty file":       {keys("  access_keys: [{ id: a, secret_file: " + write(t, "empty", "\n") + " }]\n"), "is empty"},
		"command line":     {configs.Sources{Set: []string{"sqs.access_keys=[{id: a, secret: " + secret + "}]"}}, "on the command line; use secret_file"},
		"misspelt option":  {configs.Sources{Set: []string{"sqs.acces_keys=[{id: a, secret: " + secret + "}]"}}, "did you mean sqs.access_keys?"},
		"text in variable": {configs.Sources{Environ: []string{"BROKER_SQS_ACCESS_KEYS=a:" + secret}}, "sqs.access_keys: expected a list"},
		"broken variable":  {configs.Sources{Environ: []string{"BROKER_SQS_ACCESS_KEYS=[{id: a, secret: " + secret}}, "not a list such as"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := loadSays(t, c.sources, c.want); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestFilesWithSecretsAreTheirOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes on Windows")
	}
	open := func(path string, mode os.FileMode) string {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604} {
		path := open(write(t, "broker.yaml", inlineKeys), mode)
		if _, err := configs.Load(configs.Sources{File: path}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	key := open(write(t, "key", secret), 0o644)
	path := open(write(t, "broker.yaml", "sqs: { access_keys: [{ id: a, secret_file: "+key+" }] }\n"), 0o644)
	for name, s := range map[string]configs.Sources{
		"secret file":      {File: path},
		"environment file": {Environ: []string{"BROKER_SQS_ACCESS_KEYS_FILE=" + open(write(t, "keys", "[{id: a, secret: x}]"), 0o604)}},
	} {
		if l := load(t, s); len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "open to every user") {
			t.Errorf("%s: warnings are %q", name, l.Warnings)
		}
	}
	open(key, 0o640)
	if l := load(t, configs.Sources{File: path}); len(l.Warnings) > 0 {
		t.Errorf("a group may read it: %q", l.Warnings)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	file := write(t, "key", secret)
	l := load(t, configs.Sources{Environ: []string{"BROKER_SQS_ACCESS_KEYS=[{id: a, secret: " + secret + "}, {id: b, secret_file: " + file + "}]"}})
	var out strings.Builder
	for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&out, form, l.Config)
		fmt.Fprintf(&out, form, l.Config.SQS.AccessKeys[0].Secret)
	}
	for _, f := range configs.Fields() {
		fmt.Fprint(&out, f.Text(l.Config), f.Value(l.Config))
		if f.Key == "sqs.access_keys" && !strings.Contains(f.Text(l.Config), "secret_file: "+file) {
			t.Errorf("%s is shown as %s", f.Key, f.Text(l.Config))
		}
	}
	asJSON, err := json.Marshal(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	if all := out.String() + string(asJSON) + string(asYAML); strings.Contains(all, secret) || strings.Contains(all, fmt.Sprintf("%x", secret)) {
		t.Errorf("a secret is shown:\n%s", all)
	}
}

func TestCheckAccessKeys(t *testing.T) {
	key := func(id, secret string) configs.AccessKey {
		return configs.AccessKey{ID: id, Secret: configs.Secret(secret)}
	}
	for name, c := range map[string]struct {
		keys []configs.AccessKey
		want string // empty: no error
	}{
		"good":         {[]configs.AccessKey{key("AKIA.x_y-1", "a/+="), key("b", "x")}, ""},
		"no id":        {[]configs.AccessKey{key("", "x")}, `"number 1": an id has`},
		"a slash":      {[]configs.AccessKey{key("a/b", "x")}, "an id has"},
		"long id":      {[]configs.AccessKey{key(strings.Repeat("a", 129), "x")}, "an id has"},
		"twice":        {[]configs.AccessKey{key("a", "x"), key("a", "y")}, "a is there twice"},
		"no secret":    {[]configs.AccessKey{key("a", "")}, "a has no secret"},
		"space":        {[]configs.AccessKey{key("a", "x y")}, "printable"},
		"two lines":    {[]configs.AccessKey{key("a", "x\ny")}, "printable"},
		"long secret":  {[]configs.AccessKey{key("a", strings.Repeat("x", 129))}, "printable"},
		"what is told": {[]configs.AccessKey{key("a", "HIDDEN")}, "HIDDEN is shown in place of a secret"},
		"too many":     {make([]configs.AccessKey, configs.AccessKeysMax+1), "1001 access keys"},
	} {
		t.Run(name, func(t *testing.T) {
			checkSays(t, func(cfg *configs.Config) { cfg.SQS.AccessKeys = c.keys }, c.want)
		})
	}
}

func TestAccessKeysOpenTheListener(t *testing.T) {
	cfg := configs.Default()
	cfg.SQS.Listen = "0.0.0.0:9324"
	if err := cfg.Check(kinds); err == nil || !strings.Contains(err.Error(), "or set sqs.access_keys") {
		t.Errorf("without access keys: %v", err)
	}
	cfg.SQS.AccessKeys = []configs.AccessKey{{ID: "a", Secret: "x"}}
	if err := cfg.Check(kinds); err != nil {
		t.Errorf("with access keys: %v", err)
	}
	cfg.Admin.Listen = "0.0.0.0:9325"
	if err := cfg.Check(kinds); err == nil || !strings.Contains(err.Error(), "admin.listen") {
		t.Errorf("the admin listener is open: %v", err)
	}
}
