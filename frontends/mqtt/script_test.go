package mqtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
	"github.com/leasemq/broker/storage"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// TestScripts holds the conversations in testdata with a whole server on a whole
// core, in fake time. Each begins with "== NAME" and is a list of lines:
//
//	a> PACKET        client a sends a packet; see encode. The first dials
//	a> HEX 10 0c     bytes as they are
//	a< PACKET        the next packet that a has got, as format shows it; $x in it is
//	                 any word, and the same everywhere in the script. A PUBLISH may
//	                 come before or after a PUBACK, PUBREC or PUBCOMP
//	a<? PACKET       the same of any that a has got
//	a< closed        the connection has been closed
//	a< nothing       no more has come
//	a drops          closes its connection without a word
//	a stalls         reads nothing any more
//	advance 10s      lets time pass
//	restart          the node stops and starts again
//	crash            the node dies and starts again
//	option NAME=V    the server is started with; see world.option
//	put QUEUE BODY [NAME=VALUE ...]   another protocol sends, or publishes to topic:NAME;
//	                 "refused": the route of the queue does not take it
//	take QUEUE BODY  another protocol receives, and deletes
//	queue NAME N     the queue holds so many messages; "none": there is no such queue
//	purge QUEUE
//	declare QUEUE [TOPIC]  with a topic that what is sent there is published to
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			for script := range strings.SplitSeq("\n"+string(text), "\n== ") {
				if name, lines, ok := strings.Cut(script, "\n"); ok && name != "" {
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { runScript(t, lines) })
					})
				}
			}
		})
	}
}

func runScript(t *testing.T, script string) {
	w := &world{t: t, fs: vfs.NewCrashableMem(), peers: map[string]*scriptPeer{}, vars: map[string]string{}}
	defer w.shut()
	for i, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if w.engine == nil && !strings.HasPrefix(line, "option ") {
			w.open()
		}
		if err := w.line(line); err != nil {
			t.Errorf("line %d: %s: %v", i+1, line, err)
			return
		}
	}
	synctest.Wait()
	for name, p := range w.peers {
		if rest := p.rest(); len(rest) > 0 {
			t.Errorf("%s has got more: %q", name, rest)
		}
	}
}

// world is a node with its clients.
type world struct {
	t       *testing.T
	fs      *vfs.MemFS
	db      *storage.DB
	engine  *core.Engine
	client  *core.Client
	options Options
	server  *Server
	ln      *frontendtest.PipeListener
	cancel  context.CancelFunc
	served  chan error
	peers   map[string]*scriptPeer
	vars    map[string]string
}

func (w *world) open() {
	var boot core.Boot
	var err error
	w.db, boot, err = storage.Open(storage.Options{
		Dir: "data", FS: w.fs, Logger: quiet(), Profile: storage.Profile{MemTableBytes: 1 << 20, CacheBytes: 4 << 20},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.engine, err = core.Open(core.Options{Store: w.db, Committer: w.db, Boot: boot, Logger: quiet()}); err != nil {
		w.t.Fatal(err)
	}
	w.client = w.engine.Client(core.Principal{Origin: core.OriginSQS})
	w.options.Logger = quiet()
	if w.server, err = New(w.engine, w.options); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.ln, w.cancel, w.served = frontendtest.NewPipeListener(), cancel, make(chan error, 1)
	go func() { w.served <- w.server.Serve(ctx, w.ln) }()
}

// shut stops the node in order.
func (w *world) shut() {
	if w.engine == nil {
		return
	}
	w.engine.Drain()
	w.cancel()
	if err := <-w.served; err != nil {
		w.t.Errorf("serve: %v", err)
	}
	if err := errors.Join(w.engine.Close(), w.db.Close()); err != nil {
		w.t.Error(err)
	}
	w.engine = nil
}

func (w *world) line(line string) error {
	name, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	if who, ok := strings.CutSuffix(name, ">"); ok {
		return w.send(who, rest)
	}
	if who, ok := strings.CutSuffix(name, "<?"); ok {
		return w.expectAny(who, rest)
	}
	if who, ok := strings.CutSuffix(name, "<"); ok {
		return w.expect(who, rest)
	}
	switch name {
	case "advance":
		span, err := time.ParseDuration(rest)
		time.Sleep(span) // of the bubble's clock
		return err
	case "restart", "crash":
		fs := w.fs
		if name == "crash" {
			fs = w.fs.CrashClone(vfs.CrashCloneCfg{})
		}
		w.shut()
		w.fs = fs
		synctest.Wait()
		clear(w.peers)
		w.open()
		return nil
	case "option":
		return w.option(rest)
	case "put", "take", "queue", "purge", "declare":
		synctest.Wait()
		return w.core(name, words)
	}
	if p := w.peers[name]; p != nil && rest == "drops" {
		_ = p.conn.Close()
		delete(w.peers, name)
		synctest.Wait()
		return nil
	} else if p != nil && rest == "stalls" {
		p.stall()
		return nil
	}
	return errors.New("no such command")
}

func (w *world) option(text string) error {
	name, value, _ := strings.Cut(text, "=")
	switch name {
	case "users":
		w.options.Authenticate = func(user, password string) bool { return password == "of-"+user }
	case "expiry":
		w.options.SessionExpiryMax, _ = time.ParseDuration(value)
	case "keepalive":
		w.options.KeepAliveMax, _ = time.ParseDuration(value)
	case "receive":
		w.options.ReceiveMax, _ = strconv.Atoi(value)
	case "loose":
		w.options.LooseMessages, _ = strconv.Atoi(value)
	case "session":
		w.options.SessionMessages, _ = strconv.ParseInt(value, 10, 64)
	case "packet":
		w.options.PacketBytesMax, _ = strconv.Atoi(value)
	case "deny":
		w.options.DenyFilters = append(w.options.DenyFilters, value)
	default:
		return errors.New("no such option")
	}
	return nil
}

func (w *world) core(what string, words []string) error {
	ctx := w.t.Context()
	switch what {
	case "declare":
		cfg := core.DefaultQueueConfig(core.KindStandard)
		if len(words) > 1 {
			cfg.Routes.PublishTopic = words[1]
		}
		_, _, err := w.client.Declare(ctx, words[0], cfg)
		return err
	case "purge":
		return w.client.Purge(ctx, words[0])
	case "put":
		refused := false
		m := core.Message{Body: []byte(words[1]), Delay: -1, Origin: core.OriginSQS}
		for _, word := range words[2:] {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "origin":
				m.Origin = core.OriginSTOMP
			case "ct":
				m.ContentType = value
			case "refused":
				refused = true
			default:
				m.Attributes = append(m.Attributes, core.Attribute{Name: name, Type: "String", Value: []byte(value)})
			}
		}
		if topic, ok := strings.CutPrefix(words[0], "topic:"); ok {
			_, err := w.client.PublishTopic(ctx, core.TopicPublish{Topic: topic, Messages: []core.Message{m}}, nil)
			return err
		}
		_, err := w.client.Publish(ctx, words[0], []core.Message{m}, nil)
		if refused && errors.Is(err, core.ErrRoute) {
			err = nil
		} else if refused {
			err = fmt.Errorf("it is not refused: %v", err)
		}
		return err
	case "take":
		got, err := w.client.Receive(ctx, words[0], core.ReceiveOptions{Max: 1, Visibility: time.Minute}, nil)
		if err != nil || len(got) == 0 || string(got[0].Body) != words[1] {
			return fmt.Errorf("got %v, error %v", got, err)
		}
		_, err = w.client.Settle(ctx, words[0], []core.Settlement{{Receipt: got[0].Receipt}}, nil)
		return err
	}
	st, err := w.client.Stats(ctx, words[0])
	got := strconv.FormatInt(st.Messages, 10)
	if errors.Is(err, core.ErrNoQueue) {
		got, err = "none", nil
	}
	if err == nil && got != words[1] {
		err = fmt.Errorf("it is %s", got)
	}
	return err
}

// scriptPeer is a client. A goroutine reads what it gets.
type scriptPeer struct {
	conn    net.Conn
	version byte

	mu      sync.Mutex
	got     []string
	closed  bool
	stalled chan struct{}
}

func (w *world) dial(name string) *scriptPeer {
	p := &scriptPeer{conn: w.ln.Dial(w.t), version: 4, stalled: make(chan struct{})}
	w.peers[name] = p
	go p.read()
	return p
}

func (p *scriptPeer) read() {
	defer func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
	}()
	var buf bytes.Buffer
	chunk := make([]byte, 64<<10)
	for {
		n, err := p.conn.Read(chunk)
		buf.Write(chunk[:n])
		for {
			text, size := formatPacket(buf.Bytes(), p.version)
			if size == 0 {
				break
			}
			buf.Next(size)
			p.mu.Lock()
			p.got = append(p.got, text)
			p.mu.Unlock()
		}
		if err != nil {
			return
		}
		select {
		case <-p.stalled:
			return
		default:
		}
	}
}

func (p *scriptPeer) stall() { close(p.stalled) }

func (p *scriptPeer) rest() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got
}

func (w *world) send(who, text string) error {
	p := w.peers[who]
	if p == nil || p.over() {
		p = w.dial(who)
	}
	for name, value := range w.vars {
		text = strings.ReplaceAll(text, "$"+name, value)
	}
	b, err := encodePackets(text, &p.version)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.conn.Write(b) // a server that has closed does not read it
	}()
	synctest.Wait()
	return nil
}

func (p *scriptPeer) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed && len(p.got) == 0
}

func (w *world) expect(who, want string) error {
	synctest.Wait()
	p := w.peers[who]
	if p == nil {
		return errors.New("it is not connected")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	got, at := "nothing", 0
	switch {
	case len(p.got) > 0:
		at = p.next(want)
		got = p.got[at]
	case p.closed:
		got = "closed"
	}
	if want == "nothing" && got != want {
		return fmt.Errorf("got %q", p.got)
	}
	if !w.matches(got, want) {
		return fmt.Errorf("got %s, of %q", got, p.got)
	}
	if len(p.got) > 0 {
		p.got = slices.Delete(p.got, at, at+1)
	} else if p.closed {
		delete(w.peers, who)
	}
	return nil
}

// next returns the index of the packet that comes next. What is delivered to a client
// and the answers to what it publishes have an order of their own each, and none
// between them.
func (p *scriptPeer) next(want string) int {
	delivery := func(packet string) bool { return strings.HasPrefix(packet, "PUBLISH ") }
	answer := func(packet string) bool {
		return strings.HasPrefix(packet, "PUBACK ") || strings.HasPrefix(packet, "PUBREC ") || strings.HasPrefix(packet, "PUBCOMP ")
	}
	for i, got := range p.got {
		if !(delivery(got) && answer(want) || answer(got) && delivery(want)) {
			return i
		}
	}
	return 0
}

func (w *world) expectAny(who, want string) error {
	synctest.Wait()
	p := w.peers[who]
	if p == nil {
		return errors.New("it is not connected")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, got := range p.got {
		if w.matches(got, want) {
			p.got = append(p.got[:i:i], p.got[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("got %q", p.got)
}

// matches compares, and takes over what stands where want has a variable.
func (w *world) matches(got, want string) bool {
	gotWords, wantWords := strings.Fields(got), strings.Fields(want)
	if len(gotWords) != len(wantWords) {
		return false
	}
	variable := regexp.MustCompile(`^(.*)\$([a-z0-9]+)$`)
	for i, word := range wantWords {
		if m := variable.FindStringSubmatch(word); m != nil {
			value, ok := strings.CutPrefix(gotWords[i], m[1])
			if known, seen := w.vars[m[2]]; !ok || seen && known != value {
				return false
			}
			w.vars[m[2]] = value
			continue
		}
		if gotWords[i] != word {
			return false
		}
	}
	return true
}
