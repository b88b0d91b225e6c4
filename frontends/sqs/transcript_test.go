package sqs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/valyala/fasthttp"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
)

// TestTranscripts runs the conversations in testdata against a whole frontend on
// a whole core, in fake time.
//
// The commands, whose answers are the status, some headers and the body:
//
//	json ACTION            AWS JSON; the input is the body
//	query ACTION [PATH]    a Query form; the input has a parameter a line
//	get PATH               a GET; the input has a parameter a line
//	post PATH              a POST; the input is the body
//	start NAME COMMAND     does it on a connection of its own, and does not wait
//	finish NAME            waits for its answer
//	publish TOPIC QUEUE    as a device does, to a queue that it binds to the topic: the
//	                       input is the payload, and options are of the message
//	advance DURATION       lets time pass
//	server [OPTION ...]    stops the server, and starts one with these options too
//	drain                  stops the server
//
// A further argument NAME=VALUE of a request is a header. Message ids and receipt
// handles are shown, and may be written, as [id N] and [handle N], handles of move
// tasks as [task N].
func TestTranscripts(t *testing.T) {
	startServerDate()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		ranCases.run(t, "transcript "+name, name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runTranscript(t, path) })
		})
	}
}

func runTranscript(t *testing.T, path string) {
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, engine: frontendtest.NewEngine(t), started: map[string]chan string{}}
	w.options.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))
	defer func() {
		w.stop()
		time.Sleep(11 * time.Second) // fasthttp's worker pool looks every 10 s whether it was stopped
		if b, _ := os.ReadFile(log.Name()); len(b) > 0 {
			t.Errorf("the server logged errors:\n%s", b)
		}
		_ = log.Close()
	}()
	datadriven.RunTest(t, path, w.run)
}

// world is a server with its clients.
type world struct {
	t       *testing.T
	options Options
	engine  *core.Engine
	fails   error // what a canned core answers, in the place of engine
	ln      *frontendtest.PipeListener
	cancel  context.CancelFunc
	served  chan error
	conn    net.Conn
	reader  *bufio.Reader
	started map[string]chan string
	ids     names
	handles names
	tasks   names
}

func (w *world) start() {
	var s *Server
	var err error
	if w.fails != nil {
		s, err = newServer(sameDoor(door{messages: &cannedCore{err: w.fails}, queues: &cannedCore{}}), time.Now().UnixMilli, w.options)
	} else {
		s, err = New(w.engine, w.options)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.ln, w.cancel, w.served = frontendtest.NewPipeListener(), cancel, make(chan error, 1)
	go func() { w.served <- s.Serve(ctx, w.ln) }()
}

// stop drains the server and returns how long that took.
func (w *world) stop() time.Duration {
	if w.cancel == nil {
		return 0
	}
	start := time.Now()
	w.cancel()
	if err := <-w.served; err != nil {
		w.t.Errorf("serve: %v", err)
	}
	if w.conn != nil {
		_ = w.conn.Close()
	}
	w.cancel, w.conn = nil, nil
	return time.Since(start)
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "server" {
		w.stop()
		for _, a := range d.CmdArgs {
			w.setOption(t, a)
		}
		w.start()
		return ""
	}
	if w.cancel == nil {
		w.start()
	}
	switch d.Cmd {
	case "advance":
		span, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		if w.conn != nil { // the server closes idle connections
			_ = w.conn.Close()
			w.conn = nil
		}
		time.Sleep(span) // of the bubble's clock
		return ""
	case "start":
		name := d.CmdArgs[0].Key
		done := make(chan string, 1)
		w.started[name] = done
		r := w.request(d.CmdArgs[1].Key, keys(d.CmdArgs[2:]), d.Input)
		conn := w.ln.Dial(t)
		go func() {
			defer conn.Close()
			done <- w.ask(conn, bufio.NewReader(conn), r)
		}()
		synctest.Wait()
		return ""
	case "finish":
		start := time.Now()
		answer := w.anonymous(<-w.started[d.CmdArgs[0].Key])
		if took := time.Since(start); took > 0 {
			answer = fmt.Sprintf("after %v\n%s", took.Round(time.Second), answer)
		}
		return answer
	case "publish":
		return w.publish(d)
	case "bind":
		if err := w.engine.Client(core.Principal{}).Bind(t.Context(), core.Binding{Filter: d.CmdArgs[0].Key, Queue: d.CmdArgs[1].Key}); err != nil {
			t.Fatal(err)
		}
		return ""
	case "unbind":
		if err := w.engine.Client(core.Principal{}).Unbind(t.Context(), d.CmdArgs[0].Key, d.CmdArgs[1].Key); err != nil {
			t.Fatal(err)
		}
		return ""
	case "drain":
		if took := w.stop(); took > time.Second {
			t.Fatalf("draining took %v", took)
		}
		return ""
	}
	if w.conn == nil {
		w.conn = w.ln.Dial(t)
		w.reader = bufio.NewReader(w.conn)
	}
	return w.anonymous(w.ask(w.conn, w.reader, w.request(d.Cmd, keys(d.CmdArgs), d.Input)))
}

// publish publishes a message of MQTT. \xNN is a byte, and so are the like of Go.
func (w *world) publish(d *datadriven.TestData) string {
	m := core.Message{Body: unquote(w.t, d.Input), Origin: core.OriginMQTT, Delay: -1}
	for _, a := range d.CmdArgs[2:] {
		value := unquote(w.t, strings.Join(a.Vals, ","))
		switch name, isProperty := strings.CutPrefix(a.Key, "+"); {
		case a.Key == "content-type":
			m.ContentType = string(value)
		case isProperty:
			m.Attributes = append(m.Attributes, core.Attribute{Kind: core.AttributeProperty, Name: name, Value: value})
		default:
			m.Attributes = append(m.Attributes, core.Attribute{Name: string(unquote(w.t, name)), Type: "String", Value: value})
		}
	}
	topic, client := d.CmdArgs[0].Key, w.engine.Client(core.Principal{Origin: core.OriginMQTT})
	if err := client.Bind(w.t.Context(), core.Binding{Filter: topic, Queue: d.CmdArgs[1].Key}); err != nil {
		return err.Error()
	}
	got, err := client.PublishTopic(w.t.Context(), core.TopicPublish{Topic: topic, Messages: []core.Message{m}}, nil)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("queues=%d", got[0].Matched)
}

func unquote(t *testing.T, s string) []byte {
	text, err := strconv.Unquote(`"` + strings.TrimSuffix(s, "\n") + `"`)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return []byte(text)
}

func keys(args []datadriven.CmdArg) (out []string) {
	for _, a := range args {
		out = append(out, a.String())
	}
	return out
}

func (w *world) setOption(t *testing.T, a datadriven.CmdArg) {
	switch a.Key {
	case "relaxed":
		w.options.RelaxedLimits = true
	case "strict":
		w.options.RelaxedLimits = false
	case "encode-payloads":
		w.options.EncodePayloads = true
	case "auto-create":
		w.options.AutoCreate = true
	case "url-base":
		w.options.URLBase = a.Vals[0]
	default:
		t.Fatalf("unknown option %s", a.Key)
	}
}

// request builds a request: "json Action", "query Action [path]", "get path" or
// "post path".
func (w *world) request(kind string, args []string, input string) *http.Request {
	input = w.tasks.resolve(w.handles.resolve(w.ids.resolve(input)))
	method, path, body, header := "POST", "/", input, http.Header{}
	switch kind {
	case "json":
		header.Set("X-Amz-Target", "AmazonSQS."+args[0])
		header.Set("Content-Type", "application/x-amz-json-1.0")
	case "query":
		header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		body = "Action=" + url.QueryEscape(args[0]) + "&Version=2012-11-05" + form(input)
		if len(args) > 1 {
			path = args[1]
		}
	case "get":
		method, path, body = "GET", args[0], ""
		if q := form(input); q != "" {
			path += "?" + q[1:]
		}
	case "post":
		path = args[0]
	default:
		w.t.Fatalf("unknown command %s", kind)
	}
	for _, a := range args[1:] {
		if name, value, ok := strings.Cut(a, "="); ok {
			header.Set(name, value)
		}
	}
	r, err := http.NewRequest(method, "http://sqs.test:9324"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = header
	return r
}

func form(input string) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			key, value, _ := strings.Cut(line, "=")
			b.WriteString("&" + key + "=" + url.QueryEscape(value))
		}
	}
	return b.String()
}

// ask sends r and writes down the answer.
func (w *world) ask(conn net.Conn, br *bufio.Reader, r *http.Request) string {
	if err := r.Write(conn); err != nil {
		return "write: " + err.Error()
	}
	a, err := http.ReadResponse(br, r)
	if err != nil {
		return "read: " + err.Error()
	}
	body, err := io.ReadAll(a.Body)
	if err != nil {
		return "read: " + err.Error()
	}
	if a.Header.Get("x-amzn-RequestId") == "" {
		w.t.Errorf("an answer without x-amzn-RequestId: %v", a.Header)
	}
	out := strconv.Itoa(a.StatusCode)
	for _, h := range []string{"x-amzn-query-error", "Retry-After", "Connection"} {
		if v := a.Header.Get(h); v != "" {
			out += " " + h + ": " + v
		}
	}
	if a.Close {
		out += " (closes)"
	}
	wantType := "application/x-amz-json-1.0"
	if strings.HasPrefix(string(body), "<") {
		wantType = "text/xml"
	}
	if got := a.Header.Get("Content-Type"); got != wantType && len(body) > 0 {
		out += " Content-Type: " + got
	}
	return out + "\n" + string(body)
}

var (
	requestIDs = regexp.MustCompile(`<RequestId>[0-9a-f-]{36}</RequestId>`)
	uuids      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	handleText = regexp.MustCompile(`AQ[A-Za-z0-9_-]{65,}`)
	sequences  = regexp.MustCompile(`\b0\d{19}\b`)
	taskText   = regexp.MustCompile(`eyJ0YXNrSWQi[A-Za-z0-9+/]{40,}=*`) // {"taskId"
)

// anonymous gives names to what is different in each run.
func (w *world) anonymous(s string) string {
	s = requestIDs.ReplaceAllString(s, "<RequestId>request</RequestId>")
	s = uuids.ReplaceAllStringFunc(s, func(id string) string { return w.ids.name("id", id) })
	s = taskText.ReplaceAllStringFunc(s, func(h string) string { return w.tasks.name("task", h) })
	s = handleText.ReplaceAllStringFunc(s, func(h string) string { return w.handles.name("handle", h) })
	return sequences.ReplaceAllString(s, "[sequence]")
}

// names numbers values by when they were first seen.
type names struct{ seen []string }

func (n *names) name(kind, value string) string {
	for i, s := range n.seen {
		if s == value {
			return fmt.Sprintf("[%s %d]", kind, i+1)
		}
	}
	n.seen = append(n.seen, value)
	return fmt.Sprintf("[%s %d]", kind, len(n.seen))
}

var placeholder = regexp.MustCompile(`\[(id|handle|task) (\d+)\]`)

// resolve puts values back in the place of their names.
func (n *names) resolve(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		i, err := strconv.Atoi(m[2])
		if err != nil || i > len(n.seen) || m[1] != kindOf(n.seen[i-1]) {
			return p
		}
		return n.seen[i-1]
	})
}

func kindOf(value string) string {
	switch {
	case uuids.MatchString(value):
		return "id"
	case taskText.MatchString(value):
		return "task"
	}
	return "handle"
}

// startServerDate makes fasthttp start the goroutine of its Date header, which
// lives as long as the process, outside of any bubble.
func startServerDate() {
	near, far := net.Pipe()
	go func() {
		_, _ = near.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
		_, _ = io.Copy(io.Discard, near)
	}()
	_ = fasthttp.ServeConn(far, func(rc *fasthttp.RequestCtx) { rc.SetStatusCode(204) })
	_ = near.Close()
}
