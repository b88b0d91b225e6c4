package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// STOMPOptions says what to do to which STOMP server.
type STOMPOptions struct {
	Target      string        `json:"target"` // host:port
	Host        string        `json:"host"`   // header of CONNECT: the virtual host
	Login       string        `json:"login,omitempty"`
	Passcode    string        `json:"-"`
	Producers   int           `json:"producers"`
	Consumers   int           `json:"consumers"` // 0: send only
	Queues      int           `json:"queues"`
	Window      int           `json:"window"`       // sends of a producer whose receipts are awaited
	Prefetch    int           `json:"prefetch"`     // messages that a consumer may hold; 0: the server's default
	AckReceipts bool          `json:"ack_receipts"` // each ACK asks for a receipt
	Persistent  bool          `json:"persistent"`   // header of SEND
	Size        int           `json:"size"`         // of a body, bytes
	Rate        float64       `json:"rate"`         // messages/s over all producers; 0: as fast as receipts come
	Warmup      time.Duration `json:"warmup_ns"`    // not measured
	Duration    time.Duration `json:"duration_ns"`  // measured; 0 with Count
	Count       int64         `json:"count"`        // messages over all producers; 0: by Duration
	Ahead       int           `json:"ahead"`        // messages a queue that producers may run ahead; 0: no limit
	Prefix      string        `json:"prefix"`       // of the destinations
	Drain       time.Duration `json:"drain_ns"`     // how long to wait at the end for what is under way
	Seed        uint64        `json:"seed"`         // of the bodies
	ServerPID   int           `json:"server_pid"`   // process whose CPU time is the server's; 0: none
	Progress    Progress      `json:"-"`            // may be nil
}

func (o *STOMPOptions) check() error {
	if _, port, err := net.SplitHostPort(o.Target); err != nil || port == "" {
		return fmt.Errorf("target %q: must be host:port", o.Target)
	}
	for _, s := range []string{o.Host, o.Login, o.Passcode, o.Prefix} {
		if strings.ContainsAny(s, "\r\n\x00") {
			return errors.New("a header with a line end or NUL")
		}
	}
	switch {
	case o.Producers < 1 || o.Producers > SendersMax:
		return fmt.Errorf("%d producers: must be 1 to %d", o.Producers, SendersMax)
	case o.Queues < 1:
		return fmt.Errorf("%d queues: must be at least 1", o.Queues)
	case o.Producers < o.Queues || o.Consumers < 0 || o.Consumers > 0 && o.Consumers < o.Queues:
		return fmt.Errorf("%d queues need at least as many producers and consumers", o.Queues)
	case o.Window < 1 || o.Window > windowMax:
		return fmt.Errorf("window of %d: must be 1 to %d", o.Window, windowMax)
	case o.Prefetch < 0:
		return fmt.Errorf("prefetch of %d: must not be negative", o.Prefetch)
	case o.Duration <= 0 && o.Count <= 0:
		return errors.New("neither duration nor count is given")
	}
	return nil
}

// stompRun is one run under way.
type stompRun struct {
	course
	o       STOMPOptions
	bodies  *Bodies
	flows   []*Flow
	send    []*Meter
	receive []*Meter
	ack     []*Meter
	passage []*Meter // from due to received
}

// RunSTOMP drives a STOMP server: producers that ask for a receipt on each SEND,
// consumers that acknowledge each message by itself. What went wrong with single
// messages stands in the result; an error means that there is none. Its queues
// stay, empty: STOMP has no frame that deletes one.
func RunSTOMP(ctx context.Context, o STOMPOptions) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	bodies, err := NewBodies(o.Seed, o.Size)
	if err != nil {
		return nil, err
	}
	r := &stompRun{o: o, bodies: bodies}
	r.course = course{
		warmup: o.Warmup, duration: o.Duration, count: o.Count, patience: o.Drain, serverPID: o.ServerPID, progress: o.Progress,
		tracker: NewTracker(o.Producers, 0),
	}
	ahead := o.Ahead
	if o.Rate > 0 || o.Consumers == 0 {
		ahead = 0 // an open loop waits for nobody
	}
	for range o.Queues {
		r.flows = append(r.flows, NewFlow(ahead))
	}
	r.send = newMeters(&r.phase, o.Producers)
	r.receive = newMeters(&r.phase, o.Consumers)
	r.ack = newMeters(&r.phase, o.Consumers)
	r.passage = newMeters(&r.phase, o.Consumers)
	cost, err := r.drive(ctx)
	if err != nil {
		return nil, err
	}
	return r.outcome(cost), nil
}

func (r *stompRun) destination(i int) string {
	return fmt.Sprintf("/queue/%s-%d", r.o.Prefix, i%r.o.Queues)
}

// drive runs the workers through warm-up, measurement and drain.
func (r *stompRun) drive(ctx context.Context) (Cost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	consumers, err := r.subscribe(ctx)
	if err != nil {
		return Cost{}, err
	}
	producers, err := r.connect(ctx)
	if err != nil {
		return Cost{}, errors.Join(err, closeAll(consumers))
	}
	r.begin()
	var sending, receiving sync.WaitGroup
	for _, c := range consumers {
		receiving.Go(func() { c.work(ctx) })
	}
	for _, p := range producers {
		sending.Go(func() { p.work(ctx) })
	}
	shown := r.ack
	if len(consumers) == 0 {
		shown = r.send
	}
	stopProgress := r.showProgress(ctx, shown)
	defer stopProgress()

	cost, err := r.measure(ctx, &sending, func() int64 { return sumMessages(r.send) + sumMessages(r.ack) })
	r.stopping.Store(true)
	if err != nil {
		cancel()
	}
	for _, f := range r.flows {
		f.Stop()
	}
	sending.Wait()
	if err == nil && len(consumers) > 0 {
		r.drain(ctx)
	}
	if r.o.Count > 0 {
		cost.end(r.o.ServerPID)
	}
	r.drained.Store(true)
	for _, c := range consumers {
		c.wake()
	}
	receiving.Wait()
	return cost, err
}

// subscribe connects the consumers. It returns when the server has confirmed all
// of their subscriptions.
func (r *stompRun) subscribe(ctx context.Context) ([]*stompConsumer, error) {
	var all []*stompConsumer
	for i := range r.o.Consumers {
		conn, err := dialSTOMP(ctx, &r.o)
		if err == nil {
			c := &stompConsumer{run: r, index: i, conn: conn, newest: make([]uint64, r.o.Producers)}
			all = append(all, c)
			err = c.subscribe()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("consumer: %w", err), closeAll(all))
		}
	}
	return all, nil
}

func (r *stompRun) connect(ctx context.Context) ([]*sender, error) {
	var all []*sender
	for i := range r.o.Producers {
		conn, err := dialSTOMP(ctx, &r.o)
		if err != nil {
			for _, p := range all {
				p.out.close()
			}
			return nil, fmt.Errorf("producer: %w", err)
		}
		all = append(all, newSTOMPProducer(r, i, conn))
	}
	return all, nil
}

func closeAll(consumers []*stompConsumer) error {
	var errs []error
	for _, c := range consumers {
		errs = append(errs, c.conn.conn.Close())
	}
	return errors.Join(errs...)
}

func (r *stompRun) outcome(cost Cost) *Result {
	res := r.course.result("stomp", r.o, cost)
	res.Steps = append(res.Steps, NewStep("send", cost.elapsed, r.send))
	if r.o.Consumers > 0 {
		res.Steps = append(res.Steps, NewStep("receive", cost.elapsed, r.receive), NewStep("ack", cost.elapsed, r.ack))
		passage := NewStep("passage", cost.elapsed, r.passage).Latency
		v := r.tracker.Verdict()
		res.Passage, res.Check = &passage, &v
	}
	res.sum(cost)
	res.Errors = sumErrors(r.send, r.receive, r.ack)
	return res
}
