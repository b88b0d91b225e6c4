package sqs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/frontendtest"
)

func TestConformance(t *testing.T) { frontendtest.Run(t, wireAdapter{}) }

type wireAdapter struct{}

func (wireAdapter) Frontend(t testing.TB, e *core.Engine) frontends.Frontend {
	return newTestServer(t, e, Options{})
}

func (wireAdapter) MessageBytesMax() int { return defaultMessageBytesMax }

func (wireAdapter) Dial(t testing.TB, address string) frontendtest.Peer {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return &peer{conn: c, br: bufio.NewReader(c)}
}

// peer speaks AWS JSON on one connection.
type peer struct {
	conn net.Conn
	br   *bufio.Reader
}

func (p *peer) HangUp() { _ = p.conn.Close() }

func (p *peer) do(action string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(p.conn, jsonRequest(action, string(body))); err != nil {
		return err
	}
	a, err := http.ReadResponse(p.br, nil)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(a.Body)
	if err != nil {
		return err
	}
	if a.StatusCode != 200 {
		return fmt.Errorf("%d %s", a.StatusCode, answer)
	}
	if len(answer) == 0 {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (p *peer) Send(queue string, body []byte) error {
	return p.do("SendMessage", map[string]any{"QueueUrl": queue, "MessageBody": string(body)}, &struct{}{})
}

func (p *peer) Receive(queue string, wait time.Duration) (frontendtest.Message, bool, error) {
	var out struct {
		Messages []struct {
			Body, ReceiptHandle string
			Attributes          map[string]string
		}
	}
	err := p.do("ReceiveMessage", map[string]any{
		"QueueUrl": queue, "WaitTimeSeconds": min(int(wait/time.Second), waitSecondsMax),
		"MessageSystemAttributeNames": []string{"ApproximateReceiveCount"},
	}, &out)
	if err != nil || len(out.Messages) == 0 {
		return frontendtest.Message{}, false, err
	}
	m := out.Messages[0]
	return frontendtest.Message{
		Queue: queue, Body: []byte(m.Body), Token: m.ReceiptHandle,
		Redelivered: m.Attributes["ApproximateReceiveCount"] != "1",
	}, true, nil
}

func (p *peer) Ack(m frontendtest.Message) error {
	return p.do("DeleteMessage", map[string]any{"QueueUrl": m.Queue, "ReceiptHandle": m.Token}, nil)
}
