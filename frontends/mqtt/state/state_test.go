package state

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func full() *Session {
	return &Session{
		ClientID: "a/b", Principal: "p", Expiry: 7, Connected: true, Deadline: 1 << 40, WillAt: 5,
		Will: &Will{
			Topic: "t", Payload: []byte("x"), QoS: 2, Retain: true, Format: true, Delay: 3, Expiry: 4, ContentType: "c", ResponseTopic: "r",
			Correlation: []byte{0, 1}, Users: [][2]string{{"a", "1"}, {"a", "2"}},
		},
		Subs: []Sub{{Filter: "f/#", QoS: 1, NoLocal: true, RetainPublished: true, ID: 268435455}, {Filter: "$share/g/t"}},
	}
}

func TestSessionsAreReadAsWritten(t *testing.T) {
	for _, s := range []*Session{{}, {ClientID: "x", Expiry: 1}, full()} {
		got, err := Decode(s.Append(nil))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("got %+v, error %v; want %+v", got, err, s)
		}
	}
}

func TestCutRecordsAreRefused(t *testing.T) {
	b := full().Append(nil)
	for n := range b {
		if _, err := Decode(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the first %d bytes of %d: %v", n, len(b), err)
		}
	}
	if _, err := Decode(append(b, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte behind the end: %v", err)
	}
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("x", 201)
	for id, want := range map[string]string{"a-B_9.": "a-B_9.", "a/b": "a%2Fb", "%": "%25", "é": "%C3%A9"} {
		if got := Key(id); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
	if a, b := Key(long), Key(long+"x"); a == b || len(Queue(a)) > 256 || len(a) != 65 {
		t.Errorf("long names: %q and %q", a, b)
	}
	if id, ok := ID(WithID(In("a"), 0xbeef)); !ok || id != 0xbeef {
		t.Errorf("got %x", id)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(full().Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(s.Append(nil))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("got %+v, error %v; want %+v", again, err, s)
		}
	})
}
