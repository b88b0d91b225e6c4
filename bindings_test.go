package broker_test

import (
	"strings"
	"testing"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
)

func withBindings(dir string, l *logs, bindings ...configs.Binding) []broker.Option {
	return append(withQueues(dir, l, configs.Queue{Name: "a"}, configs.Queue{Name: "b"}),
		broker.Edit(func(c *configs.Config) { c.Topics.Bindings = bindings }))
}

func bindingsOf(t *testing.T, node *broker.Node) (all []string) {
	t.Helper()
	got, err := node.Client().Bindings(t.Context(), "", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range got {
		all = append(all, b.Filter+" "+b.Queue)
	}
	return all
}

// Bindings are made at the start; those that have left the configuration stay.
func TestBindingsOfTheConfigurationAreMade(t *testing.T) {
	dir, l := t.TempDir(), new(logs)
	node := run(t, withBindings(dir, l, configs.Binding{Filter: "x/#", Queue: "a"}, configs.Binding{Filter: "x/+", Queue: "b"})...)
	res, err := node.Client().PublishTopic(t.Context(), core.TopicPublish{Topic: "x/1", Messages: []core.Message{{Body: []byte("hello"), Delay: -1}}}, nil)
	if err != nil || res[0].Matched != 2 {
		t.Fatalf("published to %+v, %v; want two queues", res, err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	node = run(t, withBindings(dir, l, configs.Binding{Filter: "x/#", Queue: "a"}, configs.Binding{Filter: "y", Queue: "a"})...)
	if got, want := strings.Join(bindingsOf(t, node), ", "), "x/# a, y a, x/+ b"; got != want {
		t.Errorf("bindings %s, want %s", got, want)
	}
}

// A binding takes the selector that it has in the configuration, also one that was
// there with another.
func TestSelectorsOfBindings(t *testing.T) {
	dir, l := t.TempDir(), new(logs)
	color := func(value string) core.TopicPublish {
		m := core.Message{Body: []byte(value), Delay: -1}
		m.Attributes = []core.Attribute{{Kind: core.AttributeUser, Name: "color", Value: []byte(value)}}
		return core.TopicPublish{Topic: "x", Messages: []core.Message{m}}
	}
	for _, want := range []string{"red", "blue", ""} {
		b := configs.Binding{Filter: "x", Queue: "a"}
		if want != "" {
			b.Selector = "color = '" + want + "'"
		}
		node := run(t, withBindings(dir, l, b)...)
		for _, sent := range []string{"red", "blue"} {
			matched := 0
			if sent == want || want == "" {
				matched = 1
			}
			res, err := node.Client().PublishTopic(t.Context(), color(sent), nil)
			if err != nil || res[0].Matched != matched {
				t.Errorf("%q: published %s to %+v, %v; want %d queues", b.Selector, sent, res, err, matched)
			}
		}
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range []string{"color =", "1", strings.Repeat("x", 70_000)} {
		options := withBindings(t.TempDir(), new(logs), configs.Binding{Filter: "x", Queue: "a", Selector: wrong})
		if err := refused(t, options...); !strings.Contains(err.Error(), "topics.bindings: the selector of a: ") {
			t.Errorf("%.20s: a node says %v", wrong, err)
		}
	}
}

func TestFiltersOfBindingsAreChecked(t *testing.T) {
	for _, filter := range []string{"a#", "a/#/b", "a+/b", strings.Repeat("a/", 200)} {
		options := withBindings(t.TempDir(), new(logs), configs.Binding{Filter: filter, Queue: "a"})
		if err := refused(t, options...); !strings.Contains(err.Error(), "topics.bindings: ") {
			t.Errorf("%.20s: a node says %v", filter, err)
		}
	}
}
