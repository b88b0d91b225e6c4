package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// parse reads all packets of a stream, and returns what each came to.
func parse(stream io.Reader, v Version) error {
	r := NewReader(stream, 64<<10)
	r.SetMax(1 << 20)
	var p Publish
	for {
		pk, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			if err := r.Fill(); err != nil {
				return err
			}
			continue
		}
		switch pk.Type {
		case CONNECT:
			_, err = ParseConnect(&pk)
		case PUBLISH:
			err = ParsePublish(&pk, v, &p)
			p.EachUser(func(name, value []byte) { p.Users-- })
			if err == nil && p.Users != 0 {
				return errors.New("user properties are lost")
			}
		case SUBSCRIBE:
			_, err = ParseSubscribe(&pk, v)
		case UNSUBSCRIBE:
			_, err = ParseUnsubscribe(&pk, v)
		case DISCONNECT:
			_, err = ParseDisconnect(&pk, v)
		case PUBACK, PUBREC, PUBREL, PUBCOMP:
			_, err = ParseAck(&pk, v)
		}
		if err != nil {
			return err
		}
	}
}

func FuzzPackets(f *testing.F) {
	for _, s := range []string{
		"\x10\x0e\x00\x04MQTT\x04\x02\x00\x00\x00\x02ab", "\x30\x06\x00\x01t\x00hi", "\x82\x07\x00\x01\x00\x00\x01a\x00", "\xe0\x00", "\x40\x02\x00\x01",
		"\x10\x1d\x00\x04MQTT\x05\x06\x00\x00\x05\x11\x00\x00\x00\x05\x00\x02ab\x05\x18\x00\x00\x00\x01\x00\x01w\x00\x01x",
		"\x30\x0d\x00\x01t\x07\x26\x00\x01a\x00\x01bhi",
	} {
		f.Add([]byte(s), byte(5))
		f.Add([]byte(s), byte(4))
	}
	f.Fuzz(func(t *testing.T, stream []byte, v byte) {
		whole := parse(bytes.NewReader(stream), Version(v))
		var fault *Error
		if !errors.As(whole, &fault) && whole != io.EOF {
			t.Errorf("an error of another kind: %v", whole)
		}
		cut := parse(iotest.OneByteReader(bytes.NewReader(stream)), Version(v))
		if whole.Error() != cut.Error() {
			t.Errorf("as a whole: %v; byte by byte: %v", whole, cut)
		}
	})
}

// What is appended is read as it was meant, also where it grows the buffer.
func TestPublishIsReadAsWritten(t *testing.T) {
	for _, size := range []int{0, 1, 100, 130, 16 << 10, 70 << 10, 900 << 10} {
		o := Outgoing{Topic: []byte("a/b"), ID: 7, QoS: 2, Dup: true, Retain: true, Payload: bytes.Repeat([]byte("x"), size), Alias: 3}
		o.Properties = AppendUser(AppendExpiry(AppendContentType(nil, "c"), 9), "k", "v")
		b := o.Append(nil, V5)
		if len(b) != o.Len(V5) {
			t.Errorf("%d bytes, and Len is %d", len(b), o.Len(V5))
		}
		r := NewReader(iotest.HalfReader(bytes.NewReader(append(b, 0xc0, 0))), 1<<20)
		r.SetMax(1 << 20)
		for {
			pk, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				if err := r.Fill(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			var p Publish
			if err := ParsePublish(&pk, V5, &p); err != nil {
				t.Fatal(err)
			}
			if p.ID != 7 || p.QoS != 2 || !p.Dup || !p.Retain || p.Alias != 3 || p.Expiry != 9 || string(p.Topic) != "a/b" || len(p.Payload) != size || p.Users != 1 {
				t.Errorf("size %d: got %+v", size, p)
			}
			break
		}
	}
}

// A reader that gets little keeps little.
func TestReaderKeepsLittle(t *testing.T) {
	var o Outgoing
	o.Topic, o.Payload = []byte("t"), make([]byte, 900<<10)
	big := o.Append(nil, V311)
	r := NewReader(io.MultiReader(bytes.NewReader(big), strings.NewReader("\xc0\x00")), 1<<10)
	r.SetMax(1 << 20)
	for n := 0; n < 2; {
		_, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			n++
		} else if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.buf) > bufferKept {
		t.Errorf("%d bytes are kept after a large packet", len(r.buf))
	}
}

func BenchmarkParsePublish(b *testing.B) {
	o := Outgoing{Topic: []byte("device/17/up"), ID: 7, QoS: 1, Payload: make([]byte, 200), Properties: AppendUser(nil, "k", "v")}
	packet := o.Append(nil, V5)
	pk := Packet{Type: PUBLISH, Flags: packet[0] & 15, Body: packet[3:], Size: len(packet)}
	var p Publish
	b.ReportAllocs()
	for b.Loop() {
		if err := ParsePublish(&pk, V5, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPublish(b *testing.B) {
	o := Outgoing{Topic: []byte("device/17/up"), ID: 7, QoS: 1, Payload: make([]byte, 200), Properties: AppendUser(nil, "k", "v")}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = o.Append(buf[:0], V5)
	}
}
