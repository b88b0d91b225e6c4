package frame

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Bounds of a Reader's buffer, in bytes. It grows beyond the second for a frame
// that needs it.
const (
	bufferMin  = 4 << 10
	bufferBusy = 64 << 10
	// smallReads is how many reads in a row that use little of a large buffer
	// bring the small one back.
	smallReads = 16
)

// Limits bounds a frame. All are needed.
type Limits struct {
	CommandBytes int
	HeaderBytes  int // of the command and all headers, as they are sent
	Headers      int // of a frame
	BodyBytes    int
}

// span says where a header lies, from the start of its block.
type span struct{ name, nameEnd, value, valueEnd int }

// Reader reads frames from a stream.
type Reader struct {
	source  io.Reader
	limits  Limits
	version Version

	buf        []byte
	start, end int // of what was read and not yet used
	few        int // reads in a row that were small

	// The frame in hand. Positions count from start.
	line    int // where the line in hand starts
	scanned int // up to here there is no end of a line, or of the body
	block   int // where the body starts; 0: the headers go on
	length  int // of the body; -1: it ends at the first NUL
	lines   int // complete lines so far
	spans   []span
	frame   Frame
}

// NewReader returns a Reader of 1.0, which is what reads a CONNECT frame.
func NewReader(source io.Reader, l Limits) *Reader {
	return &Reader{source: source, limits: l}
}

// SetVersion changes how the next frames are read.
func (r *Reader) SetVersion(v Version) { r.version = v }

// SetLimits changes what the next frames may have.
func (r *Reader) SetLimits(l Limits) { r.limits = l }

// Buffered returns how many bytes have been read and not yet used: 0 says that
// the next Read has to wait for the peer.
func (r *Reader) Buffered() int {
	if r.lines == 0 && r.block == 0 {
		r.skip()
	}
	return r.end - r.start
}

// Read returns the next frame. Heart-beats are skipped. The error is io.EOF if
// the stream ends between frames, io.ErrUnexpectedEOF if it ends within one, wraps
// ErrMalformed or ErrTooLarge, or is that of the source.
func (r *Reader) Read() (*Frame, error) {
	for {
		done, err := r.parse()
		if err != nil {
			return nil, err
		}
		if done {
			return &r.frame, nil
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// parse goes on with the frame in hand as far as its bytes are there.
func (r *Reader) parse() (bool, error) {
	if r.block == 0 {
		if r.lines == 0 {
			r.skip()
		}
		done, err := r.parseHead()
		if !done || err != nil {
			return false, err
		}
	}
	return r.parseBody()
}

// skip passes over what may stand between frames: ends of lines, and the NULs
// that some clients send too many of.
func (r *Reader) skip() {
	if r.scanned > 0 {
		return // within a line
	}
	for r.start < r.end {
		if c := r.buf[r.start]; c != '\n' && c != '\r' && c != 0 {
			return
		}
		r.start++
	}
}

// parseHead looks for the empty line that ends the headers.
func (r *Reader) parseHead() (bool, error) {
	b := r.buf[r.start:r.end]
	for {
		at := bytes.IndexByte(b[r.scanned:], '\n')
		if at < 0 {
			r.scanned = len(b)
			return false, r.checkHead(len(b), len(b)-r.line)
		}
		line := trimCR(b[r.line : r.scanned+at])
		r.scanned += at + 1
		if err := r.checkHead(r.scanned, len(line)); err != nil {
			return false, err
		}
		if len(line) == 0 {
			r.block = r.scanned
			return true, r.endHead(b[:r.block])
		}
		if err := r.parseLine(b, line); err != nil {
			return false, err
		}
		r.line = r.scanned
		r.lines++
	}
}

func trimCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// checkHead holds what has been read of the head against the limits.
func (r *Reader) checkHead(head, line int) error {
	switch {
	case r.lines == 0 && line > r.limits.CommandBytes:
		return fmt.Errorf("%w: the command is longer than %d bytes", ErrTooLarge, r.limits.CommandBytes)
	case head > r.limits.HeaderBytes:
		return fmt.Errorf("%w: the headers are longer than %d bytes", ErrTooLarge, r.limits.HeaderBytes)
	case r.lines > r.limits.Headers+1:
		return fmt.Errorf("%w: more than %d headers", ErrTooLarge, r.limits.Headers)
	}
	return nil
}

// parseLine reads a line of the head, which is not empty. Headers are unescaped
// where they lie: that makes them no longer.
func (r *Reader) parseLine(b, line []byte) error {
	if bytes.IndexByte(line, 0) >= 0 {
		return fmt.Errorf("%w: a NUL among the headers", ErrMalformed)
	}
	if r.lines == 0 {
		r.frame.Command = command(line)
		r.spans = r.spans[:0]
		return nil
	}
	if len(r.spans) == r.limits.Headers {
		return fmt.Errorf("%w: more than %d headers", ErrTooLarge, r.limits.Headers)
	}
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return fmt.Errorf("%w: a header without a colon", ErrMalformed)
	}
	s := span{name: r.line, nameEnd: r.line + colon, value: r.line + colon + 1, valueEnd: r.line + len(line)}
	connect := !escaped(V12, r.frame.Command)
	if r.version == V12 && !connect && bytes.IndexByte(line, '\r') >= 0 {
		return fmt.Errorf("%w: a carriage return within a header", ErrMalformed)
	}
	switch {
	case escaped(r.version, r.frame.Command):
		var err error
		if s.nameEnd, err = r.unescape(b, s.name, s.nameEnd); err == nil {
			s.valueEnd, err = r.unescape(b, s.value, s.valueEnd)
		}
		if err != nil {
			return err
		}
	case !connect: // 1.0
		s.name, s.nameEnd = trim(b, s.name, s.nameEnd)
		s.value, s.valueEnd = trim(b, s.value, s.valueEnd)
	}
	if s.name == s.nameEnd {
		return fmt.Errorf("%w: a header without a name", ErrMalformed)
	}
	r.spans = append(r.spans, s)
	return nil
}

func trim(b []byte, from, to int) (int, int) {
	for from < to && (b[from] == ' ' || b[from] == '\t') {
		from++
	}
	for from < to && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	return from, to
}

// unescape replaces the escapes of b[from:to] and returns the new end.
func (r *Reader) unescape(b []byte, from, to int) (int, error) {
	at := bytes.IndexByte(b[from:to], '\\')
	if at < 0 {
		return to, nil
	}
	w := from + at
	for i := w; i < to; i++ {
		c := b[i]
		if c == '\\' {
			i++
			var ok bool
			if i < to {
				c, ok = unescaped(b[i], r.version)
			}
			if !ok {
				return to, fmt.Errorf("%w: an escape in a header that STOMP %s does not have", ErrMalformed, r.version)
			}
		}
		b[w] = c
		w++
	}
	return w, nil
}

// unescaped returns what the escape of c stands for.
func unescaped(c byte, v Version) (byte, bool) {
	switch {
	case c == 'n':
		return '\n', true
	case c == 'c':
		return ':', true
	case c == '\\':
		return '\\', true
	case c == 'r' && v == V12:
		return '\r', true
	}
	return 0, false
}

// endHead finds out how long the body is.
func (r *Reader) endHead(b []byte) error {
	r.length = -1
	for i := range r.spans {
		s := &r.spans[i]
		if string(b[s.name:s.nameEnd]) != ContentLength {
			continue
		}
		n, ok := parseLength(strings.TrimSpace(string(b[s.value:s.valueEnd])))
		if !ok {
			return fmt.Errorf("%w: content-length is not a number", ErrMalformed)
		}
		if n > r.limits.BodyBytes {
			return fmt.Errorf("%w: the body is longer than %d bytes", ErrTooLarge, r.limits.BodyBytes)
		}
		r.length = n
		return nil // the first one holds
	}
	return nil
}

// parseLength reads decimal digits. A number that is too large is one that every
// limit refuses.
func parseLength(s string) (int, bool) {
	const most = 1 << 40
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(n*10+int(s[i]-'0'), most)
	}
	return n, s != ""
}

// parseBody looks for the end of the body and then completes the frame.
func (r *Reader) parseBody() (bool, error) {
	b := r.buf[r.start:r.end]
	body := r.block
	switch {
	case r.length >= 0:
		body += r.length
		if body >= len(b) {
			return false, nil
		}
		if b[body] != 0 {
			return false, fmt.Errorf("%w: no NUL after the %d bytes of content-length", ErrMalformed, r.length)
		}
	default:
		at := bytes.IndexByte(b[r.scanned:], 0)
		if at < 0 {
			r.scanned = len(b)
			if len(b)-r.block > r.limits.BodyBytes {
				return false, fmt.Errorf("%w: the body is longer than %d bytes", ErrTooLarge, r.limits.BodyBytes)
			}
			return false, nil
		}
		body = r.scanned + at
		if body-r.block > r.limits.BodyBytes {
			return false, fmt.Errorf("%w: the body is longer than %d bytes", ErrTooLarge, r.limits.BodyBytes)
		}
	}
	r.complete(b, body)
	return true, nil
}

// complete fills the frame whose body ends at end.
func (r *Reader) complete(b []byte, end int) {
	f := &r.frame
	f.Headers = f.Headers[:0]
	if len(r.spans) > 0 {
		block := string(b[:r.block]) // the one allocation of a frame
		for _, s := range r.spans {
			f.Headers = append(f.Headers, Header{
				Name: block[s.name:s.nameEnd], Value: block[s.value:s.valueEnd], Bytes: b[s.value:s.valueEnd:s.valueEnd],
			})
		}
	}
	f.Body = b[r.block:end:end]
	r.start += end + 1
	r.line, r.scanned, r.block, r.lines = 0, 0, 0, 0
}

// fill reads more from the source.
func (r *Reader) fill() error {
	r.makeRoom()
	n, err := r.source.Read(r.buf[r.end:])
	if n == 0 && err == nil {
		return nil
	}
	if len(r.buf) > bufferMin {
		if r.few++; n > len(r.buf)/16 {
			r.few = 0
		}
	}
	r.end += n
	switch {
	case n > 0:
		return nil // an error comes again
	case err == io.EOF && (r.lines > 0 || r.end > r.start):
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom sees to it that there is room behind what was read. The buffer grows
// only when it is full, so that it is never much larger than what was sent.
func (r *Reader) makeRoom() {
	used := r.end - r.start
	size := len(r.buf)
	switch {
	case size == 0:
		size = bufferMin
	case used == size, r.end == size && size < bufferBusy:
		size *= 2
	case used == 0 && (size > bufferBusy || size > bufferMin && r.few >= smallReads):
		size = bufferMin
		r.few = 0
	}
	switch {
	case size != len(r.buf):
		buf := make([]byte, size)
		copy(buf, r.buf[r.start:r.end])
		r.buf = buf
	case r.start > 0 && (used == 0 || r.end == size):
		copy(r.buf, r.buf[r.start:r.end])
	default:
		return
	}
	r.start, r.end = 0, used
}
