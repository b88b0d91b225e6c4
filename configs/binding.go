package configs

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// BindingsMax bounds the bindings of a configuration.
const BindingsMax = 10_000

// Binding gives a queue, one of Queues, copies of what is published to the topics
// that a filter matches. It is made at the start of a node.
type Binding struct {
	Filter string `yaml:"filter"`
	Queue  string `yaml:"queue"`
	// Selector, if not empty, selects among these messages, as in JMS.
	Selector string `yaml:"selector"`
}

// kindBindings is the Field.Kind of a list of bindings.
const kindBindings = "bindings"

// bindingValues returns what bindings have as data that YAML can write.
func bindingValues(bindings []Binding) []yaml.MapSlice {
	out := make([]yaml.MapSlice, 0, len(bindings))
	for _, b := range bindings {
		m := yaml.MapSlice{{Key: "filter", Value: b.Filter}, {Key: "queue", Value: b.Queue}}
		if b.Selector != "" {
			m = append(m, yaml.MapItem{Key: "selector", Value: b.Selector})
		}
		out = append(out, m)
	}
	return out
}

// bindings reads a list of bindings.
func (w fileWalk) bindings(key string, n ast.Node) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		w.failAt(n, "%s: expected a list of bindings, such as - { filter: devices/+/up, queue: orders }", key)
		return
	}
	var bindings []Binding
	for _, item := range list.Values {
		bindings = append(bindings, w.binding(key, item))
	}
	w.out.Config.Topics.Bindings = bindings
	w.out.origins[key] = w.origin(n)
}

func (w fileWalk) binding(key string, n ast.Node) (b Binding) {
	names := []string{"filter", "queue", "selector"}
	m, ok := n.(ast.MapNode)
	if !ok {
		w.failAt(n, "%s: expected a binding: filter, queue and maybe selector", key)
		return b
	}
	for it := m.MapRange(); it.Next(); {
		name := it.Key().GetToken().Value
		value, err := nodeText(it.Value())
		switch {
		case !slices.Contains(names, name):
			w.failAt(it.Key(), "unknown key %s.%s%s", key, name, didYouMean(name, names))
		case it.Value().Type() == ast.SequenceType:
			w.failAt(it.Value(), "%s.%s: expected one value, not a list", key, name)
		case err != nil:
			w.failAt(it.Value(), "%s.%s: %s", key, name, err)
		case name == "filter":
			b.Filter = value
		case name == "selector":
			b.Selector = value
		default:
			b.Queue = value
		}
	}
	return b
}

// bindings checks the bindings. Whether each filter can be matched, and each
// selector read, is for those who do.
func (k *checker) bindings(c Config) {
	const key = "topics.bindings"
	bindings := c.Topics.Bindings
	if len(bindings) > BindingsMax {
		k.fail(key, "%d of them, over %d", len(bindings), BindingsMax)
		return
	}
	names := make([]string, len(c.Queues))
	there := make(map[string]bool, len(c.Queues))
	for i, q := range c.Queues {
		names[i], there[q.Name] = q.Name, true
	}
	seen := make(map[Binding]bool, len(bindings))
	for i, b := range bindings {
		switch {
		case b.Filter == "" || b.Queue == "":
			k.fail(key, "number %d has no filter, or no queue", i+1)
			continue
		case seen[Binding{Filter: b.Filter, Queue: b.Queue}]:
			k.fail(key, "%s is bound to %s twice", b.Queue, b.Filter)
		case strings.HasPrefix(b.Filter, "$share/") || strings.HasPrefix(b.Filter, "$queue/"):
			k.fail(key, "%s is for subscriptions of MQTT, not for bindings", b.Filter)
		case !there[b.Queue] && len(names) <= guessesMax:
			k.fail(key, "%s is not one of queues%s", b.Queue, didYouMean(b.Queue, names))
		case !there[b.Queue]:
			k.fail(key, "%s is not one of queues", b.Queue)
		}
		seen[Binding{Filter: b.Filter, Queue: b.Queue}] = true
	}
}
