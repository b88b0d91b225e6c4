package configs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasemq/broker/configs"
)

// TestElasticMQFiles compares what is made of a file with FILE.yaml beside it:
// the warnings as comments, then the settings.
func TestElasticMQFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/elasticmq/*.conf")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			l := load(t, configs.Sources{Import: file, Environ: []string{"OWNER=me"}})
			var b bytes.Buffer
			for _, w := range l.Warnings {
				b.WriteString("# " + w + "\n")
			}
			standard := configs.Default()
			differs := func(f configs.Field) bool { return f.Text(l.Config) != f.Text(standard) }
			if err := configs.Write(&b, l.Config, differs, nil); err != nil {
				t.Fatal(err)
			}
			if err := l.Config.Check(kinds); err != nil {
				t.Errorf("Check: %v", err)
			}
			golden := strings.TrimSuffix(file, ".conf") + ".yaml"
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			again := load(t, configs.Sources{File: golden})
			for _, f := range configs.Fields() {
				if got, want := f.Text(again.Config), f.Text(l.Config); got != want {
					t.Errorf("the file printed for %s has %s %s, want %s", file, f.Key, got, want)
				}
			}
		})
	}
}

func TestElasticMQMistakes(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"syntax":           {"queues {\n  a { delay = : }\n}", "x.conf:2:15: ':' must be in quotes"},
		"not a duration":   {"queues {\n a { delay = soon }\n}", `x.conf:2:14: "soon" is not a duration such as 10 seconds (queues.a.delay)`},
		"not a boolean":    {"queues.a.fifo = 1", `x.conf:1:17: "1" is not true or false (queues.a.fifo)`},
		"not a queue":      {"queues.a = 1", "x.conf:1:12: queues.a: expected keys with values"},
		"no queues":        {"queues = [a]", "queues: expected keys with values"},
		"half dead":        {"queues.a.deadLettersQueue.name = b", "queues.a.deadLettersQueue: name and maxReceiveCount are needed"},
		"not a count":      {"queues.a.deadLettersQueue { name = b, maxReceiveCount = x }", `"x" is not a whole number (queues.a.deadLettersQueue.maxReceiveCount)`},
		"not a tag":        {"queues.a.tags.x = []", "queues.a.tags.x: a list is not a text"},
		"limits":           {"rest-sqs.sqs-limits = lax", `"lax" is not strict or relaxed`},
		"port":             {"rest-sqs.bind-port = x", `"x" is not a whole number (rest-sqs.bind-port)`},
		"flag":             {"generate-node-address = maybe", `"maybe" is not true or false (generate-node-address)`},
		"enabled":          {"messages-storage.enabled = maybe", `"maybe" is not true or false`},
		"a variable":       {"aws.region = ${LEASEMQ_NONE}", "nothing is called LEASEMQ_NONE"},
		"a URL":            {`include url("http://example.org/x")`, "URLs are not fetched"},
		"a required file":  {`include required(file("none.conf"))`, "none.conf: no such file"},
		"an endless chain": {`include "x.conf"`, "one includes itself"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configs.Load(configs.Sources{Import: write(t, "x.conf", c.text)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
	if _, err := configs.Load(configs.Sources{Import: "none.conf"}); err == nil {
		t.Error("a file that is not there is imported")
	}
}

func TestOtherSourcesWinOverAnImport(t *testing.T) {
	l := load(t, configs.Sources{
		Import: write(t, "x.conf", "aws { region = a, accountId = 111111111111 }\nqueues { a { delay = 1s }, b { } }\nrest-sqs.bind-port = 1"),
		File:   write(t, "broker.yaml", "sqs:\n  region: b\nqueues:\n  a: {delay: 2s}\n"),
		Flags:  map[string]string{"sqs.listen": ":2"},
	})
	c := l.Config
	if c.SQS.Region != "b" || c.SQS.Account != "111111111111" || c.SQS.Listen != ":2" {
		t.Errorf("settings are %+v", c.SQS)
	}
	if len(c.Queues) != 2 || c.Queues[0].Name != "a" || c.Queues[0].Delay.String() != "2s" || c.Queues[1].Name != "b" {
		t.Errorf("queues are %+v", c.Queues)
	}
	if got := l.Origin("sqs.account"); !strings.HasPrefix(got, "import ") || !strings.HasSuffix(got, "x.conf:1") {
		t.Errorf("origin of sqs.account is %q", got)
	}
}

func TestQueueURLsOfElasticMQ(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"node-address.port = 1":              "http://localhost:1",
		"node-address.host = x":              "http://x:9324",
		`node-address.host = "*"`:            "",
		`node-address.context-path = "/a/b"`: "http://localhost:9324/a/b",
		"node-address.host = x\ngenerate-node-address = true": "",
	} {
		l := load(t, configs.Sources{Import: write(t, "x.conf", text)})
		if got := l.Config.SQS.URLBase; got != want {
			t.Errorf("%s: sqs.url_base is %q, want %q", text, got, want)
		}
	}
}

// FuzzElasticMQ wants every text to be answered, and what was understood to be
// printed so that it is understood again.
func FuzzElasticMQ(f *testing.F) {
	for _, name := range []string{"full", "odd"} {
		b, err := os.ReadFile("testdata/elasticmq/" + name + ".conf")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "include") {
			return // no other files
		}
		file := filepath.Join(dir, "x.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := configs.Load(configs.Sources{Import: file})
		if err != nil || l.Config.Check(kinds) != nil {
			return
		}
		var b bytes.Buffer
		if err := configs.Write(&b, l.Config, func(configs.Field) bool { return true }, nil); err != nil {
			t.Fatal(err)
		}
		printed := filepath.Join(dir, "x.yaml")
		if err := os.WriteFile(printed, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := configs.Load(configs.Sources{File: printed})
		if err != nil {
			t.Fatalf("%v\nof %q, printed as\n%s", err, text, b.Bytes())
		}
		for _, f := range configs.Fields() {
			if got, want := f.Text(again.Config), f.Text(l.Config); got != want {
				t.Errorf("%s is %s, printed and read again %s", f.Key, want, got)
			}
		}
	})
}
