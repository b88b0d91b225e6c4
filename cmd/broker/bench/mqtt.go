package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// MQTTOptions says what to do to which MQTT server.
type MQTTOptions struct {
	Target      string        `json:"target"`  // host:port
	Version     string        `json:"version"` // 3.1.1 or 5
	Username    string        `json:"username,omitempty"`
	Password    string        `json:"-"`
	Publishers  int           `json:"publishers"`
	Subscribers int           `json:"subscribers"` // a multiple of Topics; 0: publish only
	Topics      int           `json:"topics"`      // each has the same number of publishers and of subscribers
	QoS         int           `json:"qos"`         // of publishers and subscriptions
	Persistent  bool          `json:"persistent"`  // sessions of subscribers outlive their connections
	Share       bool          `json:"share"`       // the subscribers of a topic are one group
	Window      int           `json:"window"`      // publishes of a publisher whose acknowledgements are awaited; the server's receive maximum holds too
	ReceiveMax  int           `json:"receive_max"` // messages that a subscriber may have unacknowledged; version 5 only
	Size        int           `json:"size"`        // of a payload, bytes
	Rate        float64       `json:"rate"`        // messages/s over all publishers; 0: as fast as acknowledgements come
	Warmup      time.Duration `json:"warmup_ns"`   // not measured
	Duration    time.Duration `json:"duration_ns"` // measured; 0 with Count
	Count       int64         `json:"count"`       // messages over all publishers; 0: by Duration
	Ahead       int           `json:"ahead"`       // messages a topic that publishers may run ahead; 0: no limit
	Prefix      string        `json:"prefix"`      // of topics and client ids
	Drain       time.Duration `json:"drain_ns"`    // how long to wait at the end for what is under way
	Seed        uint64        `json:"seed"`        // of the payloads
	ServerPID   int           `json:"server_pid"`  // process whose CPU time is the server's; 0: none
	Progress    Progress      `json:"-"`           // may be nil
}

// version is what CONNECT calls it, 0 if there is none of that name.
func (o *MQTTOptions) version() byte {
	switch o.Version {
	case "3.1.1":
		return mqttV3
	case "5", "5.0":
		return mqttV5
	}
	return 0
}

func (o *MQTTOptions) check() error {
	if _, port, err := net.SplitHostPort(o.Target); err != nil || port == "" {
		return fmt.Errorf("target %q: must be host:port", o.Target)
	}
	if o.version() == 0 {
		return fmt.Errorf("version %q: must be 3.1.1 or 5", o.Version)
	}
	if o.Prefix == "" || len(o.Prefix) > 1000 || !utf8.ValidString(o.Prefix) || strings.ContainsAny(o.Prefix, "+#\x00") {
		return fmt.Errorf("prefix %.100q: must be the start of a topic", o.Prefix)
	}
	for _, s := range []string{o.Username, o.Password} {
		if len(s) > 1000 {
			return errors.New("a username or password of over 1000 bytes")
		}
	}
	switch {
	case o.QoS < 0 || o.QoS > 2:
		return fmt.Errorf("QoS of %d: must be 0, 1 or 2", o.QoS)
	case o.Publishers < 1 || o.Publishers > SendersMax:
		return fmt.Errorf("%d publishers: must be 1 to %d", o.Publishers, SendersMax)
	case o.Topics < 1 || o.Publishers%o.Topics != 0 || o.Subscribers < 0 || o.Subscribers%o.Topics != 0:
		return fmt.Errorf("%d topics: there must be as many publishers and subscribers, or a multiple", o.Topics)
	case o.Window < 1 || o.Window >= windowMax:
		return fmt.Errorf("window of %d: must be 1 to %d", o.Window, windowMax-1)
	case o.ReceiveMax < 1 || o.ReceiveMax >= windowMax:
		return fmt.Errorf("receive maximum of %d: must be 1 to %d", o.ReceiveMax, windowMax-1)
	case o.Duration <= 0 && o.Count <= 0:
		return errors.New("neither duration nor count is given")
	}
	return nil
}

// mqttRun is one run under way.
type mqttRun struct {
	course
	o       MQTTOptions
	bodies  *Bodies
	copies  int // receivers of each message
	flows   []*Flow
	publish []*Meter
	receive []*Meter
	passage []*Meter // from due to received
}

// RunMQTT drives an MQTT server: publishers that have a window of messages that
// are not acknowledged, and subscribers that acknowledge each message. What went
// wrong with single messages stands in the result; an error means that there is
// none.
func RunMQTT(ctx context.Context, o MQTTOptions) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	bodies, err := NewBodies(o.Seed, o.Size)
	if err != nil {
		return nil, err
	}
	r := &mqttRun{o: o, bodies: bodies, copies: o.Subscribers / o.Topics}
	if o.Share || r.copies == 0 {
		r.copies = 1
	}
	// A receiver of copies has senders of its own.
	r.course = course{
		warmup: o.Warmup, duration: o.Duration, count: o.Count, patience: o.Drain, serverPID: o.ServerPID, progress: o.Progress,
		tracker: NewTracker(o.Publishers*r.copies, 0),
	}
	ahead := o.Ahead * r.copies
	if o.Rate > 0 || o.Subscribers == 0 {
		ahead = 0 // an open loop waits for nobody
	}
	for range o.Topics {
		r.flows = append(r.flows, NewFlow(ahead))
	}
	r.publish = newMeters(&r.phase, o.Publishers)
	r.receive = newMeters(&r.phase, o.Subscribers)
	r.passage = newMeters(&r.phase, o.Subscribers)
	cost, err := r.drive(ctx)
	if err != nil {
		return nil, err
	}
	return r.outcome(cost), nil
}

func (r *mqttRun) topic(i int) string { return fmt.Sprintf("%s/%d", r.o.Prefix, i%r.o.Topics) }

func (r *mqttRun) filter(i int) string {
	if r.o.Share {
		return "$share/" + strings.ReplaceAll(r.o.Prefix, "/", "-") + "/" + r.topic(i)
	}
	return r.topic(i)
}

// rank tells the subscribers of a topic apart that get copies of their own.
func (r *mqttRun) rank(subscriber int) int {
	if r.o.Share {
		return 0
	}
	return subscriber / r.o.Topics
}

// drive runs the workers through warm-up, measurement and drain.
func (r *mqttRun) drive(ctx context.Context) (Cost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	subscribers, publishers, err := r.connect(ctx)
	if err != nil {
		return Cost{}, err
	}
	r.begin()
	var sending, receiving sync.WaitGroup
	for _, s := range subscribers {
		receiving.Go(func() { s.work(ctx) })
	}
	for _, p := range publishers {
		sending.Go(func() { p.work(ctx) })
	}
	stopPings := every(ctx, mqttPing, func() {
		for _, s := range subscribers {
			s.conn.ping()
		}
		for _, p := range publishers {
			p.out.(*mqttOutlet).conn.ping()
		}
	})
	defer stopPings()
	shown := r.receive
	if len(subscribers) == 0 {
		shown = r.publish
	}
	stopProgress := r.showProgress(ctx, shown)
	defer stopProgress()

	cost, err := r.measure(ctx, &sending, func() int64 { return sumMessages(r.publish) + sumMessages(r.receive) })
	r.stopping.Store(true)
	if err != nil {
		cancel()
	}
	for _, f := range r.flows {
		f.Stop()
	}
	sending.Wait()
	if err == nil && len(subscribers) > 0 {
		r.drain(ctx)
	}
	if r.o.Count > 0 {
		cost.end(r.o.ServerPID)
	}
	r.drained.Store(true)
	for _, s := range subscribers {
		s.wake()
	}
	receiving.Wait()
	return cost, err
}

// connect connects all. It returns when the server has confirmed all
// subscriptions.
func (r *mqttRun) connect(ctx context.Context) (subscribers []*mqttSubscriber, publishers []*sender, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, s := range subscribers {
			_ = s.conn.conn.Close()
		}
		for _, p := range publishers {
			p.out.close()
		}
	}()
	name := strings.ReplaceAll(r.o.Prefix, "/", "-")
	for i := range r.o.Subscribers {
		s := &mqttSubscriber{
			run: r, index: i, id: fmt.Sprintf("%s-sub-%d", name, i),
			newest: make([]uint64, r.o.Publishers), taken: make(map[uint16]bool),
		}
		if s.conn, err = dialMQTT(ctx, &r.o, s.id, !r.o.Persistent, r.o.Persistent); err != nil {
			return subscribers, nil, fmt.Errorf("subscriber: %w", err)
		}
		subscribers = append(subscribers, s)
		if err = s.subscribe(); err != nil {
			return subscribers, nil, fmt.Errorf("subscriber: %w", err)
		}
	}
	for i := range r.o.Publishers {
		conn, err := dialMQTT(ctx, &r.o, fmt.Sprintf("%s-pub-%d", name, i), true, false)
		if err != nil {
			return subscribers, publishers, fmt.Errorf("publisher: %w", err)
		}
		publishers = append(publishers, newMQTTPublisher(r, i, conn))
	}
	return subscribers, publishers, nil
}

func (r *mqttRun) outcome(cost Cost) *Result {
	res := r.course.result("mqtt", r.o, cost)
	res.Steps = append(res.Steps, NewStep("publish", cost.elapsed, r.publish))
	if r.o.Subscribers > 0 {
		res.Steps = append(res.Steps, NewStep("receive", cost.elapsed, r.receive))
		passage := NewStep("passage", cost.elapsed, r.passage).Latency
		v := r.tracker.Verdict()
		res.Passage, res.Check = &passage, &v
	}
	res.sum(cost)
	res.Errors = sumErrors(r.publish, r.receive)
	return res
}
