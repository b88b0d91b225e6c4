package sqs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
)

const (
	benchURL  = "http://localhost:9324/000000000000/orders"
	benchBody = `{"order":12345,"items":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}],"note":"a typical small message of about two hundred bytes, with some text in it so that it is not all structure: x"}`
)

func benchSendJSON() []byte {
	return fmt.Appendf(nil, `{"QueueUrl": %q, "MessageBody": %q, "MessageAttributes": {"type": {"DataType": "String", "StringValue": "order.created"}, "n": {"DataType": "Number", "StringValue": "17"}}}`, benchURL, benchBody)
}

func benchSendQuery() []byte {
	v := url.Values{"Action": {"SendMessage"}, "Version": {"2012-11-05"}, "QueueUrl": {benchURL}, "MessageBody": {benchBody}}
	for i, a := range [][3]string{{"type", "String", "order.created"}, {"n", "Number", "17"}} {
		p := fmt.Sprintf("MessageAttribute.%d.", i+1)
		v.Set(p+"Name", a[0])
		v.Set(p+"Value.DataType", a[1])
		v.Set(p+"Value.StringValue", a[2])
	}
	return []byte(v.Encode())
}

func benchBatchJSON() []byte {
	var entries []string
	for i := range 10 {
		entries = append(entries, fmt.Sprintf(`{"Id": "%d", "MessageBody": %q}`, i, benchBody))
	}
	return fmt.Appendf(nil, `{"QueueUrl": %q, "Entries": [%s]}`, benchURL, strings.Join(entries, ", "))
}

func BenchmarkDecode(b *testing.B) {
	for _, bc := range []struct {
		name   string
		body   []byte
		decode func([]byte, *arena, *params) error
	}{
		{"SendMessageJSON", benchSendJSON(), decodeJSON},
		{"SendMessageBatchJSON", benchBatchJSON(), decodeJSON},
		{"SendMessageQuery", benchSendQuery(), func(body []byte, a *arena, p *params) error {
			_, err := decodeQuery(body, a, p, nil)
			p.sortQuery()
			return err
		}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			var a arena
			var p params
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.body)))
			for b.Loop() {
				if err := bc.decode(bc.body, &a, &p); err != nil {
					b.Fatal(err)
				}
				p.reset()
				a.reset()
			}
		})
	}
}

// benchDeliveries returns messages as a real core gives them.
func benchDeliveries(b testing.TB, n int) []core.Delivery {
	client := frontendtest.NewEngine(b).Client(core.Principal{})
	ctx := context.Background()
	if _, _, err := client.Declare(ctx, "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		b.Fatal(err)
	}
	attributes := []core.Attribute{{Name: "type", Type: "String", Value: []byte("order.created")}, {Name: "n", Type: "Number", Value: []byte("17")}}
	for range n {
		if _, err := client.Publish(ctx, "q", []core.Message{{Body: []byte(benchBody), Attributes: attributes, Delay: -1}}, nil); err != nil {
			b.Fatal(err)
		}
	}
	got, err := client.Receive(ctx, "q", core.ReceiveOptions{Max: n, Visibility: time.Minute, Wait: 10 * time.Second}, nil)
	if err != nil || len(got) != n {
		b.Fatal(len(got), err)
	}
	return got
}

func BenchmarkEncodeReceive10(b *testing.B) {
	s, err := newServer(sameDoor(door{messages: &cannedCore{}}), time.Now().UnixMilli, Options{Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	deliveries := benchDeliveries(b, 10)
	for _, bc := range []struct {
		name   string
		xml    bool
		wanted systemName
		all    bool
	}{{"JSON", false, 0, false}, {"JSONAllAttributes", false, nameAll, true}, {"XML", true, 0, false}} {
		b.Run(bc.name, func(b *testing.B) {
			c := newCall(s)
			c.client = s.client
			if bc.all {
				c.params.messageNames = []text{text("All")}
			}
			b.ReportAllocs()
			for b.Loop() {
				c.answer = answer{b: c.answer.b[:0], xml: bc.xml}
				c.answer.open("ReceiveMessage")
				c.answer.beginList("Messages")
				for i := range deliveries {
					c.writeMessage(&deliveries[i], bc.wanted, false)
				}
				c.answer.endList()
				c.answer.close("ReceiveMessage", "id")
			}
		})
	}
}

// nullConn is a connection that nobody uses.
type nullConn struct{ net.Conn }

func (nullConn) SetWriteDeadline(time.Time) error { return nil }
func (nullConn) SetReadDeadline(time.Time) error  { return nil }
func (nullConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (nullConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }

// BenchmarkHandler is what the frontend costs a request, without fasthttp, the
// network and the core.
func BenchmarkHandler(b *testing.B) {
	canned := &cannedCore{deliveries: benchDeliveries(b, 10)}
	s, err := newServer(sameDoor(door{messages: canned, queues: canned}), time.Now().UnixMilli, Options{Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	handle := string(canned.AppendHandle(nil, core.Receipt{}))
	for _, bc := range []struct{ name, action, body string }{
		{"Send", "SendMessage", fmt.Sprintf(`{"QueueUrl": %q, "MessageBody": %q}`, benchURL, benchBody)},
		{"Receive", "ReceiveMessage", fmt.Sprintf(`{"QueueUrl": %q}`, benchURL)},
		{"Receive10", "ReceiveMessage", fmt.Sprintf(`{"QueueUrl": %q, "MaxNumberOfMessages": 10}`, benchURL)},
		{"Delete", "DeleteMessage", fmt.Sprintf(`{"QueueUrl": %q, "ReceiptHandle": %q}`, benchURL, handle)},
		{"SendBatch10", "SendMessageBatch", string(benchBatchJSON())},
	} {
		b.Run(bc.name, func(b *testing.B) {
			var rc fasthttp.RequestCtx
			rc.Init2(nullConn{}, nil, false)
			body := bytes.NewReader([]byte(bc.body))
			b.ReportAllocs()
			for b.Loop() {
				rc.Request.Reset()
				rc.Response.Reset()
				rc.Request.Header.SetMethod("POST")
				rc.Request.Header.Set("X-Amz-Target", targetPrefix+bc.action)
				rc.Request.Header.Set("Content-Type", contentJSON)
				body.Reset([]byte(bc.body))
				rc.Request.SetBodyStream(body, len(bc.body))
				s.handle(context.Background(), &rc)
				if rc.Response.StatusCode() != 200 {
					b.Fatalf("%d %s", rc.Response.StatusCode(), rc.Response.Body())
				}
			}
		})
	}
}

// BenchmarkWire is a request over loopback, by one client: the no-op server, and
// this frontend on a core that answers at once.
func BenchmarkWire(b *testing.B) {
	canned := &cannedCore{}
	whole, err := newServer(sameDoor(door{messages: canned, queues: canned}), time.Now().UnixMilli, Options{Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	noop, err := NewNoop(Options{Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	request := []byte(jsonRequest("SendMessage", fmt.Sprintf(`{"QueueUrl": %q, "MessageBody": %q}`, benchURL, benchBody)))
	for name, s := range map[string]*Server{"Noop": noop, "Send": whole} {
		b.Run(name, func(b *testing.B) {
			conn, err := net.Dial("tcp", listen(b, s))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			br := bufio.NewReader(conn)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				if err := discardAnswer(br); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// discardAnswer reads an answer with little cost of its own.
func discardAnswer(br *bufio.Reader) error {
	length := 0
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			_, err := br.Discard(length)
			return err
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, c := range bytes.TrimSpace(v) {
				length = length*10 + int(c-'0')
			}
		}
	}
}
