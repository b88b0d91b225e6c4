package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// mqttTaker is a subscriber that acknowledges in random order, and outlives its
// connections: it knows what it has had. Bodies are numbers that rise.
type mqttTaker struct {
	r      *rand.Rand
	window int  // its receive maximum
	twice  bool // publishers may send those of QoS 1 again

	newest     int // of the bodies that came
	counts     map[int]int
	sent       map[int]uint16 // ids of the bodies that came, and were not acknowledged for certain
	firsts     map[int]uint16 // ids that the bodies came with at first
	taken      map[uint16]int // QoS 2: bodies by id, whose PUBREL has not come
	violations []string

	// Of the connection.
	open    []mqttOpen
	awaited map[uint16]bool // PUBREC went out, PUBCOMP has not
	resent  int             // the last body that came again
	fresh   bool            // one came for the first time
}

// mqttOpen is a message that is not acknowledged.
type mqttOpen struct {
	body int
	id   uint16
	qos  byte
}

func newMQTTTaker(r *rand.Rand, window int) *mqttTaker {
	return &mqttTaker{r: r, window: window, counts: map[int]int{}, sent: map[int]uint16{}, firsts: map[int]uint16{}, taken: map[uint16]int{}}
}

func (k *mqttTaker) violate(format string, args ...any) {
	k.violations = append(k.violations, fmt.Sprintf(format, args...))
}

// begin begins a connection.
func (k *mqttTaker) begin() {
	k.open, k.awaited, k.resent, k.fresh = nil, map[uint16]bool{}, 0, false
}

// ready tells whether something can be read soon.
func (p *mqttPeer) ready(soon time.Duration) (bool, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(soon)); err != nil {
		return false, err
	}
	_, err := p.r.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// serve takes that many packets, or acknowledges; it stops early when done says so,
// or when nothing comes and nothing is owed.
func (k *mqttTaker) serve(p *mqttPeer, steps int, done func() bool) error {
	k.begin()
	for range steps {
		if done() && len(k.open) == 0 && len(k.awaited) == 0 {
			return nil
		}
		if len(k.open) >= k.window || len(k.open) > 0 && k.r.IntN(2) == 0 {
			if err := k.ack(p); err != nil {
				return err
			}
			continue
		}
		ok, err := p.ready(10 * time.Millisecond)
		if err != nil {
			return err
		}
		if !ok {
			if len(k.open) > 0 {
				err = k.ack(p)
			}
			if err != nil {
				return err
			}
			continue
		}
		c, err := p.read()
		if err == nil {
			err = k.take(p, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ack acknowledges a message that came, whichever.
func (k *mqttTaker) ack(p *mqttPeer) error {
	i := k.r.IntN(len(k.open))
	o := k.open[i]
	k.open = slices.Delete(k.open, i, i+1)
	if o.qos == 1 {
		delete(k.sent, o.body) // it may come again, under any id
		return p.write(mqttAck(packets.PUBACK, o.id))
	}
	k.awaited[o.id] = true
	return p.write(mqttAck(packets.PUBREC, o.id))
}

func (k *mqttTaker) take(p *mqttPeer, c *packets.ControlPacket) error {
	switch m := c.Content.(type) {
	case *packets.Publish:
		k.message(m)
	case *packets.Pubrel:
		if body, there := k.taken[m.PacketID]; there {
			delete(k.taken, m.PacketID)
			delete(k.sent, body)
		}
		delete(k.awaited, m.PacketID)
		return p.write(mqttAck(packets.PUBCOMP, m.PacketID))
	default:
		k.violate("%v came", c)
	}
	return nil
}

func (k *mqttTaker) message(m *packets.Publish) {
	body, err := strconv.Atoi(string(m.Payload))
	if err != nil || m.QoS == 0 {
		k.violate("%.100q with QoS %d came", m.Payload, m.QoS)
		return
	}
	for _, o := range k.open {
		if o.id == m.PacketID {
			k.violate("%d came with id %d, which %d has", body, m.PacketID, o.body)
		}
	}
	k.open = append(k.open, mqttOpen{body, m.PacketID, m.QoS})
	if n := len(k.open) + len(k.awaited); n > k.window {
		k.violate("%d messages are unacknowledged, over %d", n, k.window)
	}
	if m.QoS == 2 {
		if had, there := k.taken[m.PacketID]; there {
			if had != body {
				k.violate("%d came with id %d, which %d has until its PUBREL", body, m.PacketID, had)
			}
			k.again(m, body)
			return // it is known: not handed on
		}
		k.taken[m.PacketID] = body
	}
	if k.counts[body]++; k.counts[body] > 1 {
		if m.QoS == 2 {
			k.violate("%d of QoS 2 came again: id %d, DUP %v, with id %d at first", body, m.PacketID, m.Duplicate, k.firsts[body])
		}
		k.again(m, body)
		return
	}
	if body < k.newest {
		k.violate("%d came behind %d", body, k.newest)
	}
	k.newest, k.fresh = max(k.newest, body), true
	k.sent[body], k.firsts[body] = m.PacketID, m.PacketID
}

// again checks a message that came before.
func (k *mqttTaker) again(m *packets.Publish, body int) {
	id, open := k.sent[body]
	if !open {
		return // QoS 1: its PUBACK got lost, or its publisher sent it twice
	}
	switch {
	case id != m.PacketID && m.QoS == 1 && k.twice:
		return
	case id != m.PacketID:
		k.violate("%d came again with id %d, not %d", body, m.PacketID, id)
	case !m.Duplicate:
		k.violate("%d came again without DUP", body)
	case k.fresh || body < k.resent:
		k.violate("%d came again behind later ones", body)
	}
	k.resent = body
}

// lost tells whether err is the end of a connection, and no more.
func lost(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// mqttGiver is a publisher whose session outlives its connections. It numbers its
// messages from 1 on, of QoS 1 and 2 in turn.
type mqttGiver struct {
	window     int
	next       int // number of the next message
	inflight   []mqttGiven
	acked      map[int]bool // those whose PUBACK or PUBREC came
	violations []string
}

// mqttGiven is a message that was sent.
type mqttGiven struct {
	body     int
	id       uint16
	qos      byte
	received bool // its PUBREC came
}

func (g *mqttGiver) packet(m *mqttGiven, again bool) *packets.ControlPacket {
	if m.received {
		return mqttAck(packets.PUBREL, m.id)
	}
	return publication{topic: "k/x", body: strconv.Itoa(m.body), qos: m.qos, id: m.id, again: again}.packet()
}

// serve sends again what is under way, and new messages up to last, until that
// many are acknowledged.
func (g *mqttGiver) serve(p *mqttPeer, last, acks int) error {
	for i := range g.inflight {
		if err := p.write(g.packet(&g.inflight[i], true)); err != nil {
			return err
		}
	}
	for acks > 0 && (g.next <= last || len(g.inflight) > 0) {
		for g.next <= last && len(g.inflight) < g.window {
			m := mqttGiven{body: g.next, id: g.freeID(), qos: byte(1 + g.next%2)}
			g.inflight = append(g.inflight, m)
			g.next++
			if err := p.write(g.packet(&m, false)); err != nil {
				return err
			}
		}
		c, err := p.read()
		if err != nil {
			return err
		}
		counts, err := g.answer(p, c)
		if err != nil {
			return err
		}
		if counts {
			acks--
		}
	}
	return nil
}

// freeID returns an id that no message under way has.
func (g *mqttGiver) freeID() uint16 {
	for id := uint16(g.next%1000 + 1); ; id++ {
		if !slices.ContainsFunc(g.inflight, func(m mqttGiven) bool { return m.id == id }) {
			return id
		}
	}
}

// answer books an acknowledgement, and tells whether it says that a message is
// stored.
func (g *mqttGiver) answer(p *mqttPeer, c *packets.ControlPacket) (bool, error) {
	i := slices.IndexFunc(g.inflight, func(m mqttGiven) bool { return m.id == c.PacketID() })
	if i < 0 {
		g.violations = append(g.violations, fmt.Sprintf("%v for no message", c))
		return false, nil
	}
	m := &g.inflight[i]
	switch a := c.Content.(type) {
	case *packets.Puback:
		if m.qos != 1 || a.ReasonCode >= 0x80 {
			g.violations = append(g.violations, fmt.Sprintf("%v for %+v", c, *m))
		}
		g.acked[m.body] = true
		g.inflight = slices.Delete(g.inflight, i, i+1)
		return true, nil
	case *packets.Pubrec:
		if m.qos != 2 || a.ReasonCode >= 0x80 {
			g.violations = append(g.violations, fmt.Sprintf("%v for %+v", c, *m))
		}
		m.received, g.acked[m.body] = true, true
		return true, p.write(g.packet(m, false))
	case *packets.Pubcomp:
		g.inflight = slices.Delete(g.inflight, i, i+1)
	}
	return false, nil
}
