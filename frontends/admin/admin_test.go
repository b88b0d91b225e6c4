package admin_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
	"github.com/leasemq/broker/storage"
)

// node is the admin frontend on loopback, over a real engine in memory or none.
type node struct {
	t      *testing.T
	engine *core.Engine // nil: none
	server *admin.Server
	base   string
	stop   context.CancelFunc
	served chan error
}

func start(t *testing.T, edit ...func(*admin.Options)) *node {
	t.Helper()
	return serve(t, openEngine(t), edit...)
}

// openEngine returns an engine that is closed at the end of the test.
func openEngine(t *testing.T) *core.Engine {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, boot, err := storage.Open(storage.Options{Memory: true, Logger: log})
	if err != nil {
		t.Fatalf("open storage: %v", err)
	}
	engine, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot, Logger: log})
	if err != nil {
		t.Fatalf("open core: %v", err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Errorf("close core: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close storage: %v", err)
		}
	})
	return engine
}

func serve(t *testing.T, engine *core.Engine, edit ...func(*admin.Options)) *node {
	t.Helper()
	o := admin.Options{Logger: slog.New(slog.DiscardHandler)}
	for _, f := range edit {
		f(&o)
	}
	server, err := admin.New(engine, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &node{t: t, engine: engine, server: server, base: "http://" + ln.Addr().String(), stop: stop, served: make(chan error, 1)}
	go func() { n.served <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		if engine != nil {
			engine.Drain()
		}
		stop()
		if err := <-n.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return n
}

// call sends in and returns the status and the answer.
func (n *node) call(method, path, in string) (int, string) {
	n.t.Helper()
	req, err := http.NewRequest(method, n.base+path, strings.NewReader(in))
	if err != nil {
		n.t.Fatal(err)
	}
	if in != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return n.send(req)
}

func (n *node) send(req *http.Request) (int, string) {
	n.t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// want calls, checks the status, and decodes the answer into out.
func (n *node) want(status int, method, path, in string, out any) {
	n.t.Helper()
	got, body := n.call(method, path, in)
	if got != status {
		n.t.Fatalf("%s %s answers %d %s, want %d", method, path, got, body, status)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(body), out, json.RejectUnknownMembers(true)); err != nil {
		n.t.Fatalf("%s %s answers %s: %v", method, path, body, err)
	}
}

// refuse calls and checks the error code.
func (n *node) refuse(status int, code, method, path, in string) {
	n.t.Helper()
	var e admin.ErrorResponse
	n.want(status, method, path, in, &e)
	if e.Error.Code != code || e.Error.Message == "" {
		n.t.Errorf("%s %s %s answers %+v, want code %s and a message", method, path, in, e, code)
	}
}

func (n *node) create(name, settings string) admin.Queue {
	n.t.Helper()
	var q admin.Queue
	n.want(http.StatusCreated, "POST", "/api/v1/queues", fmt.Sprintf(`{"name":%q,"settings":{%s}}`, name, settings), &q)
	return q
}

func TestMessageGoesThroughItsLife(t *testing.T) {
	n := start(t)
	n.create("orders", `"visibility_timeout":"1h"`)
	path := admin.QueuePath("orders")

	var sent admin.PublishResponse
	n.want(200, "POST", path+"/messages",
		`{"messages":[{"body":"a","attributes":[{"name":"k","value":"v"}],"group":"g","content_type":"text/plain"},{"body_base64":"/w=="}]}`, &sent)
	if len(sent.Messages) != 2 || sent.Messages[0].ID == "" {
		t.Fatalf("publish answers %+v", sent)
	}

	var got admin.MessageList
	n.want(200, "POST", path+"/receive", `{"max":2}`, &got)
	if len(got.Messages) != 2 {
		t.Fatalf("received %d messages, want 2: %+v", len(got.Messages), got)
	}
	byID := map[string]admin.Message{}
	for _, m := range got.Messages {
		byID[m.ID] = m
	}
	first, second := byID[sent.Messages[0].ID], byID[sent.Messages[1].ID]
	if first.Body != "a" || first.Group != "g" || first.ContentType != "text/plain" || first.Receives != 1 || first.Priority != 4 {
		t.Errorf("the first message came as %+v", first)
	}
	if len(first.Attributes) != 1 || first.Attributes[0].Name != "k" || first.Attributes[0].Value != "v" || first.Attributes[0].Type != "String" {
		t.Errorf("the attributes came as %+v", first.Attributes)
	}
	if !bytes.Equal(second.BodyBase64, []byte{0xff}) {
		t.Errorf("the body that is not UTF-8 came as %q", second.BodyBase64)
	}

	var settled admin.SettleResponse
	n.want(200, "POST", path+"/settle", fmt.Sprintf(
		`{"settlements":[{"receipt":%q,"action":"delete"},{"receipt":%q,"action":"release"},{"receipt":"x","action":"delete"}]}`,
		first.Receipt, second.Receipt), &settled)
	if r := settled.Results; len(r) != 3 || r[0].Error != nil || r[1].Error != nil || r[2].Error == nil || r[2].Error.Code != "bad_receipt" {
		t.Fatalf("settle answers %+v", settled)
	}

	var left admin.MessageList
	n.want(200, "GET", path+"/messages", "", &left)
	if len(left.Messages) != 1 || left.Messages[0].ID != second.ID || left.Messages[0].State != "ready" || left.Messages[0].Receipt != "" {
		t.Errorf("peek shows %+v, want the released message", left)
	}
	n.want(204, "POST", path+"/purge", "", nil)
	var q admin.Queue
	n.want(200, "GET", path, "", &q)
	if q.Stats.Messages != 0 {
		t.Errorf("after a purge there are %d messages", q.Stats.Messages)
	}
	n.want(204, "DELETE", path, "", nil)
	n.refuse(404, "no_queue", "GET", path, "")
}

func TestPeekGoesOnAndTellsStates(t *testing.T) {
	n := start(t)
	n.create("q", `"visibility_timeout":"1h"`)
	path := admin.QueuePath("q")
	n.want(200, "POST", path+"/messages", `{"messages":[{"body":"a"}]}`, nil)
	var got admin.MessageList
	n.want(200, "POST", path+"/receive", `{}`, &got)
	n.want(200, "POST", path+"/messages", `{"messages":[{"body":"b"},{"body":"c"},{"body":"d","delay":"1h"}]}`, nil)

	states, after := map[string]string{}, ""
	for pages := 0; ; pages++ {
		if pages > 10 {
			t.Fatal("peek does not end")
		}
		var page admin.MessageList
		n.want(200, "GET", path+"/messages?limit=1"+after, "", &page)
		for _, m := range page.Messages {
			states[m.Body] = m.State
		}
		if page.Next == "" {
			break
		}
		after = "&after=" + page.Next
	}
	want := map[string]string{"a": "in_flight", "b": "ready", "c": "ready", "d": "delayed"}
	for body, state := range want {
		if states[body] != state {
			t.Errorf("message %s is %q, want %q", body, states[body], state)
		}
	}
}

func TestQueuesAreListedInPages(t *testing.T) {
	n := start(t)
	for _, name := range []string{"a", "b/1", "b/2", "c"} {
		n.create(name, "")
	}
	var names []string
	path := "/api/v1/queues?limit=3"
	for path != "" {
		var page admin.QueueList
		n.want(200, "GET", path, "", &page)
		for _, q := range page.Queues {
			names = append(names, q.Name)
		}
		path = ""
		if page.Next != "" {
			path = "/api/v1/queues?limit=3&after=" + page.Next
		}
	}
	if got, want := strings.Join(names, " "), "a b/1 b/2 c"; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	var some admin.QueueList
	n.want(200, "GET", "/api/v1/queues?prefix=b/", "", &some)
	if len(some.Queues) != 2 {
		t.Errorf("with a prefix: %+v", some)
	}
	var one admin.Queue
	n.want(200, "GET", admin.QueuePath("b/1"), "", &one)
	if one.Name != "b/1" {
		t.Errorf("a name with a slash gives queue %q", one.Name)
	}
}

func TestPathsReachEveryName(t *testing.T) {
	n := start(t)
	for _, name := range []string{".", "..", "a/b", "a b", "%2E", "?", "ü"} {
		n.create(name, "")
		var q admin.Queue
		n.want(200, "GET", admin.QueuePath(name), "", &q)
		if q.Name != name {
			t.Errorf("the path of %q shows %q", name, q.Name)
		}
		n.want(200, "POST", admin.QueuePath(name, "messages"), `{"messages":[{"body":"a"}]}`, nil)
		n.want(204, "DELETE", admin.QueuePath(name), "", nil)
	}
}

func TestSettingsComeBackAsTheyWereSet(t *testing.T) {
	n := start(t)
	n.create("dead.fifo", "")
	all := `"kind":"fifo","visibility_timeout":"7s","delay":"8s","retention":"9h","receive_wait":"3s","max_message_bytes":2048,` +
		`"max_messages":5,"max_bytes":6000,"overflow":"drop-oldest","marks":"sync","content_dedup":true,"dedup_scope":"group",` +
		`"redelivery":{"dead_letter_queue":"dead.fifo","max_receives":4,"initial_delay":"1s","multiplier":2,"max_delay":"1m"},` +
		`"expired_to_dlq":true,"attributes":{"Policy":"{}"},"tags":{"team":"shop"}`
	q := n.create("q.fifo", all)
	var want admin.Settings
	if err := json.Unmarshal([]byte("{"+all+"}"), &want); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", q.Settings); got != fmt.Sprintf("%+v", want) {
		t.Errorf("settings are\n%s, want\n%+v", got, want)
	}
}

func TestPatchChangesWhatItNames(t *testing.T) {
	n := start(t)
	n.create("q", `"delay":"8s","tags":{"a":"1","b":"2"},"attributes":{"x":"y"}`)
	var q admin.Queue
	n.want(200, "PATCH", admin.QueuePath("q"), `{"visibility_timeout":"5s","tags":{"c":"3"}}`, &q)
	if time.Duration(q.Settings.VisibilityTimeout) != 5*time.Second || time.Duration(q.Settings.Delay) != 8*time.Second {
		t.Errorf("settings are %+v", q.Settings)
	}
	if len(q.Settings.Tags) != 1 || q.Settings.Tags["c"] != "3" || q.Settings.Attributes["x"] != "y" {
		t.Errorf("tags are %v, attributes %v: tags are replaced whole, attributes kept", q.Settings.Tags, q.Settings.Attributes)
	}
	n.refuse(400, "bad_request", "PATCH", admin.QueuePath("q"), `{"visibilty_timeout":"5s"}`)
	n.refuse(400, "bad_request", "PATCH", admin.QueuePath("q"), `{"visibility_timeout":"soon"}`)
	n.refuse(400, "invalid_settings", "PATCH", admin.QueuePath("q"), `{"overflow":"explode"}`)
	n.refuse(404, "no_queue", "PATCH", admin.QueuePath("none"), `{}`)
}

func TestDeadLetterQueueMustBeThere(t *testing.T) {
	n := start(t)
	n.create("dead", "")
	n.create("dead.fifo", "")
	n.create("plain", "")
	policy := func(name string) string {
		return fmt.Sprintf(`"redelivery":{"dead_letter_queue":%q,"max_receives":2}`, name)
	}
	for _, name := range []string{"none", "dead.fifo"} {
		n.refuse(400, "invalid_dead_letter_queue", "POST", "/api/v1/queues", `{"name":"q","settings":{`+policy(name)+`}}`)
		n.refuse(400, "invalid_dead_letter_queue", "PATCH", admin.QueuePath("plain"), `{`+policy(name)+`}`)
	}
	n.create("q", policy("dead"))
	n.want(200, "PATCH", admin.QueuePath("plain"), `{`+policy("dead")+`}`, nil)
	// What was set stays changeable when the dead-letter queue is gone.
	n.want(204, "DELETE", admin.QueuePath("dead"), "", nil)
	n.want(200, "POST", "/api/v1/queues", `{"name":"q","settings":{`+policy("dead")+`}}`, nil)
	n.want(200, "PATCH", admin.QueuePath("plain"), `{"delay":"1s"}`, nil)
	n.want(200, "PATCH", admin.QueuePath("plain"), `{"redelivery":{"dead_letter_queue":""}}`, nil)
}

func TestMistakesAreToldInWordsOfTheAPI(t *testing.T) {
	n := start(t)
	n.create("dead", "")
	for settings, want := range map[string]string{
		`"visibility_timeot":"30s"`:                 `bad request: unknown object member name at /settings/visibility_timeot`,
		`"visibility_timeout":"soon"`:               `bad request: "soon" is not a duration such as 30s at /settings/visibility_timeout`,
		`"visibility_timeout":30`:                   `bad request: JSON value must be string type at /settings/visibility_timeout`,
		`"visibility_timeout":"13h"`:                `queue configuration is not valid: visibility timeout 13h0m0s is not between 0 and 12h0m0s`,
		`"kind":{}`:                                 `bad request: a JSON object is not expected at /settings/kind`,
		`"max_bytes":"1"`:                           `bad request: a JSON string is not expected at /settings/max_bytes`,
		`"overflow":"explode"`:                      `queue configuration is not valid: overflow is "explode", not one of reject, drop-oldest`,
		`"redelivery":{"max_receives":1001}`:        `queue configuration is not valid: max receives 1001 is not between 0 and 1000`,
		`"redelivery":{"dead_letter_queue":"dead"}`: `queue configuration is not valid: a dead-letter queue needs max receives, from 1 to 1000`,
		`"redelivery":{"max_delay":"13h"}`:          `queue configuration is not valid: longest redelivery delay 13h0m0s is not between 0 and 12h0m0s`,
	} {
		var e admin.ErrorResponse
		n.want(400, "POST", "/api/v1/queues", `{"name":"q","settings":{`+settings+`}}`, &e)
		if e.Error.Message != want {
			t.Errorf("%s: the message is\n%s, want\n%s", settings, e.Error.Message, want)
		}
	}
}

func TestCreateAgainIsTheSameOrAConflict(t *testing.T) {
	n := start(t)
	n.create("q", `"delay":"8s","tags":{"a":"1"}`)
	var q admin.Queue
	n.want(200, "POST", "/api/v1/queues", `{"name":"q"}`, &q)
	n.want(200, "POST", "/api/v1/queues", `{"name":"q","settings":{"delay":"8s"}}`, &q)
	n.refuse(409, "queue_exists", "POST", "/api/v1/queues", `{"name":"q","settings":{"delay":"9s"}}`)
	n.refuse(409, "queue_exists", "POST", "/api/v1/queues", `{"name":"q","settings":{"tags":{"a":"2"}}}`)
	n.refuse(409, "queue_exists", "POST", "/api/v1/queues", `{"name":"q","settings":{"kind":"fifo"}}`)
	n.refuse(400, "invalid_name", "POST", "/api/v1/queues", `{"name":""}`)
	n.refuse(400, "invalid_settings", "POST", "/api/v1/queues", `{"name":"x","settings":{"kind":"heap"}}`)
}

func TestFIFOByName(t *testing.T) {
	n := start(t)
	if q := n.create("q.fifo", ""); q.Settings.Kind != "fifo" || q.Settings.Marks != "sync" {
		t.Errorf("settings are %+v, want a FIFO queue", q.Settings)
	}
	n.refuse(400, "missing_group", "POST", admin.QueuePath("q.fifo")+"/messages", `{"messages":[{"body":"a"}]}`)
	n.refuse(400, "missing_dedup_id", "POST", admin.QueuePath("q.fifo")+"/messages", `{"messages":[{"body":"a","group":"g"}]}`)
}

func TestRequestsThatAreRefused(t *testing.T) {
	n := start(t)
	n.create("q", "")
	path := admin.QueuePath("q")
	for _, c := range []struct {
		status           int
		code, path, body string
	}{
		{400, "bad_request", "/messages", `{`},
		{400, "bad_request", "/messages", `{"messages":[]}`},
		{400, "bad_request", "/messages", `{"messages":[` + strings.Repeat(`{},`, 100) + `{}]}`},
		{400, "bad_request", "/messages", `{"messages":[{"body":"a","body_base64":"/w=="}]}`},
		{400, "bad_request", "/messages", `{"messages":[{"body":"a"}],"messages":[]}`},
		{400, "invalid_argument", "/messages", `{"messages":[{"priority":10}]}`},
		{400, "invalid_argument", "/messages", `{"messages":[{"delay":"-1s"}]}`},
		{400, "invalid_argument", "/receive", `{"max":0}`},
		{400, "invalid_argument", "/receive", `{"max":101}`},
		{400, "invalid_argument", "/receive", `{"wait":"21s"}`},
		{400, "invalid_argument", "/receive", `{"visibility":"-1s"}`},
		{400, "bad_request", "/settle", `{"settlements":[]}`},
		{400, "invalid_argument", "/settle", `{"settlements":[{"receipt":"x","action":"eat"}]}`},
		{413, "too_large", "/settle", `{"settlements":[{"receipt":"` + strings.Repeat("x", 1<<20) + `"}]}`},
		{404, "no_route", "/nothing", `{}`},
	} {
		n.refuse(c.status, c.code, "POST", path+c.path, c.body)
	}
	n.refuse(404, "no_route", "GET", "/api/v2/queues", "")
	n.refuse(400, "bad_request", "GET", path+"/messages?after=%21", "")
	n.refuse(400, "bad_request", "GET", path+"/messages?limit=0", "")
	n.refuse(400, "bad_request", "GET", "/api/v1/queues?limit=1001", "")
	n.refuse(404, "no_queue", "POST", admin.QueuePath("none")+"/receive", `{}`)
	for body, want := range map[string]string{
		"{":  "bad request: the body is not JSON: unexpected EOF after offset 1",
		"{}": "queue does not exist: none",
	} {
		var e admin.ErrorResponse
		if _, got := n.call("POST", admin.QueuePath("none")+"/receive", body); json.Unmarshal([]byte(got), &e) != nil || e.Error.Message != want {
			t.Errorf("%s is answered with %s, want the message %q", body, got, want)
		}
	}
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	n := start(t)
	body := `{"name":"q"}`
	request := func(edit func(*http.Request)) (int, string) {
		req, err := http.NewRequest("POST", n.base+"/api/v1/queues", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		edit(req)
		return n.send(req)
	}
	for name, c := range map[string]struct {
		edit func(*http.Request)
		want int
	}{
		"cross site":     {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"foreign origin": {func(r *http.Request) { r.Header.Set("Origin", "http://example.org") }, 403},
		"foreign host":   {func(r *http.Request) { r.Host = "example.org" }, 403},
		"form":           {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400},
	} {
		if status, answer := request(c.edit); status != c.want || !strings.HasPrefix(answer, `{"error":{"code":"`) {
			t.Errorf("%s: answer %d %s, want %d", name, status, answer, c.want)
		}
	}
	if status, answer := request(func(r *http.Request) { r.Host = "localhost:9325" }); status != 201 {
		t.Errorf("localhost: answer %d %s, want 201", status, answer)
	}
}

func TestReceiveWaitsForAMessage(t *testing.T) {
	n := start(t)
	n.create("q", "")
	path := admin.QueuePath("q")
	answer := make(chan admin.MessageList, 1)
	go func() {
		var list admin.MessageList
		n.want(200, "POST", path+"/receive", `{"wait":"20s"}`, &list)
		answer <- list
	}()
	n.awaitWaiter("q")
	n.want(200, "POST", path+"/messages", `{"messages":[{"body":"a"}]}`, nil)
	if list := <-answer; len(list.Messages) != 1 || list.Messages[0].Body != "a" {
		t.Errorf("the waiting receive got %+v", list)
	}
}

// awaitWaiter returns when a receive is parked on the queue.
func (n *node) awaitWaiter(queue string) {
	n.t.Helper()
	client := n.engine.Client(core.Principal{})
	for {
		st, err := client.Stats(n.t.Context(), queue)
		if err != nil {
			n.t.Fatal(err)
		}
		if st.Waiters > 0 {
			return
		}
	}
}

func TestDrainAnswersWaitingReceives(t *testing.T) {
	n := start(t)
	n.create("q", "")
	answer := make(chan admin.MessageList, 1)
	go func() {
		var list admin.MessageList
		n.want(200, "POST", admin.QueuePath("q")+"/receive", `{"wait":"20s"}`, &list)
		answer <- list
	}()
	n.awaitWaiter("q")
	n.engine.Drain()
	n.stop()
	if list := <-answer; len(list.Messages) != 0 {
		t.Errorf("the waiting receive got %+v", list)
	}
	if err := <-n.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	n.served <- nil
	if c, err := net.Dial("tcp", strings.TrimPrefix(n.base, "http://")); err == nil {
		c.Close()
		t.Error("the listener still accepts")
	}
}

func TestAGoneReceiverTakesNoMessage(t *testing.T) {
	n := start(t)
	n.create("q", "")
	path := admin.QueuePath("q")
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", n.base+path+"/receive", strings.NewReader(`{"wait":"20s"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	n.awaitWaiter("q")
	cancel()
	<-ended
	client := n.engine.Client(core.Principal{})
	for waiting := 1; waiting > 0; {
		st, err := client.Stats(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		waiting = st.Waiters
	}
	n.want(200, "POST", path+"/messages", `{"messages":[{"body":"a"}]}`, nil)
	var q admin.Queue
	n.want(200, "GET", path, "", &q)
	if q.Stats.Ready != 1 || q.Stats.InFlight != 0 {
		t.Errorf("stats are %+v, want one ready message", q.Stats)
	}
}

func TestHealth(t *testing.T) {
	var failure error
	n := start(t, func(o *admin.Options) {
		o.Checks = []admin.Check{{Name: "disk", Run: func() (string, error) { return "room enough", failure }}}
	})
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/health"} {
		if status, body := n.call("GET", path, ""); status != 200 || body != "ok\n" {
			t.Errorf("%s answers %d %q", path, status, body)
		}
	}
	if _, body := n.call("GET", "/readyz?verbose", ""); body != "[+] engine: commits succeed\n[+] disk: room enough\nok\n" {
		t.Errorf("verbose form: %q", body)
	}
	failure = fmt.Errorf("out of paper")
	if status, body := n.call("GET", "/readyz", ""); status != 503 || body != "[-] disk: out of paper\nfailed\n" {
		t.Errorf("/readyz answers %d %q", status, body)
	}
	if status, _ := n.call("GET", "/livez", ""); status != 200 {
		t.Errorf("/livez answers %d when the node is only not ready", status)
	}
}

func TestMetricsShowQueuesUpToTheLimit(t *testing.T) {
	n := start(t, func(o *admin.Options) { o.MetricQueues = 2 })
	for _, name := range []string{"a", "b", "c"} {
		n.create(name, "")
	}
	n.want(200, "POST", admin.QueuePath("a")+"/messages", `{"messages":[{"body":"xyz"},{"body":"d","delay":"1h"}]}`, nil)
	_, body := n.call("GET", "/metrics", "")
	for _, line := range []string{
		`broker_queue_messages{queue="a",state="ready"} 1`,
		`broker_queue_messages{queue="a",state="delayed"} 1`,
		`broker_queue_messages{queue="b",state="ready"} 0`,
		`broker_queue_bytes{queue="a"} 4`,
		"broker_queues 3",
		"broker_series_dropped_total 1",
		`broker_copies_refused_total{reason="too_large"} 0`,
		"# TYPE process_open_fds gauge",
		"# TYPE go_goroutines gauge",
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	if strings.Contains(body, `queue="c"`) {
		t.Error("metrics show a third queue")
	}
	// The limit is for those with the least to tell.
	n.want(200, "POST", admin.QueuePath("c")+"/messages", `{"messages":[{"body":"x"},{"body":"y"},{"body":"z"}]}`, nil)
	_, body = n.call("GET", "/metrics", "")
	for queue, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if got := strings.Contains(body, `queue="`+queue+`"`); got != want {
			t.Errorf("queue %s is shown: %t, want %t", queue, got, want)
		}
	}
}

func TestProfilesOnlyWhenAsked(t *testing.T) {
	if status, _ := start(t).call("GET", "/debug/pprof/", ""); status != 404 {
		t.Errorf("without being asked: %d", status)
	}
	n := start(t, func(o *admin.Options) { o.Profiles = true })
	if status, _ := n.call("GET", "/debug/pprof/", ""); status != 200 {
		t.Errorf("when asked: %d", status)
	}
}

func TestProducersAreTurnedAwayWithAHint(t *testing.T) {
	n := start(t)
	n.create("q", "")
	n.engine.HoldProducers(core.ErrDiskFull)
	req, err := http.NewRequest("POST", n.base+admin.QueuePath("q")+"/messages", strings.NewReader(`{"messages":[{"body":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("answer %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
}

func TestLargeBodiesFit(t *testing.T) {
	n := start(t)
	n.create("q", "")
	body := bytes.Repeat([]byte{0xff}, 1<<20)
	in := `{"messages":[{"body_base64":"` + base64.StdEncoding.EncodeToString(body) + `"}]}`
	n.want(200, "POST", admin.QueuePath("q")+"/messages", in, nil)
	var got admin.MessageList
	n.want(200, "POST", admin.QueuePath("q")+"/receive", `{}`, &got)
	if len(got.Messages) != 1 || !bytes.Equal(got.Messages[0].BodyBase64, body) {
		t.Error("the body did not come back as it was")
	}
	n.refuse(413, "too_large", "POST", admin.QueuePath("q")+"/messages", `{"messages":[{"body":"`+strings.Repeat("a", 24<<20)+`"}]}`)
}

func TestLargestMessageOfAQueue(t *testing.T) {
	n := start(t)
	n.create("q", `"max_message_bytes":20`)
	path := admin.QueuePath("q") + "/messages"
	attribute := `"attributes":[{"name":"name","value":"value"}]` // 15 bytes with its type
	n.want(200, "POST", path, `{"messages":[{"body":"`+strings.Repeat("a", 20)+`"},{"body":"aaaaa",`+attribute+`}]}`, nil)
	for _, body := range []string{
		`{"body":"` + strings.Repeat("a", 21) + `"}`,
		`{"body":"aaaaaa",` + attribute + `}`,
		`{"body":"a"},{"body_base64":"` + base64.StdEncoding.EncodeToString(make([]byte, 21)) + `"}`,
	} {
		n.refuse(413, "too_large", "POST", path, `{"messages":[`+body+`]}`)
	}
	var q admin.Queue
	if n.want(200, "GET", admin.QueuePath("q"), "", &q); q.Stats.Messages != 2 {
		t.Errorf("%d messages are there, want 2", q.Stats.Messages)
	}
}

// TestEveryCoreErrorIsExplained reads the errors of the core from its source,
// so that a new one cannot be forgotten here.
func TestEveryCoreErrorIsExplained(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../core/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, err := range admin.ExplainedErrors() {
		known[err.Error()] = true
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found++
			if text, err := strconv.Unquote(lit.Value); err != nil || !known[text] {
				t.Errorf("core error %s has no status and code", lit.Value)
			}
		}
		return true
	})
	if found == 0 {
		t.Error("found no errors in core/errors.go")
	}
}
