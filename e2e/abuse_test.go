package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// The shape of the abuse.
const (
	abuseRSSGrowth  = 128 << 20 // bytes: how much of memory abuse may leave behind
	abuseConns      = 200
	abuseMutations  = 2000
	abuseAnswerMax  = 25 * time.Second // over the broker's limit for a header
	abuseAnnounced  = 1 << 30
	abuseHeaderSize = 1 << 20
	nestingDepth    = 100_000
)

// abused is a broker under abuse.
type abused struct {
	t      *testing.T
	n      *node
	client *raw
	queue  string
	before bench.Memory
}

func newAbused(t *testing.T) *abused {
	n := startNode(t, "--memory")
	a := &abused{t: t, n: n, client: dialRaw(t, n)}
	a.queue = a.client.createQueue(t, "q", nil)
	a.before, _ = bench.ProcessMemory(n.pid())
	return a
}

// stillWell wants the broker to be there, to work, and not to have kept memory.
func (a *abused) stillWell() {
	a.t.Helper()
	a.n.alive()
	client := dialRaw(a.t, a.n)
	if _, err := client.send(rawSend{QueueUrl: a.queue, MessageBody: "x"}); err != nil {
		a.t.Errorf("send after the abuse: %v", err)
	}
	if got, err := client.receive(a.queue, 1, 1); err != nil || len(got) != 1 {
		a.t.Errorf("receive after the abuse: %d messages, %v", len(got), err)
	}
	if mem, err := bench.ProcessMemory(a.n.pid()); err == nil && mem.Peak > a.before.RSS+abuseRSSGrowth {
		a.t.Errorf("the abuse took %d MiB of memory", (mem.Peak-a.before.RSS)>>20)
	}
	if log := a.n.log.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		a.t.Errorf("the log shows a panic:\n%s", log)
	}
}

// dial opens a bare connection.
func (a *abused) dial() net.Conn {
	a.t.Helper()
	conn, err := new(net.Dialer).DialContext(a.t.Context(), "tcp", a.n.sqs)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(abuseAnswerMax)); err != nil {
		a.t.Fatal(err)
	}
	return conn
}

// exchange writes wire and reads until the broker closes, or the first answer
// is whole. A broker that has closed before all is written is no error.
func (a *abused) exchange(wire []byte, halfClose bool) (status int, body string) {
	a.t.Helper()
	conn := a.dial()
	if _, err := conn.Write(wire); err != nil && !closedByPeer(err) {
		a.t.Fatalf("write: %v", err)
	}
	if halfClose {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	answer, err := bench.NewConn(conn, abuseAnswerMax).Read()
	switch {
	case err == nil:
		return answer.Status, string(answer.Body)
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.t.Errorf("%.60q was neither answered nor closed within %v", wire, abuseAnswerMax)
	case !errors.Is(err, io.EOF) && !closedByPeer(err):
		a.t.Errorf("%.60q: answer %v", wire, err)
	}
	return 0, ""
}

func closedByPeer(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// post is a whole JSON request with that body.
func (a *abused) post(action, body string) []byte {
	w := bench.Writer{Host: a.n.sqs, Protocol: bench.ProtocolJSON}
	return w.Request(action, []byte(body))
}

func TestGarbageIsRefused(t *testing.T) {
	a := newAbused(t)
	long := strings.Repeat("x", abuseHeaderSize)
	for name, c := range map[string]struct {
		wire []byte
		want []int // 0: closed without an answer
	}{
		"not HTTP":            {[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\r\n\r\n"), []int{0, 400}},
		"no end of line":      {[]byte(strings.Repeat("A", 100_000)), []int{0, 400, 431}},
		"binary":              {bytes.Repeat([]byte{0, 1, 2, 255}, 10_000), []int{0, 400, 431}},
		"a long path":         {[]byte("GET /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n"), []int{0, 400, 414, 431}},
		"a long header":       {[]byte("POST / HTTP/1.1\r\nHost: x\r\nX: " + long + "\r\n\r\n"), []int{0, 400, 431}},
		"many headers":        {[]byte("POST / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: b\r\n", 100_000) + "\r\n"), []int{0, 400, 431}},
		"a bad length":        {[]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"), []int{0, 400}},
		"a length of 1 GB":    {fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: %d\r\n\r\n{}", abuseAnnounced), []int{0, 400, 413}},
		"a huge length":       {[]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n"), []int{0, 400, 413}},
		"broken JSON":         {a.post("SendMessage", `{"QueueUrl":`), []int{400}},
		"JSON of no object":   {a.post("SendMessage", `[]`), []int{400}},
		"no JSON":             {a.post("SendMessage", "\x00\xff"), []int{400}},
		"deep JSON":           {a.post("SendMessage", `{"QueueUrl":`+strings.Repeat("[", nestingDepth)+strings.Repeat("]", nestingDepth)+`}`), []int{400}},
		"deep unknown":        {a.post("SendMessage", `{"X":`+strings.Repeat(`{"a":`, nestingDepth)+"1"+strings.Repeat("}", nestingDepth)+`}`), []int{400}},
		"wrong types":         {a.post("ReceiveMessage", `{"QueueUrl":7,"MaxNumberOfMessages":"x"}`), []int{400}},
		"no action":           {a.post("", `{}`), []int{400, 404}},
		"unknown action":      {a.post("DropTables", `{}`), []int{400}},
		"a body too large":    {a.post("SendMessage", `{"QueueUrl":"`+a.queue+`","MessageBody":"`+strings.Repeat("x", 2<<20)+`"}`), []int{400}},
		"a request too large": {a.post("SendMessage", `{"QueueUrl":"`+a.queue+`","MessageBody":"`+strings.Repeat("x", 20<<20)+`"}`), []int{0, 400, 413}},
	} {
		t.Run(name, func(t *testing.T) {
			in := *a
			in.t = t
			status, body := in.exchange(c.wire, false)
			for _, want := range c.want {
				if status == want {
					return
				}
			}
			t.Errorf("status %d %.200q, want one of %v", status, body, c.want)
		})
	}
	a.stillWell()
}

// TestTruncatedRequestsAreClosed cuts a good request at every so many bytes.
func TestTruncatedRequestsAreClosed(t *testing.T) {
	a := newAbused(t)
	whole := a.post("SendMessage", `{"QueueUrl":"`+a.queue+`","MessageBody":"cut"}`)
	for cut := 1; cut < len(whole); cut += 7 {
		if status, body := a.exchange(whole[:cut], true); status == 200 {
			t.Errorf("a request cut at %d of %d bytes was answered with 200 %s", cut, len(whole), body)
		}
	}
	if got, err := a.client.receive(a.queue, 10, 0); err != nil || len(got) > 0 {
		t.Errorf("%d messages came out of cut requests, %v", len(got), err)
	}
	a.stillWell()
}

// TestSlowHeadersHoldNobodyUp opens many connections that never finish their
// header: others are served meanwhile, and the broker closes the slow ones.
func TestSlowHeadersHoldNobodyUp(t *testing.T) {
	a := newAbused(t)
	var slow []net.Conn
	for range abuseConns {
		conn := a.dial()
		if _, err := conn.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	a.stillWell()
	for i, conn := range slow {
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("slow connection %d was not closed within %v", i, abuseAnswerMax)
		}
	}
	a.stillWell()
}

// TestSlowBodiesReserveNothing announces large bodies on many connections and
// sends nothing of them.
func TestSlowBodiesReserveNothing(t *testing.T) {
	a := newAbused(t)
	for range abuseConns {
		conn := a.dial()
		head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"+
			"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n{", 4<<20)
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
	}
	a.stillWell()
}

// TestMutatedRequestsAreAnswered changes good requests at random places. What
// comes back may be anything but silence and the end of the broker.
func TestMutatedRequestsAreAnswered(t *testing.T) {
	a, r := newAbused(t), newRand(t)
	form := "Action=SendMessage&Version=2012-11-05&QueueUrl=" + a.queue + "&MessageBody=abc" +
		"&MessageAttribute.1.Name=n&MessageAttribute.1.Value.StringValue=v&MessageAttribute.1.Value.DataType=String"
	seeds := [][]byte{
		a.post("SendMessage", `{"QueueUrl":"`+a.queue+`","MessageBody":"abc","MessageAttributes":{"n":{"DataType":"Binary","BinaryValue":"AAE="}}}`),
		a.post("SendMessageBatch", `{"QueueUrl":"`+a.queue+`","Entries":[{"Id":"0","MessageBody":"a"},{"Id":"1","MessageBody":"b","DelaySeconds":3}]}`),
		a.post("ReceiveMessage", `{"QueueUrl":"`+a.queue+`","MaxNumberOfMessages":10,"WaitTimeSeconds":0,"VisibilityTimeout":0}`),
		a.post("CreateQueue", `{"QueueName":"other","Attributes":{"DelaySeconds":"1","VisibilityTimeout":"2"}}`),
		fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(form), form),
	}
	for i := range seeds {
		seeds[i] = bytes.Clone(seeds[i]) // post uses one buffer a writer
	}
	for range abuseMutations {
		wire := mutate(r, bytes.Clone(seeds[r.IntN(len(seeds))]))
		a.exchange(wire, true)
		a.n.alive()
	}
	if err := a.client.call("PurgeQueue", map[string]any{"QueueUrl": a.queue}, nil); err != nil {
		t.Errorf("purge: %v", err)
	}
	a.stillWell()
}

// mutate changes one to four places of b. Waits stay short: "20" would be a
// long poll.
func mutate(r *rand.Rand, b []byte) []byte {
	for range 1 + r.IntN(4) {
		i := r.IntN(len(b))
		switch r.IntN(4) {
		case 0:
			b[i] = byte(r.Uint32())
		case 1:
			b = append(b[:i], b[min(len(b), i+1+r.IntN(8)):]...)
		case 2:
			b = append(b[:i], append(bytes.Repeat([]byte{b[i]}, 1+r.IntN(100)), b[i:]...)...)
		case 3:
			b[i] = "{}[]\",:&=%\r\n\x00"[r.IntN(13)]
		}
		if len(b) == 0 {
			return []byte("x")
		}
	}
	return b
}
