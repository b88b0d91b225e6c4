package sqs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
)

// quiet is a log that goes nowhere.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// serve runs s on ln until the test ends, and fails it if the drain fails.
func serve(t testing.TB, s *Server, ln net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// listen serves a whole frontend on a loopback port.
func listen(t testing.TB, s *Server) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s, ln)
	return ln.Addr().String()
}

func newTestServer(t testing.TB, engine *core.Engine, o Options) *Server {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	s, err := New(engine, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func jsonRequest(action, body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.%s\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%s", action, len(body), body)
}

// answer reads one answer; the connection may have more.
func readAnswer(t testing.TB, br *bufio.Reader) (*http.Response, string) {
	t.Helper()
	a, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatalf("answer %d: %v", a.StatusCode, err)
	}
	return a, string(body)
}

// inBubble runs f against a server on pipes, in fake time.
func inBubble(t *testing.T, o Options, f func(t *testing.T, dial func() net.Conn)) {
	startServerDate()
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, frontendtest.NewEngine(t), o)
		ln := frontendtest.NewPipeListener()
		t.Cleanup(func() { time.Sleep(11 * time.Second) }) // see runTranscript; runs after the drain
		serve(t, s, ln)
		var conns []net.Conn
		f(t, func() net.Conn {
			conns = append(conns, ln.Dial(t))
			return conns[len(conns)-1]
		})
		for _, c := range conns {
			_ = c.Close()
		}
	})
}

// TestOddHTTPIsServed: what is refused is in httpErrorCases.
func TestOddHTTPIsServed(t *testing.T) {
	cases := []struct {
		name, request string
		status        int
		holds         string // in the body
		closes        bool
	}{
		{"chunks", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n11\r\nAction=ListQueues\r\n0\r\n\r\n", 200, "<ListQueuesResult/>", false},
		{"HTTP/1.0", "GET /?Action=ListQueues HTTP/1.0\r\n\r\n", 200, "<ListQueuesResult/>", true},
		{"continue", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 17\r\n\r\nAction=ListQueues", 100, "", false},
		{"health", "HEAD /health HTTP/1.1\r\nHost: h\r\n\r\n", 200, "", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, dial func() net.Conn) {
				conn := dial()
				go func() { _, _ = io.WriteString(conn, tc.request) }()
				method := "POST"
				if strings.HasPrefix(tc.request, "HEAD") {
					method = "HEAD"
				}
				a, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
				if err != nil {
					t.Fatalf("no answer: %v", err)
				}
				body, err := io.ReadAll(a.Body)
				if err != nil {
					t.Fatal(err)
				}
				if a.StatusCode != tc.status || !strings.Contains(string(body), tc.holds) {
					t.Errorf("got %d %s\nwant %d with %s", a.StatusCode, body, tc.status, tc.holds)
				}
				if a.Close != tc.closes {
					t.Errorf("the connection closes: %v, want %v", a.Close, tc.closes)
				}
				if tc.status != 100 && a.Header.Get("x-amzn-RequestId") == "" {
					t.Error("no request id")
				}
			})
		})
	}
}

func TestSlowPeersTimeOut(t *testing.T) {
	cases := []struct {
		name  string
		sends []string // with a second between them, for ever at the last
		after time.Duration
		holds string
	}{
		{"nothing", nil, 10 * time.Second, "<Code>RequestTimeout</Code>"},
		{"a header that does not end", []string{"POST / HTTP/1.1\r\nHost: h\r\n", "X-A: b\r\n"}, 10 * time.Second, "<Code>RequestTimeout</Code>"},
		{"a small body", []string{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n", "x"}, 10 * time.Second, "<Code>RequestTimeout</Code>"},
		{"a large body", []string{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 8192), "x"}, 30 * time.Second, "<Code>RequestTimeout</Code>"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, dial func() net.Conn) {
				conn := dial()
				start := time.Now()
				go func() {
					for i := 0; len(tc.sends) > 0; i++ {
						if _, err := io.WriteString(conn, tc.sends[min(i, len(tc.sends)-1)]); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
				a, body := readAnswer(t, bufio.NewReader(conn))
				if took := time.Since(start); took < tc.after || took > tc.after+time.Second {
					t.Errorf("timed out after %v, want %v", took, tc.after)
				}
				if a.StatusCode != 408 || !a.Close || !strings.Contains(body, tc.holds) {
					t.Errorf("got %d closes=%v %s", a.StatusCode, a.Close, body)
				}
			})
		})
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		br := bufio.NewReader(conn)
		go func() { _, _ = io.WriteString(conn, jsonRequest("ListQueues", "{}")) }()
		readAnswer(t, br)
		start := time.Now()
		if b, err := br.ReadByte(); err == nil {
			t.Fatalf("got byte %q of an answer to nothing", b)
		}
		if took := time.Since(start); took != defaultIdleTimeout {
			t.Errorf("closed after %v, want %v", took, defaultIdleTimeout)
		}
	})
}

// A response that fasthttp holds back for the next pipelined request must not
// wait for a long poll.
func TestPipelinedAnswerDoesNotWaitForALongPoll(t *testing.T) {
	defer ranCases.note(t)
	inBubble(t, Options{AutoCreate: true}, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		br := bufio.NewReader(conn)
		start := time.Now()
		go func() {
			_, _ = io.WriteString(conn, jsonRequest("SendMessage", `{"QueueUrl":"a","MessageBody":"x"}`)+
				jsonRequest("ReceiveMessage", `{"QueueUrl":"b","WaitTimeSeconds":20}`)+
				jsonRequest("ReceiveMessage", `{"QueueUrl":"a"}`))
		}()
		if _, body := readAnswer(t, br); !strings.Contains(body, "MD5OfMessageBody") {
			t.Errorf("first answer: %s", body)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the answer to the send took %v", took)
		}
		if _, body := readAnswer(t, br); body != "{}" {
			t.Errorf("second answer: %s", body)
		}
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("the long poll took %v", took)
		}
		if _, body := readAnswer(t, br); !strings.Contains(body, `"Body":"x"`) {
			t.Errorf("third answer: %s", body)
		}
	})
}

// Announcing a body reserves nothing; sending one reserves twice as much at most.
func TestAnnouncedBodiesReserveNothing(t *testing.T) {
	const connections, announced = 64, 8 << 20
	s := newTestServer(t, frontendtest.NewEngine(t), Options{})
	address := listen(t, s)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var conns []net.Conn
	for range connections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The handler runs once 8 KiB are there.
		if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", announced, strings.Repeat("x", 9<<10)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	// Half-closing makes each give its answer, so that all have been handled.
	for _, c := range conns {
		_ = c.(*net.TCPConn).CloseWrite()
		if a, body := readAnswer(t, bufio.NewReader(c)); a.StatusCode != 400 {
			t.Errorf("got %d %s", a.StatusCode, body)
		}
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(connections*256<<10); got > most {
		t.Errorf("%d connections that announced %d bytes each made the server allocate %d bytes, want at most %d", connections, announced, got, most)
	}
}

func TestLargestBatchFits(t *testing.T) {
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), Options{AutoCreate: true}))
	send := func(size int) (int, string) {
		var entries []string
		for i := range 10 {
			n := size / 10
			if i == 9 {
				n = size - 9*(size/10)
			}
			// Sixfold in JSON: the worst that a client can make of it.
			entries = append(entries, fmt.Sprintf(`{"Id":"%d","MessageBody":"%s"}`, i, strings.Repeat(`\u0009`, n)))
		}
		body := `{"QueueUrl":"q","Entries":[` + strings.Join(entries, ",") + `]}`
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, jsonRequest("SendMessageBatch", body)); err != nil {
			t.Fatal(err)
		}
		a, answer := readAnswer(t, bufio.NewReader(c))
		return a.StatusCode, answer
	}
	if status, body := send(defaultMessageBytesMax); status != 200 || strings.Contains(body, "Failed") {
		t.Errorf("a batch of the limit: %d %.300s", status, body)
	}
	status, body := send(defaultMessageBytesMax + 1)
	if want := "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."; status != 400 || !strings.Contains(body, want) {
		t.Errorf("a batch of one byte more: %d %.300s\nwant %s", status, body, want)
	}
}

func TestVanishedLongPollTakesNoLease(t *testing.T) {
	defer ranCases.note(t)
	for _, over := range []string{"tcp", "tls"} {
		for _, how := range []string{"close", "reset"} {
			t.Run(over+" "+how, func(t *testing.T) { testVanished(t, over == "tls", how == "reset") })
		}
	}
}

func testVanished(t *testing.T, overTLS, reset bool) {
	engine := frontendtest.NewEngine(t)
	client := engine.Client(core.Principal{})
	ctx := t.Context()
	if _, _, err := client.Declare(ctx, "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serverTLS, clientTLS := testCertificate(t)
	address := ln.Addr().String()
	if overTLS {
		ln = tls.NewListener(ln, serverTLS)
	}
	serve(t, newTestServer(t, engine, Options{}), ln)
	tcp, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn := tcp
	if overTLS {
		conn = tls.Client(tcp, clientTLS)
	}
	if _, err := io.WriteString(conn, jsonRequest("ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":20}`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the poll is parked", func() bool {
		st, err := client.Stats(ctx, "q")
		return err == nil && st.Waiters == 1
	})
	if reset {
		_ = tcp.(*net.TCPConn).SetLinger(0)
		_ = tcp.Close()
	} else {
		_ = conn.Close()
	}
	if _, err := client.Publish(ctx, "q", []core.Message{{Body: []byte("x"), Delay: -1}}, nil); err != nil {
		t.Fatal(err)
	}
	// The waiter that has gone is asked, found dead, and its turn passes on.
	got, err := client.Receive(ctx, "q", core.ReceiveOptions{Max: 1, Visibility: -1, Wait: 20 * time.Second}, nil)
	if err != nil || len(got) != 1 {
		t.Fatalf("another receive got %d messages, error %v", len(got), err)
	}
	if got[0].State.Receives != 1 {
		t.Errorf("the message was received %d times before: the vanished poll took a lease", got[0].State.Receives-1)
	}
}

// A poll whose client has only sent its next request is alive.
func TestPipelinedBytesAreAlive(t *testing.T) {
	engine := frontendtest.NewEngine(t)
	client := engine.Client(core.Principal{})
	if _, _, err := client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listen(t, newTestServer(t, engine, Options{})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, jsonRequest("ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":20}`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the poll is parked", func() bool {
		st, err := client.Stats(t.Context(), "q")
		return err == nil && st.Waiters == 1
	})
	if _, err := io.WriteString(conn, jsonRequest("ListQueues", "{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Publish(t.Context(), "q", []core.Message{{Body: []byte("x"), Delay: -1}}, nil); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	if _, body := readAnswer(t, br); !strings.Contains(body, `"Body":"x"`) {
		t.Errorf("the poll got %s", body)
	}
	if _, body := readAnswer(t, br); !strings.Contains(body, "QueueUrls") {
		t.Errorf("the pipelined request got %s", body)
	}
}

// eventually waits until something that the code under test does by itself has
// happened.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for tick := time.NewTicker(time.Millisecond); !happened(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// testCertificate makes a key pair of this test alone.
func testCertificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}

func TestQueueURLSaysHTTPSOverTLS(t *testing.T) {
	defer ranCases.note(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serverTLS, clientTLS := testCertificate(t)
	serve(t, newTestServer(t, frontendtest.NewEngine(t), Options{AutoCreate: true}), tls.NewListener(ln, serverTLS))
	transport := &http.Transport{TLSClientConfig: clientTLS}
	defer transport.CloseIdleConnections()
	url := "https://" + ln.Addr().String()
	a, err := (&http.Client{Transport: transport}).Get(url + "/?Action=GetQueueUrl&QueueName=q")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if want := "<QueueUrl>" + url + "/000000000000/q</QueueUrl>"; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("got %s %v\nwant %s", body, err, want)
	}
}

func TestConnectionAboveTheLimitIsRefusedKindly(t *testing.T) {
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), Options{MaxConnections: 2}))
	var conns []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, jsonRequest("ListQueues", "{}")); err != nil {
			t.Fatal(err)
		}
		readAnswer(t, bufio.NewReader(c))
		conns = append(conns, c)
	}
	third, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	a, body := readAnswer(t, bufio.NewReader(third))
	if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || !strings.Contains(body, "<Code>ServiceUnavailable</Code>") {
		t.Errorf("the third connection got %d %s", a.StatusCode, body)
	}
	// A place that is given up is taken.
	_ = conns[0].Close()
	eventually(t, "a new connection is served", func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		defer c.Close()
		if _, err := io.WriteString(c, jsonRequest("ListQueues", "{}")); err != nil {
			return false
		}
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		return err == nil && a.StatusCode == 200
	})
}

// A node that drains answers what it has accepted.
func TestDrainAnswersWhatIsInFlight(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 16)
	s, err := newServer(sameDoor(door{messages: &cannedCore{publish: func() { entered <- struct{}{}; <-release }}, queues: &cannedCore{}}), time.Now().UnixMilli, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	idle, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if _, err := io.WriteString(idle, jsonRequest("ListQueues", "{}")); err != nil {
		t.Fatal(err)
	}
	idleReader := bufio.NewReader(idle)
	readAnswer(t, idleReader)
	if _, err := io.WriteString(conn, jsonRequest("SendMessage", `{"QueueUrl":"q","MessageBody":"x"}`)); err != nil {
		t.Fatal(err)
	}
	<-entered
	cancel()
	// The idle connection goes first: it owes nothing.
	if _, err := idleReader.ReadByte(); err == nil {
		t.Error("the idle connection got an answer to nothing")
	}
	close(release)
	a, body := readAnswer(t, bufio.NewReader(conn))
	if a.StatusCode != 200 || !a.Close || !strings.Contains(body, "MessageId") {
		t.Errorf("the send in flight got %d closes=%v %s", a.StatusCode, a.Close, body)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestPanicIsAnInternalFailure(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(&lockedWriter{w: &log, mu: &mu}, nil))
	s, err := newServer(sameDoor(door{messages: &cannedCore{publish: func() { panic("a bug") }}, queues: &cannedCore{}}), time.Now().UnixMilli, Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listen(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	br := bufio.NewReader(conn)
	for range 2 { // on one connection: it survives
		if _, err := io.WriteString(conn, jsonRequest("SendMessage", `{"QueueUrl":"q","MessageBody":"x"}`)); err != nil {
			t.Fatal(err)
		}
		a, body := readAnswer(t, br)
		if a.StatusCode != 500 || a.Header.Get("x-amzn-query-error") != "InternalFailure;Receiver" || !strings.Contains(body, "InternalFailure") {
			t.Errorf("got %d %v %s", a.StatusCode, a.Header, body)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "a bug") || !strings.Contains(log.String(), "wire_test.go") {
		t.Errorf("the panic and its stack are not in the log: %s", log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// What came by another wire, or through the core, is shown as SQS can show it.
func TestMessagesOfOtherWires(t *testing.T) {
	defer ranCases.note(t)
	engine := frontendtest.NewEngine(t)
	client := engine.Client(core.Principal{})
	if _, _, err := client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Publish(t.Context(), "q", []core.Message{{
		Body: []byte{0, 0xFF}, Delay: -1, Origin: core.OriginSTOMP,
		Attributes: []core.Attribute{
			{Name: "twice", Value: []byte("first")},
			{Name: "binary", Value: []byte{0xFF}},
			{Name: "twice", Value: []byte("second")},
			{Kind: core.AttributeProperty, Name: "hidden", Value: []byte("x")},
		},
	}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{
		jsonRequest("ReceiveMessage", `{"QueueUrl":"q","VisibilityTimeout":0,"WaitTimeSeconds":20,"MessageAttributeNames":["All"]}`),
		"GET /000000000000/q?Action=ReceiveMessage&MessageAttributeName.1=All HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", listen(t, newTestServer(t, engine, Options{})))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		_, body := readAnswer(t, bufio.NewReader(conn))
		for _, want := range []string{"AP8=", "LeaseMQ.BodyEncoding", "base64", "second", "/w==", "Binary"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s\nis without %s", body, want)
			}
		}
		for _, unwanted := range []string{"first", "hidden"} {
			if strings.Contains(body, unwanted) {
				t.Errorf("%s\nhas %s", body, unwanted)
			}
		}
	}
}

func TestSenderOfALargeBodyReadsTheRefusal(t *testing.T) {
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), Options{BodyBytesMax: 1 << 20}))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const size = 32 << 20
	go func() {
		_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size)
		_, _ = io.CopyN(conn, zeros{}, size)
	}()
	a, body := readAnswer(t, bufio.NewReader(conn))
	if a.StatusCode != 413 || !strings.Contains(body, "RequestEntityTooLarge") {
		t.Errorf("got %d %s", a.StatusCode, body)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestChunkedBodyIsBounded(t *testing.T) {
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), Options{BodyBytesMax: 64 << 10}))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 1000 {
			if _, err := io.WriteString(conn, "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n"); err != nil {
				return
			}
		}
	}()
	a, body := readAnswer(t, bufio.NewReader(conn))
	if a.StatusCode != 413 || !strings.Contains(body, "RequestEntityTooLargeException") {
		t.Errorf("got %d %s", a.StatusCode, body)
	}
}

func TestLongValuesAreNotEchoed(t *testing.T) {
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), Options{AutoCreate: true}))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := jsonRequest("SendMessage", `{"QueueUrl":"q","MessageBody":"x","MessageGroupId":"`+strings.Repeat("x", 1<<20)+`"}`)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if a, body := readAnswer(t, bufio.NewReader(conn)); a.StatusCode != 400 || len(body) > 4<<10 {
		t.Errorf("got %d and %d bytes", a.StatusCode, len(body))
	}
}

// TestPoliciesAreBounded sends policies at the limit of AWS and one beyond. What
// is kept as it was sent stays in memory while its queue is in use.
func TestPoliciesAreBounded(t *testing.T) {
	defer ranCases.note(t)
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), Options{}))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	br := bufio.NewReader(conn)
	ask := func(action, body string) (status int, answer string) {
		t.Helper()
		if _, err := conn.Write([]byte(jsonRequest(action, body))); err != nil {
			t.Fatal(err)
		}
		a, answer := readAnswer(t, br)
		return a.StatusCode, answer
	}
	ask("CreateQueue", `{"QueueName":"q"}`)
	for name, policy := range map[string]string{
		attrPolicy:       `{}`,
		attrRedriveAllow: `{\"redrivePermission\":\"allowAll\"}`,
	} {
		padded := func(n int) string { // spaces are part of what is kept
			length := len(strings.ReplaceAll(policy, `\`, ""))
			return fmt.Sprintf(`{"QueueUrl":"q","Attributes":{"%s":"%s%s"}}`, name, policy, strings.Repeat(" ", n-length))
		}
		if status, answer := ask("SetQueueAttributes", padded(policyBytesMax)); status != 200 {
			t.Errorf("%s of %d bytes: %d %s", name, policyBytesMax, status, answer)
		}
		if status, answer := ask("SetQueueAttributes", padded(policyBytesMax+1)); status != 400 || !strings.Contains(answer, "#InvalidAttributeValue") {
			t.Errorf("%s of %d bytes: %d %s, want InvalidAttributeValue", name, policyBytesMax+1, status, answer)
		}
	}
}
