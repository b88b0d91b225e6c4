package broker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/storage"
)

// run starts a node that is closed when the test ends.
func run(t *testing.T, options ...broker.Option) *broker.Node {
	t.Helper()
	quiet := broker.WithLogger(slog.New(slog.DiscardHandler))
	node, err := broker.Run(t.Context(), append([]broker.Option{quiet}, options...)...)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return node
}

// refused returns why a node does not start.
func refused(t *testing.T, options ...broker.Option) error {
	t.Helper()
	node, err := broker.Run(t.Context(), options...)
	if err == nil {
		_ = node.Close()
		t.Errorf("Run accepted it")
		return errors.New("accepted")
	}
	return err
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestEveryListenerIsUpWhenRunReturns(t *testing.T) {
	node := run(t)
	names := []string{"sqs", "stomp", "stomp_ws", "mqtt", "mqtt_ws", "admin"}
	for _, name := range names {
		c, err := net.Dial("tcp", node.Addr(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Close()
	}
	if addrs := node.Addrs(); len(addrs) != len(names) {
		t.Errorf("listeners are %v, want %v", addrs, names)
	}
	if status, body := get(t, "http://"+node.Addr("admin")+"/readyz"); status != 200 {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	if node.Addr("mqtt_tls") != "" {
		t.Error("a listener that was not started has an address")
	}
}

func TestNodeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	node, err := broker.Run(ctx, broker.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := node.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if err := node.Close(); err != nil {
		t.Errorf("Close after the end: %v", err)
	}
	if c, err := net.Dial("tcp", node.Addr("sqs")); err == nil {
		c.Close()
		t.Error("the listener still accepts")
	}
}

func TestNodeLeavesNoGoroutine(t *testing.T) {
	before := []goleak.Option{
		goleak.IgnoreCurrent(),
		// Of fasthttp: it wakes up every ten seconds to see that it should end.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	}
	node, err := broker.Run(t.Context(), broker.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before...)
}

func TestDataSurvivesTheNode(t *testing.T) {
	dir := t.TempDir()
	first := run(t, broker.Data(dir))
	client := first.Client()
	if _, _, err := client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Publish(t.Context(), "q", []core.Message{{Body: []byte("a")}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := run(t, broker.Data(dir))
	got, err := second.Client().Receive(t.Context(), "q", core.ReceiveOptions{Max: 1, Visibility: -1}, nil)
	if err != nil || len(got) != 1 || string(got[0].Body) != "a" {
		t.Errorf("received %v, %v; want the message of the first node", got, err)
	}
}

func TestTwoNodesDoNotShareADirectory(t *testing.T) {
	dir := t.TempDir()
	run(t, broker.Data(dir))
	if node, err := broker.Run(t.Context(), broker.Data(dir), broker.WithLogger(slog.New(slog.DiscardHandler))); err == nil {
		node.Close()
		t.Error("a second node opened the directory of the first")
	}
}

func TestFailedStartFreesWhatItOpened(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	options := []broker.Option{
		broker.Data(dir),
		broker.WithLogger(slog.New(slog.DiscardHandler)),
		broker.Edit(func(c *configs.Config) { c.Admin.Listen = taken.Addr().String() }),
	}
	if node, err := broker.Run(t.Context(), options...); err == nil {
		node.Close()
		t.Fatal("Run bound a port that is taken")
	}
	run(t, broker.Data(dir)) // the directory is free again
}

func TestRunChecksItsSettings(t *testing.T) {
	for name, option := range map[string]broker.Option{
		"unknown frontend": broker.WithFrontends("sqz"),
		"open listener":    broker.Edit(func(c *configs.Config) { c.Listen = "0.0.0.0" }),
		"account":          broker.Edit(func(c *configs.Config) { c.SQS.Account = "1" }),
	} {
		t.Run(name, func(t *testing.T) { _ = refused(t, option) })
	}
}

// ports are those of a kind with one listener.
func ports(name, address string) func(configs.Config) []broker.Port {
	return func(configs.Config) []broker.Port { return []broker.Port{{Name: name, Address: address}} }
}

// failing is a frontend whose listener breaks when told to.
func failing(broken <-chan struct{}) broker.Kind {
	return broker.Kind{Name: "failing", Ports: ports("failing", ":0"), Open: func(broker.Host) (broker.Frontend, error) {
		return broker.Frontend{Serve: map[string]func(context.Context, net.Listener) error{"failing": func(ctx context.Context, ln net.Listener) error {
			select {
			case <-ctx.Done():
				return ln.Close()
			case <-broken:
				return errors.New("out of paper")
			}
		}}}, nil
	}}
}

func TestABrokenListenerStopsTheNode(t *testing.T) {
	broken := make(chan struct{})
	node, err := broker.Run(t.Context(), broker.WithKinds(broker.SQS(), failing(broken)), broker.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	close(broken)
	if err := node.Wait(); err == nil || !strings.Contains(err.Error(), "failing: out of paper") {
		t.Errorf("Wait: %v, want the reason of the listener", err)
	}
}

func TestFrontendsCannotOpenTheNode(t *testing.T) {
	kind := broker.Kind{Name: "x", Ports: ports("x", "0.0.0.0:0"), Open: func(broker.Host) (broker.Frontend, error) {
		return broker.Frontend{}, nil
	}}
	if node, err := broker.Run(t.Context(), broker.WithKinds(kind)); err == nil {
		node.Close()
		t.Error("a frontend listens on all interfaces without --dev")
	}
}

func TestNoQueueInMetricsIfSoSet(t *testing.T) {
	node := run(t, broker.Edit(func(c *configs.Config) { c.Admin.MetricQueues = 0 }))
	if _, _, err := node.Client().Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, "http://"+node.Addr("admin")+"/metrics"); strings.Contains(body, `queue="q"`) {
		t.Error("metrics show a queue")
	}
}

func TestListenerNamesAreUnique(t *testing.T) {
	if node, err := broker.Run(t.Context(), broker.WithKinds(broker.SQS(), failing(nil), failing(nil))); err == nil {
		node.Close()
		t.Error("two listeners have one name")
	}
}

func TestAFrontendThatCannotOpenStopsTheStart(t *testing.T) {
	kind := broker.Kind{Name: "x", Ports: ports("x", ":0"), Open: func(broker.Host) (broker.Frontend, error) {
		return broker.Frontend{}, errors.New("out of paper")
	}}
	if node, err := broker.Run(t.Context(), broker.WithKinds(kind)); err == nil || !strings.Contains(err.Error(), "frontend x: out of paper") {
		if err == nil {
			node.Close()
		}
		t.Errorf("Run: %v, want the reason of the frontend", err)
	}
}

// slow is a frontend that drains only when the engine has been closed.
func slow(closed chan<- error) broker.Kind {
	return broker.Kind{Name: "slow", Ports: ports("slow", ":0"), Open: func(h broker.Host) (broker.Frontend, error) {
		return broker.Frontend{Serve: map[string]func(context.Context, net.Listener) error{"slow": func(ctx context.Context, ln net.Listener) error {
			<-ctx.Done()
			client := h.Engine.Client(core.Principal{})
			for {
				if _, err := client.Publish(context.Background(), "q", []core.Message{{}}, nil); errors.Is(err, core.ErrStopped) {
					closed <- err
					return ln.Close()
				}
			}
		}}}, nil
	}}
}

func TestDrainEndsWithItsTimeout(t *testing.T) {
	closed := make(chan error, 1)
	node := run(t, broker.WithKinds(slow(closed)), broker.Edit(func(c *configs.Config) { c.Drain.Timeout = time.Millisecond }))
	if _, _, err := node.Client().Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	if err := node.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	<-closed
}

func TestDrainBoundIsThatOfFrontends(t *testing.T) {
	if configs.DrainTimeoutMax != frontends.DrainMax {
		t.Errorf("a setting allows a drain of %v, frontends take %v", configs.DrainTimeoutMax, frontends.DrainMax)
	}
}

func TestLongPollEndsEmptyWhenTheNodeStops(t *testing.T) {
	node := run(t)
	client := sqsClient(node)
	queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		out, err := client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, WaitTimeSeconds: 20})
		if err == nil && len(out.Messages) > 0 {
			err = errors.New("a message from nowhere")
		}
		answer <- err
	}()
	for waiting := 0; waiting == 0; {
		st, err := node.Client().Stats(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		waiting = st.Waiters
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("the long poll: %v, want an empty answer", err)
	}
}

// sqsClient returns a client of a node that asks for no access key.
func sqsClient(node *broker.Node) *sqs.Client { return signingClient(node, "us-east-1", "x", "x", "") }

// signingClient returns a client with the given access key.
func signingClient(node *broker.Node, region, id, secret, token string) *sqs.Client {
	return sqs.New(sqs.Options{
		BaseEndpoint:     aws.String("http://" + node.Addr("sqs")),
		Region:           region,
		Credentials:      credentials.NewStaticCredentialsProvider(id, secret, token),
		RetryMaxAttempts: 1,
	})
}

func TestMetricsTellOfRequests(t *testing.T) {
	node := run(t, broker.WithBuild("v1.2.3", "abc"))
	if _, err := sqsClient(node).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("none")}); err == nil {
		t.Fatal("a queue from nowhere")
	}
	if _, err := sqsClient(node).ListQueues(t.Context(), &sqs.ListQueuesInput{}); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, "http://"+node.Addr("admin")+"/metrics")
	for _, want := range []string{
		`broker_sqs_request_seconds_count{action="ListQueues",code=""} 1`,
		`broker_sqs_request_seconds_count{action="GetQueueUrl",code="`,
		`broker_build_info{go="go1`,
		`version="v1.2.3"`,
		`broker_stomp_sessions 0`,
		`broker_stomp_frames_total{command="SEND",direction="in"} 0`,
		`broker_mqtt_sessions 0`,
		`broker_mqtt_connects_total 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// TestAFailedFsyncStopsTheNode: what became of the send is unknown, so nothing
// may be answered after it.
func TestAFailedFsyncStopsTheNode(t *testing.T) {
	var failing atomic.Bool
	fs := errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			return errorfs.ErrInjected
		}
		return nil
	}))
	node, err := broker.Run(t.Context(),
		broker.Data("data"),
		broker.WithStore(func(o *storage.Options) { o.FS = fs }),
		broker.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		t.Fatal(err)
	}
	client := sqsClient(node)
	queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
	if err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	_, err = client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String("a")})
	if err == nil {
		t.Error("a send was answered after a failed fsync")
	}
	if err := node.Wait(); !errors.Is(err, core.ErrStopped) || !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("Wait: %v, want the reason", err)
	} else {
		t.Log(err)
	}
}

// TestAFullDiskRefusesProducersOnly starts on a disk that is already full.
func TestAFullDiskRefusesProducersOnly(t *testing.T) {
	dir := t.TempDir()
	first := run(t, broker.Data(dir))
	client := first.Client()
	if _, _, err := client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Publish(t.Context(), "q", []core.Message{{Body: []byte("a")}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	full := broker.WithStore(func(o *storage.Options) { o.FreeBytesMin, o.FreeFractionMin = 1<<62, 0.999999 })
	node := run(t, broker.Data(dir), full)
	for told := false; !told; { // storage looks at the disk in its own time
		status, body := get(t, "http://"+node.Addr("admin")+"/readyz?verbose")
		if status != 200 {
			t.Fatalf("/readyz answers %d %s", status, body)
		}
		told = strings.Contains(body, "[+] disk: producers are refused")
	}
	client = node.Client()
	_, err := client.Publish(t.Context(), "q", []core.Message{{Body: []byte("b")}}, nil)
	if !errors.Is(err, core.ErrDiskFull) {
		t.Errorf("a send: %v, want %v", err, core.ErrDiskFull)
	}
	got, err := client.Receive(t.Context(), "q", core.ReceiveOptions{Max: 2, Visibility: -1}, nil)
	if err != nil || len(got) != 1 {
		t.Errorf("a receive: %d messages, %v; want the one from before", len(got), err)
	}
}

func TestFrontendsAreTheOnesAskedFor(t *testing.T) {
	closed := make(chan error, 1)
	node := run(t, broker.WithKinds(broker.SQS(), slow(closed)), broker.WithFrontends("sqs"))
	if node.Addr("sqs") == "" || node.Addr("slow") != "" {
		t.Errorf("listeners are %v", node.Addrs())
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		node, err := broker.Run(b.Context(), broker.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := node.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
