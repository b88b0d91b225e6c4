package mqtt

import "github.com/leasemq/broker/frontends/mqtt/wire"

// answersMax bounds the answers that are owed. Beyond it the reader waits.
const answersMax = 4096

// answer is a packet that the client is owed.
type answer struct {
	done    bool
	counted bool // it makes room in the receive maximum when it is written
	kind    wire.Type
	id      uint16
	reason  wire.Reason
	raw     []byte // written as it is, instead
}

// answers are those that are owed, in the order in which they are to be written.
// conn.mu guards them.
type answers struct {
	ring       []answer // its length is a power of two
	head, tail uint64   // numbers of the oldest and of the next one
}

func (a *answers) len() int { return int(a.tail - a.head) }

// push adds an answer and returns its number.
func (a *answers) push(one answer) uint64 {
	if a.len() == len(a.ring) {
		larger := make([]answer, max(8, 2*len(a.ring)))
		for n := a.head; n < a.tail; n++ {
			larger[n&uint64(len(larger)-1)] = *a.at(n)
		}
		a.ring = larger
	}
	*a.at(a.tail) = one
	a.tail++
	return a.tail - 1
}

func (a *answers) at(n uint64) *answer { return &a.ring[n&uint64(len(a.ring)-1)] }

// owe notes that a PUBLISH is to be answered. It returns false if the client has
// sent too many.
func (c *conn) owe(kind wire.Type, id uint16) (n uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unacked >= c.server.options.ReceiveMax && c.version == wire.V5 {
		return 0, false
	}
	c.unacked++
	if kind == wire.PUBREC {
		c.received[id] = true
	}
	return c.answers.push(answer{kind: kind, id: id, counted: kind == wire.PUBACK}), true
}

// answerNow notes an answer that waits for those before it alone.
func (c *conn) answerNow(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.done = true
	c.answers.push(a)
	c.tellLocked()
}

// settleAnswer says what the answer of a number is.
func (c *conn) settleAnswer(n uint64, r wire.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.answers.at(n)
	a.done, a.reason = true, r
	if a.kind == wire.PUBREC && r >= wire.Unspecified {
		a.counted = true // nothing follows it
	}
	c.tellLocked()
}

// tellLocked writes the answers that are there.
func (c *conn) tellLocked() {
	a := &c.answers
	if a.head == a.tail || !a.at(a.head).done {
		return
	}
	b := c.beginLocked()
	for a.head < a.tail && a.at(a.head).done {
		one := a.at(a.head)
		if one.counted {
			c.unacked--
		}
		if one.raw != nil {
			b = append(b, one.raw...)
		} else {
			b = wire.AppendAck(b, c.version, one.kind, one.id, one.reason)
		}
		*one = answer{}
		a.head++
	}
	c.putLocked(b)
	if c.waiting {
		c.room.Broadcast()
	}
}
