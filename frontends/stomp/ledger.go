package stomp

import (
	"sort"
	"time"

	"github.com/leasemq/broker/core"
)

// Where a delivery stands.
type deliveryState uint8

const (
	deliveryOpen     deliveryState = iota // the client has not said anything yet
	deliveryReserved                      // a transaction has an ACK or NACK of it
	deliverySettled
)

// delivery is one message that a subscription was given.
type delivery struct {
	seq     uint64
	receipt core.Receipt
	size    int64
	at      int64  // when it was delivered, milliseconds
	failed  uint32 // how often before it was
	end     int64  // where its frame ends in what the connection writes
	state   deliveryState
}

// settlement returns what the core is to do with a delivery.
func (d *delivery) settlement(action core.SettleAction) core.Settlement {
	s := core.Settlement{Receipt: d.receipt, Action: action}
	if action == core.SettleReject {
		s.Delay = nackDelay(d.failed)
	}
	return s
}

// A message that is rejected again and again comes back at once at first, and then
// later each time, if its queue has no policy of its own: a client that can never
// handle it must not spin.
const (
	nacksAtOnce  = 3
	nackDelayMin = time.Second
	nackDelayMax = time.Minute
)

// nackDelay is how long a message waits that is rejected and had failed that often
// before.
func nackDelay(failed uint32) time.Duration {
	if failed < nacksAtOnce {
		return 0
	}
	return min(nackDelayMin<<min(failed-nacksAtOnce, 10), nackDelayMax)
}

// ledger has the deliveries of a subscription that are not settled, by their
// sequence. Those that are settled out of order stay until they are at the front,
// or are more than half of all.
type ledger struct {
	list    []delivery
	head    int // list[head] is the oldest that is not settled
	settled int // behind head
}

// Bounds of what a ledger keeps without need.
const (
	compactMin = 64
	ledgerKept = 4096
)

func (l *ledger) add(d delivery) { l.list = append(l.list, d) }

// open returns how many are not settled.
func (l *ledger) open() int { return len(l.list) - l.head - l.settled }

// find returns the delivery with that sequence, nil if it is settled.
func (l *ledger) find(seq uint64) *delivery {
	rest := l.list[l.head:]
	i := sort.Search(len(rest), func(i int) bool { return rest[i].seq >= seq })
	if i < len(rest) && rest[i].seq == seq && rest[i].state != deliverySettled {
		return &rest[i]
	}
	return nil
}

// each calls visit with every delivery that is not settled, the oldest first,
// until it returns false.
func (l *ledger) each(visit func(d *delivery) bool) {
	for i := l.head; i < len(l.list); i++ {
		if l.list[i].state != deliverySettled && !visit(&l.list[i]) {
			return
		}
	}
}

// settle takes d out. Pointers into the ledger are good until tidy.
func (l *ledger) settle(d *delivery) {
	d.state = deliverySettled
	l.settled++
}

// tidy gives up the room of settled deliveries.
func (l *ledger) tidy() {
	for l.head < len(l.list) && l.list[l.head].state == deliverySettled {
		l.head++
		l.settled--
	}
	rest := len(l.list) - l.head
	switch {
	case rest == 0 && cap(l.list) > ledgerKept:
		l.list, l.head = nil, 0
	case rest == 0:
		l.list, l.head = l.list[:0], 0
	case l.head+l.settled >= compactMin && l.head+l.settled > len(l.list)/2:
		kept := l.list[:0]
		for _, d := range l.list[l.head:] {
			if d.state != deliverySettled {
				kept = append(kept, d)
			}
		}
		l.list, l.head, l.settled = kept, 0, 0
	}
}
