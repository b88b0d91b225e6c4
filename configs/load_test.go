package configs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/configs"
)

var kinds = []string{"sqs", "stomp"}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, s configs.Sources) *configs.Loaded {
	t.Helper()
	l, err := configs.Load(s)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return l
}

// loadSays loads what is wrong, and returns the error.
func loadSays(t *testing.T, s configs.Sources, want string) error {
	t.Helper()
	_, err := configs.Load(s)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one with %q", err, want)
	}
	return err
}

// checkSays checks the default settings after edit; an empty want is no error.
func checkSays(t *testing.T, edit func(*configs.Config), want string) {
	t.Helper()
	cfg := configs.Default()
	edit(&cfg)
	err := cfg.Check(kinds)
	switch {
	case want == "" && err != nil:
		t.Errorf("Check: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("Check = %v, want an error with %q", err, want)
	}
}

func TestLaterSourceWins(t *testing.T) {
	file := write(t, "broker.yaml", "storage:\n  sync: interval\n  sync_interval: 7ms\n  profile: large\nlog:\n  level: debug\n")
	l := load(t, configs.Sources{
		File:    file,
		Environ: []string{"BROKER_STORAGE_SYNC_INTERVAL=8ms", "BROKER_STORAGE_PROFILE=small", "BROKER_LOG_LEVEL=warn", "HOME=/root"},
		Set:     []string{"storage.profile=large", "log.level=info"},
		Flags:   map[string]string{"log.level": "error"},
	})
	for _, c := range []struct{ key, want, origin string }{
		{"drain.timeout", "4s", "default"},
		{"storage.sync", "interval", "file " + file + ":2"},
		{"storage.sync_interval", "8ms", "environment BROKER_STORAGE_SYNC_INTERVAL"},
		{"storage.profile", "large", "--set"},
		{"log.level", "error", "flag --log-level"},
	} {
		i := slices.IndexFunc(configs.Fields(), func(f configs.Field) bool { return f.Key == c.key })
		if got := configs.Fields()[i].Text(l.Config); got != c.want {
			t.Errorf("%s = %s, want %s", c.key, got, c.want)
		}
		if got := l.Origin(c.key); got != c.origin {
			t.Errorf("origin of %s is %q, want %q", c.key, got, c.origin)
		}
	}
}

func TestFileNamesEveryMistakeWithItsLine(t *testing.T) {
	file := write(t, "broker.yaml", strings.Join([]string{
		"storage:",
		"  sycn: commit",
		"  sync_interval: soon",
		"sqs: 9324",
		"admin:",
		"  listen: [a, b]",
		"  metric_queues: many",
		"log: { level: inof, format: xml }",
		"nodes:",
		"  data: x",
		"zzz: 1",
	}, "\n"))
	_, err := configs.Load(configs.Sources{File: file})
	if err == nil {
		t.Fatal("Load accepted a file with mistakes")
	}
	for _, want := range []string{
		file + ":2:3: unknown key storage.sycn; did you mean storage.sync?\n      sycn: commit\n      ^",
		`:3:18: storage.sync_interval: "soon" is not a duration`,
		":4:6: sqs is a section",
		":6:11: admin.listen: expected one value, not a list",
		`:7:18: admin.metric_queues: "many" is not a whole number`,
		`log.level: "inof" is not one of debug, info, warn, error; did you mean info?`,
		`log.format: "xml" is not one of text, json`,
		":9:1: unknown key nodes; did you mean node?",
		":11:1: unknown key zzz\n",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q", want)
		}
	}
	if t.Failed() {
		t.Logf("the error:\n%v", err)
	}
}

func TestFileFormsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"not YAML":      {"sqs: [", "broker.yaml: "},
		"duplicate key": {"dev: true\ndev: false\n", "already defined"},
		"two documents": {"dev: true\n---\ndev: false\n", "second document"},
		"a list":        {"- dev\n", "expected keys"},
		"an anchor":     {"listen: &h 127.0.0.1\n", "anchors"},
		"keys in value": {"listen: { a: b }\n", "listen: expected a value"},
		"a scalar":      {"dev\n", "expected keys"},
	} {
		t.Run(name, func(t *testing.T) {
			loadSays(t, configs.Sources{File: write(t, "broker.yaml", c.content)}, c.want)
		})
	}
}

func TestFileFormsThatAreRead(t *testing.T) {
	for name, content := range map[string]string{
		"empty":           "",
		"comment":         "# nothing\n",
		"empty section":   "sqs:\n",
		"key without one": "listen:\n",
		"carriage return": "listen: 127.0.0.1\r\ndev: false\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := load(t, configs.Sources{File: write(t, "broker.yaml", content)}).Config
			if want := configs.Default(); !equal(got, want) {
				t.Errorf("got %+v, want the defaults", got)
			}
		})
	}
}

func equal(a, b configs.Config) bool {
	for _, f := range configs.Fields() {
		if f.Text(a) != f.Text(b) {
			return false
		}
	}
	return true
}

func TestDigitsKeepTheirZeros(t *testing.T) {
	l := load(t, configs.Sources{File: write(t, "broker.yaml", "sqs:\n  account: 000000000042\n")})
	if got, want := l.Config.SQS.Account, "000000000042"; got != want {
		t.Errorf("sqs.account = %s, want %s", got, want)
	}
}

func TestListsAreReadFromEverySource(t *testing.T) {
	for name, s := range map[string]configs.Sources{
		"block":       {File: write(t, "a.yaml", "frontends:\n  - sqs\n  - stomp\n")},
		"flow":        {File: write(t, "b.yaml", "frontends: [sqs, stomp]\n")},
		"text":        {File: write(t, "c.yaml", "frontends: sqs, stomp\n")},
		"environment": {Environ: []string{"BROKER_FRONTENDS=sqs,stomp"}},
		"set":         {Set: []string{"frontends=sqs, stomp"}},
		"flag":        {Flags: map[string]string{"frontends": "sqs,stomp"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := load(t, s).Config.Frontends; !slices.Equal(got, kinds) {
				t.Errorf("frontends = %q, want %q", got, kinds)
			}
		})
	}
}

func TestSecretFileGivesTheValue(t *testing.T) {
	path := write(t, "account", "123456789012\n")
	l := load(t, configs.Sources{Environ: []string{"BROKER_SQS_ACCOUNT_FILE=" + path}})
	if got, want := l.Config.SQS.Account, "123456789012"; got != want {
		t.Errorf("sqs.account = %q, want %q", got, want)
	}
	if got, want := l.Origin("sqs.account"), "environment BROKER_SQS_ACCOUNT_FILE"; got != want {
		t.Errorf("origin = %q, want %q", got, want)
	}

	for name, environ := range map[string][]string{
		"absent": {"BROKER_SQS_ACCOUNT_FILE=" + path + "x"},
		"both":   {"BROKER_SQS_ACCOUNT_FILE=" + path, "BROKER_SQS_ACCOUNT=1"},
		"large":  {"BROKER_SQS_ACCOUNT_FILE=" + write(t, "large", strings.Repeat("1", 65<<10))},
	} {
		if _, err := configs.Load(configs.Sources{Environ: environ}); err == nil {
			t.Errorf("%s: Load accepted %q", name, environ)
		}
	}
}

func TestForeignVariablesOnlyWarnWhenClose(t *testing.T) {
	l := load(t, configs.Sources{Environ: []string{
		"BROKER_SERVICE_HOST=10.0.0.1", "BROKER_PORT=tcp://10.0.0.1:9324", // as Kubernetes adds them
		"BROKER_STORAGE_SNYC=never",
		"BROKER_MEMORY=true", "BROKER_FOO=1",
	}})
	want := []string{
		"BROKER_MEMORY is not a setting; did you mean BROKER_NODE_MEMORY?", // the flag is --memory
		"BROKER_STORAGE_SNYC is not a setting; did you mean BROKER_STORAGE_SYNC?",
	}
	if !slices.Equal(l.Warnings, want) {
		t.Errorf("warnings are %q, want %q", l.Warnings, want)
	}
}

func TestSetNamesUnknownKeys(t *testing.T) {
	_, err := configs.Load(configs.Sources{Set: []string{"storage.sync", "sqs.acount=1", "dev=perhaps"}})
	if err == nil {
		t.Fatal("Load accepted wrong settings")
	}
	for _, want := range []string{
		"--set storage.sync: not of the form key=value",
		"unknown key sqs.acount; did you mean sqs.account?",
		`--set: dev: "perhaps" is not true or false`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestCheckBounds(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*configs.Config)
		want string // empty: no error
	}{
		"default":            {func(*configs.Config) {}, ""},
		"unknown frontend":   {func(c *configs.Config) { c.Frontends = []string{"sqz"} }, `frontends: "sqz" is not one of sqs, stomp; did you mean sqs?`},
		"frontend twice":     {func(c *configs.Config) { c.Frontends = []string{"sqs", "sqs"} }, "named twice"},
		"open":               {func(c *configs.Config) { c.Listen = "0.0.0.0" }, "admin.listen: 0.0.0.0:9325 can be reached"},
		"open by name":       {func(c *configs.Config) { c.SQS.Listen = "broker:9324" }, "sqs.listen: broker:9324 can be reached"},
		"open IPv6":          {func(c *configs.Config) { c.SQS.Listen = "[::]:9324" }, "can be reached"},
		"open with dev":      {func(c *configs.Config) { c.Listen, c.Dev = "0.0.0.0", true }, ""},
		"open but not asked": {func(c *configs.Config) { c.SQS.Listen, c.Frontends = "0.0.0.0:1", []string{"stomp"} }, ""},
		"localhost":          {func(c *configs.Config) { c.Listen = "localhost" }, ""},
		"IPv6 loopback":      {func(c *configs.Config) { c.Listen = "[::1]" }, ""},
		"port alone":         {func(c *configs.Config) { c.SQS.Listen = "4566" }, ""},
		"no port":            {func(c *configs.Config) { c.SQS.Listen = "127.0.0.1:" }, "the port is not a number"},
		"host alone":         {func(c *configs.Config) { c.SQS.Listen = "127.0.0.1" }, `sqs.listen: "127.0.0.1" is not an address`},
		"port too large":     {func(c *configs.Config) { c.SQS.Listen = ":65536" }, "the port is not a number"},
		"no host":            {func(c *configs.Config) { c.Listen = "" }, "listen: "},
		"bad host":           {func(c *configs.Config) { c.Listen = "a b" }, "not a host name"},
		"same port":          {func(c *configs.Config) { c.SQS.Listen = ":9325" }, "is the address of admin.listen too"},
		"free ports":         {func(c *configs.Config) { c.SQS.Listen, c.Admin.Listen = ":0", ":0" }, ""},
		"short account":      {func(c *configs.Config) { c.SQS.Account = "12" }, "sqs.account"},
		"letters":            {func(c *configs.Config) { c.SQS.Account = "12345678901x" }, "sqs.account"},
		"region":             {func(c *configs.Config) { c.SQS.Region = "EU west" }, "sqs.region"},
		"url base":           {func(c *configs.Config) { c.SQS.URLBase = "http://broker:9324/" }, ""},
		"url without scheme": {func(c *configs.Config) { c.SQS.URLBase = "broker:9324" }, "sqs.url_base"},
		"sync":               {func(c *configs.Config) { c.Storage.Sync = "often" }, "storage.sync"},
		"interval zero":      {func(c *configs.Config) { c.Storage.SyncInterval = 0 }, "storage.sync_interval: 0s is not between 1ms and 10s"},
		"drain":              {func(c *configs.Config) { c.Drain.Timeout = -time.Second }, "drain.timeout"},
		"metric queues":      {func(c *configs.Config) { c.Admin.MetricQueues = -1 }, "admin.metric_queues"},
		"no data":            {func(c *configs.Config) { c.Node.Data = "" }, "node.data"},
		"no data in memory":  {func(c *configs.Config) { c.Node.Data, c.Node.Memory = "", true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			checkSays(t, c.edit, c.want)
		})
	}
}

func TestCheckCollectsAllErrors(t *testing.T) {
	cfg := configs.Default()
	cfg.SQS.Account, cfg.SQS.Region, cfg.Drain.Timeout = "", "", -1
	err := cfg.Check(kinds)
	if err == nil {
		t.Fatal("Check accepted wrong settings")
	}
	for _, key := range []string{"sqs.account", "sqs.region", "drain.timeout"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("error lacks %s:\n%v", key, err)
		}
	}
}

func TestBoundsSayWhereTheValueComesFrom(t *testing.T) {
	file := write(t, "broker.yaml", "log:\n  level: debug\ndrain:\n  timeout: 9s\n")
	l := load(t, configs.Sources{
		File:    file,
		Environ: []string{"BROKER_SQS_REGION=EU"},
		Flags:   map[string]string{"sqs.account": "12", "listen": "0.0.0.0"},
	})
	err := l.Check(kinds)
	if err == nil {
		t.Fatal("Check accepted wrong settings")
	}
	for _, want := range []string{
		file + ":4: drain.timeout: 9s is not between",
		"environment BROKER_SQS_REGION: sqs.region: ",
		"flag --sqs-account: sqs.account: ",
		"admin.listen: 0.0.0.0:9325 can be reached",
	} {
		if !slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("no line of the error starts with %q:\n%v", want, err)
		}
	}
}

func TestAStartIsCompletedIfItIsOfOneWord(t *testing.T) {
	words := []string{"visibility_timeout", "receive_wait", "retention", "max_messages", "max_message_size", "tags"}
	for s, want := range map[string]string{"visibility": "visibility_timeout", "Receive": "receive_wait", "max_": "", "max_m": "", "tag": "tags", "delay": ""} {
		if got := configs.Nearest(s, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestShortWordsAreNotGuessed(t *testing.T) {
	words := []string{"log", "dev", "sqs", "data", "serve", "ls"}
	for s, want := range map[string]string{"foo": "", "sqz": "sqs", "lst": "ls", "dat": "data", "serv": "serve", "x": "", "lgo": "log", "bar": ""} {
		if got := configs.Nearest(s, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", s, got, want)
		}
	}
}

// installed returns a copy of an example whose secret files are there.
func installed(t *testing.T, example string) string {
	t.Helper()
	b, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	const secrets = "/run/secrets"
	dir := t.TempDir()
	for rest := string(b); ; {
		_, after, ok := strings.Cut(rest, secrets+"/")
		if !ok {
			break
		}
		name, _, _ := strings.Cut(after, "\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte("wJalrXUtnFEMI\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		rest = after
	}
	return write(t, filepath.Base(example), strings.ReplaceAll(string(b), secrets, dir))
}

func TestExampleFilesAreValid(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example files: %v", err)
	}
	for _, file := range files {
		l, err := configs.Load(configs.Sources{File: installed(t, file)})
		if err == nil {
			err = l.Config.Check(kinds)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if equal(l.Config, configs.Default()) {
			t.Errorf("%s sets nothing", file)
		}
	}
}

func TestEveryFieldHasNamesAndDoc(t *testing.T) {
	flags := map[string]string{}
	for _, f := range configs.Fields() {
		if !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: doc %q is not a sentence", f.Key, f.Doc)
		}
		if other, ok := flags[f.Flag]; ok && f.Flag != "" {
			t.Errorf("%s and %s share the flag --%s", f.Key, other, f.Flag)
		}
		flags[f.Flag] = f.Key
		if want := "BROKER_" + strings.ToUpper(strings.ReplaceAll(f.Key, ".", "_")); f.Env != want {
			t.Errorf("%s: environment %s, want %s", f.Key, f.Env, want)
		}
	}
}
