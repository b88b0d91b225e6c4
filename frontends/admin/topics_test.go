package admin_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/leasemq/broker/frontends/admin"
)

const (
	bindingsPath = "/api/v1/topics/bindings"
	topicsPath   = "/api/v1/topics/messages"
	retainedPath = "/api/v1/topics/retained"
)

func (n *node) bind(filter, queue string) {
	n.want(201, "POST", bindingsPath, fmt.Sprintf(`{"filter":%q,"queue":%q}`, filter, queue), nil)
}

// bindings follows the pages of a list of bindings.
func (n *node) bindings(query string) []string {
	out := []string{}
	for after := ""; ; {
		var list admin.BindingList
		n.want(200, "GET", bindingsPath+"?"+query+"&after="+url.QueryEscape(after), "", &list)
		for _, b := range list.Bindings {
			if b.Origin != "admin" {
				n.t.Errorf("the origin of %+v is not admin", b)
			}
			out = append(out, b.Filter+" "+b.Queue)
		}
		if after = list.Next; after == "" {
			return out
		}
	}
}

func TestTopicReachesBoundQueues(t *testing.T) {
	n := start(t)
	n.create("a", "")
	n.create("b/c", "")
	n.bind("orders/#", "a")
	n.bind("orders/#", "a") // again: the same
	n.bind("+/new", "a")
	n.bind("orders/new", "b/c")
	if got, want := n.bindings("limit=1"), []string{"+/new a", "orders/# a", "orders/new b/c"}; !slices.Equal(got, want) {
		t.Errorf("bindings are %q, want %q", got, want)
	}
	if got, want := n.bindings("queue=a&limit=1"), []string{"+/new a", "orders/# a"}; !slices.Equal(got, want) {
		t.Errorf("bindings of a are %q, want %q", got, want)
	}
	var res admin.TopicResponse
	n.want(200, "POST", topicsPath, `{"topic":"orders/new","messages":[{"body":"one"},{"body":"two"}]}`, &res)
	if len(res.Messages) != 2 || res.Messages[0].Queues != 2 || res.Messages[1].Queues != 2 {
		t.Fatalf("the publish is answered with %+v", res)
	}
	for _, queue := range []string{"a", "b/c"} {
		var list admin.MessageList
		n.want(200, "GET", admin.QueuePath(queue, "messages"), "", &list)
		if len(list.Messages) != 2 || list.Messages[0].ID != res.Messages[0].ID || list.Messages[0].Topic != "orders/new" || list.Messages[1].Body != "two" {
			t.Errorf("%s has %+v after %+v", queue, list, res)
		}
	}
	unbind := bindingsPath + "?queue=a&filter=" + url.QueryEscape("+/new")
	n.want(204, "DELETE", unbind, "", nil)
	n.refuse(404, "no_binding", "DELETE", unbind, "")
	n.want(200, "POST", topicsPath, `{"topic":"x/new","messages":[{"body":"lost"}]}`, &res)
	if res.Messages[0].Queues != 0 {
		t.Errorf("%d queues got what none is bound to", res.Messages[0].Queues)
	}
}

func TestFullQueuesAreCounted(t *testing.T) {
	n := start(t)
	n.create("q", `"max_messages":1`)
	n.bind("t", "q")
	var res admin.TopicResponse
	n.want(200, "POST", topicsPath, `{"topic":"t","messages":[{"body":"one"}]}`, &res)
	n.want(200, "POST", topicsPath, `{"topic":"t","messages":[{"body":"two"}]}`, &res)
	if got := res.Messages[0]; got.Queues != 0 || got.Full != 1 {
		t.Errorf("a publish to a full queue is answered with %+v", got)
	}
}

func TestRetainedValues(t *testing.T) {
	n := start(t)
	for _, topic := range []string{"a/b", "a", "a/c", "d"} {
		n.want(200, "POST", topicsPath, fmt.Sprintf(`{"topic":%q,"retain":true,"messages":[{"body":"of %s","attributes":[{"name":"n","value":"v"}]}]}`, topic, topic), nil)
	}
	read := func(query string) []string {
		out := []string{}
		for after := ""; ; {
			var list admin.RetainedList
			n.want(200, "GET", retainedPath+"?limit=1&"+query+"&after="+url.QueryEscape(after), "", &list)
			for _, v := range list.Retained {
				if v.Message.Body != "of "+v.Topic || v.Message.Topic != v.Topic || len(v.Message.Attributes) != 1 {
					t.Errorf("the value of %s is %+v", v.Topic, v.Message)
				}
				out = append(out, v.Topic)
			}
			if after = list.Next; after == "" {
				return out
			}
		}
	}
	n.want(200, "POST", topicsPath, `{"topic":"a/c","retain":true,"messages":[{}]}`, nil)
	for query, want := range map[string]string{"": "a a/b d", "filter=a/%23": "a a/b", "filter=d": "d", "filter=%2B/b": "a/b", "filter=a/c": ""} {
		if got := strings.Join(read(query), " "); got != want {
			t.Errorf("retained of %q are %q, want %q", query, got, want)
		}
	}
}

// TestRetainedAnswersAreBounded: a page ends before its bodies are too many bytes.
func TestRetainedAnswersAreBounded(t *testing.T) {
	n := start(t)
	body := strings.Repeat("x", 9<<20)
	for _, topic := range []string{"a", "b"} {
		n.want(200, "POST", topicsPath, fmt.Sprintf(`{"topic":%q,"retain":true,"messages":[{"body":%q}]}`, topic, body), nil)
	}
	var list admin.RetainedList
	n.want(200, "GET", retainedPath, "", &list)
	if len(list.Retained) != 1 || list.Next != "a" {
		t.Errorf("the answer has %d values and goes on after %q", len(list.Retained), list.Next)
	}
}

func TestTopicRequestsThatAreRefused(t *testing.T) {
	n := start(t)
	n.create("q", "")
	for _, c := range []struct {
		status             int
		code, method, path string
		body               string
	}{
		{400, "invalid_topic", "POST", bindingsPath, `{"filter":"a/#/b","queue":"q"}`},
		{400, "invalid_topic", "POST", bindingsPath, `{"queue":"q"}`},
		{404, "no_queue", "POST", bindingsPath, `{"filter":"a","queue":"none"}`},
		{404, "no_queue", "POST", bindingsPath, `{"filter":"a"}`},
		{400, "bad_request", "POST", bindingsPath, `{"filter":"a","queue":"q","qos":1}`},
		{404, "no_queue", "GET", bindingsPath + "?queue=none", ""},
		{400, "bad_request", "GET", bindingsPath + "?limit=1001", ""},
		{404, "no_queue", "DELETE", bindingsPath + "?filter=a", ""},
		{404, "no_queue", "DELETE", bindingsPath + "?filter=a&queue=none", ""},
		{404, "no_binding", "DELETE", bindingsPath + "?queue=q", ""},
		{400, "invalid_topic", "POST", topicsPath, `{"topic":"a/+","messages":[{"body":"x"}]}`},
		{400, "invalid_topic", "POST", topicsPath, `{"messages":[{"body":"x"}]}`},
		{400, "bad_request", "POST", topicsPath, `{"topic":"a","messages":[]}`},
		{400, "invalid_argument", "POST", topicsPath, `{"topic":"a","messages":[{"priority":10}]}`},
		{400, "invalid_topic", "GET", retainedPath + "?filter=a%2B", ""},
		{400, "bad_request", "GET", retainedPath + "?limit=101", ""},
		{404, "no_route", "GET", topicsPath, ""},
	} {
		n.refuse(c.status, c.code, c.method, c.path, c.body)
	}
	var e admin.ErrorResponse
	n.want(400, "POST", topicsPath, `{"topic":"a/+","messages":[{"body":"x"}]}`, &e)
	if got, want := e.Error.Message, `topic or filter is not valid: "a/+"`; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}
