package core_test

import (
	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/selector"
)

// mSelector is the model of a selector. nil selects all.
type mSelector struct {
	text string
	want func(m *mMessage) bool
}

func (s *mSelector) selects(m *mMessage) bool { return s == nil || s.want(m) }

func selectors() []*mSelector {
	return []*mSelector{
		{"JMSPriority > 5", func(m *mMessage) bool { return m.priority > 5 }},
		{"JMSPriority = 2", func(m *mMessage) bool { return m.priority == 2 }},
		{"JMSXGroupID IS NULL", func(m *mMessage) bool { return m.group == "" }},
		{"JMSXGroupID IN ('x', 'z') OR JMSPriority < 3", func(m *mMessage) bool { return m.group == "x" || m.group == "z" || m.priority < 3 }},
		{"JMSTimestamp > 0", func(m *mMessage) bool { return true }},
		{"missing = 1", func(m *mMessage) bool { return false }},
	}
}

// selectorOf returns the model of the selector of a receive.
func selectorOf(o *core.ReceiveOptions) *mSelector {
	for _, s := range selectors() {
		if o.Selector != nil && s.text == o.Selector.Text() {
			return s
		}
	}
	return nil
}

// selecting gives a receive a selector, or none.
func (r *rig) selecting(t *rapid.T, o *core.ReceiveOptions) {
	if rapid.IntRange(0, 2).Draw(t, "selects") != 0 {
		return
	}
	s, err := selector.Parse(rapid.SampledFrom(selectors()).Draw(t, "selector").text)
	if err != nil {
		r.failf("%v", err)
	}
	o.Selector = s
}

// older is the order within a lane among those that came back.
func (m *mMessage) older(n *mMessage, sel *mSelector) bool {
	if sel != nil {
		return m.before(n)
	}
	return m.seq < n.seq
}
