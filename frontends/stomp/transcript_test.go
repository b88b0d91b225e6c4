package stomp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// TestTranscripts runs the conversations in testdata against a whole frontend on
// a whole core, in fake time. What each client gets is shown, a frame a line,
// after every command; a closed connection as "closed".
//
//	CLIENT                 sends the input as a frame; ^@ in it is a NUL, \r a carriage return
//	drop CLIENT ...        closes its connection without a word
//	advance DURATION       lets time pass
//	declare QUEUE [OPTION ...]
//	bind FILTER QUEUE [reliable | unreliable]
//	put QUEUE [OPTION ...] sends as another protocol would: the input is the body
//	publish TOPIC [OPTION ...] publishes as a device does; +NAME=VALUE is a property
//	take QUEUE             receives a message as another protocol would, and deletes it
//	stats QUEUE
//	server [OPTION ...]    stops the server, and starts one with these options
//	drain                  stops the server
//
// Message ids are shown, and may be written, as [id N], and so are the names of
// temporary destinations.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, engine: frontendtest.NewEngine(t), clients: map[string]*client{}}
				w.client = w.engine.Client(core.Principal{Origin: core.OriginSQS})
				defer w.stop()
				datadriven.RunTest(t, path, w.run)
			})
		})
	}
}

// world is a server with its clients.
type world struct {
	t       *testing.T
	options Options
	engine  *core.Engine
	client  *core.Client
	ln      *frontendtest.PipeListener
	cancel  context.CancelFunc
	served  chan error
	clients map[string]*client
	ids     []string
}

func (w *world) start() {
	w.options.Logger = quiet()
	s, err := New(w.engine, w.options)
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
	w.cancel = nil
	return time.Since(start)
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	out := w.command(t, d)
	synctest.Wait()
	for _, name := range sortedKeys(w.clients) {
		out += w.clients[name].show(name)
		if w.clients[name].over {
			delete(w.clients, name)
		}
	}
	return w.anonymous(out)
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) command(t *testing.T, d *datadriven.TestData) string {
	if w.cancel == nil && d.Cmd != "server" {
		w.start()
	}
	switch d.Cmd {
	case "server":
		w.stop()
		synctest.Wait()
		clear(w.clients)
		w.options = Options{}
		for _, a := range d.CmdArgs {
			w.setOption(t, a)
		}
		w.start()
	case "advance":
		span, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(span) // of the bubble's clock
	case "drop":
		for _, a := range d.CmdArgs {
			c := w.clients[a.Key]
			if c == nil {
				return a.Key + " is closed already\n"
			}
			_ = c.conn.Close()
			delete(w.clients, a.Key)
		}
	case "drain":
		if took := w.stop(); took > time.Second {
			t.Fatalf("draining took %v", took)
		}
	case "declare":
		return w.declare(d)
	case "bind":
		b := core.Binding{Filter: d.CmdArgs[0].Key, Queue: d.CmdArgs[1].Key}
		if len(d.CmdArgs) > 2 {
			b.Options.Accept = map[string]core.Accept{"reliable": core.AcceptReliable, "unreliable": core.AcceptUnreliable}[d.CmdArgs[2].Key]
		}
		if err := w.client.Bind(t.Context(), b); err != nil {
			return err.Error() + "\n"
		}
	case "put":
		return w.put(d)
	case "publish":
		return w.publish(d)
	case "take":
		return w.take(d.CmdArgs[0].Key)
	case "stats":
		st, err := w.client.Stats(t.Context(), d.CmdArgs[0].Key)
		if err != nil {
			return err.Error() + "\n"
		}
		return fmt.Sprintf("messages=%d ready=%d in-flight=%d delayed=%d\n", st.Messages, st.Ready, st.InFlight, st.Delayed)
	default:
		w.send(d.Cmd, d.Input)
	}
	return ""
}

func (w *world) setOption(t *testing.T, a datadriven.CmdArg) {
	switch a.Key {
	case "no-auto-create":
		w.options.NoAutoCreate = true
	case "hold":
		w.options.Hold, _ = time.ParseDuration(a.Vals[0])
	case "prefetch":
		w.options.Prefetch, _ = strconv.Atoi(a.Vals[0])
	case "topic-messages":
		w.options.TopicMessages, _ = strconv.Atoi(a.Vals[0])
	case "close-slow":
		w.options.CloseSlow = true
	case "nack-dead":
		w.options.NackToDeadLetter = true
	default:
		t.Fatalf("unknown option %s", a.Key)
	}
}

func (w *world) declare(d *datadriven.TestData) string {
	cfg := core.DefaultQueueConfig(core.KindStandard)
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "fifo":
			cfg = core.DefaultQueueConfig(core.KindFIFO)
		case "priority":
			cfg.Kind = core.KindPriority
		case "dlq":
			cfg.Redelivery.DeadLetterQueue = a.Vals[0]
		case "max-receives":
			cfg.Redelivery.MaxReceives, _ = strconv.Atoi(a.Vals[0])
		case "max-messages":
			cfg.MaxMessages, _ = strconv.ParseInt(a.Vals[0], 10, 64)
		}
	}
	if _, _, err := w.client.Declare(w.t.Context(), d.CmdArgs[0].Key, cfg); err != nil {
		return err.Error() + "\n"
	}
	return ""
}

func (w *world) put(d *datadriven.TestData) string {
	m := core.Message{Body: []byte(d.Input), Delay: -1, Origin: core.OriginSQS}
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "group":
			m.Group = a.Vals[0]
		case "dedup":
			m.DedupID = a.Vals[0]
		default:
			name, kind, _ := strings.Cut(a.Key, "/")
			m.Attributes = append(m.Attributes, core.Attribute{Name: name, Type: kind, Value: []byte(a.Vals[0])})
		}
	}
	if _, err := w.client.Publish(w.t.Context(), d.CmdArgs[0].Key, []core.Message{m}, nil); err != nil {
		return err.Error() + "\n"
	}
	return ""
}

func (w *world) publish(d *datadriven.TestData) string {
	m := core.Message{Body: []byte(d.Input), Delay: -1, Origin: core.OriginMQTT}
	for _, a := range d.CmdArgs[1:] {
		value, err := strconv.Unquote(`"` + a.Vals[0] + `"`)
		if err != nil {
			w.t.Fatalf("%s: %v", a, err)
		}
		switch name, isProperty := strings.CutPrefix(a.Key, "+"); {
		case name == "content-type":
			m.ContentType = value
		case name == "ttl":
			m.TTL, _ = time.ParseDuration(value)
		case isProperty:
			m.Attributes = append(m.Attributes, core.Attribute{Kind: core.AttributeProperty, Name: name, Value: []byte(value)})
		default:
			m.Attributes = append(m.Attributes, core.Attribute{Name: name, Type: "String", Value: []byte(value)})
		}
	}
	_, err := w.client.PublishTopic(w.t.Context(), core.TopicPublish{Topic: d.CmdArgs[0].Key, Messages: []core.Message{m}}, nil)
	if err != nil {
		return err.Error() + "\n"
	}
	return ""
}

func (w *world) take(queue string) string {
	got, err := w.client.Receive(w.t.Context(), queue, core.ReceiveOptions{Max: 1, Visibility: -1}, nil)
	if err != nil || len(got) == 0 {
		return fmt.Sprintf("nothing (%v)\n", err)
	}
	errs, err := w.client.Settle(w.t.Context(), queue, []core.Settlement{{Receipt: got[0].Receipt}}, nil)
	if err = errors.Join(append(errs, err)...); err != nil {
		return err.Error() + "\n"
	}
	return fmt.Sprintf("topic=%q %s\n", got[0].Topic, got[0].Body)
}

// send sends text as a client. One that is not there connects first.
func (w *world) send(name, text string) {
	c := w.clients[name]
	if c == nil {
		c = &client{conn: w.ln.Dial(w.t)}
		w.clients[name] = c
		go c.read()
	}
	text = strings.NewReplacer("^@", "\x00", `\r`, "\r", `\x04`, "\x04", `\x10`, "\x10", `\x16`, "\x16").Replace(w.resolve(text))
	if !strings.HasSuffix(text, "\x00") {
		if last := text[strings.LastIndexByte(text, 0)+1:]; !strings.Contains(last, "\n\n") {
			text += "\n\n"
		}
		text += "\x00"
	}
	_, _ = io.WriteString(c.conn, text) // a closed connection shows
}

var placeholder = regexp.MustCompile(`\[id (\d+)\]`)

func (w *world) resolve(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(p string) string {
		n, _ := strconv.Atoi(placeholder.FindStringSubmatch(p)[1])
		if n > len(w.ids) {
			return p // not seen yet
		}
		return w.ids[n-1]
	})
}

var (
	sessions   = regexp.MustCompile(`session:[0-9a-f-]{36}`)
	timestamps = regexp.MustCompile(`timestamp:\d{13}`)
	uuids      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b`)
)

// anonymous gives names to what is different in each run.
func (w *world) anonymous(s string) string {
	s = sessions.ReplaceAllString(s, "session:[session]")
	s = timestamps.ReplaceAllString(s, "timestamp:[time]")
	return uuids.ReplaceAllStringFunc(s, func(id string) string {
		i := slices.Index(w.ids, id)
		if i < 0 {
			i = len(w.ids)
			w.ids = append(w.ids, id)
		}
		return fmt.Sprintf("[id %d]", i+1)
	})
}

// client is one connection.
type client struct {
	conn net.Conn

	mu   sync.Mutex
	got  []byte
	err  error
	over bool
}

func (c *client) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.conn.Read(buf)
		c.mu.Lock()
		c.got = append(c.got, buf[:n]...)
		c.err = err
		c.mu.Unlock()
		if err != nil {
			_ = c.conn.Close()
			return
		}
	}
}

var subscriptions = regexp.MustCompile(`^\w+: MESSAGE subscription:(\S+)`)

// sortMessages orders messages that came one after the other by subscription:
// which of those is served first is chance.
func sortMessages(lines []string) {
	of := func(line string) string {
		if m := subscriptions.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		return ""
	}
	for from := 0; from < len(lines); {
		to := from
		for to < len(lines) && of(lines[to]) != "" {
			to++
		}
		slices.SortStableFunc(lines[from:to], func(a, b string) int { return strings.Compare(of(a), of(b)) })
		from = to + 1
	}
}

// show writes down what has come since the last time, headers in one line.
func (c *client) show(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	var lines []string
	beats := 0
	for len(c.got) > 0 {
		if c.got[0] == '\n' {
			c.got = c.got[1:]
			beats++
			continue
		}
		text, rest, _ := strings.Cut(string(c.got), "\x00")
		c.got = []byte(strings.TrimPrefix(rest, "\n"))
		head, body, _ := strings.Cut(text, "\n\n")
		line := fmt.Sprintf("%s: %s", name, strings.ReplaceAll(head, "\n", " "))
		if body != "" {
			line += " | " + strings.ReplaceAll(body, "\n", "\\n")
		}
		lines = append(lines, line+"\n")
	}
	sortMessages(lines)
	b.WriteString(strings.Join(lines, ""))
	if beats > 0 {
		fmt.Fprintf(&b, "%s: %d heart-beats\n", name, beats)
	}
	if c.err != nil && !c.over {
		c.over = true
		fmt.Fprintf(&b, "%s: closed\n", name)
	}
	return b.String()
}
