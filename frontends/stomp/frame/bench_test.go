package frame

import (
	"bytes"
	"testing"
)

// benchFrame is a SEND of 200 bytes.
func benchFrame() []byte {
	return Append(nil, V12, &Frame{Command: Send, Headers: []Header{
		{Name: "destination", Value: "/queue/orders"},
		{Name: "receipt", Value: "message-12345"},
		{Name: "content-type", Value: "text/plain"},
		{Name: "trace", Value: "a7f3"},
		{Name: "content-length", Value: "200"},
	}, Body: bytes.Repeat([]byte("x"), 200)})
}

// repeat gives the same bytes for ever.
type repeat struct {
	b  []byte
	at int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.b[r.at:])
		n += k
		r.at = (r.at + k) % len(r.b)
	}
	return n, nil
}

func BenchmarkRead(b *testing.B) {
	sent := benchFrame()
	r := NewReader(&repeat{b: sent}, testLimits())
	r.SetVersion(V12)
	b.ReportAllocs()
	b.SetBytes(int64(len(sent)))
	for b.Loop() {
		if _, err := r.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 200)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = AppendCommand(out[:0], Message)
		out = AppendHeader(out, V12, "destination", "/queue/orders")
		out = AppendHeader(out, V12, "message-id", "2f1b7c3e-0b0f-4b6e-8a44-3a1f7f0f0c11")
		out = AppendHeader(out, V12, "subscription", "1")
		out = AppendHeader(out, V12, "ack", "1-12345")
		out = AppendHeader(out, V12, "content-type", "text/plain")
		out = AppendBody(out, body)
	}
}
