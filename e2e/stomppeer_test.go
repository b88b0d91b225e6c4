package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/leasemq/broker/frontends/stomp/frame"
)

// stompTimeout bounds each read of a stompPeer.
const stompTimeout = 20 * time.Second

// stompPeer is a STOMP 1.2 client on one connection that does no more than it is
// told: what was answered and what was not stays exact. It belongs to one
// goroutine.
type stompPeer struct {
	conn    net.Conn
	reader  *frame.Reader
	count   int // of receipts asked for by do
	waiting []stompFrame
}

// stompFrame is a frame that came.
type stompFrame struct {
	command string
	headers map[string]string // the first of each name
	body    string
}

// dialSTOMP connects to a broker and logs in.
func dialSTOMP(t *testing.T, addr string, pairs ...string) *stompPeer {
	t.Helper()
	p, err := trySTOMP(t, addr, pairs...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return p
}

func trySTOMP(t *testing.T, addr string, pairs ...string) (*stompPeer, error) {
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &stompPeer{conn: conn}
	p.reader = frame.NewReader(conn, frame.Limits{CommandBytes: 32, HeaderBytes: 256 << 10, Headers: 1024, BodyBytes: 16 << 20})
	p.reader.SetVersion(frame.V12)
	if err := p.write(stompOf("CONNECT", "", append([]string{"accept-version", "1.2", "host", "localhost"}, pairs...)...)); err != nil {
		return nil, err
	}
	got, err := p.read()
	if err == nil && got.command != frame.Connected {
		err = fmt.Errorf("CONNECT was answered by %+v", got)
	}
	return p, err
}

// stompOf makes the wire of a frame with headers in pairs.
func stompOf(command, body string, pairs ...string) []byte {
	f := &frame.Frame{Command: command, Body: []byte(body)}
	for i := 0; i < len(pairs); i += 2 {
		f.Headers = append(f.Headers, frame.Header{Name: pairs[i], Value: pairs[i+1]})
	}
	return frame.Append(nil, frame.V12, f)
}

func (p *stompPeer) write(frames ...[]byte) error {
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	_, err := p.conn.Write(all)
	return err
}

// read reads the next frame. An ERROR is a *stompError.
func (p *stompPeer) read() (stompFrame, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(stompTimeout)); err != nil {
		return stompFrame{}, err
	}
	f, err := p.reader.Read()
	if err != nil {
		return stompFrame{}, err
	}
	got := stompFrame{command: f.Command, headers: map[string]string{}, body: string(f.Body)}
	for _, h := range f.Headers {
		if _, there := got.headers[h.Name]; !there {
			got.headers[h.Name] = h.Value
		}
	}
	if f.Command == frame.Error {
		return got, &stompError{got.headers["message"], got.headers["receipt-id"], got.body}
	}
	return got, nil
}

// stompError is an ERROR frame.
type stompError struct{ message, receipt, body string }

func (e *stompError) Error() string { return fmt.Sprintf("ERROR %s: %s", e.message, e.body) }

// do sends a frame and waits for its RECEIPT. Messages that come before it wait
// for next.
func (p *stompPeer) do(command, body string, pairs ...string) error {
	p.count++
	receipt := "r" + strconv.Itoa(p.count)
	if err := p.write(stompOf(command, body, append([]string{"receipt", receipt}, pairs...)...)); err != nil {
		return err
	}
	for {
		got, err := p.read()
		switch {
		case err != nil:
			return err
		case got.command == frame.Message:
			p.waiting = append(p.waiting, got)
		case got.headers["receipt-id"] != receipt:
			return fmt.Errorf("%s with receipt %s was answered by %+v", command, receipt, got)
		default:
			return nil
		}
	}
}

// must is do, and ends the test if it fails.
func (p *stompPeer) must(t *testing.T, command, body string, pairs ...string) {
	t.Helper()
	if err := p.do(command, body, pairs...); err != nil {
		t.Fatalf("%s %q: %v", command, pairs, err)
	}
}

// subscribe subscribes to a queue; its name is the id.
func (p *stompPeer) subscribe(t *testing.T, queue, ack string, pairs ...string) {
	t.Helper()
	p.must(t, "SUBSCRIBE", "", append([]string{"id", queue, "destination", "/queue/" + queue, "ack", ack}, pairs...)...)
}

// next returns the next MESSAGE.
func (p *stompPeer) next(t *testing.T) stompFrame {
	t.Helper()
	if len(p.waiting) > 0 {
		m := p.waiting[0]
		p.waiting = p.waiting[1:]
		return m
	}
	got, err := p.read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("no MESSAGE within %v", stompTimeout)
	}
	if err != nil || got.command != frame.Message {
		t.Fatalf("got %+v, error %v; want a MESSAGE", got, err)
	}
	return got
}
