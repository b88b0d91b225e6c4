package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Bounds of a STOMP connection.
const (
	stompReadBytes  = 64 << 10 // of the reader, and so of one header line
	stompBodyMax    = 16 << 20
	stompHeadersMax = 256
)

// ErrBadFrame is answered for bytes that are no frame of STOMP.
var ErrBadFrame = errors.New("not a STOMP frame")

// stompFrame is a frame that a server has sent. Its slices hold until the next.
type stompFrame struct {
	command string
	ack     []byte // MESSAGE, as it stands on the wire; 1.1: of message-id
	receipt []byte // RECEIPT
	again   bool   // MESSAGE: redelivered
	message string // ERROR
	version string // CONNECTED
	body    []byte
}

// stompConn is a connection of a client. Reading and writing may go on in two
// goroutines, but only one each.
type stompConn struct {
	conn    net.Conn
	r       *bufio.Reader
	w       []byte // gathered, to be written by flush
	version string
	frame   stompFrame
	ack     []byte
	receipt []byte
	body    []byte
}

// dialSTOMP connects and logs in.
func dialSTOMP(ctx context.Context, o *STOMPOptions) (*stompConn, error) {
	nc, err := (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, "tcp", o.Target)
	if err != nil {
		return nil, err
	}
	c := &stompConn{conn: nc, r: bufio.NewReaderSize(nc, stompReadBytes)}
	c.w = fmt.Appendf(c.w, "CONNECT\naccept-version:1.1,1.2\nheart-beat:0,0\nhost:%s\n", o.Host)
	if o.Login != "" {
		c.w = fmt.Appendf(c.w, "login:%s\npasscode:%s\n", o.Login, o.Passcode)
	}
	c.w = append(c.w, '\n', 0)
	if err = nc.SetDeadline(time.Now().Add(requestTimeout)); err == nil {
		err = c.flush()
	}
	var f *stompFrame
	if err == nil {
		f, err = c.read()
	}
	if err == nil && f.command != "CONNECTED" {
		err = fmt.Errorf("%s, where CONNECTED is expected: %w", f.command, ErrBadFrame)
	}
	if err == nil {
		c.version = f.version
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect: %w", err), nc.Close())
	}
	return c, nil
}

// flush writes what was gathered.
func (c *stompConn) flush() error {
	if len(c.w) == 0 {
		return nil
	}
	_, err := c.conn.Write(c.w)
	c.w = c.w[:0]
	return err
}

// read returns the next frame. One of ERROR is an error.
func (c *stompConn) read() (*stompFrame, error) {
	f := &c.frame
	*f = stompFrame{}
	line, err := c.line()
	for err == nil && len(line) == 0 {
		line, err = c.line() // a heart-beat, or what may stand between frames
	}
	if err != nil {
		return nil, err
	}
	switch {
	case string(line) == "MESSAGE":
		f.command = "MESSAGE"
	case string(line) == "RECEIPT":
		f.command = "RECEIPT"
	default:
		f.command = string(line)
	}
	size, err := c.headers(f)
	if err == nil {
		err = c.readBody(f, size)
	}
	if err != nil {
		return nil, err
	}
	c.skipEnds()
	if f.command == "ERROR" {
		return nil, fmt.Errorf("ERROR %q: %.200q", f.message, f.body)
	}
	return f, nil
}

// skipEnds goes past line ends that have come behind a frame: with nothing else
// there, nothing is buffered.
func (c *stompConn) skipEnds() {
	for c.r.Buffered() > 0 {
		if b, err := c.r.Peek(1); err != nil || b[0] != '\n' && b[0] != '\r' {
			return
		}
		if _, err := c.r.Discard(1); err != nil {
			return
		}
	}
}

// line returns the next line without its end; it may be empty.
func (c *stompConn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = fmt.Errorf("a line of over %d bytes: %w", stompReadBytes, ErrBadFrame)
		}
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'}), nil
}

// headers reads the headers, of which it keeps what a run needs. It returns the
// size of the body, -1 if that is not told.
func (c *stompConn) headers(f *stompFrame) (size int, err error) {
	size = -1
	for range stompHeadersMax {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			return size, nil
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return 0, fmt.Errorf("header %.40q: %w", line, ErrBadFrame)
		}
		switch string(name) {
		case "content-length":
			if size, err = strconv.Atoi(string(value)); err != nil || size < 0 || size > stompBodyMax {
				return 0, fmt.Errorf("content-length %.40q: %w", value, ErrBadFrame)
			}
		case "ack":
			c.ack = append(c.ack[:0], value...)
			f.ack = c.ack
		case "message-id":
			if c.version == "1.1" {
				c.ack = append(c.ack[:0], value...)
				f.ack = c.ack
			}
		case "receipt-id":
			c.receipt = append(c.receipt[:0], value...)
			f.receipt = c.receipt
		case "redelivered":
			f.again = string(value) == "true"
		case "message":
			f.message = string(value)
		case "version":
			f.version = string(value)
		}
	}
	return 0, fmt.Errorf("over %d headers: %w", stompHeadersMax, ErrBadFrame)
}

func (c *stompConn) readBody(f *stompFrame, size int) error {
	if size < 0 {
		c.body = c.body[:0]
		for {
			part, err := c.r.ReadSlice(0)
			c.body = append(c.body, part...)
			switch {
			case err == nil:
				f.body = c.body[:len(c.body)-1]
				return nil
			case !errors.Is(err, bufio.ErrBufferFull):
				return err
			case len(c.body) > stompBodyMax:
				return fmt.Errorf("a body of over %d bytes: %w", stompBodyMax, ErrBadFrame)
			}
		}
	}
	if size+1 <= stompReadBytes {
		b, err := c.r.Peek(size + 1)
		if err != nil {
			return err
		}
		_, err = c.r.Discard(size + 1)
		f.body = b[:size]
		return checkEnd(b[size], err)
	}
	if cap(c.body) < size+1 {
		c.body = make([]byte, size+1)
	}
	c.body = c.body[:size+1]
	_, err := io.ReadFull(c.r, c.body)
	f.body = c.body[:size]
	return checkEnd(c.body[size], err)
}

func checkEnd(b byte, err error) error {
	if err == nil && b != 0 {
		return fmt.Errorf("no NUL behind the body: %w", ErrBadFrame)
	}
	return err
}

// putAck gathers the ACK of a message. The id goes back as it came, escapes and
// all.
func (c *stompConn) putAck(id []byte, receipt int) {
	name := "id:"
	if c.version == "1.1" {
		name = "subscription:0\nmessage-id:"
	}
	c.w = append(append(append(c.w, "ACK\n"...), name...), id...)
	if receipt >= 0 {
		c.w = append(c.w, "\nreceipt:"...)
		c.w = strconv.AppendInt(c.w, int64(receipt), 10)
	}
	c.w = append(c.w, '\n', '\n', 0)
}

// putSend gathers a SEND with the body of a stamp.
func (c *stompConn) putSend(head []byte, receipt int, bodies *Bodies, st Stamp) {
	c.w = append(c.w, head...)
	c.w = strconv.AppendInt(append(c.w, "receipt:"...), int64(receipt), 10)
	c.w = append(c.w, '\n', '\n')
	from, size := len(c.w), bodies.Size()
	for cap(c.w) < from+size+1 {
		c.w = append(c.w[:cap(c.w)], 0)
	}
	c.w = c.w[:from+size]
	bodies.Fill(c.w[from:], st)
	c.w = append(c.w, 0)
}
