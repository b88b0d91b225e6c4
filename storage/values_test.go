package storage

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
)

func drawState(t *rapid.T) core.MessageState {
	return core.MessageState{
		VisibleAt:     rapid.Int64().Draw(t, "visible at"),
		FirstReceived: rapid.Int64().Draw(t, "first received"),
		Receives:      rapid.Uint32().Draw(t, "receives"),
		Failures:      rapid.Uint32().Draw(t, "failures"),
		Nonce:         rapid.Uint32().Draw(t, "nonce"),
		Flags:         core.StateFlags(rapid.Byte().Draw(t, "flags")),
	}
}

func TestStateRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawState(t)
		v := appendState(nil, &want)
		if got, err := decodeState(v); got != want || err != nil {
			t.Errorf("%+v reads as %+v, %v", want, got, err)
		}
		if len(v) > stateBytesMax {
			t.Errorf("%+v takes %d bytes, over stateBytesMax", want, len(v))
		}
	})
}

func TestStateOfAReceivedMessageIsSmall(t *testing.T) {
	s := core.MessageState{
		VisibleAt: 1_800_000_030_000, FirstReceived: 1_800_000_000_000,
		Receives: 3, Failures: 3, Nonce: 1<<32 - 1, Flags: core.StateSession,
	}
	if got := len(appendState(nil, &s)); got > 18 {
		t.Errorf("%d bytes, want at most 18", got)
	}
}

func TestValuesOfOtherVersionsAndLengthsAreCorrupt(t *testing.T) {
	state := appendState(nil, &core.MessageState{VisibleAt: 1, Receives: 1})
	decoders := []struct {
		name   string
		value  []byte
		decode func(v []byte) error
	}{
		{"state", state, func(v []byte) error { _, err := decodeState(v); return err }},
		{"name", appendName(nil, 1), func(v []byte) error { _, err := decodeName(v); return err }},
		{"position", position{pos: 1, time: 2}.append(nil), func(v []byte) error { _, err := decodePosition(v); return err }},
		{"term", appendNumber(nil, termVersion, 1), func(v []byte) error { _, err := decodeNumber(v, "term", termVersion); return err }},
	}
	for _, d := range decoders {
		if err := d.decode(d.value); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		other := append([]byte{2}, d.value[1:]...)
		for _, bad := range [][]byte{nil, other, d.value[:len(d.value)-1], append(d.value[:len(d.value):len(d.value)], 0)} {
			if err := d.decode(bad); !errors.Is(err, core.ErrCorrupt) {
				t.Errorf("%s: %x gives %v, want ErrCorrupt", d.name, bad, err)
			}
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(appendState(nil, &core.MessageState{VisibleAt: 1_800_000_030_000, FirstReceived: 1_800_000_000_000, Receives: 1, Nonce: 7}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, v []byte) {
		s, err := decodeState(v)
		if err != nil {
			if !errors.Is(err, core.ErrCorrupt) {
				t.Errorf("%x gives %v, want ErrCorrupt", v, err)
			}
			return
		}
		if got, err := decodeState(appendState(nil, &s)); got != s || err != nil {
			t.Errorf("%+v reads as %+v, %v", s, got, err)
		}
	})
}

func FuzzDecodeOwnRecords(f *testing.F) {
	f.Add(appendName(nil, 1))
	f.Add(position{pos: 1, time: 2}.append(nil))
	f.Add(appendNumber(nil, termVersion, 1))
	f.Fuzz(func(t *testing.T, v []byte) {
		if q, err := decodeName(v); err == nil && string(appendName(nil, q)) != string(v) {
			t.Errorf("%x reads as name of %d", v, q)
		}
		if p, err := decodePosition(v); err == nil && string(p.append(nil)) != string(v) {
			t.Errorf("%x reads as position %+v", v, p)
		}
		if n, err := decodeNumber(v, "term", termVersion); err == nil && string(appendNumber(nil, termVersion, n)) != string(v) {
			t.Errorf("%x reads as term %d", v, n)
		}
	})
}
