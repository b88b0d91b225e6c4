package configs_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasemq/broker/configs"
)

// everything sets every key of a queue.
const everything = `queues:
  jobs.fifo:
    fifo: true
    priority: false
    visibility_timeout: 1h30m
    delay: 500ms
    receive_wait: 20s
    retention: 1d12h
    max_message_size: 64 KiB
    max_messages: 10
    max_size: 1GB
    overflow: drop-oldest
    content_dedup: true
    dedup_scope: group
    marks: sync
    copy_to: [dead.fifo, plain]
    move_to: other
    publish_topic: a/{b}
    dead_letter:
      queue: dead.fifo
      max_receives: 3
      expired: true
    redelivery:
      delay: 1s
      multiplier: 1.5
      max_delay: 1m
    tags:
      team: shop
      "a b": 007
      empty:
    sqs_attributes:
      Policy: '{"Statement":[]}'
      KmsDataKeyReusePeriodSeconds: 300
  dead.fifo:
  plain: {}
  other: {}
auto_create_queue:
  delay: 1s
`

func everyKey() ([]configs.Queue, *configs.Queue) {
	return []configs.Queue{
		{
			Name: "jobs.fifo", FIFO: new(true), Priority: new(false),
			VisibilityTimeout: new(90 * time.Minute), Delay: new(500 * time.Millisecond), ReceiveWait: new(20 * time.Second),
			Retention: new(36 * time.Hour), MaxMessageSize: new(int64(64 << 10)), MaxMessages: new(int64(10)), MaxSize: new(int64(1e9)),
			Overflow: "drop-oldest", ContentDedup: new(true), DedupScope: "group", Marks: "sync",
			CopyTo: []string{"dead.fifo", "plain"}, MoveTo: "other", PublishTopic: "a/{b}",
			DeadLetter: configs.DeadLetter{Queue: "dead.fifo", MaxReceives: new(3), Expired: new(true)},
			Redelivery: configs.Redelivery{Delay: new(time.Second), Multiplier: new(1.5), MaxDelay: new(time.Minute)},
			Tags:       map[string]string{"team": "shop", "a b": "007", "empty": ""},

			SQSAttributes: map[string]string{"Policy": `{"Statement":[]}`, "KmsDataKeyReusePeriodSeconds": "300"},
		},
		{Name: "dead.fifo"},
		{Name: "plain"},
		{Name: "other"},
	}, &configs.Queue{Delay: new(time.Second)}
}

func TestQueuesAreReadFromAFile(t *testing.T) {
	l := load(t, configs.Sources{File: write(t, "broker.yaml", everything)})
	queues, template := everyKey()
	if diff := cmp.Diff(queues, l.Config.Queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(template, l.Config.AutoCreateQueue); diff != "" {
		t.Errorf("auto_create_queue (-want +got):\n%s", diff)
	}
	if err := l.Config.Check(kinds); err != nil {
		t.Errorf("Check: %v", err)
	}
	for _, f := range configs.QueueFields() {
		if _, ok := f.TextOf(queues[0]); !ok {
			t.Errorf("the test does not set %s", f.Key)
		}
	}
	if origin := l.Origin("queues"); !strings.HasSuffix(origin, "broker.yaml:2") {
		t.Errorf("origin of queues is %q", origin)
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	for name, note := range map[string]func(configs.Field) string{
		"plain": nil, "with comments": func(configs.Field) string { return "note" },
	} {
		l := load(t, configs.Sources{File: write(t, "broker.yaml", everything)})
		var b bytes.Buffer
		if err := configs.Write(&b, l.Config, func(configs.Field) bool { return true }, note); err != nil {
			t.Fatal(err)
		}
		again := load(t, configs.Sources{File: write(t, "again.yaml", b.String())})
		if diff := cmp.Diff(l.Config, again.Config); diff != "" {
			t.Errorf("%s: read again (-want +got):\n%s\nfrom\n%s", name, diff, b.String())
		}
		var nothing bytes.Buffer
		if err := configs.Write(&nothing, l.Config, func(configs.Field) bool { return false }, note); err != nil || nothing.Len() > 0 {
			t.Errorf("%s: nothing asked for, written %q, %v", name, nothing.String(), err)
		}
	}
}

func TestLaterSourcesReplaceQueuesByName(t *testing.T) {
	l := load(t, configs.Sources{
		File:    write(t, "broker.yaml", "queues:\n  a: {delay: 1s, retention: 1h}\n  b: {delay: 1s}\n"),
		Environ: []string{"BROKER_QUEUES={a: {delay: 2s}, c: }"},
		Set:     []string{"queues={c: {delay: 3s}}", "auto_create_queue={delay: 4s}"},
	})
	want := []configs.Queue{
		{Name: "a", Delay: new(2 * time.Second)}, {Name: "b", Delay: new(time.Second)}, {Name: "c", Delay: new(3 * time.Second)},
	}
	if diff := cmp.Diff(want, l.Config.Queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	if got := l.Config.AutoCreateQueue; got == nil || got.Delay == nil || *got.Delay != 4*time.Second {
		t.Errorf("auto_create_queue is %+v", got)
	}
	if got := l.Origin("queues"); got != "--set" {
		t.Errorf("origin of queues is %q", got)
	}
}

func TestMistakesInQueuesNameTheirPlace(t *testing.T) {
	file := write(t, "broker.yaml", strings.Join([]string{
		"queues:",
		"  a:",
		"    delai: 5s",
		"    delay: soon",
		"    dead_letter: { queu: b }",
		"    dead_letters: 3",
		"    tags: [x]",
		"    overflow: rejekt",
		"    retention: [1d]",
		"  b: 5s",
		"  c: { tags: { x: [1] }, max_message_size: 5 parsecs, max_messages: many, redelivery: { multiplier: x } }",
		"auto_create_queue: [x]",
	}, "\n"))
	_, err := configs.Load(configs.Sources{
		File:    file,
		Environ: []string{"BROKER_QUEUES=[a]", "BROKER_AUTO_CREATE_QUEUE={dealy: 1s}"},
		Set:     []string{"queues={a: {fifo: perhaps}}", "queues={"},
	})
	if err == nil {
		t.Fatal("Load accepted wrong queues")
	}
	for _, want := range []string{
		file + ":3:5: unknown key queues.a.delai; did you mean delay?\n        delai: 5s\n        ^",
		`:4:12: queues.a.delay: "soon" is not a duration`,
		":5:20: unknown key queues.a.dead_letter.queu; did you mean dead_letter.queue?",
		":6:5: unknown key queues.a.dead_letters; did you mean dead_letter?",
		":7:11: queues.a.tags: expected names with values",
		`:8:15: queues.a.overflow: "rejekt" is not one of reject, drop-oldest; did you mean reject?`,
		":9:16: queues.a.retention: expected one value, not a list",
		":10:6: queues.b is a section: expected keys below it",
		"queues.c.tags.x: expected one value, not a list",
		`queues.c.max_message_size: "5 parsecs" is not a size such as 256KiB`,
		`queues.c.max_messages: "many" is not a whole number`,
		`queues.c.redelivery.multiplier: "x" is not a number`,
		":12:20: auto_create_queue is a section",
		"environment BROKER_QUEUES:1:1: queues: expected names with settings below them, such as orders: {}",
		"environment BROKER_AUTO_CREATE_QUEUE:1:2: unknown key auto_create_queue.dealy; did you mean delay?",
		`--set:1:12: queues.a.fifo: "perhaps" is not true or false`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q", want)
		}
	}
	if t.Failed() {
		t.Logf("the error:\n%v", err)
	}
}

func TestCheckOfQueues(t *testing.T) {
	for name, c := range map[string]struct {
		yaml string
		want string // empty: no error
	}{
		"defaults":             {"a: {}", ""},
		"a circle":             {"{a: {dead_letter: {queue: b, max_receives: 1}}, b: {dead_letter: {queue: a, max_receives: 1}}}", ""},
		"for ever":             {"a: {retention: 0s}", ""},
		"fifo":                 {"a.fifo: {content_dedup: true, dedup_scope: group, marks: sync}", ""},
		"no route":             {"a: {copy_to: [oders]}\n  orders: {}", "queues.a.copy_to: oders is not one of queues; did you mean orders?"},
		"routes in a circle":   {"a: {copy_to: [b]}\n  b: {move_to: c}\n  c: {copy_to: [a]}", "queues.c: its copy_to or move_to leads to a, and from there back to it"},
		"no dead letters":      {"a: {dead_letter: {queue: order-dead, max_receives: 1}}\n  orders-dead: {}", "queues.a.dead_letter.queue: order-dead is not one of queues; did you mean orders-dead?"},
		"of another kind":      {"a: {dead_letter: {queue: b.fifo, max_receives: 1}}\n  b.fifo: {}", "queues.a.dead_letter.queue: b.fifo is not of the same kind"},
		"fifo of another kind": {"a.fifo: {dead_letter: {queue: b, max_receives: 1}}\n  b: {}", "queues.a.fifo.dead_letter.queue: b is not of the same kind"},
		"itself":               {"a: {dead_letter: {queue: a, max_receives: 1}}", "that is the queue itself"},
		"without receives":     {"a: {dead_letter: {queue: b}}\n  b: {}", "queues.a.dead_letter: needs max_receives"},
		"too many receives":    {"a: {dead_letter: {queue: b, max_receives: 1001}}\n  b: {}", "1001 is not between 1 and 1000"},
		"receives alone":       {"a: {dead_letter: {max_receives: 1}}", "there is no dead_letter.queue"},
		"expired alone":        {"a: {dead_letter: {expired: true}}", "there is no dead_letter.queue"},
		"fifo by name":         {"a.fifo: {fifo: false}", "queues.a.fifo.fifo: only the name of a FIFO queue ends in .fifo"},
		"fifo without name":    {"a: {fifo: true}", "queues.a.fifo: the name of a FIFO queue ends in .fifo"},
		"fifo and priority":    {"a.fifo: {priority: true}", "FIFO or has priorities"},
		"dedup":                {"a: {content_dedup: true}", "only FIFO queues deduplicate"},
		"scope":                {"a: {dedup_scope: queue}", "only FIFO queues deduplicate"},
		"marks":                {"a.fifo: {marks: async}", "always waits for its marks"},
		"name":                 {`"50%d off": {}`, "queues.50%d off: the name is not"},
		"long name":            {strings.Repeat("x", 81) + ": {}", "the name is not"},
		"suffix alone":         {".fifo: {}", "the name is not"},
		"visibility":           {"a: {visibility_timeout: 13h}", "queues.a.visibility_timeout: 13h is not between 0s and 12h"},
		"delay":                {"a: {delay: 16m}", "queues.a.delay"},
		"wait":                 {"a: {receive_wait: 21s}", "queues.a.receive_wait"},
		"negative":             {"a: {delay: -1s}", "queues.a.delay"},
		"retention":            {"a: {retention: 59s}", "queues.a.retention: 59s is neither"},
		"size":                 {"a: {max_message_size: 2MiB}", "queues.a.max_message_size: 2097152 is not between 1024 and 1048576"},
		"multiplier":           {"a: {redelivery: {multiplier: NaN}}", "queues.a.redelivery.multiplier: NaN"},
		"tag":                  {`a: {tags: {"": x}}`, "queues.a.tags: the name"},
		"tag value":            {"a: {tags: {x: " + strings.Repeat("y", 257) + "}}", "queues.a.tags: the value of x"},
	} {
		t.Run(name, func(t *testing.T) {
			l := load(t, configs.Sources{File: write(t, "broker.yaml", "queues:\n  "+c.yaml+"\n")})
			err := l.Config.Check(kinds)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Check: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check = %v, want an error with %q", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		edit func(*configs.Config)
		want string
	}{
		"named twice":   {func(c *configs.Config) { c.Queues = []configs.Queue{{Name: "a"}, {Name: "a"}} }, "named twice"},
		"too many":      {func(c *configs.Config) { c.Queues = make([]configs.Queue, configs.QueuesMax+1) }, "10001 of them"},
		"a word":        {func(c *configs.Config) { c.Queues = []configs.Queue{{Name: "a", Overflow: "x"}} }, `overflow: "x" is not one of`},
		"template kind": {func(c *configs.Config) { c.AutoCreateQueue = &configs.Queue{FIFO: new(true)} }, "auto_create_queue: fifo and priority"},
		"template": {func(c *configs.Config) {
			c.AutoCreateQueue = &configs.Queue{DeadLetter: configs.DeadLetter{Queue: "x", MaxReceives: new(1)}}
		}, "auto_create_queue.dead_letter.queue: x is not one of queues"},
	} {
		t.Run(name, func(t *testing.T) { checkSays(t, c.edit, c.want) })
	}
}

func TestCheckSaysWhereAQueueComesFrom(t *testing.T) {
	yaml := write(t, "broker.yaml", "queues:\n  a:\n    delay: 1h\n  b:\n    dead_letter: {queue: a}\n")
	conf := write(t, "x.conf", "queues {\n  c { delay = 1 hour }\n}")
	l := load(t, configs.Sources{Import: conf, File: yaml, Set: []string{"queues={d: {fifo: true}}"}})
	err := l.Check(kinds)
	if err == nil {
		t.Fatal("Check accepted wrong queues")
	}
	for _, want := range []string{
		yaml + ":3: queues.a.delay: 1h is not between 0s and 15m",
		yaml + ":4: queues.b.dead_letter: needs max_receives",
		"import " + conf + ":2: queues.c.delay",
		"--set: queues.d.fifo: the name of a FIFO queue ends in .fifo",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestTagsAreReadAsTheyWereWritten(t *testing.T) {
	tags := map[string]string{}
	for _, s := range []string{
		"null", "~", "true", "no", "1e3", "0x10", "007", "1_000", ".inf", "2020-01-01", "- a", "a: b", "a:", "#x", "x #y", "two\nlines", "end\n", "\nstart",
		" lead", "trail ", "'q'", `"q"`, `back\slash`, "{}", "{a", "[]", "a, b", "*a", "&a", "!t", "!!str x", "%", "@", "`", "|", ">", "?", "? x", "ü", "\t", "a\tb", "\u2028", "\x01", "\x7f", "<<", "=", "---", "...", "${X}",
	} {
		tags[s] = s
	}
	cfg := configs.Default()
	cfg.Queues = []configs.Queue{{Name: "a", Tags: tags}, {Name: "007"}, {Name: "true"}, {Name: "1e3"}}
	var b bytes.Buffer
	if err := configs.Write(&b, cfg, func(configs.Field) bool { return true }, nil); err != nil {
		t.Fatal(err)
	}
	l, err := configs.Load(configs.Sources{File: write(t, "broker.yaml", b.String())})
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if diff := cmp.Diff(cfg.Queues, l.Config.Queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s\nfrom\n%s", diff, b.String())
	}
}
