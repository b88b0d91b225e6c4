package frame

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzRead: whatever is sent, in whatever pieces, comes to the same, without a
// panic and within the limits.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"SEND\na:b\n\nbody\x00", "SEND\r\ncontent-length:3\r\n\r\na\x00b\x00\n\n", "CONNECT\naccept-version:1.2\n\n\x00SEND\na:\\c\n\n\x00",
		"\x00\n\r\nACK\nid:1\n\n\x00", "SEND\ncontent-length:99999999999\n\n", strings.Repeat("a:b\n", 20), "\x16\x03\x01",
	} {
		f.Add([]byte(s), uint8(2), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, version, chunk uint8) {
		read := func(source io.Reader) ([]string, error) {
			r := NewReader(source, testLimits())
			r.SetVersion(Version(version % 3))
			out, err := readAll(r)
			if len(r.buf) > bufferBusy {
				t.Errorf("a buffer of %d bytes for %d", len(r.buf), len(in))
			}
			return out, err
		}
		whole, err := read(bytes.NewReader(in))
		if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("an error of no kind: %v", err)
		}
		for _, source := range []io.Reader{iotest.OneByteReader(bytes.NewReader(in)), &chunks{b: in, n: int(chunk)%61 + 1}} {
			if parts, perr := read(source); !slices.Equal(parts, whole) || perr.Error() != err.Error() {
				t.Errorf("in parts: %q, %v; whole: %q, %v", parts, perr, whole, err)
			}
		}
	})
}

// chunks gives n bytes at a time.
type chunks struct {
	b []byte
	n int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(c.n, len(p))], c.b)
	c.b = c.b[n:]
	return n, nil
}

// FuzzRoundTrip: what Append writes, Read gives back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("destination", "/queue/a", "x:y\n", "\r\\", []byte("body\x00"), uint8(2))
	f.Add("a", "", "b", " ", []byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string, body []byte, version uint8) {
		v := Version(version % 3)
		in := Frame{Command: Send, Body: body}
		for _, h := range []Header{{Name: n1, Value: v1}, {Name: n2, Value: v2}} {
			if !sendable(v, h) {
				continue
			}
			in.Headers = append(in.Headers, h)
		}
		r := NewReader(bytes.NewReader(Append(nil, v, &in)), Limits{CommandBytes: 32, HeaderBytes: 1 << 20, Headers: 8, BodyBytes: 1 << 20})
		r.SetVersion(v)
		out, err := r.Read()
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		headers := slices.DeleteFunc(slices.Clone(out.Headers), func(h Header) bool { return h.Name == ContentLength })
		got := Frame{Command: out.Command, Headers: headers, Body: out.Body}
		if show(&got) != show(&in) {
			t.Errorf("in %s, out %s", show(&in), show(&got))
		}
		if _, err := r.Read(); err != io.EOF {
			t.Errorf("behind the frame: %v", err)
		}
	})
}

// sendable tells whether h survives in v.
func sendable(v Version, h Header) bool {
	all := h.Name + h.Value
	switch {
	case h.Name == "" || h.Name == ContentLength || strings.Contains(all, "\x00"):
		return false
	case v == V10:
		trimmed := strings.Trim(h.Name, " \t") == h.Name && strings.Trim(h.Value, " \t") == h.Value
		return trimmed && !strings.ContainsAny(all, "\r\n") && !strings.Contains(h.Name, ":")
	case v == V11:
		return !strings.Contains(all, "\r") // which 1.1 cannot tell from an end of line
	}
	return true
}
