package configs_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leasemq/broker/configs"
)

func TestBindingsAreReadAndWritten(t *testing.T) {
	file := write(t, "broker.yaml", "queues: {a: , b: }\ntopics:\n  bindings:\n    - {filter: 'x/#', queue: a}\n    - filter: +/1\n      queue: b\n      selector: color = 'red'\n")
	l := load(t, configs.Sources{File: file})
	want := []configs.Binding{{Filter: "x/#", Queue: "a"}, {Filter: "+/1", Queue: "b", Selector: "color = 'red'"}}
	if diff := cmp.Diff(want, l.Config.Topics.Bindings); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	if err := l.Check(kinds); err != nil {
		t.Errorf("Check: %v", err)
	}
	if got := l.Origin("topics.bindings"); got != "file "+file+":4" {
		t.Errorf("origin %q", got)
	}
	var b bytes.Buffer
	if err := configs.Write(&b, l.Config, func(configs.Field) bool { return true }, nil); err != nil {
		t.Fatal(err)
	}
	again := load(t, configs.Sources{File: write(t, "again.yaml", b.String())})
	if diff := cmp.Diff(l.Config, again.Config); diff != "" {
		t.Errorf("read again (-want +got):\n%s\nfrom\n%s", diff, b.String())
	}

	other := load(t, configs.Sources{File: file, Environ: []string{"BROKER_TOPICS_BINDINGS=[{filter: y, queue: b}]"}})
	if diff := cmp.Diff([]configs.Binding{{Filter: "y", Queue: "b"}}, other.Config.Topics.Bindings); diff != "" {
		t.Errorf("a later source (-want +got):\n%s", diff)
	}
	none := load(t, configs.Sources{File: file, Set: []string{"topics.bindings=[]"}})
	if got := none.Config.Topics.Bindings; len(got) > 0 {
		t.Errorf("an empty list leaves %v", got)
	}
}

func TestMistakesInBindingsNameTheirPlace(t *testing.T) {
	file := write(t, "broker.yaml", strings.Join([]string{
		"topics:",
		"  bindings:",
		"    - { filtre: x, queue: a }",
		"    - { filter: [x], queue: { a: b } }",
		"    - x",
		"    - { filter: x, queue: a, selektor: y }",
		"  binding: 1",
	}, "\n"))
	_, err := configs.Load(configs.Sources{File: file, Environ: []string{"BROKER_TOPICS_BINDINGS={a: b}"}})
	if err == nil {
		t.Fatal("Load accepted wrong bindings")
	}
	for _, want := range []string{
		file + ":3:9: unknown key topics.bindings.filtre; did you mean filter?",
		":4:17: topics.bindings.filter: expected one value, not a list",
		"topics.bindings.queue: expected a value, not keys",
		":5:7: topics.bindings: expected a binding",
		":6:30: unknown key topics.bindings.selektor; did you mean selector?",
		":7:3: unknown key topics.binding; did you mean topics.bindings?",
		"environment BROKER_TOPICS_BINDINGS:1:1: topics.bindings: expected a list of bindings",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q", want)
		}
	}
	if t.Failed() {
		t.Logf("the error:\n%v", err)
	}
}

func TestCheckOfBindings(t *testing.T) {
	queues := []configs.Queue{{Name: "orders"}}
	for name, c := range map[string]struct {
		bindings []configs.Binding
		want     string
	}{
		"no filter":     {[]configs.Binding{{Queue: "orders"}}, "topics.bindings: number 1 has no filter"},
		"no queue":      {[]configs.Binding{{Filter: "a", Queue: "orders"}, {Filter: "a"}}, "number 2 has no filter, or no queue"},
		"twice":         {[]configs.Binding{{Filter: "a", Queue: "orders"}, {Filter: "a", Queue: "orders"}}, "orders is bound to a twice"},
		"two selectors": {[]configs.Binding{{Filter: "a", Queue: "orders", Selector: "x"}, {Filter: "a", Queue: "orders", Selector: "y"}}, "orders is bound to a twice"},
		"absent queue":  {[]configs.Binding{{Filter: "a", Queue: "order"}}, "order is not one of queues; did you mean orders?"},
		"shared":        {[]configs.Binding{{Filter: "$share/g/a", Queue: "orders"}}, "is for subscriptions of MQTT"},
		"too many":      {make([]configs.Binding, configs.BindingsMax+1), "10001 of them"},
	} {
		t.Run(name, func(t *testing.T) {
			checkSays(t, func(cfg *configs.Config) { cfg.Queues, cfg.Topics.Bindings = queues, c.bindings }, c.want)
		})
	}
}
