package mqtt

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/mochi-mqtt/server/v2/packets"
)

// TestNothingIsLostOrRepeated has a publisher and a subscriber that lose their
// connections at random places, acknowledge in random order, and a node that
// crashes. Each message with QoS 2 arrives once, each with QoS 1 at least once,
// first deliveries in order, and never more than asked for at a time.
func TestNothingIsLostOrRepeated(t *testing.T) {
	for round := range 4 {
		seed := rand.Uint64()
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			r := &roaming{t: t, rng: rand.New(rand.NewPCG(seed, 2)), total: 400, ids: map[uint16]bool{}, seen: map[int]int{}, open: map[uint16]int{}}
			r.w = &world{t: t, fs: vfs.NewCrashableMem(), peers: map[string]*scriptPeer{}, vars: map[string]string{}}
			r.w.open()
			defer r.w.shut()
			if r.run(); t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// roaming is a publisher and a subscriber, of which each has a session. One
// goroutine drives both.
type roaming struct {
	t     *testing.T
	w     *world
	rng   *rand.Rand
	total int

	pub     *peer
	next    int            // message to publish
	open    map[uint16]int // published and not done with; negative: PUBREL is to come
	waiting int            // packets that the publisher is owed

	sub    *peer
	window int
	unsent []packets.Packet // deliveries that are not answered
	ids    map[uint16]bool  // of QoS 2 that have come and are not released
	seen   map[int]int
	newest [3]int // by QoS
}

// qosOf is the QoS of a message.
func qosOf(n int) int { return 1 + n%2 }

func (r *roaming) run() {
	deadline := time.Now().Add(60 * time.Second)
	r.connectSubscriber()
	if _, err := r.sub.await(packets.Suback, patience); err != nil {
		r.t.Fatal(err)
	}
	for !r.t.Failed() && (r.next < r.total || len(r.open) > 0 || len(r.seen) < r.total || len(r.ids) > 0) {
		if time.Now().After(deadline) {
			r.t.Fatalf("stuck: %d published, %d open, %d seen, %d ids", r.next, len(r.open), len(r.seen), len(r.ids))
		}
		if r.pub == nil {
			r.connectPublisher()
		}
		if r.sub == nil {
			r.connectSubscriber()
		}
		switch n := r.rng.IntN(1000); {
		case n < 2:
			fs := r.w.fs.CrashClone(vfs.CrashCloneCfg{})
			r.drop(&r.pub)
			r.drop(&r.sub)
			r.w.shut()
			r.w.fs = fs
			r.w.open()
		case n < 10:
			r.drop(&r.pub)
		case n < 30:
			r.drop(&r.sub)
		case n < 500:
			r.publishStep()
		default:
			r.subscribeStep()
		}
	}
	r.drop(&r.pub)
	r.drop(&r.sub)
	for n := range r.total {
		if got := r.seen[n]; got == 0 || got > 1 && qosOf(n) == 2 {
			r.t.Errorf("message %d with QoS %d has come %d times", n, qosOf(n), got)
		}
	}
}

func (r *roaming) drop(p **peer) {
	if *p != nil {
		(*p).HangUp()
		*p = nil
	}
}

func (r *roaming) dial(id string, options string) *peer {
	p := newPeer(r.w.ln.Dial(r.t))
	if err := p.connect("v=5 expiry=1000 id=" + id + options); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// connectPublisher resends what is open.
func (r *roaming) connectPublisher() {
	r.pub, r.waiting = r.dial("p", ""), 0
	for n := max(0, r.next-20); n < r.next; n++ {
		id := uint16(1 + n%20)
		if open, ok := r.open[id]; ok {
			r.send(id, open, "dup")
		}
	}
}

func (r *roaming) send(id uint16, n int, dup string) {
	text := fmt.Sprintf("PUBREL %d", id)
	if n >= 0 {
		text = fmt.Sprintf("PUBLISH t qos=%d id=%d p=%d %s", qosOf(n), id, n, dup)
	}
	r.waiting++
	if err := r.pub.write(text); err != nil {
		r.t.Fatal(err)
	}
}

// publishStep publishes the next message, or takes an answer.
func (r *roaming) publishStep() {
	id := uint16(1 + r.next%20)
	if _, used := r.open[id]; !used && r.next < r.total {
		r.open[id] = r.next
		r.next++
		r.send(id, r.next-1, "")
		return
	}
	if r.waiting == 0 {
		return
	}
	pk, err := r.pub.read(patience)
	if err != nil {
		r.t.Fatalf("publisher: %v", err)
	}
	r.waiting--
	switch pk.FixedHeader.Type {
	case packets.Pubrec:
		r.open[pk.PacketID] = -1
		r.send(pk.PacketID, -1, "")
	case packets.Puback, packets.Pubcomp:
		delete(r.open, pk.PacketID)
	}
}

func (r *roaming) connectSubscriber() {
	r.window = 1 + r.rng.IntN(8)
	r.sub, r.unsent = r.dial("s", fmt.Sprintf(" rm=%d", r.window)), nil
	if err := r.sub.write("SUBSCRIBE 1 t:qos=2"); err != nil {
		r.t.Fatal(err)
	}
}

// subscribeStep takes a packet if there is one, or answers a delivery that is not
// answered yet, whichever.
func (r *roaming) subscribeStep() {
	if len(r.unsent) > 0 && r.rng.IntN(2) == 0 {
		i := r.rng.IntN(len(r.unsent))
		pk := r.unsent[i]
		r.unsent = append(r.unsent[:i:i], r.unsent[i+1:]...)
		answer := map[byte]string{packets.Pubrel: "PUBCOMP"}[pk.FixedHeader.Type]
		if pk.FixedHeader.Type == packets.Publish {
			answer = map[byte]string{1: "PUBACK", 2: "PUBREC"}[pk.FixedHeader.Qos]
		}
		if err := r.sub.write(fmt.Sprintf("%s %d", answer, pk.PacketID)); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	pk, err := r.sub.read(time.Millisecond)
	if err != nil {
		return // nothing is there; a connection that is broken is found out by others
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		r.receive(&pk)
	case packets.Pubrel:
		delete(r.ids, pk.PacketID)
		r.unsent = append(r.unsent, pk)
	}
	open := 0
	for i := range r.unsent {
		if r.unsent[i].FixedHeader.Type == packets.Publish {
			open++
		}
	}
	if open > r.window {
		r.t.Errorf("%d messages are not answered, with a window of %d", open, r.window)
	}
}

func (r *roaming) receive(pk *packets.Packet) {
	n, err := strconv.Atoi(string(pk.Payload))
	if err != nil {
		r.t.Fatal(err)
	}
	r.unsent = append(r.unsent, *pk)
	if pk.FixedHeader.Qos == 2 {
		if r.ids[pk.PacketID] {
			return // a repetition
		}
		r.ids[pk.PacketID] = true
	}
	if r.seen[n] == 0 {
		if last := r.newest[pk.FixedHeader.Qos]; n < last {
			r.t.Errorf("message %d comes after %d", n, last)
		}
		r.newest[pk.FixedHeader.Qos] = n
	}
	r.seen[n]++
}
