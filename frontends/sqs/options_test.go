package sqs

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
)

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"account":       {Account: "1234"},
		"letters":       {Account: "12345678901x"},
		"message limit": {MessageBytesMax: 17 << 20},
		"tiny messages": {MessageBytesMax: 1},
		"no scheme":     {URLBase: "example.org"},
		"other scheme":  {URLBase: "ftp://example.org"},
	} {
		if _, err := newServer(sameDoor(door{}), time.Now().UnixMilli, o); err == nil {
			t.Errorf("%s: %+v was taken", name, o)
		}
	}
}

func TestObserveHearsOfEachAction(t *testing.T) {
	type seen struct{ action, code string }
	var mu sync.Mutex
	var got []seen
	s := newTestServer(t, frontendtest.NewEngine(t), Options{Observe: func(action, code string, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if took <= 0 {
			t.Errorf("%s took %v", action, took)
		}
		got = append(got, seen{action, code})
	}})
	conn, err := net.Dial("tcp", listen(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	br := bufio.NewReader(conn)
	for _, r := range []string{jsonRequest("ListQueues", "{}"), jsonRequest("FooBar", "{}"), jsonRequest("SendMessage", "{}"), "GET /health HTTP/1.1\r\nHost: h\r\n\r\n"} {
		if _, err := io.WriteString(conn, r); err != nil {
			t.Fatal(err)
		}
		readAnswer(t, br)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []seen{{"ListQueues", ""}, {"SendMessage", "AWS.SimpleQueueService.NonExistentQueue"}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNoopAnswersTheHotActions(t *testing.T) {
	s, err := NewNoop(Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listen(t, s))
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{conn: conn, br: bufio.NewReader(conn)}
	defer p.HangUp()
	var sent struct{ MessageId, MD5OfMessageBody string }
	if err := p.do("SendMessage", map[string]string{"QueueUrl": "q", "MessageBody": "x"}, &sent); err != nil || sent.MessageId == "" || len(sent.MD5OfMessageBody) != 32 {
		t.Errorf("SendMessage: %+v %v", sent, err)
	}
	for _, n := range []int{1, 10} {
		var got struct {
			Messages []struct{ Body, MD5OfBody, ReceiptHandle string }
		}
		if err := p.do("ReceiveMessage", map[string]any{"QueueUrl": "q", "MaxNumberOfMessages": n}, &got); err != nil || len(got.Messages) != n {
			t.Fatalf("ReceiveMessage of %d: %+v %v", n, got, err)
		}
		var d digest
		if d.set([]byte(got.Messages[0].Body)); string(d[:]) != got.Messages[0].MD5OfBody {
			t.Errorf("the digest of the canned body is %s", got.Messages[0].MD5OfBody)
		}
	}
	var created struct{ QueueUrl string }
	if err := p.do("CreateQueue", map[string]string{"QueueName": "x"}, &created); err != nil || !strings.HasPrefix(created.QueueUrl, "http://") {
		t.Errorf("CreateQueue: %+v %v", created, err)
	}
	if err := p.do("DeleteMessage", map[string]string{"QueueUrl": "q", "ReceiptHandle": "x"}, nil); err != nil {
		t.Errorf("DeleteMessage: %v", err)
	}
	for _, batch := range []string{"SendMessageBatch", "DeleteMessageBatch"} {
		var done struct{ Successful []struct{ Id string } }
		if err := p.do(batch, map[string]string{}, &done); err != nil || len(done.Successful) != 10 {
			t.Errorf("%s: %+v %v", batch, done, err)
		}
	}
	if err := p.do("TagQueue", map[string]string{}, nil); err == nil || !strings.Contains(err.Error(), "UnknownOperation") {
		t.Errorf("TagQueue: %v", err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(refusal()))), nil); err != nil {
		t.Errorf("the refusal is no HTTP: %v", err)
	}
}

func TestCreateSeesQueuesOfTheOtherKind(t *testing.T) {
	engine := frontendtest.NewEngine(t)
	client := engine.Client(core.Principal{})
	for name, kind := range map[string]core.QueueKind{"a": core.KindFIFO, "a.fifo": core.KindStandard} {
		if _, _, err := client.Declare(t.Context(), name, core.DefaultQueueConfig(kind)); err != nil {
			t.Fatal(err)
		}
	}
	address := listen(t, newTestServer(t, engine, Options{}))
	for _, in := range []string{`{"QueueName":"a"}`, `{"QueueName":"a.fifo","Attributes":{"FifoQueue":"true"}}`} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, jsonRequest("CreateQueue", in)); err != nil {
			t.Fatal(err)
		}
		res, body := readAnswer(t, bufio.NewReader(conn))
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "different value for attribute FifoQueue") {
			t.Errorf("CreateQueue %s answers %d %s, want a refusal", in, res.StatusCode, body)
		}
	}
}
