package stomp

import (
	"strings"
	"testing"

	"github.com/leasemq/broker/core/match"
)

func TestTopicFilter(t *testing.T) {
	cases := []struct {
		text, filter string
		wild         bool
		back         string // how it is written; empty: as text
	}{
		{text: "a.b", filter: "a/b"},
		{text: "a/b", filter: "a/b", back: "a.b"},
		{text: "a", filter: "a"},
		{text: ".", filter: "/"},
		{text: "a..b.", filter: "a//b/"},
		{text: "a.*.b", filter: "a/+/b", wild: true},
		{text: "a.>", filter: "a/#", wild: true},
		{text: "a.#", filter: "a/#", wild: true, back: "a.>"},
		{text: "#", filter: "#", wild: true, back: ">"},
		{text: "a*.>b", filter: "a*/>b", back: "a%2A.%3Eb"},
		{text: "%2A.%3E.%2E", filter: "*/>/."},
		{text: "100%", filter: "100%", back: "100%25"},
		{text: "%zz.%2E", filter: "%zz/.", back: "%25zz.%2E"},
		{text: "%252E", filter: "%2E"},
		{text: "a.>.b"},
		{text: "#.b"},
		{text: "a+"},
		{text: "+"},
		{text: "%2B"},
		{text: "a%23"},
		{text: ""},
		{text: "a\x00"},
		{text: "%00"},
		{text: "\xff"},
		{text: strings.Repeat("a.", 200)},
	}
	for _, c := range cases {
		filter, wild, ok := topicFilter(c.text)
		if ok != (c.filter != "") || ok && (filter != c.filter || wild != c.wild) {
			t.Errorf("%q is %q, wild %v, ok %v; want %q", c.text, filter, wild, ok, c.filter)
			continue
		}
		if !ok {
			continue
		}
		want := c.back
		if want == "" {
			want = c.text
		}
		if back := string(appendTopic(nil, filter)); back != want {
			t.Errorf("%q is written %q, want %q", filter, back, want)
		}
	}
}

// Every topic has a name in STOMP that leads back to it, and that is no filter.
func FuzzTopicNames(f *testing.F) {
	for _, s := range []string{"a/b", "a.b/c", "%/%2E", "*/>", "//", "$x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, topic string) {
		if match.CheckTopic(topic) != nil {
			t.Skip()
		}
		text := string(appendTopic(nil, topic))
		got, wild, ok := topicFilter(text)
		if got != topic || wild || !ok {
			t.Errorf("%q, written %q, is read %q, wild %v, ok %v", topic, text, got, wild, ok)
		}
	})
}
