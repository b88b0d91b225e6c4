package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// stompOutlet is the connection of a producer. The number of a slot is the receipt
// id of its send.
type stompOutlet struct {
	conn   *stompConn
	bodies *Bodies
	head   []byte // of each SEND, up to its receipt
}

func newSTOMPProducer(r *stompRun, index int, conn *stompConn) *sender {
	o := &stompOutlet{conn: conn, bodies: r.bodies}
	o.head = fmt.Appendf(nil, "SEND\ndestination:%s\ncontent-length:%d\n", r.destination(index), r.o.Size)
	if r.o.Persistent {
		o.head = append(o.head, "persistent:true\n"...)
	}
	s := &sender{
		run: &r.course, index: index, of: r.o.Producers, rate: r.o.Rate, copies: 1,
		flow: r.flows[index%r.o.Queues], meter: r.send[index], out: o,
	}
	return s.window(r.o.Window)
}

func (o *stompOutlet) put(slot int, st Stamp) { o.conn.putSend(o.head, slot, o.bodies, st) }
func (o *stompOutlet) gathered() int          { return len(o.conn.w) }
func (o *stompOutlet) flush() error           { return o.conn.flush() }
func (o *stompOutlet) close()                 { _ = o.conn.conn.Close() }

// listen books receipts until the connection ends.
func (o *stompOutlet) listen(_ context.Context, s *sender) error {
	for {
		f, err := o.conn.read()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				err = nil
			}
			return err
		}
		at, err := strconv.Atoi(string(f.receipt))
		if err != nil || f.command != "RECEIPT" || !s.answered(at) {
			return fmt.Errorf("%s with receipt-id %q", f.command, f.receipt)
		}
	}
}

// stompConsumer is one receiving connection.
type stompConsumer struct {
	run     *stompRun
	index   int
	conn    *stompConn
	newest  []uint64    // by producer
	awaited []time.Time // with receipts on ACK: when each was sent, by receipt id
	first   int         // receipt id of awaited[0]
}

// subscribe subscribes and waits until the server has confirmed that.
func (c *stompConsumer) subscribe() error {
	o := &c.run.o
	w := fmt.Appendf(nil, "SUBSCRIBE\nid:0\ndestination:%s\nack:client-individual\nreceipt:sub\n", c.run.destination(c.index))
	if o.Prefetch > 0 {
		w = fmt.Appendf(w, "prefetch-count:%d\nactivemq.prefetchSize:%d\n", o.Prefetch, o.Prefetch)
	}
	c.conn.w = append(append(c.conn.w, w...), '\n', 0)
	err := c.conn.conn.SetDeadline(time.Now().Add(requestTimeout))
	if err == nil {
		err = c.conn.flush()
	}
	var f *stompFrame
	if err == nil {
		f, err = c.conn.read()
	}
	switch {
	case err != nil:
	case f.command != "RECEIPT":
		err = fmt.Errorf("%s, where the receipt of SUBSCRIBE is expected: is the queue empty?", f.command)
	default:
		err = c.conn.conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

// wake has work look whether all has arrived.
func (c *stompConsumer) wake() { _ = c.conn.conn.SetReadDeadline(time.Unix(1, 0)) }

// work takes messages and acknowledges each, until all has arrived.
func (c *stompConsumer) work(ctx context.Context) {
	r := c.run
	stop := context.AfterFunc(ctx, func() { _ = c.conn.conn.Close() })
	defer stop()
	defer c.conn.conn.Close()
	for {
		f, err := c.conn.read()
		if err == nil {
			err = c.take(f)
		}
		// What has come so far is acknowledged by one write.
		if err == nil && (c.conn.r.Buffered() == 0 || len(c.conn.w) >= gatheredBytes) {
			err = c.conn.flush()
		}
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

// take books a frame.
func (c *stompConsumer) take(f *stompFrame) error {
	r := c.run
	now := time.Now()
	if f.command == "RECEIPT" {
		return c.acked(f, now)
	}
	if f.command != "MESSAGE" {
		return fmt.Errorf("%s: %w", f.command, ErrBadFrame)
	}
	st, err := r.bodies.Parse(f.body)
	if err != nil {
		r.tracker.Foreign()
	} else {
		r.tracker.Received(st)
		c.order(st, f.again)
		r.passage[c.index].RecordLatency(now.Sub(r.began) - st.Due)
		r.receive[c.index].Record(1, now.Sub(r.began)-st.Due)
	}
	receipt := -1
	if r.o.AckReceipts {
		receipt = c.first + len(c.awaited)
		c.awaited = append(c.awaited, now)
	}
	c.conn.putAck(f.ack, receipt)
	if !r.o.AckReceipts {
		r.ack[c.index].Count(1)
	}
	r.flows[c.index%r.o.Queues].Done(1)
	return nil
}

// order checks that the messages of a producer come to this consumer in the order
// of their sends, but for those that come again.
func (c *stompConsumer) order(st Stamp, again bool) {
	if again || st.Sender >= len(c.newest) {
		return
	}
	if st.Counter < c.newest[st.Sender] {
		c.run.tracker.Disordered()
	}
	c.newest[st.Sender] = max(c.newest[st.Sender], st.Counter)
}

// acked books the receipt of an ACK. They come in order.
func (c *stompConsumer) acked(f *stompFrame, now time.Time) error {
	id, err := strconv.Atoi(string(f.receipt))
	if err != nil || len(c.awaited) == 0 || id != c.first {
		return fmt.Errorf("receipt-id %q, where %d is expected", f.receipt, c.first)
	}
	c.run.ack[c.index].Record(1, now.Sub(c.awaited[0]))
	c.awaited = c.awaited[1:]
	c.first++
	return nil
}

// leave disconnects once the server has done all that it was told.
func (c *stompConsumer) leave() error {
	c.conn.w = append(c.conn.w, "DISCONNECT\nreceipt:bye\n\n\x00"...)
	if err := c.conn.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	if err := c.conn.flush(); err != nil {
		return err
	}
	for {
		f, err := c.conn.read()
		if err != nil || string(f.receipt) == "bye" {
			return err
		}
		if err := c.take(f); err != nil {
			return err
		}
	}
}
