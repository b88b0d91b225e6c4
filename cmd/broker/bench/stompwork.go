package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// stompSlot is a send that was not answered yet. Its number is its receipt id.
type stompSlot struct {
	counter atomic.Uint64 // 0: free
	due     atomic.Int64  // nanoseconds since the run began
}

// stompProducer is one sending connection: work writes, listen reads receipts.
type stompProducer struct {
	run   *stompRun
	index int
	conn  *stompConn
	flow  *Flow
	head  []byte // of each SEND, up to its receipt
	slots []stompSlot
	free  chan int      // numbers of free slots
	ended chan struct{} // listen has ended
	next  uint64        // counter of the next message
}

func newSTOMPProducer(r *stompRun, index int, conn *stompConn) *stompProducer {
	p := &stompProducer{
		run: r, index: index, conn: conn, flow: r.flows[index%r.o.Queues],
		slots: make([]stompSlot, r.o.Window), free: make(chan int, r.o.Window), ended: make(chan struct{}), next: 1,
	}
	for i := range p.slots {
		p.free <- i
	}
	p.head = fmt.Appendf(nil, "SEND\ndestination:%s\ncontent-length:%d\n", r.destination(index), r.o.Size)
	if r.o.Persistent {
		p.head = append(p.head, "persistent:true\n"...)
	}
	return p
}

// work sends until the run stops or the share of the count is sent, and waits for
// the receipts that are due.
func (p *stompProducer) work(ctx context.Context) {
	r := p.run
	stop := context.AfterFunc(ctx, func() { _ = p.conn.conn.Close() })
	defer stop()
	go p.listen(ctx)
	err := p.send(ctx)
	if err == nil {
		err = p.conn.flush()
	}
	// All slots free: nothing is awaited.
	limit := time.After(r.patience)
	for n := 0; err == nil && n < len(p.slots); n++ {
		select {
		case <-p.free:
		case <-p.ended:
			n = len(p.slots)
		case <-limit:
			err = errors.New("receipts are missing")
		}
	}
	_ = p.conn.conn.Close()
	<-p.ended
	if err != nil && ctx.Err() == nil {
		r.send[p.index].Error("send: " + errorText(err))
	}
	for i := range p.slots {
		if counter := p.slots[i].counter.Load(); counter != 0 {
			r.tracker.Unknown(p.index, counter, 1)
			p.flow.Done(1)
		}
	}
}

func (p *stompProducer) send(ctx context.Context) error {
	r := p.run
	quota := share(r.o.Count, p.index, r.o.Producers)
	pace := newPace(r.began, r.o.Rate, p.index, r.o.Producers, 1)
	for !r.stopping.Load() && ctx.Err() == nil && (r.o.Count == 0 || int64(p.next) <= quota) {
		if pace.interval > 0 && time.Until(pace.next) > 0 || len(p.conn.w) >= stompWriteBytes {
			if err := p.conn.flush(); err != nil {
				return err
			}
		}
		due, ok := pace.wait(ctx)
		if !ok {
			return nil
		}
		slot, err := p.slot(ctx)
		if err != nil || slot < 0 {
			return err
		}
		if pace.interval == 0 {
			due = time.Now()
		}
		st := Stamp{Sender: p.index, Counter: p.next, Due: due.Sub(r.began)}
		p.slots[slot].due.Store(int64(st.Due))
		p.slots[slot].counter.Store(st.Counter)
		p.conn.putSend(p.head, slot, r.bodies, st)
		p.next++
	}
	return nil
}

// slot returns a free slot, -1 when the run ends. What was gathered is written
// before it waits.
func (p *stompProducer) slot(ctx context.Context) (int, error) {
	if !p.flow.TryReserve(1) {
		if err := p.conn.flush(); err != nil {
			return -1, err
		}
		if !p.flow.Reserve(1) {
			return -1, nil
		}
	}
	select {
	case slot := <-p.free:
		return slot, nil
	default:
	}
	err := p.conn.flush()
	if err == nil {
		select {
		case slot := <-p.free:
			return slot, nil
		case <-p.ended:
		case <-ctx.Done():
		}
	}
	p.flow.Done(1)
	return -1, err
}

// listen books receipts until the connection ends.
func (p *stompProducer) listen(ctx context.Context) {
	defer close(p.ended)
	r, meter := p.run, p.run.send[p.index]
	for {
		f, err := p.conn.read()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				meter.Error("receipt: " + errorText(err))
			}
			return
		}
		slot, err := strconv.Atoi(string(f.receipt))
		if err != nil || f.command != "RECEIPT" || slot < 0 || slot >= len(p.slots) || p.slots[slot].counter.Load() == 0 {
			meter.Error(fmt.Sprintf("%s with receipt-id %q", f.command, f.receipt))
			return
		}
		s := &p.slots[slot]
		r.tracker.Sent(p.index, s.counter.Swap(0), 1)
		p.flow.Sent(1)
		meter.Record(1, time.Since(r.began)-time.Duration(s.due.Load()))
		p.free <- slot
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
		if err == nil && (c.conn.r.Buffered() == 0 || len(c.conn.w) >= stompWriteBytes) {
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
