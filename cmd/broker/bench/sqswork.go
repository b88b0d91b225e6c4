package bench

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// sqsSender is one sending worker.
type sqsSender struct {
	run   *sqsRun
	index int
	line  line
	next  uint64 // counter of the next message
}

// work sends until the run stops or the share of the count is sent.
func (s *sqsSender) work(ctx context.Context) {
	r := s.run
	queue := s.index % r.o.Queues
	s.line = r.line()
	defer s.line.close()
	w := r.writer(r.queues[queue])
	request := w.Send(r.bodies, r.o.Batch, r.o.FIFO)
	tail := request
	quota := share(r.o.Count, s.index, r.o.Senders)
	if rest := int(quota % int64(r.o.Batch)); rest > 0 {
		tail = w.Send(r.bodies, rest, r.o.FIFO)
	}
	pace := newPace(r.began, r.o.Rate, s.index, r.o.Senders, r.o.Batch)
	s.next = 1
	for !r.stopping.Load() && ctx.Err() == nil {
		req := request
		if r.o.Count > 0 {
			left := quota - int64(s.next-1)
			if left <= 0 {
				return
			}
			if left < int64(r.o.Batch) {
				req = tail
			}
		}
		due, ok := pace.wait(ctx)
		if !ok || !r.flows[queue].Reserve(len(req.at)) {
			return
		}
		if pace.interval == 0 {
			due = time.Now()
		}
		s.send(ctx, req, r.flows[queue], due)
	}
}

// send sends one request and books what became of its messages. Latency counts
// from when the request was due, so that a stalled server cannot hide its stall
// by holding up the generator.
func (s *sqsSender) send(ctx context.Context, req *SendRequest, flow *Flow, due time.Time) {
	r, n := s.run, len(req.at)
	first := s.next
	s.next += uint64(n)
	for i := range n {
		counter := first + uint64(i)
		group := 0
		if r.o.FIFO {
			group = int(counter % uint64(r.o.Groups))
		}
		req.Stamp(i, Stamp{Sender: s.index, Counter: counter, Due: due.Sub(r.began)}, group)
	}
	meter := r.send[s.index]
	a, err := s.line.do(ctx, req.Bytes)
	rd := Reader{Protocol: r.o.Protocol}
	if err == nil {
		err = rd.Check(a)
	}
	failed := 0
	if err == nil {
		err = rd.Succeeded(a.Body, n, func(i int, code string) {
			failed++
			meter.Error("send entry: " + code)
			r.tracker.Unknown(s.index, first+uint64(i), 1)
		})
	}
	if err == nil && rd.Sent(a.Body) != n-failed && !r.o.Canned {
		err = ErrBadAnswer
	}
	if err != nil {
		r.tracker.Unknown(s.index, first, uint64(n))
		flow.Done(n)
		if ctx.Err() == nil {
			meter.Error("send: " + errorText(err))
			_ = pause(ctx, redialPause)
		}
		return
	}
	r.tracker.Sent(s.index, first, uint64(n))
	flow.Sent(n - failed)
	if failed > 0 {
		flow.Done(failed)
	}
	meter.Record(n-failed, time.Since(due))
}

// sqsReceiver is one receiving and deleting worker.
type sqsReceiver struct {
	run     *sqsRun
	index   int
	line    line
	reader  Reader
	writer  *Writer
	handles [][]byte
	kept    []byte   // the handles' bytes: an answer is gone with the next request
	held    [][]byte // handles that are used when nothing else comes
	polling atomic.Bool
	cancel  context.CancelFunc
}

// work receives and deletes until all has arrived.
func (c *sqsReceiver) work(ctx context.Context) {
	r := c.run
	queue := c.index % r.o.Queues
	c.line = r.line()
	defer c.line.close()
	c.reader.Protocol = r.o.Protocol
	c.writer = r.writer(r.queues[queue])
	receive := append([]byte(nil), c.writer.Receive(r.o.Batch, r.o.Wait)...)
	for !r.drained.Load() && ctx.Err() == nil {
		want := r.o.Batch
		if r.o.Canned {
			if want = r.flows[queue].Take(r.o.Batch); want == 0 {
				return
			}
		}
		n, err := c.receive(ctx, receive, want)
		switch {
		case err != nil:
		case n == 0:
			err = c.deleteHeld(ctx)
		case r.o.Hold > 0 && r.held.Add(int64(n)) <= r.o.Hold:
			for _, h := range c.handles {
				c.held = append(c.held, bytes.Clone(h))
			}
		default:
			err = c.delete(ctx, c.handles)
		}
		r.flows[queue].Done(n)
		if err != nil && ctx.Err() == nil {
			_ = pause(ctx, redialPause)
		}
	}
	_ = c.deleteHeld(context.WithoutCancel(ctx)) // the meter knows of an error
}

// deleteHeld deletes what was held.
func (c *sqsReceiver) deleteHeld(ctx context.Context) error {
	for len(c.held) > 0 {
		n := min(c.run.o.Batch, len(c.held))
		if err := c.delete(ctx, c.held[:n]); err != nil {
			return err
		}
		c.held = c.held[n:]
	}
	return nil
}

// receive makes one request and keeps up to want of the handles.
func (c *sqsReceiver) receive(ctx context.Context, request []byte, want int) (int, error) {
	r, meter := c.run, c.run.receive[c.index]
	start := time.Now()
	c.polling.Store(true)
	a, err := c.line.do(ctx, request)
	c.polling.Store(false)
	if err == nil {
		err = c.reader.Check(a)
	}
	var messages []Received
	if err == nil {
		messages, err = c.reader.Messages(a.Body)
	}
	if err != nil {
		if ctx.Err() == nil {
			meter.Error("receive: " + errorText(err))
		}
		return 0, err
	}
	now := time.Now()
	c.handles, c.kept = c.handles[:0], c.kept[:0]
	if r.o.Canned {
		messages = messages[:min(want, len(messages))]
	}
	for _, m := range messages {
		from := len(c.kept)
		c.kept = append(c.kept, m.Handle...)
		c.handles = append(c.handles, c.kept[from:])
		if r.o.Canned {
			continue
		}
		st, err := r.bodies.Parse(m.Body)
		if err != nil {
			r.tracker.Foreign()
			continue
		}
		r.tracker.Received(st)
		r.passage[c.index].RecordLatency(now.Sub(r.began) - st.Due)
	}
	if len(messages) > 0 { // an empty long poll is no latency
		meter.Record(len(messages), now.Sub(start))
	}
	return len(messages), nil
}

// delete deletes by handles.
func (c *sqsReceiver) delete(ctx context.Context, handles [][]byte) error {
	meter, n := c.run.del[c.index], len(handles)
	start := time.Now()
	a, err := c.line.do(ctx, c.writer.Delete(handles))
	if err == nil {
		err = c.reader.Check(a)
	}
	failed := 0
	if err == nil {
		err = c.reader.Succeeded(a.Body, n, func(_ int, code string) {
			failed++
			meter.Error("delete entry: " + code)
		})
	}
	if err != nil {
		if ctx.Err() == nil {
			meter.Error("delete: " + errorText(err))
		}
		return err
	}
	meter.Record(n-failed, time.Since(start))
	return nil
}

// errorText is err without what differs from one connection to the next, so
// that equal errors count as one.
func errorText(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// share is the part of count that worker i of n has.
func share(count int64, i, n int) int64 {
	part := count / int64(n)
	if int64(i) < count%int64(n) {
		part++
	}
	return part
}

// pace says when each request of an open loop is due.
type pace struct {
	next     time.Time
	interval time.Duration // 0: a closed loop
}

// newPace spreads the senders evenly over the interval.
func newPace(began time.Time, rate float64, index, senders, batch int) *pace {
	if rate <= 0 {
		return &pace{}
	}
	interval := time.Duration(float64(time.Second) * float64(senders*batch) / rate)
	return &pace{next: began.Add(interval * time.Duration(index) / time.Duration(senders)), interval: interval}
}

// wait waits until the next request is due. One that is late is due in the
// past: it goes out at once, and its lateness counts.
func (p *pace) wait(ctx context.Context) (due time.Time, ok bool) {
	if p.interval == 0 {
		return time.Time{}, true
	}
	due = p.next
	p.next = p.next.Add(p.interval)
	return due, pause(ctx, time.Until(due)) == nil
}
