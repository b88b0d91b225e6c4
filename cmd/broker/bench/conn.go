package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Bounds of one answer.
const (
	answerHeadBytesMax = 64 << 10 // of status line and headers
	answerBodyBytesMax = 64 << 20
	connBufferBytes    = 16 << 10 // at the start; it grows to the largest answer
)

// ErrBadAnswer is wrapped by every error about an answer that is not HTTP/1.1
// as this client understands it.
var ErrBadAnswer = errors.New("answer is not valid HTTP")

// Answer is one HTTP answer. Head and Body are views of the connection's buffer
// and hold until its next Do.
type Answer struct {
	Status int
	Head   []byte // status line and headers, without the empty line
	Body   []byte
}

// Conn is one HTTP/1.1 connection that sends prebuilt requests, one at a time.
// It never sends a request twice: what a broken connection leaves unanswered is
// unknown, and that is for the caller to book.
type Conn struct {
	nc      net.Conn
	timeout time.Duration
	buf     []byte
	r, w    int // buf[r:w] is read but not yet part of an answer
	closing bool
	body    []byte // of chunked answers
}

// Dial opens a connection to addr (host:port). Each request on it may take
// timeout from its first byte out to its last byte in.
func Dial(ctx context.Context, addr string, timeout time.Duration) (*Conn, error) {
	d := net.Dialer{Timeout: timeout}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return NewConn(nc, timeout), nil
}

// NewConn returns a Conn over nc, which it owns from here on.
func NewConn(nc net.Conn, timeout time.Duration) *Conn {
	return &Conn{nc: nc, timeout: timeout, buf: make([]byte, connBufferBytes)}
}

// Close closes the connection. It may be called from another goroutine, to
// break off a Do.
func (c *Conn) Close() error { return c.nc.Close() }

// Closing tells whether the server said that it closes the connection after the
// last answer.
func (c *Conn) Closing() bool { return c.closing }

// Do sends request whole and reads the answer to it. After an error the
// connection is of no further use.
func (c *Conn) Do(request []byte) (Answer, error) {
	if err := c.Write(request); err != nil {
		return Answer{}, err
	}
	return c.Read()
}

// Write sends request whole and does not wait for the answer: Read does.
func (c *Conn) Write(request []byte) error {
	if err := c.nc.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if _, err := c.nc.Write(request); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return nil
}

// Read reads the answer to the oldest request that has none yet.
func (c *Conn) Read() (Answer, error) {
	for {
		a, h, err := c.readHead()
		if err != nil {
			return Answer{}, err
		}
		if a.Status >= 100 && a.Status < 200 {
			continue // interim, such as 100 Continue
		}
		return c.readBody(a, h)
	}
}

// readHead reads to the empty line. The head stays where it is in the buffer
// until the next readHead.
func (c *Conn) readHead() (Answer, head, error) {
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	scanned := 0
	for {
		if i := bytes.Index(c.buf[scanned:c.w], []byte("\r\n\r\n")); i >= 0 {
			end := scanned + i
			c.r = end + 4
			h, err := parseHead(c.buf[:end])
			return Answer{Status: h.status, Head: c.buf[:end]}, h, err
		}
		scanned = max(0, c.w-3)
		if c.w > answerHeadBytesMax {
			return Answer{}, head{}, fmt.Errorf("head over %d bytes: %w", answerHeadBytesMax, ErrBadAnswer)
		}
		if err := c.fill(); err != nil {
			return Answer{}, head{}, fmt.Errorf("read head: %w", err)
		}
	}
}

// readBody reads what follows the head. Growing the buffer moves the head too,
// so both views are taken last.
func (c *Conn) readBody(a Answer, h head) (Answer, error) {
	headLen := len(a.Head)
	c.closing = h.closing
	switch {
	case h.chunked:
		return c.readChunked(a)
	case h.length >= 0:
		if h.length > answerBodyBytesMax {
			return Answer{}, fmt.Errorf("body of %d bytes: %w", h.length, ErrBadAnswer)
		}
		start := c.r
		for c.w-start < h.length {
			if err := c.fill(); err != nil {
				return Answer{}, fmt.Errorf("read body: %w", err)
			}
		}
		c.r = start + h.length
		a.Body = c.buf[start:c.r]
	case a.Status == 204 || a.Status == 304:
	default: // to the end of the connection
		c.closing = true
		start := c.r
		for c.fill() == nil {
			if c.w-start > answerBodyBytesMax {
				return Answer{}, fmt.Errorf("endless body: %w", ErrBadAnswer)
			}
		}
		c.r = c.w
		a.Body = c.buf[start:c.w]
	}
	a.Head = c.buf[:headLen]
	return a, nil
}

// readChunked reads a body in chunks, and the trailers after it.
func (c *Conn) readChunked(a Answer) (Answer, error) {
	headLen := len(a.Head)
	c.body = c.body[:0]
	for {
		line, err := c.readLine()
		if err != nil {
			return Answer{}, err
		}
		if i := bytes.IndexByte(line, ';'); i >= 0 {
			line = line[:i] // chunk extensions
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil || len(c.body)+int(n) > answerBodyBytesMax {
			return Answer{}, fmt.Errorf("chunk of %q bytes: %w", line, ErrBadAnswer)
		}
		if n == 0 {
			break
		}
		for c.w-c.r < int(n)+2 {
			if err := c.fill(); err != nil {
				return Answer{}, fmt.Errorf("read chunk: %w", err)
			}
		}
		c.body = append(c.body, c.buf[c.r:c.r+int(n)]...)
		c.r += int(n) + 2
	}
	for {
		line, err := c.readLine()
		if err != nil {
			return Answer{}, err
		}
		if len(line) == 0 {
			a.Head, a.Body = c.buf[:headLen], c.body
			return a, nil
		}
	}
}

// readLine reads one line of a chunked body, without its end.
func (c *Conn) readLine() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.buf[c.r:c.w], '\n'); i >= 0 {
			line := c.buf[c.r : c.r+i]
			c.r += i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		if c.w-c.r > answerHeadBytesMax {
			return nil, fmt.Errorf("chunk line over %d bytes: %w", answerHeadBytesMax, ErrBadAnswer)
		}
		if err := c.fill(); err != nil {
			return nil, fmt.Errorf("read chunk line: %w", err)
		}
	}
}

// fill reads once, behind what is already there.
func (c *Conn) fill() error {
	if c.w == len(c.buf) {
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// head is what the framing of an answer depends on.
type head struct {
	status  int
	length  int // -1: not given
	chunked bool
	closing bool
}

// parseHead reads the status line and the four headers that matter.
func parseHead(b []byte) (head, error) {
	h := head{length: -1}
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return h, fmt.Errorf("status line %q: %w", line[:min(len(line), 64)], ErrBadAnswer)
	}
	h.closing = line[7] == '0'
	for _, d := range line[9:12] {
		if d < '0' || d > '9' {
			return h, fmt.Errorf("status line %q: %w", line[:min(len(line), 64)], ErrBadAnswer)
		}
		h.status = h.status*10 + int(d-'0')
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return h, fmt.Errorf("header %q: %w", line[:min(len(line), 64)], ErrBadAnswer)
		}
		value = bytes.TrimSpace(value)
		// The lengths tell nearly all headers apart without a comparison.
		switch len(name) {
		case len("Content-Length"):
			if !bytes.EqualFold(name, []byte("Content-Length")) {
				continue
			}
			n, err := strconv.ParseUint(string(value), 10, 31)
			if err != nil {
				return h, fmt.Errorf("content length %q: %w", value, ErrBadAnswer)
			}
			h.length = int(n)
		case len("Transfer-Encoding"):
			if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
				h.chunked = bytes.EqualFold(value, []byte("chunked"))
			}
		case len("Connection"):
			if bytes.EqualFold(name, []byte("Connection")) {
				h.closing = bytes.EqualFold(value, []byte("close"))
			}
		}
	}
	return h, nil
}

// Header returns the value of the first header of that name, or nil.
func (a Answer) Header(name string) []byte {
	_, rest, _ := bytes.Cut(a.Head, []byte("\r\n"))
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		key, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(key, []byte(name)) {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}
