package stomp

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/frontendtest"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

func TestConformance(t *testing.T) { frontendtest.Run(t, wireAdapter{}) }

type wireAdapter struct{}

func (wireAdapter) Frontend(t testing.TB, e *core.Engine) frontends.Frontend {
	s, err := New(e, Options{Logger: quiet(), BodyBytesMax: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (wireAdapter) MessageBytesMax() int { return 1 << 20 }

func (wireAdapter) Dial(t testing.TB, address string) frontendtest.Peer {
	p, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// peer is a client of 1.2 that has one message at a time.
type peer struct {
	conn    net.Conn
	reader  *frame.Reader
	n       int
	waiting []frontendtest.Message // that came while something else was awaited
	subs    map[string]bool
}

func dialPeer(address string) (*peer, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &peer{conn: conn, subs: map[string]bool{}}
	p.reader = frame.NewReader(conn, frame.Limits{CommandBytes: 32, HeaderBytes: 64 << 10, Headers: 128, BodyBytes: 16 << 20})
	if err := p.write(&frame.Frame{Command: frame.Connect, Headers: headers("accept-version", "1.2", "host", "localhost")}); err != nil {
		return nil, err
	}
	if f, err := p.reader.Read(); err != nil || f.Command != frame.Connected {
		return nil, fmt.Errorf("connect: %v, error %w", f, err)
	}
	p.reader.SetVersion(frame.V12)
	return p, nil
}

func headers(pairs ...string) (out []frame.Header) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, frame.Header{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

func (p *peer) write(f *frame.Frame) error {
	_, err := p.conn.Write(frame.Append(nil, frame.V12, f))
	return err
}

// do sends a frame and waits for its receipt.
func (p *peer) do(f *frame.Frame) error {
	p.n++
	receipt := strconv.Itoa(p.n)
	f.Headers = append(f.Headers, headers("receipt", receipt)...)
	if err := p.write(f); err != nil {
		return err
	}
	for {
		got, err := p.read()
		if err != nil {
			return err
		}
		if got.Command == frame.Receipt && got.Get("receipt-id") == receipt {
			return nil
		}
	}
}

// read reads a frame. Messages are kept, an ERROR is one.
func (p *peer) read() (*frame.Frame, error) {
	f, err := p.reader.Read()
	if err != nil {
		return nil, err
	}
	switch f.Command {
	case frame.Error:
		return nil, fmt.Errorf("ERROR: %s: %s", f.Get("message"), f.Body)
	case frame.Message:
		p.waiting = append(p.waiting, frontendtest.Message{
			Queue: f.Get("subscription"), Body: append([]byte(nil), f.Body...), Redelivered: f.Get("redelivered") == "true", Token: f.Get("ack"),
		})
	}
	return f, nil
}

func (p *peer) Send(queue string, body []byte) error {
	return p.do(&frame.Frame{Command: frame.Send, Headers: headers("destination", "/queue/"+queue), Body: body})
}

func (p *peer) Receive(queue string, wait time.Duration) (frontendtest.Message, bool, error) {
	if !p.subs[queue] {
		p.subs[queue] = true
		err := p.do(&frame.Frame{Command: frame.Subscribe, Headers: headers(
			"id", queue, "destination", "/queue/"+queue, "ack", "client-individual", "prefetch-count", "1")})
		if err != nil {
			return frontendtest.Message{}, false, err
		}
	}
	if err := p.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return frontendtest.Message{}, false, err
	}
	defer func() { _ = p.conn.SetReadDeadline(time.Time{}) }()
	for len(p.waiting) == 0 {
		var timeout net.Error
		if _, err := p.read(); errors.As(err, &timeout) && timeout.Timeout() {
			return frontendtest.Message{}, false, nil
		} else if err != nil {
			return frontendtest.Message{}, false, err
		}
	}
	m := p.waiting[0]
	p.waiting = p.waiting[1:]
	return m, true, nil
}

func (p *peer) Ack(m frontendtest.Message) error {
	return p.do(&frame.Frame{Command: frame.Ack, Headers: headers("id", m.Token)})
}

func (p *peer) HangUp() { _ = p.conn.Close() }
