package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds and pauses of a run against an SQS server.
const (
	requestTimeout = 60 * time.Second // over the longest long poll
	stallTimeout   = 60 * time.Second
	drainPoll      = 20 * time.Millisecond
	redialPause    = 50 * time.Millisecond
	batchMax       = 10
	groupsMax      = 1 << 16
)

// SQSOptions says what to do to which SQS server.
type SQSOptions struct {
	Target    string        `json:"target"` // endpoint URL, http only
	Protocol  Protocol      `json:"protocol"`
	Senders   int           `json:"senders"`
	Receivers int           `json:"receivers"` // 0: send only
	Queues    int           `json:"queues"`
	Batch     int           `json:"batch"`       // 1 to 10
	Size      int           `json:"size"`        // of a body, bytes
	Rate      float64       `json:"rate"`        // messages/s over all senders; 0: as fast as answers come
	Warmup    time.Duration `json:"warmup_ns"`   // not measured
	Duration  time.Duration `json:"duration_ns"` // measured; 0 with Count
	Count     int64         `json:"count"`       // messages over all senders; 0: by Duration
	Ahead     int           `json:"ahead"`       // messages a queue that senders may run ahead; 0: no limit
	Backlog   bool          `json:"backlog"`     // receivers start when all of Count is sent, and are measured alone
	Hold      int64         `json:"hold"`        // Backlog: messages that stay in flight until nothing else comes
	FIFO      bool          `json:"fifo"`        //
	Groups    int           `json:"groups"`      // FIFO: message groups a sender
	Wait      int           `json:"wait"`        // seconds of a long poll
	Prefix    string        `json:"prefix"`      // of the queue names
	Keep      bool          `json:"keep"`        // leave the queues there
	Drain     time.Duration `json:"drain_ns"`    // how long to wait at the end for what is under way
	Seed      uint64        `json:"seed"`        // of the bodies
	ServerPID int           `json:"server_pid"`  // another process whose CPU time is the server's; 0: none
	Canned    bool          `json:"canned"`      // the target's answers are canned: nothing is checked
	Keys      *Keys         `json:"-"`           // to sign requests with; nil: they are not
	Progress  Progress      `json:"-"`           // may be nil
}

// Progress is told now and then how far a run is. All is 0 where it is open.
type Progress func(done, all int64)

func (o *SQSOptions) check() error {
	switch {
	case o.Protocol != ProtocolJSON && o.Protocol != ProtocolQuery:
		return fmt.Errorf("protocol %q: must be json or query", o.Protocol)
	case o.Senders < 1 || o.Senders > SendersMax:
		return fmt.Errorf("%d senders: must be 1 to %d", o.Senders, SendersMax)
	case o.Queues < 1:
		return fmt.Errorf("%d queues: must be at least 1", o.Queues)
	case o.Senders < o.Queues || o.Receivers > 0 && o.Receivers < o.Queues:
		return fmt.Errorf("%d queues need at least as many senders and receivers", o.Queues)
	case o.Batch < 1 || o.Batch > batchMax:
		return fmt.Errorf("batch of %d: must be 1 to %d", o.Batch, batchMax)
	case o.FIFO && (o.Groups < 1 || o.Groups > groupsMax):
		return fmt.Errorf("%d groups: must be 1 to %d", o.Groups, groupsMax)
	case o.Duration <= 0 && o.Count <= 0:
		return errors.New("neither duration nor count is given")
	case o.Backlog && (o.Count <= 0 || o.Receivers == 0 || o.Canned):
		return errors.New("a backlog needs a count, receivers and a server that keeps messages")
	case o.Hold < 0 || o.Hold > 0 && !o.Backlog:
		return fmt.Errorf("%d messages to hold: needs a backlog", o.Hold)
	}
	return nil
}

// sqsRun is one run under way.
type sqsRun struct {
	course
	o       SQSOptions
	addr    string
	host    string
	path    string
	bodies  *Bodies
	queues  []string // URLs
	flows   []*Flow
	load    Cost         // of sending the backlog
	held    atomic.Int64 // messages towards Hold
	send    []*Meter
	receive []*Meter
	del     []*Meter
	passage []*Meter // from due to received
}

// RunSQS makes its queues, drives them, drains them and deletes them. What went
// wrong with single messages stands in the result; an error means that there is
// none.
func RunSQS(ctx context.Context, o SQSOptions) (*Result, error) {
	r, err := newSQSRun(o)
	if err != nil {
		return nil, err
	}
	if err := r.createQueues(ctx); err != nil {
		return nil, err
	}
	cost, err := r.drive(ctx)
	if !o.Keep {
		err = errors.Join(err, r.deleteQueues(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, err
	}
	return r.result(cost), nil
}

func newSQSRun(o SQSOptions) (*sqsRun, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	u, err := url.Parse(o.Target)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%w: target %q: must be http://host:port", ErrOptions, o.Target)
	}
	bodies, err := NewBodies(o.Seed, o.Size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	r := &sqsRun{o: o, host: u.Host, addr: u.Host, path: u.EscapedPath(), bodies: bodies}
	if u.Port() == "" {
		r.addr = net.JoinHostPort(u.Hostname(), "80")
	}
	groups := 0
	if o.FIFO {
		groups = o.Groups
	}
	r.course = course{
		warmup: o.Warmup, duration: o.Duration, count: o.Count, patience: o.Drain, serverPID: o.ServerPID, progress: o.Progress,
		tracker: NewTracker(o.Senders, groups),
	}
	ahead := o.Ahead
	if o.Rate > 0 || o.Receivers == 0 || o.Backlog {
		ahead = 0 // an open loop waits for nobody
	}
	for range o.Queues {
		r.flows = append(r.flows, NewFlow(ahead))
	}
	r.send = newMeters(&r.phase, o.Senders)
	r.receive = newMeters(&r.phase, o.Receivers)
	r.del = newMeters(&r.phase, o.Receivers)
	r.passage = newMeters(&r.phase, o.Receivers)
	return r, nil
}

func newMeters(p *Phase, n int) []*Meter {
	ms := make([]*Meter, n)
	for i := range ms {
		ms[i] = NewMeter(p)
	}
	return ms
}

// drive runs the workers through warm-up, measurement and drain.
func (r *sqsRun) drive(ctx context.Context) (Cost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var senders, receivers sync.WaitGroup
	r.begin()
	idle := make([]*sqsReceiver, r.o.Receivers)
	startReceivers := func() {
		for i := range idle {
			// Each has a context of its own, so that its last, empty poll can be
			// broken off.
			ctx, cancel := context.WithCancel(ctx)
			idle[i] = &sqsReceiver{run: r, index: i, cancel: cancel}
			receivers.Go(func() {
				defer cancel()
				idle[i].work(ctx)
			})
		}
	}
	if !r.o.Backlog {
		startReceivers()
	}
	for i := range r.o.Senders {
		senders.Go(func() { (&sqsSender{run: r, index: i}).work(ctx) })
	}
	shown := r.del
	if r.o.Receivers == 0 {
		shown = r.send
	}
	stopProgress := r.showProgress(ctx, shown)
	defer stopProgress()

	cost, err := r.measure(ctx, &senders, func() int64 { return sumMessages(r.send) + sumMessages(r.del) })
	r.stopping.Store(true)
	if err != nil {
		cancel()
	}
	for _, f := range r.flows {
		f.Stop() // senders that wait for room need none any more
	}
	senders.Wait()
	if r.o.Backlog {
		cost.end(r.o.ServerPID)
		r.load, cost = cost, startCost(r.o.ServerPID)
		startReceivers()
	}
	if err == nil && !r.o.Canned && r.o.Receivers > 0 {
		r.drain(ctx)
	}
	if r.o.Count > 0 && !r.o.Backlog {
		cost.end(r.o.ServerPID)
	}
	r.drained.Store(true)
	for _, c := range idle {
		if c.polling.Load() {
			c.cancel()
		}
	}
	receivers.Wait()
	if r.o.Backlog {
		cost.end(r.o.ServerPID) // with the deletes of what was held
	}
	return cost, err
}

func (r *sqsRun) result(cost Cost) *Result {
	res := r.course.result("sqs", r.o, cost)
	if r.o.Canned {
		res.Kind = "sqs canned"
	}
	sending := cost.elapsed
	if r.o.Backlog {
		sending = r.load.elapsed
	}
	res.Steps = append(res.Steps, NewStep("send", sending, r.send))
	if r.o.Receivers > 0 {
		res.Steps = append(res.Steps,
			NewStep("receive", cost.elapsed, r.receive),
			NewStep("delete", cost.elapsed, r.del))
		if !r.o.Canned {
			v := r.tracker.Verdict()
			res.Check = &v
		}
		if !r.o.Canned && !r.o.Backlog {
			passage := NewStep("passage", cost.elapsed, r.passage).Latency
			res.Passage = &passage
		}
	}
	res.sum(cost)
	res.Errors = sumErrors(r.send, r.receive, r.del)
	return res
}

// createQueues makes the queues of the run.
func (r *sqsRun) createQueues(ctx context.Context) error {
	l := r.line()
	defer l.close()
	rd := Reader{Protocol: r.o.Protocol}
	for i := range r.o.Queues {
		name := fmt.Sprintf("%s-%d", r.o.Prefix, i)
		if r.o.FIFO {
			name += ".fifo"
		}
		w := r.writer("")
		a, err := l.do(ctx, w.Request("CreateQueue", createPayload(r.o.Protocol, name, r.o.FIFO)))
		if err == nil {
			err = rd.Check(a)
		}
		if err != nil {
			return fmt.Errorf("create queue %s: %w", name, err)
		}
		queue, err := rd.QueueURL(a.Body)
		if err != nil {
			return fmt.Errorf("create queue %s: %w", name, err)
		}
		r.queues = append(r.queues, queue)
	}
	return nil
}

func createPayload(p Protocol, name string, fifo bool) []byte {
	switch {
	case p == ProtocolQuery && fifo:
		return fmt.Appendf(nil, "&QueueName=%s&Attribute.1.Name=FifoQueue&Attribute.1.Value=true", url.QueryEscape(name))
	case p == ProtocolQuery:
		return fmt.Appendf(nil, "&QueueName=%s", url.QueryEscape(name))
	case fifo:
		return fmt.Appendf(nil, `{"QueueName":%q,"Attributes":{"FifoQueue":"true"}}`, name)
	}
	return fmt.Appendf(nil, `{"QueueName":%q}`, name)
}

func (r *sqsRun) deleteQueues(ctx context.Context) error {
	l := r.line()
	defer l.close()
	rd := Reader{Protocol: r.o.Protocol}
	var errs []error
	for _, q := range r.queues {
		payload := fmt.Appendf(nil, `{"QueueUrl":%q}`, q)
		if r.o.Protocol == ProtocolQuery {
			payload = fmt.Appendf(nil, "&QueueUrl=%s", url.QueryEscape(q))
		}
		w := r.writer(q)
		a, err := l.do(ctx, w.Request("DeleteQueue", payload))
		if err == nil {
			err = rd.Check(a)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete queue %s: %w", q, err))
		}
	}
	return errors.Join(errs...)
}

func (r *sqsRun) writer(queue string) *Writer {
	return &Writer{Host: r.host, Path: r.path, Protocol: r.o.Protocol, QueueURL: queue, Keys: r.o.Keys}
}

func (r *sqsRun) line() line { return line{addr: r.addr, signer: NewSigner(r.o.Keys)} }

// line is a connection that is opened when needed and again after an error.
type line struct {
	addr   string
	signer *Signer
	conn   *Conn
	stop   func() bool
}

// do signs a request, sends it and reads the answer. The end of ctx breaks it off.
func (l *line) do(ctx context.Context, request []byte) (Answer, error) {
	if l.conn == nil {
		conn, err := Dial(ctx, l.addr, requestTimeout)
		if err != nil {
			return Answer{}, err
		}
		l.conn = conn
		l.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	l.signer.Sign(request, time.Now())
	a, err := l.conn.Do(request)
	if err != nil || l.conn.Closing() {
		l.close()
	}
	return a, err
}

func (l *line) close() {
	if l.conn == nil {
		return
	}
	l.stop()
	_ = l.conn.Close()
	l.conn = nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
