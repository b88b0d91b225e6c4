package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// mqttOutlet is the connection of a publisher. The number of a slot and one is the
// id of its packet.
type mqttOutlet struct {
	conn   *mqttConn
	bodies *Bodies
	qos    byte
	head   []byte
	id     int    // where it stands in head
	rel    []byte // PUBRELs that listen has gathered
}

func newMQTTPublisher(r *mqttRun, index int, conn *mqttConn) *sender {
	o := &mqttOutlet{conn: conn, bodies: r.bodies, qos: byte(r.o.QoS)}
	o.head, o.id = publishHead(conn.version, r.topic(index), o.qos, r.o.Size)
	s := &sender{
		run: &r.course, index: index, of: r.o.Publishers, rate: r.o.Rate, copies: r.copies, blind: o.qos == 0,
		flow: r.flows[index%r.o.Topics], meter: r.publish[index], out: o,
	}
	return s.window(min(r.o.Window, conn.receiveMax))
}

func (o *mqttOutlet) put(slot int, st Stamp) {
	c, from := o.conn, len(o.conn.w)
	c.w = append(c.w, o.head...)
	if o.qos > 0 {
		c.w[from+o.id], c.w[from+o.id+1] = byte((slot+1)>>8), byte(slot+1)
	}
	from, size := len(c.w), o.bodies.Size()
	for cap(c.w) < from+size {
		c.w = append(c.w[:cap(c.w)], 0)
	}
	c.w = c.w[:from+size]
	o.bodies.Fill(c.w[from:], st)
}

func (o *mqttOutlet) gathered() int { return len(o.conn.w) }
func (o *mqttOutlet) flush() error  { return o.conn.flush() }
func (o *mqttOutlet) close()        { _ = o.conn.conn.Close() }

// listen books acknowledgements until the connection ends.
func (o *mqttOutlet) listen(_ context.Context, s *sender) error {
	for {
		p, err := o.conn.read()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				err = nil
			}
			return err
		}
		at, ok := int(p.id)-1, true
		switch {
		case p.kind == mqttPingresp:
		case p.reason >= 0x80 && (p.kind == mqttPuback || p.kind == mqttPubrec || p.kind == mqttPubcomp):
			ok = s.refused(at, fmt.Sprintf("publish: refused with 0x%02x", p.reason))
		case p.kind == mqttPuback && o.qos == 1, p.kind == mqttPubcomp && o.qos == 2:
			ok = s.answered(at)
		case p.kind == mqttPubrec && o.qos == 2:
			o.rel = appendMQTTAck(o.rel, mqttPubrel, p.id)
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("packet of kind %d with id %d", p.kind, p.id)
		}
		if len(o.rel) > 0 && (o.conn.r.Buffered() == 0 || len(o.rel) >= gatheredBytes) {
			// A write is whole: it may go between those of put.
			if _, err := o.conn.conn.Write(o.rel); err != nil {
				return err
			}
			o.rel = o.rel[:0]
		}
	}
}

// mqttSubscriber is one receiving connection.
type mqttSubscriber struct {
	run    *mqttRun
	index  int
	id     string // of the client
	conn   *mqttConn
	newest []uint64        // by publisher
	taken  map[uint16]bool // ids of QoS 2 that await PUBREL
	bye    bool            // the ping before the end is answered
}

// subscribe subscribes and waits until the server has confirmed that.
func (c *mqttSubscriber) subscribe() error {
	c.conn.putSubscribe(c.run.filter(c.index), byte(c.run.o.QoS))
	p, err := c.conn.ask(mqttSuback)
	if err == nil && (len(p.body) != 1 || p.body[0] != byte(c.run.o.QoS)) {
		err = fmt.Errorf("SUBACK of %x, where QoS %d is expected", p.body, c.run.o.QoS)
	}
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

// wake has work look whether all has arrived.
func (c *mqttSubscriber) wake() { _ = c.conn.conn.SetReadDeadline(time.Unix(1, 0)) }

// work takes messages and acknowledges each, until all has arrived.
func (c *mqttSubscriber) work(ctx context.Context) {
	r := c.run
	stop := context.AfterFunc(ctx, func() { _ = c.conn.conn.Close() })
	defer stop()
	defer c.conn.conn.Close()
	for {
		err := c.step()
		switch {
		case err == nil:
			continue
		case r.drained.Load() && errors.Is(err, os.ErrDeadlineExceeded):
			err = c.leave()
		}
		if err != nil && ctx.Err() == nil {
			r.receive[c.index].Error("receive: " + errorText(err))
		}
		return
	}
}

// step takes a packet. What has come so far is acknowledged by one write.
func (c *mqttSubscriber) step() error {
	p, err := c.conn.read()
	if err == nil {
		err = c.take(p)
	}
	if err == nil && (c.conn.r.Buffered() == 0 || len(c.conn.w) >= gatheredBytes) {
		err = c.conn.flush()
	}
	return err
}

func (c *mqttSubscriber) take(p *mqttPacket) error {
	switch p.kind {
	case mqttPingresp:
		c.bye = c.run.drained.Load()
		return nil
	case mqttPubrel:
		delete(c.taken, p.id)
		c.conn.putAck(mqttPubcomp, p.id)
		return nil
	case mqttPublish:
	default:
		return fmt.Errorf("packet of kind %d: %w", p.kind, ErrBadPacket)
	}
	switch p.qos {
	case 1:
		c.conn.putAck(mqttPuback, p.id)
	case 2:
		c.conn.putAck(mqttPubrec, p.id)
		if c.taken[p.id] {
			return nil // it comes again since its PUBREC got lost
		}
		c.taken[p.id] = true
	}
	c.book(p)
	return nil
}

// book books a message.
func (c *mqttSubscriber) book(p *mqttPacket) {
	r, now := c.run, time.Now()
	r.flows[c.index%r.o.Topics].Done(1)
	st, err := r.bodies.Parse(p.body)
	if err != nil || st.Sender >= r.o.Publishers {
		r.tracker.Foreign()
		return
	}
	r.passage[c.index].RecordLatency(now.Sub(r.began) - st.Due)
	r.receive[c.index].Record(1, now.Sub(r.began)-st.Due)
	// The messages of a publisher come in the order of its sends, but for those
	// that come again.
	if !p.again && st.Counter < c.newest[st.Sender] {
		r.tracker.Disordered()
	}
	c.newest[st.Sender] = max(c.newest[st.Sender], st.Counter)
	st.Sender += r.rank(c.index) * r.o.Publishers
	r.tracker.Received(st)
}

// leave disconnects once the server has read all acknowledgements, and does away
// with a session that would outlive the run.
func (c *mqttSubscriber) leave() error {
	if err := c.conn.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	c.conn.w = append(c.conn.w, mqttPingreq<<4, 0)
	err := c.conn.flush()
	for err == nil && !c.bye {
		err = c.step()
	}
	if err == nil {
		c.conn.w = append(c.conn.w, mqttDisconnect<<4, 0)
		err = c.conn.flush()
	}
	if err != nil || !c.run.o.Persistent {
		return err
	}
	return c.forget()
}

// forget has the server forget the session.
func (c *mqttSubscriber) forget() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	conn, err := dialMQTT(ctx, &c.run.o, c.id, true, false)
	if err != nil {
		return fmt.Errorf("end of the session: %w", err)
	}
	conn.w = append(conn.w, mqttDisconnect<<4, 0)
	return errors.Join(conn.flush(), conn.conn.Close())
}
