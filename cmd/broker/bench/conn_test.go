package bench

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// scriptedConn answers every request with the same bytes, in pieces.
type scriptedConn struct {
	net.Conn
	answer io.Reader
	sent   strings.Builder
}

func (c *scriptedConn) Write(b []byte) (int, error) { return c.sent.Write(b) }
func (c *scriptedConn) Read(b []byte) (int, error)  { return c.answer.Read(b) }
func (c *scriptedConn) SetDeadline(time.Time) error { return nil }
func (c *scriptedConn) Close() error                { return nil }
func scripted(text string) *Conn                    { return scriptedReader(strings.NewReader(text)) }

func scriptedReader(r io.Reader) *Conn { return NewConn(&scriptedConn{answer: r}, time.Minute) }

func bodyOf(t *testing.T, c *Conn) (status int, b string) {
	t.Helper()
	a, err := c.Do([]byte("x"))
	if err != nil {
		t.Fatalf("answer: %v", err)
	}
	return a.Status, string(a.Body)
}

func TestAnswersAreFramed(t *testing.T) {
	tests := map[string]struct {
		wire    string
		status  int
		body    string
		closing bool
	}{
		"length":             {wire: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", status: 200, body: "abc"},
		"any case":           {wire: "HTTP/1.1 200 OK\r\ncontent-length:3\r\n\r\nabc", status: 200, body: "abc"},
		"no reason":          {wire: "HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n", status: 503},
		"interim":            {wire: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx", status: 404, body: "x"},
		"chunked":            {wire: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n", status: 200, body: "abcde"},
		"to the end":         {wire: "HTTP/1.1 200 OK\r\n\r\nabc", status: 200, body: "abc", closing: true},
		"old":                {wire: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a", closing: true},
		"close asked":        {wire: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a", closing: true},
		"no content":         {wire: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		"longer than a read": {wire: "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), status: 200, body: strings.Repeat("x", 100000)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.wire), iotest.OneByteReader(strings.NewReader(tt.wire))} {
				c := scriptedReader(r)
				status, body := bodyOf(t, c)
				if status != tt.status || body != tt.body {
					t.Errorf("got %d %.40q, want %d %.40q", status, body, tt.status, tt.body)
				}
				if c.Closing() != tt.closing {
					t.Errorf("closing = %t, want %t", c.Closing(), tt.closing)
				}
			}
		})
	}
}

func TestAnswersOfOneConnectionDoNotMix(t *testing.T) {
	c := scripted("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirstHTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"6\r\nsecond\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthird")
	for _, want := range []string{"first", "second", "third"} {
		if _, got := bodyOf(t, c); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestBadAnswersAreErrors(t *testing.T) {
	tests := map[string]struct {
		wire string
		want error
	}{
		"no HTTP":          {"SSH-2.0-x\r\n\r\n", ErrBadAnswer},
		"no status":        {"HTTP/1.1 2x0 OK\r\n\r\n", ErrBadAnswer},
		"bad length":       {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ErrBadAnswer},
		"bad chunk":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ErrBadAnswer},
		"header forever":   {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*answerHeadBytesMax), ErrBadAnswer},
		"cut in the head":  {"HTTP/1.1 200 OK\r\nConten", io.EOF},
		"cut in the body":  {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", io.EOF},
		"cut in a chunk":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nabc", io.EOF},
		"nothing":          {"", io.EOF},
		"header, no colon": {"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", ErrBadAnswer},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := scripted(tt.wire).Do([]byte("x")); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestHeaderIsFound(t *testing.T) {
	c := scripted("HTTP/1.1 400 Bad\r\nX-Amzn-Query-Error: OverLimit;Sender\r\nContent-Length: 0\r\n\r\n")
	a, err := c.Do([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(a.Header("x-amzn-query-error")); got != "OverLimit;Sender" {
		t.Errorf("got %q", got)
	}
	if got := a.Header("x-other"); got != nil {
		t.Errorf("got %q for a header that is not there", got)
	}
}

func FuzzConn(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		c := scripted(string(wire))
		for range 4 {
			a, err := c.Do(nil)
			if err != nil {
				return
			}
			if len(a.Body) > len(wire) {
				t.Fatalf("a body of %d bytes out of %d", len(a.Body), len(wire))
			}
		}
	})
}
