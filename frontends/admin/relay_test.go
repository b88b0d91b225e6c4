package admin_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
)

// follows makes a node take the one at base for the primary.
func follows(base string) func(*admin.Options) {
	return func(o *admin.Options) { o.Primary = func() (string, bool) { return base, true } }
}

// leaderless makes a node one of a cluster that knows no primary.
func leaderless(o *admin.Options) { o.Primary = func() (string, bool) { return "", false } }

func TestWithoutEngineHealthGoesByTheChecks(t *testing.T) {
	failure := error(nil)
	n := serve(t, nil, leaderless, func(o *admin.Options) {
		o.Checks = []admin.Check{{Name: "relay", Run: func() (string, error) { return "to a", failure }}}
	})
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if status, body := n.call("GET", path, ""); status != 200 || body != "ok\n" {
			t.Errorf("%s answers %d %q", path, status, body)
		}
	}
	failure = errors.New("no primary")
	if status, body := n.call("GET", "/readyz", ""); status != 503 || body != "[-] relay: no primary\nfailed\n" {
		t.Errorf("/readyz answers %d %q", status, body)
	}
	if status, _ := n.call("GET", "/livez", ""); status != 200 {
		t.Errorf("/livez answers %d when nobody is primary", status)
	}
	status, body := n.call("GET", "/metrics", "")
	if status != 200 || !strings.Contains(body, "\ngo_goroutines ") || strings.Contains(body, "broker_queues") {
		t.Errorf("/metrics answers %d %s", status, body)
	}
}

func TestWithoutEngineAndPrimaryRequestsAreRefused(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, option := range map[string]func(*admin.Options){
		"no cluster":         func(*admin.Options) {},
		"no primary":         leaderless,
		"primary is down":    follows(gone.URL),
		"primary has no URL": follows("x"),
	} {
		t.Run(name, func(t *testing.T) {
			n := serve(t, nil, option)
			res, err := http.Get(n.base + "/api/v1/queues")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || !strings.Contains(string(b), `"code":"not_primary"`) {
				t.Errorf("answer %d, Retry-After %q, %s", res.StatusCode, res.Header.Get("Retry-After"), b)
			}
			n.refuse(404, "no_route", "GET", "/api/v1/nothing", "")
		})
	}
}

func TestRequestsAreRelayedToThePrimary(t *testing.T) {
	primary := start(t)
	n := serve(t, nil, follows(primary.base))
	// Names that a path must carry as they are.
	for _, name := range []string{"orders", "a/b", "..", "50% off?", "mqtt/é"} {
		n.create(name, "")
		path := admin.QueuePath(name)
		n.want(200, "POST", path+"/messages", `{"messages":[{"body":"a"},{"body":"b"}]}`, nil)
		var got admin.MessageList
		if n.want(200, "POST", path+"/receive", `{"max":2}`, &got); len(got.Messages) != 2 {
			t.Fatalf("received %+v of %s", got, name)
		}
		n.want(200, "POST", path+"/settle", fmt.Sprintf(`{"settlements":[{"receipt":%q,"action":"delete"}]}`, got.Messages[0].Receipt), nil)
		var q admin.Queue
		if primary.want(200, "GET", path, "", &q); q.Name != name || q.Stats.Messages != 1 {
			t.Errorf("the primary has %+v", q)
		}
	}
	var list admin.QueueList
	if n.want(200, "GET", "/api/v1/queues?prefix=o&limit=1", "", &list); len(list.Queues) != 1 || list.Queues[0].Name != "orders" {
		t.Errorf("queues are %+v", list)
	}
	n.refuse(404, "no_queue", "GET", admin.QueuePath("none"), "")
	n.refuse(400, "bad_request", "POST", "/api/v1/queues", "{")
	n.refuse(413, "too_large", "POST", admin.QueuePath("orders")+"/messages", `{"messages":[{"body":"`+strings.Repeat("a", 24<<20)+`"}]}`)

	body := bytes.Repeat([]byte{0xff}, 1<<20)
	n.create("large", "")
	n.want(200, "POST", admin.QueuePath("large")+"/messages", `{"messages":[{"body_base64":"`+base64.StdEncoding.EncodeToString(body)+`"}]}`, nil)
	var got admin.MessageList
	n.want(200, "POST", admin.QueuePath("large")+"/receive", `{}`, &got)
	if len(got.Messages) != 1 || !bytes.Equal(got.Messages[0].BodyBase64, body) {
		t.Error("the large body did not come back as it was")
	}
	n.want(204, "DELETE", admin.QueuePath("orders"), "", nil)
}

func TestARelayedRequestIsNotRelayedAgain(t *testing.T) {
	// Two nodes take each other for the primary.
	other, asked := "", atomic.Int64{}
	a := serve(t, nil, func(o *admin.Options) { o.Primary = func() (string, bool) { asked.Add(1); return other, true } })
	b := serve(t, nil, follows(a.base))
	other = b.base
	a.refuse(503, "not_primary", "GET", "/api/v1/queues", "")
	b.refuse(503, "not_primary", "POST", "/api/v1/queues", `{"name":"q"}`)
	if n := asked.Load(); n != 1 {
		t.Errorf("one node was asked twice and relayed %d times, want once", n)
	}
}

func TestAPageOfTheNodeItselfIsRelayed(t *testing.T) {
	primary := start(t)
	n := serve(t, nil, follows(primary.base))
	for origin, want := range map[string]int{n.base: 201, "http://example.org": 403} {
		req, err := http.NewRequest("POST", n.base+"/api/v1/queues", strings.NewReader(`{"name":"q"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", origin)
		if got, body := n.send(req); got != want {
			t.Errorf("from a page of %s: %d %s, want %d", origin, got, body, want)
		}
	}
}

func TestAReceiverThatIsGoneIsGoneAtThePrimary(t *testing.T) {
	primary := start(t)
	n := serve(t, nil, follows(primary.base))
	primary.create("q", "")
	req, err := http.NewRequest("POST", n.base+admin.QueuePath("q")+"/receive", strings.NewReader(`{"wait":"20s"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	primary.awaitWaiter("q")
	conn.Close()
	client := primary.engine.Client(core.Principal{})
	for waiting := 1; waiting > 0; {
		st, err := client.Stats(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		waiting = st.Waiters
	}
}

func TestTheEngineComesAndGoes(t *testing.T) {
	n := serve(t, nil, leaderless)
	n.refuse(503, "not_primary", "GET", "/api/v1/queues", "")
	first := openEngine(t)
	n.server.SetEngine(first)
	n.create("q", "")
	if _, body := n.call("GET", "/metrics", ""); !strings.Contains(body, "\nbroker_queues 1\n") {
		t.Errorf("metrics lack the queue: %s", body)
	}
	<-n.server.SetEngine(nil)
	n.refuse(503, "not_primary", "GET", "/api/v1/queues", "")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if status, body := n.call("GET", "/readyz?verbose", ""); status != 200 {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	n.server.SetEngine(openEngine(t)) // of another store: the queue is not there
	n.refuse(404, "no_queue", "GET", admin.QueuePath("q"), "")
	n.server.SetEngine(nil)
}

func TestCallsUnderWayEndWithTheEngine(t *testing.T) {
	n := start(t, leaderless)
	n.create("q", "")
	answer := make(chan admin.MessageList, 1)
	go func() {
		var list admin.MessageList
		n.want(200, "POST", admin.QueuePath("q")+"/receive", `{"wait":"20s"}`, &list)
		answer <- list
	}()
	n.awaitWaiter("q")
	idle := n.server.SetEngine(nil)
	select {
	case <-idle:
		t.Error("the engine is said to be unused while a receive waits in it")
	default:
	}
	n.engine.Drain()
	if list := <-answer; len(list.Messages) != 0 {
		t.Errorf("the receive got %+v", list)
	}
	<-idle
}

func TestARequestThatMeetsAStoppedEngineMayTryAgain(t *testing.T) {
	n := start(t, leaderless)
	n.create("q", "")
	// The node loses the engine while the body is on its way.
	body, sent := io.Pipe()
	awaited := &httptrace.ClientTrace{Got100Continue: func() {
		go func() {
			<-n.server.SetEngine(nil) // a slow peer does not hold the engine
			io.WriteString(sent, `{"messages":[{"body":"a"}]}`)
			sent.Close()
		}()
	}}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), awaited), "POST", n.base+admin.QueuePath("q")+"/messages", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != 503 || !strings.Contains(string(b), "not primary any more") {
		t.Errorf("answer %d %s", res.StatusCode, b)
	}
	// It has it still, but that has ended.
	n.server.SetEngine(n.engine)
	if err := n.engine.Close(); err != nil {
		t.Fatal(err)
	}
	n.refuse(503, "not_primary", "POST", admin.QueuePath("q")+"/messages", `{"messages":[{"body":"a"}]}`)
}

func TestAStoppedEngineOfALoneNodeIsNamed(t *testing.T) {
	n := start(t)
	if err := n.engine.Close(); err != nil {
		t.Fatal(err)
	}
	n.refuse(503, "stopped", "POST", "/api/v1/queues", `{"name":"q"}`)
}

func TestEnginesAreExchangedUnderLoad(t *testing.T) {
	engines := []*core.Engine{openEngine(t), openEngine(t)}
	n := serve(t, engines[0], leaderless)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := range 25 {
				method, path, in := "POST", "/api/v1/queues", `{"name":"q"}`
				if i%2 == 1 {
					method, path, in = "GET", "/metrics", ""
				}
				if status, body := n.call(method, path, in); status >= 300 && status != 503 {
					t.Errorf("%s %s answers %d %s", method, path, status, body)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	for i := 0; ; i++ {
		<-n.server.SetEngine(nil)
		n.server.SetEngine(engines[i%2])
		select {
		case <-done:
			return
		default:
		}
	}
}
