package mqtt

import (
	"testing"

	"github.com/leasemq/broker/core"
)

func TestPacketIDs(t *testing.T) {
	for seq, want := range map[core.Seq]uint16{0: 1, 1: 2, ownIDs - 1: ownIDs, ownIDs: 1, core.MakeSeq(1): 1 + 1%ownIDs, core.MakeSeq(9): 1 + 1%ownIDs} {
		if got := packetID(seq &^ 1); seq < 2*ownIDs && got != packetID(seq&^1+ownIDs) {
			t.Errorf("sequences a turn apart differ: %d", got)
		}
		if got := packetID(seq); got < 1 || got > ownIDs || seq <= ownIDs && got != want {
			t.Errorf("sequence %d: got %d, want %d", seq, got, want)
		}
	}
	if packetID(core.MakeSeq(3)+7) != packetID(core.MakeSeq(4)+7) {
		t.Error("the term counts")
	}
}

// A message whose identifier is still in use is not sent, and nothing behind it.
func TestPacketIDInUseIsWaitedFor(t *testing.T) {
	c := &conn{window: 100, flights: map[uint16]flight{packetID(5): {qos: 1}}}
	s := &source{conn: c, kind: sourceFirm, held: []core.Delivery{{Stored: core.Stored{Seq: 5 + ownIDs}}}}
	if n := s.roomLocked(); n > 0 {
		t.Errorf("there is room for %d", n)
	}
	delete(c.flights, packetID(5))
	if n := s.roomLocked(); n < 1 {
		t.Error("there is no room when the identifier is free")
	}
}

func TestSharedIDs(t *testing.T) {
	c := &conn{flights: map[uint16]flight{}}
	for range 3 * ownIDs {
		id := c.freeIDLocked()
		if id < sharedID {
			t.Fatalf("got %d", id)
		}
		c.flights[id] = flight{}
		if len(c.flights) > 10 {
			clear(c.flights)
		}
	}
}
