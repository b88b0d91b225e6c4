package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gostomp "github.com/go-stomp/stomp/v3"
)

// TestSTOMPClientGo drives the broker with go-stomp in each version of STOMP.
func TestSTOMPClientGo(t *testing.T) {
	n := startNode(t, "--memory")
	for _, version := range []gostomp.Version{gostomp.V10, gostomp.V11, gostomp.V12} {
		t.Run(version.String(), func(t *testing.T) {
			g := &goClient{t: t, n: n, version: version, queue: "/queue/go" + version.String()}
			g.contents()
			g.ackModes()
			g.nackAndTransactions()
		})
	}
	n.alive()
}

type goClient struct {
	t       *testing.T
	n       *node
	version gostomp.Version
	queue   string
}

func (g *goClient) open() *gostomp.Conn {
	g.t.Helper()
	conn, err := gostomp.Dial("tcp", g.n.stomp, gostomp.ConnOpt.AcceptVersion(g.version), gostomp.ConnOpt.HeartBeat(time.Second, time.Second))
	if err != nil {
		g.t.Fatal(err)
	}
	return conn
}

func (g *goClient) close(conn *gostomp.Conn) {
	g.t.Helper()
	if err := conn.Disconnect(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *goClient) send(conn *gostomp.Conn, body string) {
	g.t.Helper()
	if err := conn.Send(g.queue, "text/plain", []byte(body), gostomp.SendOpt.Receipt, gostomp.SendOpt.Header("umlaut", "Zürich"), gostomp.SendOpt.Header("empty", "")); err != nil {
		g.t.Fatal(err)
	}
}

// take subscribes and takes messages with those bodies.
func (g *goClient) take(conn *gostomp.Conn, mode gostomp.AckMode, bodies ...string) []*gostomp.Message {
	g.t.Helper()
	sub, err := conn.Subscribe(g.queue, mode)
	if err != nil {
		g.t.Fatal(err)
	}
	var all []*gostomp.Message
	for _, body := range bodies {
		select {
		case m := <-sub.C:
			if m.Err != nil || string(m.Body) != body || m.Header.Get("umlaut") != "Zürich" || m.ContentType != "text/plain" {
				g.t.Fatalf("got %.100q %v, error %v; want %.100q", m.Body, m.Header, m.Err, body)
			}
			all = append(all, m)
		case <-time.After(stompTimeout):
			g.t.Fatalf("%.100q did not come", body)
		}
	}
	return all
}

func (g *goClient) contents() {
	conn := g.open()
	bodies := []string{"", "ascii", "Zürich € 😀", "with\x00null", "\n\nlines\r\n", strings.Repeat("x", 1_000_000), string([]byte{0, 1, 254, 255})}
	for _, body := range bodies {
		g.send(conn, body)
	}
	g.take(conn, gostomp.AckAuto, bodies...)
	g.close(conn)
}

func (g *goClient) ackModes() {
	conn := g.open()
	for _, body := range []string{"0", "1", "2", "3"} {
		g.send(conn, body)
	}
	got := g.take(conn, gostomp.AckClientIndividual, "0", "1", "2", "3")
	if err := conn.Ack(got[2]); err != nil {
		g.t.Fatal(err)
	}
	g.close(conn)
	conn = g.open()
	got = g.take(conn, gostomp.AckClient, "0", "1", "3")
	if err := conn.Ack(got[1]); err != nil { // and 0
		g.t.Fatal(err)
	}
	g.close(conn)
	conn = g.open()
	g.take(conn, gostomp.AckAuto, "3")
	g.close(conn)
}

func (g *goClient) nackAndTransactions() {
	conn := g.open()
	g.send(conn, "a")
	m := g.take(conn, gostomp.AckClientIndividual, "a")[0]
	for _, keep := range []bool{false, true} {
		tx := conn.Begin()
		err := tx.Send(g.queue+"-out", "text/plain", fmt.Append(nil, keep), gostomp.SendOpt.Header("umlaut", "Zürich"))
		if err == nil {
			err = tx.Ack(m)
		}
		if err == nil && keep {
			err = tx.CommitWithReceipt()
		} else if err == nil {
			err = tx.AbortWithReceipt()
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
	if g.version != gostomp.V10 { // the client has no NACK there
		g.send(conn, "b")
		m = <-m.Subscription.C
		if err := conn.Nack(m); err != nil {
			g.t.Fatal(err)
		}
		m = <-m.Subscription.C
		if string(m.Body) != "b" || m.Header.Get("redelivered") != "true" {
			g.t.Errorf("after NACK: %q %v", m.Body, m.Header)
		}
		if err := conn.Ack(m); err != nil {
			g.t.Fatal(err)
		}
	}
	g.close(conn)
	conn = g.open()
	g.queue += "-out"
	g.take(conn, gostomp.AckAuto, "true")
	g.close(conn)
}

// TestFromSQSToSTOMP sends with SQS and consumes with STOMP.
func TestFromSQSToSTOMP(t *testing.T) {
	n := startNode(t, "--memory")
	sqs, stomp := dialRaw(t, n), dialSTOMP(t, n.stomp)
	plain := sqs.createQueue(t, "plain", nil)
	stomp.subscribe(t, "plain", "client-individual")
	sent, err := sqs.send(rawSend{QueueUrl: plain, MessageBody: "Zürich", MessageAttributes: map[string]rawAttribute{
		"city": {DataType: "String", StringValue: "a:b\nc\\"}, "count": {DataType: "Number.int", StringValue: "7"},
		"raw": {DataType: "Binary", BinaryValue: []byte{0, 255}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := stomp.next(t)
	wantHeaders(t, m, map[string]string{
		"city": "a:b\nc\\", "count": "7", "raw": base64.StdEncoding.EncodeToString([]byte{0, 255}), "destination": "/queue/plain",
		"redelivered": "false", "JMSXDeliveryCount": "1", "x-delivery-count": "0", "subscription": "plain",
	})
	if m.body != "Zürich" || !strings.HasPrefix(m.headers["message-id"], sent.MessageId) {
		t.Errorf("got %+v, want the body, and the id %s", m, sent.MessageId)
	}
	stomp.must(t, "ACK", "", "id", m.headers["ack"])
	if a := sqs.attributes(t, plain); a["ApproximateNumberOfMessages"] != "0" || a["ApproximateNumberOfMessagesNotVisible"] != "0" {
		t.Errorf("after the ACK: %v", a)
	}
	// A delay, and a group.
	began := time.Now()
	if _, err := sqs.send(rawSend{QueueUrl: plain, MessageBody: "late", DelaySeconds: 1}); err != nil {
		t.Fatal(err)
	}
	if m = stomp.next(t); m.body != "late" || time.Since(began) < 900*time.Millisecond {
		t.Errorf("%q came after %v", m.body, time.Since(began))
	}
	fifo := sqs.createQueue(t, "f.fifo", map[string]string{"FifoQueue": "true"})
	for _, body := range []string{"1", "2"} {
		if _, err := sqs.send(rawSend{QueueUrl: fifo, MessageBody: body, MessageGroupId: "g", MessageDeduplicationId: body}); err != nil {
			t.Fatal(err)
		}
	}
	stomp.subscribe(t, "f.fifo", "client-individual")
	for _, body := range []string{"1", "2"} {
		m := stomp.next(t)
		wantHeaders(t, m, map[string]string{"JMSXGroupID": "g"})
		if m.body != body {
			t.Errorf("got %q of the group, want %q", m.body, body)
		}
		stomp.must(t, "ACK", "", "id", m.headers["ack"])
	}
}

func wantHeaders(t *testing.T, m stompFrame, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got, there := m.headers[name]; !there || got != value {
			t.Errorf("header %s is %q, want %q, of %+v", name, got, value, m)
		}
	}
}

// TestFromSTOMPToSQS sends with STOMP and receives with SQS.
func TestFromSTOMPToSQS(t *testing.T) {
	n := startNode(t, "--memory")
	sqs, stomp := dialRaw(t, n), dialSTOMP(t, n.stomp)
	stomp.must(t, "SEND", "Zürich", "destination", "/queue/plain", "city", "a:b\nc\\", "content-type", "text/plain", "priority", "7")
	queue := n.url() + "/000000000000/plain"
	got, err := sqs.receive(queue, 10, 5)
	if err != nil || len(got) != 1 || got[0].Body != "Zürich" || got[0].MessageAttributes["city"].StringValue != "a:b\nc\\" ||
		got[0].Attributes["ApproximateReceiveCount"] != "1" {
		t.Fatalf("got %+v, %v", got, err)
	}
	// What SQS holds, STOMP does not get; what SQS gives back, it gets.
	stomp.subscribe(t, "plain", "client-individual")
	if err := sqs.setVisibility(queue, got[0].ReceiptHandle, 0); err != nil {
		t.Fatal(err)
	}
	m := stomp.next(t)
	wantHeaders(t, m, map[string]string{
		"redelivered": "true", "JMSXDeliveryCount": "2", "content-type": "text/plain", "priority": "7", "city": "a:b\nc\\",
	})
	if !strings.HasPrefix(m.headers["message-id"], got[0].MessageId) {
		t.Errorf("message-id %s, want %s", m.headers["message-id"], got[0].MessageId)
	}
	stomp.must(t, "ACK", "", "id", m.headers["ack"])

	began := time.Now()
	stomp.must(t, "SEND", "late", "destination", "/queue/delayed", "AMQ_SCHEDULED_DELAY", "1000")
	got, err = sqs.receive(n.url()+"/000000000000/delayed", 1, 5)
	if err != nil || len(got) != 1 || time.Since(began) < 900*time.Millisecond {
		t.Errorf("got %+v, %v after %v", got, err, time.Since(began))
	}
	for _, body := range []string{"1", "2", "2"} { // the third is a duplicate
		stomp.must(t, "SEND", body, "destination", "/queue/g.fifo", "JMSXGroupID", "g", "_AMQ_DUPL_ID", body)
	}
	got, err = sqs.receive(n.url()+"/000000000000/g.fifo", 10, 2)
	if err != nil || len(got) != 2 || got[0].Body != "1" || got[1].Body != "2" || got[0].Attributes["MessageGroupId"] != "g" ||
		got[0].Attributes["MessageDeduplicationId"] != "1" {
		t.Errorf("got %+v, %v; want both of the group in order", got, err)
	}
	if bytes.Contains([]byte(n.log.String()), []byte("panic")) {
		t.Error(n.log)
	}
}

// TestDeadLettersCrossProtocols has messages of SQS end in a dead-letter queue by
// NACK, and some of STOMP by receives of SQS.
func TestDeadLettersCrossProtocols(t *testing.T) {
	n := startNode(t, "--memory")
	sqs, stomp := dialRaw(t, n), dialSTOMP(t, n.stomp)
	dead := sqs.createQueue(t, "dead", nil)
	arn := sqs.attributes(t, dead)["QueueArn"]
	work := sqs.createQueue(t, "work", map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, arn), "VisibilityTimeout": "30",
	})
	stomp.subscribe(t, "work", "client-individual")
	for _, body := range []string{"rejected", "failed"} {
		if _, err := sqs.send(rawSend{QueueUrl: work, MessageBody: body}); err != nil {
			t.Fatal(err)
		}
		m := stomp.next(t)
		if body == "rejected" {
			stomp.must(t, "NACK", "", "id", m.headers["ack"], "requeue", "false")
			continue
		}
		stomp.must(t, "NACK", "", "id", m.headers["ack"])
		stomp.must(t, "NACK", "", "id", stomp.next(t).headers["ack"])
	}
	stomp.must(t, "UNSUBSCRIBE", "", "id", "work")
	var bodies []string
	for range 2 {
		got, err := sqs.receive(dead, 1, 5)
		if err != nil || len(got) != 1 {
			t.Fatalf("dead letters: %+v, %v", got, err)
		}
		bodies = append(bodies, got[0].Body)
		if err := sqs.delete(dead, got[0].ReceiptHandle); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(bodies, []string{"rejected", "failed"}) {
		t.Errorf("dead letters %q", bodies)
	}
	stomp.must(t, "SEND", "poison", "destination", "/queue/work", "own", "x")
	for range 2 {
		got, err := sqs.receive(work, 1, 5)
		if err != nil || len(got) != 1 {
			t.Fatalf("got %+v, %v", got, err)
		}
		if err := sqs.setVisibility(work, got[0].ReceiptHandle, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := sqs.receive(work, 1, 0); err != nil || len(got) != 0 {
		t.Fatalf("received for the third time: %+v, %v", got, err)
	}
	stomp.subscribe(t, "dead", "auto")
	m := stomp.next(t)
	wantHeaders(t, m, map[string]string{
		"own": "x", "original-destination": "/queue/work", "x-first-death-queue": "work", "x-first-death-reason": "delivery_limit",
	})
}

// TestSQSDrainsADurableSubscription subscribes to a topic durably, and has an SQS
// client receive what is published.
func TestSQSDrainsADurableSubscription(t *testing.T) {
	n := startNode(t, "--memory")
	sqs, stomp := dialRaw(t, n), dialSTOMP(t, n.stomp)
	stomp.must(t, "SUBSCRIBE", "", "id", "s", "destination", "/topic/orders.*", "ack", "client", "durable", "true", "auto-delete", "false", "x-queue-name", "orders")
	stomp.must(t, "DISCONNECT", "")
	sender := dialSTOMP(t, n.stomp)
	sender.must(t, "SEND", "other", "destination", "/topic/bills.eu")
	for _, body := range []string{"1", "2"} {
		sender.must(t, "SEND", body, "destination", "/topic/orders.eu", "city", "Zürich")
	}
	queue := n.url() + "/000000000000/orders"
	for _, body := range []string{"1", "2"} {
		got, err := sqs.receive(queue, 1, 5)
		if err != nil || len(got) != 1 || got[0].Body != body || got[0].MessageAttributes["city"].StringValue != "Zürich" {
			t.Fatalf("got %+v, %v; want %s", got, err, body)
		}
		if err := sqs.delete(queue, got[0].ReceiptHandle); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := sqs.receive(queue, 1, 0); err != nil || len(got) != 0 {
		t.Errorf("one too many: %+v, %v", got, err)
	}
}
