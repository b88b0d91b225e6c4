package sqs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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

// What users of other servers suffered from and a transcript cannot show: many
// clients at once, restarts, deep queues. The rest is in testdata/wishes.txt.

// dialer has a connection for each of its peers.
func dialer(t *testing.T, s *Server) func() *peer {
	address := listen(t, s)
	return func() *peer {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &peer{conn: conn, br: bufio.NewReader(conn)}
	}
}

func (p *peer) mustDo(t *testing.T, action string, in, out any) {
	t.Helper()
	if out == nil {
		out = &struct{}{}
	}
	if err := p.do(action, in, out); err != nil {
		t.Fatalf("%s: %v", action, err)
	}
}

// Receivers that ask at the same time are never given one group at once, and its
// messages come in order.
func TestOneGroupIsGivenToOneReceiverAtATime(t *testing.T) {
	defer ranCases.note(t)
	const messages, receivers = 40, 8
	dial := dialer(t, newTestServer(t, frontendtest.NewEngine(t), Options{}))
	p := dial()
	p.mustDo(t, "CreateQueue", map[string]any{"QueueName": "q.fifo", "Attributes": map[string]string{"FifoQueue": "true"}}, nil)
	for i := range messages {
		p.mustDo(t, "SendMessage", map[string]any{"QueueUrl": "q.fifo", "MessageBody": fmt.Sprintf("m%02d", i), "MessageGroupId": "g", "MessageDeduplicationId": fmt.Sprint(i)}, nil)
	}
	var mu sync.Mutex
	var held, got []string
	var done sync.WaitGroup
	for range receivers {
		p := dial()
		done.Go(func() {
			for {
				m, ok, err := p.Receive("q.fifo", time.Second)
				if err != nil || !ok {
					if err != nil {
						t.Errorf("receive: %v", err)
					}
					return
				}
				mu.Lock()
				if held = append(held, string(m.Body)); len(held) > 1 {
					t.Errorf("held at once: %v", held)
				}
				got = append(got, string(m.Body))
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				held = held[:0]
				mu.Unlock()
				if err := p.Ack(m); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	done.Wait()
	if len(got) != messages {
		t.Fatalf("received %d messages, want %d", len(got), messages)
	}
	for i, body := range got {
		if body != fmt.Sprintf("m%02d", i) {
			t.Fatalf("the order is %v", got)
		}
	}
}

// Any number of long polls holds up nobody else, on their queue or another.
func TestParkedPollsHoldNobodyUp(t *testing.T) {
	defer ranCases.note(t)
	inBubble(t, Options{}, func(t *testing.T, dial func() net.Conn) {
		newPeer := func() *peer {
			c := dial()
			return &peer{conn: c, br: bufio.NewReader(c)}
		}
		p := newPeer()
		for _, name := range []string{"polled", "other"} {
			p.mustDo(t, "CreateQueue", map[string]any{"QueueName": name}, nil)
		}
		var polls sync.WaitGroup
		for range 100 {
			poller := newPeer()
			polls.Go(func() { _, _, _ = poller.Receive("polled", 20*time.Second) })
		}
		synctest.Wait()
		start := time.Now()
		for range 20 {
			p.mustDo(t, "SendMessage", map[string]any{"QueueUrl": "other", "MessageBody": "x"}, nil)
			m, ok, err := p.Receive("other", 0)
			if err != nil || !ok {
				t.Fatalf("received %v, %v", ok, err)
			}
			if err := p.Ack(m); err != nil {
				t.Fatal(err)
			}
			p.mustDo(t, "GetQueueAttributes", map[string]any{"QueueUrl": "polled", "AttributeNames": []string{"All"}}, nil)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v beside parked polls", took)
		}
		polls.Wait()
	})
}

// A queue that is deleted, purged and created again under its senders and
// receivers costs them no more than an error that says so.
func TestQueuesComeAndGoUnderTheirUsers(t *testing.T) {
	defer ranCases.note(t)
	dial := dialer(t, newTestServer(t, frontendtest.NewEngine(t), Options{RelaxedLimits: true}))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	allowed := func(what string, err error) {
		if err != nil && !strings.Contains(err.Error(), "QueueDoesNotExist") {
			t.Errorf("%s: %v", what, err)
		}
	}
	var users sync.WaitGroup
	for i := range 6 {
		p := dial()
		users.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					allowed("send", p.Send("q", []byte("x")))
					continue
				}
				m, ok, err := p.Receive("q", time.Second)
				if allowed("receive", err); ok {
					// Its queue may be another incarnation by now.
					if err := p.Ack(m); err != nil && !strings.Contains(err.Error(), "ReceiptHandleIsInvalid") {
						allowed("delete", err)
					}
				}
			}
		})
	}
	owner := dial()
	for i := 0; ctx.Err() == nil; i++ {
		owner.mustDo(t, "CreateQueue", map[string]any{"QueueName": "q"}, nil)
		time.Sleep(2 * time.Millisecond)
		action := []string{"DeleteQueue", "PurgeQueue"}[i%2]
		owner.mustDo(t, action, map[string]any{"QueueUrl": "q"}, nil)
	}
	owner.mustDo(t, "CreateQueue", map[string]any{"QueueName": "q"}, nil)
	for range 6 {
		_ = owner.Send("q", []byte("for who still polls"))
	}
	users.Wait()
}

// A group with a deep backlog is read as any other: nothing walks through it.
func TestDeepGroupIsReadInSteps(t *testing.T) {
	defer ranCases.note(t)
	const backlog, batch = 20_000, 100
	engine := frontendtest.NewEngine(t)
	client := engine.Client(core.Principal{})
	if _, _, err := client.Declare(t.Context(), "q.fifo", core.DefaultQueueConfig(core.KindFIFO)); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < backlog; i += batch {
		var msgs []core.Message
		for j := range batch {
			msgs = append(msgs, core.Message{Body: []byte("x"), Group: "g", DedupID: fmt.Sprint(i + j), Delay: -1})
		}
		if _, err := client.Publish(t.Context(), "q.fifo", msgs, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := dialer(t, newTestServer(t, engine, Options{}))()
	start := time.Now()
	for range 200 {
		var got struct {
			Messages []struct{ ReceiptHandle string }
		}
		p.mustDo(t, "ReceiveMessage", map[string]any{"QueueUrl": "q.fifo", "MaxNumberOfMessages": 10}, &got)
		if len(got.Messages) != 10 {
			t.Fatalf("received %d messages", len(got.Messages))
		}
		var entries []map[string]string
		for i, m := range got.Messages {
			entries = append(entries, map[string]string{"Id": fmt.Sprint(i), "ReceiptHandle": m.ReceiptHandle})
		}
		p.mustDo(t, "DeleteMessageBatch", map[string]any{"QueueUrl": "q.fifo", "Entries": entries}, nil)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("200 receives of %d messages took %v", backlog, took)
	}
}

// restartable is a node that is stopped and started on the same files.
type restartable struct {
	t    *testing.T
	fs   vfs.FS
	stop func()
}

func (r *restartable) start() *peer {
	r.t.Helper()
	db, boot, err := storage.Open(storage.Options{Dir: "data", FS: r.fs, Logger: quiet()})
	if err != nil {
		r.t.Fatal(err)
	}
	engine, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot, Logger: quiet()})
	if err != nil {
		r.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	s := newTestServer(r.t, engine, Options{})
	go func() { served <- s.Serve(ctx, ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.stop = func() {
		_ = conn.Close()
		cancel()
		if err := errors.Join(<-served, engine.Close(), db.Close()); err != nil {
			r.t.Error(err)
		}
	}
	return &peer{conn: conn, br: bufio.NewReader(conn)}
}

// What was deleted from a dead-letter queue stays deleted, and what was set stays
// set, when the node starts again.
func TestRestartForgetsAndRevivesNothing(t *testing.T) {
	defer ranCases.note(t)
	r := &restartable{t: t, fs: vfs.NewMem()}
	p := r.start()
	p.mustDo(t, "CreateQueue", map[string]any{"QueueName": "dlq", "tags": map[string]string{"a": "1", "b": "2"}}, nil)
	p.mustDo(t, "CreateQueue", map[string]any{"QueueName": "q", "Attributes": map[string]string{
		"VisibilityTimeout": "0", "RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dlq","maxReceiveCount":1}`,
	}}, nil)
	p.mustDo(t, "UntagQueue", map[string]any{"QueueUrl": "dlq", "TagKeys": []string{"a"}}, nil)
	p.mustDo(t, "AddPermission", map[string]any{"QueueUrl": "q", "Label": "l", "AWSAccountIds": []string{"111122223333"}, "Actions": []string{"*"}}, nil)
	for _, body := range []string{"kept", "deleted"} {
		if err := p.Send("q", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // the receives that are one too many move them
		if _, _, err := p.Receive("q", 0); err != nil {
			t.Fatal(err)
		}
	}
	var kept string
	for _, body := range []string{"kept", "deleted"} {
		m, ok, err := p.Receive("dlq", 5*time.Second)
		if err != nil || !ok || string(m.Body) != body {
			t.Fatalf("received %q, %v, %v from the dead-letter queue", m.Body, ok, err)
		}
		if body == "deleted" {
			if err := p.Ack(m); err != nil {
				t.Fatal(err)
			}
			continue
		}
		kept = m.Token
	}
	p.mustDo(t, "ChangeMessageVisibility", map[string]any{"QueueUrl": "dlq", "ReceiptHandle": kept, "VisibilityTimeout": 0}, nil)
	r.stop()
	p = r.start()
	defer func() { r.stop() }()
	m, ok, err := p.Receive("dlq", 5*time.Second)
	if err != nil || !ok || string(m.Body) != "kept" {
		t.Fatalf("received %q, %v, %v", m.Body, ok, err)
	}
	if m, ok, err := p.Receive("dlq", 0); err != nil || ok {
		t.Errorf("%q is back, %v", m.Body, err)
	}
	var got struct {
		QueueURLs  []string          `json:"queueUrls"`
		Tags       map[string]string `json:"Tags"`
		Attributes map[string]string `json:"Attributes"`
	}
	p.mustDo(t, "ListDeadLetterSourceQueues", map[string]any{"QueueUrl": "dlq"}, &got)
	p.mustDo(t, "ListQueueTags", map[string]any{"QueueUrl": "dlq"}, &got)
	p.mustDo(t, "GetQueueAttributes", map[string]any{"QueueUrl": "q", "AttributeNames": []string{"All"}}, &got)
	if len(got.QueueURLs) != 1 || !strings.HasSuffix(got.QueueURLs[0], "/q") {
		t.Errorf("sources: %v", got.QueueURLs)
	}
	if len(got.Tags) != 1 || got.Tags["b"] != "2" {
		t.Errorf("tags: %v", got.Tags)
	}
	if !strings.Contains(got.Attributes["Policy"], `"Sid":"l"`) || got.Attributes["VisibilityTimeout"] != "0" {
		t.Errorf("attributes: %v", got.Attributes)
	}
}

// Both protocols are understood on one connection, whatever a client sends next.
func TestProtocolsShareAConnection(t *testing.T) {
	defer ranCases.note(t)
	p := dialer(t, newTestServer(t, frontendtest.NewEngine(t), Options{}))()
	for range 3 {
		p.mustDo(t, "CreateQueue", map[string]any{"QueueName": "q"}, nil)
		for accept, want := range map[string]string{"*/*": "<GetQueueUrlResponse", "application/json": `{"GetQueueUrlResponse"`} {
			if _, err := fmt.Fprintf(p.conn, "GET /?Action=GetQueueUrl&QueueName=q HTTP/1.1\r\nHost: h\r\nAccept: %s\r\n\r\n", accept); err != nil {
				t.Fatal(err)
			}
			a, err := http.ReadResponse(p.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(a.Body)
			if err != nil || a.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
				t.Errorf("answered %d %s, %v", a.StatusCode, body, err)
			}
		}
	}
}

// A receipt handle that was given before a restart deletes its message after it.
func TestHandlesOutliveARestart(t *testing.T) {
	defer ranCases.note(t)
	r := &restartable{t: t, fs: vfs.NewMem()}
	p := r.start()
	p.mustDo(t, "CreateQueue", map[string]any{"QueueName": "q"}, nil)
	if err := p.Send("q", []byte("x")); err != nil {
		t.Fatal(err)
	}
	m, ok, err := p.Receive("q", 5*time.Second)
	if err != nil || !ok {
		t.Fatalf("received %v, %v", ok, err)
	}
	r.stop()
	p = r.start()
	defer func() { r.stop() }()
	if err := p.Ack(m); err != nil {
		t.Fatal(err)
	}
	var got struct{ Attributes map[string]string }
	p.mustDo(t, "GetQueueAttributes", map[string]any{"QueueUrl": "q", "AttributeNames": []string{"All"}}, &got)
	if a := got.Attributes; a["ApproximateNumberOfMessages"] != "0" || a["ApproximateNumberOfMessagesNotVisible"] != "0" {
		t.Errorf("the message is still there: %v", a)
	}
}

// A standard queue has so many messages in flight and no more: a receive that does
// not wait is told so, one that waits finds nothing.
func TestInFlightLimit(t *testing.T) {
	defer ranCases.note(t)
	const batch = 1000
	engine := frontendtest.NewEngine(t)
	client := engine.Client(core.Principal{})
	if _, _, err := client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	msgs := make([]core.Message, batch)
	for i := range msgs {
		msgs[i] = core.Message{Body: []byte("x"), Delay: -1}
	}
	for n := 0; n <= core.InFlightMax; n += batch {
		if _, err := client.Publish(t.Context(), "q", msgs, nil); err != nil {
			t.Fatal(err)
		}
	}
	var last core.Receipt
	for n := 0; n < core.InFlightMax; {
		got, err := client.Receive(t.Context(), "q", core.ReceiveOptions{Max: batch, Visibility: time.Hour, Wait: 5 * time.Second}, nil)
		if err != nil || len(got) == 0 {
			t.Fatalf("received %d messages after %d, %v", len(got), n, err)
		}
		n += len(got)
		last = got[0].Receipt
	}
	p := dialer(t, newTestServer(t, engine, Options{}))()
	if _, ok, err := p.Receive("q", 0); ok || err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "OverLimit") {
		t.Errorf("a receive that does not wait: %v, %v", ok, err)
	}
	if _, ok, err := p.Receive("q", time.Second); ok || err != nil {
		t.Errorf("a receive that waits: %v, %v", ok, err)
	}
	if _, err := client.Settle(t.Context(), "q", []core.Settlement{{Receipt: last, Action: core.SettleDelete}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := p.Receive("q", 0); !ok || err != nil {
		t.Errorf("a receive after a delete: %v, %v", ok, err)
	}
}
