package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for the fast profile

	_ "github.com/nats-io/nats-server/v2/server" // likewise
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/leasemq/broker/cluster/clustertest"
	"github.com/leasemq/broker/cluster/jetstream"
	"github.com/leasemq/broker/core"
)

// The fast profile, as in the tests of jetstream.
//
//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

func TestMain(m *testing.M) {
	minElectionTimeout, maxElectionTimeout, hbInterval = 500*time.Millisecond, 1000*time.Millisecond, 100*time.Millisecond
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// startServers starts three servers of one cluster in this process.
func startServers(t *testing.T) []*jetstream.Server {
	t.Helper()
	ports := clustertest.FreeAddresses(t, 3)
	var out []*jetstream.Server
	for i := range ports {
		s, err := jetstream.StartServer(jetstream.ServerOptions{
			Name: fmt.Sprint("s", i), Cluster: "test", Dir: t.TempDir(), Listen: ports[i], Routes: ports,
			Secret: "secret", MaxBytes: 256 << 20, Logger: quiet(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		out = append(out, s)
	}
	return out
}

func connect(t *testing.T, s *jetstream.Server) *nats.Conn {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func patient(t *testing.T) context.Context { return within(t, time.Minute) }

// world is three servers with a node at each.
type world struct {
	t     *testing.T
	conns []*nats.Conn
	peers *Peers // at the first node
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	for _, s := range startServers(t) {
		w.conns = append(w.conns, connect(t, s))
	}
	w.peers = w.ask(0, AskOptions{})
	return w
}

func (w *world) ask(i int, o AskOptions) *Peers {
	w.t.Helper()
	o.Cluster = "test"
	p, err := New(w.conns[i], o)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// serve lets node i answer, and waits until the first node hears it.
func (w *world) serve(i int, o Options) *Server {
	w.t.Helper()
	o.Cluster, o.Node, o.Logger = "test", fmt.Sprint("n", i), quiet()
	if o.Status == nil {
		o.Status = func() Status { return Status{Role: RoleStandby, Applied: uint64(i)} }
	}
	s, err := Serve(w.conns[i], o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	for range 500 {
		if _, err = w.peers.Status(patient(w.t), o.Node); err == nil {
			return s
		}
		if !errors.Is(err, ErrNoNode) {
			return s // it answers, with an error
		}
		time.Sleep(10 * time.Millisecond) // the servers tell each other who subscribes
	}
	w.t.Fatal(err)
	return nil
}

func names(all []Status) (out []string) {
	for _, s := range all {
		out = append(out, s.Node)
	}
	return out
}

func TestStatusOfAll(t *testing.T) {
	w := newWorld(t)
	want := Status{
		Role: RolePrimary, Durable: 3, Version: "1.2", Relay: "n0:7000", Clients: map[string]string{"sqs": "http://n0:9324"},
		LogLast: 9, HeardMS: 4, TimeMS: 77, Degraded: "disk is slow",
	}
	want.SetApplied(core.LogPosition{Generation: 2, Epoch: 4, Seq: 8, Hash: [16]byte{1, 2}})
	if all, err := w.peers.All(patient(t)); err != nil || len(all) != 0 {
		t.Errorf("without nodes: %v, %v", all, err)
	}
	if _, err := w.peers.Status(patient(t), "n0"); !errors.Is(err, ErrNoNode) {
		t.Errorf("status of nobody: %v", err)
	}
	w.serve(0, Options{Status: func() Status { return want }})
	w.serve(1, Options{})
	last := w.serve(2, Options{})
	all, err := w.peers.All(patient(t))
	if err != nil || fmt.Sprint(names(all)) != "[n0 n1 n2]" {
		t.Fatalf("all are %v, %v", names(all), err)
	}
	want.Node = "n0"
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("status %+v, want %+v", all[0], want)
	}
	if got, err := w.peers.Status(patient(t), "n0"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("status %+v, %v, want %+v", got, err, want)
	}
	if at := all[0].Position(); at != (core.LogPosition{Generation: 2, Epoch: 4, Seq: 8, Hash: [16]byte{1, 2}}) {
		t.Errorf("position %+v", at)
	}
	// Of those that are waited for one does not come.
	waiting := w.ask(0, AskOptions{Nodes: func() []string { return []string{"n0", "n1", "n2"} }, Wait: time.Second})
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := waiting.All(patient(t)); err != nil || fmt.Sprint(names(all)) != "[n0 n1]" {
		t.Errorf("without n2: %v, %v", names(all), err)
	}
	// With those that are expected, it does not wait.
	exact := w.ask(0, AskOptions{Nodes: func() []string { return []string{"n0", "n1"} }, Wait: time.Hour, Quiet: time.Hour})
	if all, err := exact.All(patient(t)); err != nil || fmt.Sprint(names(all)) != "[n0 n1]" {
		t.Errorf("with n0 and n1: %v, %v", names(all), err)
	}
	// With nobody that is expected, it does not wait for more.
	quick := w.ask(0, AskOptions{Wait: time.Hour, Quiet: 500 * time.Millisecond})
	ctx := patient(t)
	if all, err := quick.All(ctx); err != nil || ctx.Err() != nil || fmt.Sprint(names(all)) != "[n0 n1]" {
		t.Errorf("with whomever: %v, %v", names(all), err)
	}
	w.conns[0].Close()
	if _, err := w.peers.All(patient(t)); err == nil {
		t.Error("without a connection: no error")
	}
}

func TestHandoverByAnotherNode(t *testing.T) {
	w := newWorld(t)
	asked := make(chan string, 10)
	w.serve(1, Options{Handover: func(_ context.Context, node string) error {
		asked <- node
		if node == "n9" {
			return fmt.Errorf("hand over: %w\nnow", core.ErrNotPrimary)
		}
		return nil
	}})
	w.serve(2, Options{})
	for _, c := range []struct {
		node, to string
		want     error
	}{
		{"n1", "n2", nil},
		{"n1", "", nil},
		{"n1", "n9", core.ErrNotPrimary},
		{"n1", "no node", core.ErrInvalidArgument},
		{"n2", "n1", errors.ErrUnsupported},
		{"n7", "n1", ErrNoNode},
		{"no node", "n1", core.ErrInvalidArgument},
		{"n1.>", "", core.ErrInvalidArgument},
		{"", "", core.ErrInvalidArgument},
	} {
		if err := w.peers.Handover(patient(t), c.node, c.to); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("hand over from %q to %q: %v, want %v", c.node, c.to, err, c.want)
		}
	}
	for _, want := range []string{"n2", "", "n9"} {
		if to := <-asked; to != want {
			t.Errorf("handed over to %q, want %q", to, want)
		}
	}
}

// TestHandlersAreBounded asks for more than one hand-over at once, and has a
// handler panic.
func TestHandlersAreBounded(t *testing.T) {
	w := newWorld(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	s := w.serve(1, Options{
		Handover: func(ctx context.Context, _ string) error {
			entered <- struct{}{}
			select {
			case <-leave:
				panic("a bug")
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	first := make(chan error, 1)
	go func() { first <- w.peers.Handover(patient(t), "n1", "") }()
	<-entered
	if err := w.peers.Handover(patient(t), "n1", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := w.peers.Status(patient(t), "n1"); err != nil {
		t.Errorf("status meanwhile: %v", err)
	}
	leave <- struct{}{}
	if err := <-first; !errors.Is(err, errInternal) {
		t.Errorf("a panic is %v", err)
	}
	// Close ends what is under way.
	go func() { first <- w.peers.Handover(patient(t), "n1", "") }()
	<-entered
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-first; err == nil {
		t.Error("handed over after the end")
	}
}

// TestHandoverEndsWithWhoAsked lets the time run out.
func TestHandoverEndsWithWhoAsked(t *testing.T) {
	w := newWorld(t)
	ended := make(chan struct{})
	w.serve(1, Options{Handover: func(ctx context.Context, _ string) error {
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}})
	if err := w.peers.Handover(within(t, 200*time.Millisecond), "n1", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hand over: %v", err)
	}
	<-ended
}

// TestBadRequestsAreAnswered sends what no node sends.
func TestBadRequestsAreAnswered(t *testing.T) {
	w := newWorld(t)
	w.serve(1, Options{})
	for _, c := range []struct{ data, want string }{
		{"", "request"},
		{"garbage", "request"},
		{"[]", "request"},
		{`{"op":7}`, "request"},
		{`{"op":"reboot"}`, "request"},
		{`{"op":"status","at":-1}`, "request"},
		{`{"op":"status","x":"` + strings.Repeat("y", requestBytesMax) + `"}`, "request"},
		{`{"op":"digest"}`, "unsupported"},
		{`{"op":"checkpoint"}`, "unsupported"},
		{`{"op":"files","checkpoint":"x"}`, "gone"},
		{`{"op":"chunk"}`, "gone"},
		{`{"op":"sum"}`, "gone"},
		{`{"op":"release"}`, "gone"},
		{`{"op":"status","later":{"a":[1]},"wait_ms":-5}`, ""},
	} {
		m, err := w.conns[0].RequestWithContext(patient(t), "lease.peer.test.node.n1", []byte(c.data))
		if err != nil {
			t.Fatalf("%.100s: %v", c.data, err)
		}
		if kind, _, _ := strings.Cut(m.Header.Get(headerError), " "); kind != c.want {
			t.Errorf("%.100s: answer %q, want %q", c.data, m.Header.Get(headerError), c.want)
		}
	}
	m, err := w.conns[0].RequestWithContext(patient(t), "lease.peer.test.all", []byte(`{"op":"checkpoint"}`))
	if err != nil || !strings.HasPrefix(m.Header.Get(headerError), "request ") {
		t.Errorf("a checkpoint of all: %v, %v", m, err)
	}
}

// TestBadAnswersAreRefused lets a node answer nonsense.
func TestBadAnswersAreRefused(t *testing.T) {
	w := newWorld(t)
	w.serve(1, Options{})
	var data, header atomic.Value
	say := func(d, h string) {
		data.Store(d)
		header.Store(h)
	}
	lie := func(m *nats.Msg) {
		a := nats.NewMsg(m.Reply)
		a.Data = []byte(data.Load().(string))
		if h := header.Load().(string); h != "" {
			a.Header.Set(headerError, h)
		}
		_ = m.RespondMsg(a)
	}
	say("", "")
	for _, subject := range []string{"lease.peer.test.node.n9", "lease.peer.test.all"} {
		if _, err := w.conns[0].Subscribe(subject, lie); err != nil {
			t.Fatal(err)
		}
	}
	good, err := json.Marshal(Status{Node: "n9", Role: RoleStandby})
	if err != nil {
		t.Fatal(err)
	}
	with := func(field string) string { return strings.Replace(string(good), `"node"`, field+`,"node"`, 1) }
	for _, data := range []string{
		"", "garbage", `{"node":"n 9","role":"standby"}`, `{"node":"n9"}`, with(`"hash":"xyz"`)[:20],
		`{"node":"n9","role":"standby","hash":"12"}`, `{"node":"n9","role":"stand by"}`,
		`{"node":"n9","role":"standby","durable":5,"applied":4}`, `{"node":"n9","role":"standby","version":"\u001b[31m"}`,
		`{"node":"n9","role":"standby","clients":{"a b":"c"}}`, `{"node":"n9","role":"standby","relay":"no port"}`,
		`{"node":"n9","role":"standby","held":-1}`, `{"node":"n9","role":"standby","time_ms":-1}`,
		with(`"x":"` + strings.Repeat("y", statusBytesMax) + `"`), strings.Repeat("[", 20000),
	} {
		say(data, "")
		if _, err := w.peers.Status(patient(t), "n9"); !errors.Is(err, ErrMalformed) {
			t.Errorf("status %.60q: %v", data, err)
		}
		all, err := w.peers.All(patient(t))
		if !errors.Is(err, ErrMalformed) || fmt.Sprint(names(all)) != "[n1]" {
			t.Errorf("all, with %.60q: %v, %v", data, names(all), err)
		}
	}
	say(`{"node":"n8","role":"standby"}`, "")
	if _, err := w.peers.Status(patient(t), "n9"); !errors.Is(err, ErrMalformed) {
		t.Errorf("status in another name: %v", err)
	}
	say(with(`"later":{"a":[1]}`), "")
	if _, err := w.peers.Status(patient(t), "n9"); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
	for header, want := range map[string]error{"busy x": ErrBusy, "surprise x": errInternal, "": ErrMalformed, "busy \x1b[0m": ErrMalformed} {
		say("", header)
		if _, err := w.peers.Status(patient(t), "n9"); !errors.Is(err, want) {
			t.Errorf("error %q: %v, want %v", header, err, want)
		}
	}
	for _, data := range []string{
		"{}", "garbage", `{"at":{"hash":"` + strings.Repeat("0", 32) + `"},"sum":"12"}`, `{"at":{"hash":"1"},"sum":"` + strings.Repeat("0", 64) + `"}`,
	} {
		say(data, "")
		if _, err := w.peers.Digest(patient(t), "n9", 0, 0); !errors.Is(err, ErrMalformed) {
			t.Errorf("digest %q: %v", data, err)
		}
	}
}

// TestOwnStatusIsChecked sends nothing that others would refuse.
func TestOwnStatusIsChecked(t *testing.T) {
	w := newWorld(t)
	for i, s := range []Status{{}, {Role: RoleStandby, Hash: "12"}, {Role: RoleStandby, Relay: "nowhere"}} {
		server := w.serve(1, Options{Status: func() Status { return s }})
		if _, err := w.peers.Status(patient(t), "n1"); !errors.Is(err, errInternal) {
			t.Errorf("status %d: %v", i, err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	text := w.serve(1, Options{Status: func() Status {
		return Status{Role: RoleStandby, Degraded: "disk\n\xff\x1b[31m" + strings.Repeat("é", degradedBytesMax)}
	}})
	got, err := w.peers.Status(patient(t), "n1")
	if err != nil || !strings.HasPrefix(got.Degraded, "disk ? [31mé") || len(got.Degraded) < degradedBytesMax-4 {
		t.Errorf("a text that cannot be printed: %.30q, %v", got.Degraded, err)
	}
	if err := text.Close(); err != nil {
		t.Error(err)
	}
	panics := w.serve(2, Options{Status: func() Status { panic("a bug") }})
	if _, err := w.peers.Status(patient(t), "n2"); !errors.Is(err, errInternal) {
		t.Errorf("a panic: %v", err)
	}
	_ = panics
}

func TestOptionsAreChecked(t *testing.T) {
	w := newWorld(t)
	status := func() Status { return Status{} }
	for name, o := range map[string]Options{
		"no cluster":     {Node: "n", Status: status},
		"bad cluster":    {Cluster: "a.b", Node: "n", Status: status},
		"no node":        {Cluster: "c", Status: status},
		"wild node":      {Cluster: "c", Node: "n.*", Status: status},
		"divided node":   {Cluster: "c", Node: "n=m", Status: status},
		"long node":      {Cluster: "c", Node: strings.Repeat("n", nodeBytesMax+1), Status: status},
		"no status":      {Cluster: "c", Node: "n"},
		"no folder":      {Cluster: "c", Node: "n", Status: status, Checkpoint: func(string) (core.LogPosition, error) { return core.LogPosition{}, nil }},
		"negative times": {Cluster: "c", Node: "n", Status: status, IdleMax: -1},
	} {
		if s, err := Serve(w.conns[0], o); err == nil {
			t.Errorf("%s: taken", name)
			_ = s.Close()
		}
	}
	for _, o := range []AskOptions{{}, {Cluster: "a b"}, {Cluster: "a", Wait: -1}, {Cluster: "a", Quiet: -1}} {
		if _, err := New(w.conns[0], o); err == nil {
			t.Errorf("%+v: taken", o)
		}
	}
	s, err := Serve(w.conns[0], Options{Cluster: "test", Node: "broker-1..example.com", Status: func() Status { return Status{Role: RoleStandby} }})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.peers.Status(patient(t), "broker-1..example.com"); err != nil || got.Node != "broker-1..example.com" {
		t.Errorf("a host name: %v, %v", got.Node, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	w.conns[1].Close()
	if _, err := Serve(w.conns[1], Options{Cluster: "c", Node: "n", Status: status}); err == nil {
		t.Error("served without a connection")
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"op":"status","at":3}`))
	f.Add([]byte(`{"node":"n9","role":"standby","clients":{"a":"b"}}`))
	f.Add([]byte(`{"id":"x","at":{"hash":"00000000000000000000000000000000"},"files":1,"bytes":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRequest(b); err == nil && (r.wait() <= 0 || r.wait() > waitMax) {
			t.Errorf("wait of %v", r.wait())
		}
		if s, err := decodeStatus(b); err == nil {
			again, err := json.Marshal(&s)
			if err != nil {
				t.Fatal(err)
			}
			back, err := decodeStatus(again)
			if err != nil || len(again) <= statusBytesMax && len(back.Clients) != len(s.Clients) {
				t.Errorf("%s: %v", again, err)
			}
		}
		var d Digest
		_ = d.decode(b)
		m := nats.NewMsg("")
		m.Header.Set(headerError, string(b))
		if _, err := decodeAnswer(m); err == nil && len(b) > 0 {
			t.Errorf("error %q is none", b)
		}
	})
}
