package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a run with idle connections.
const (
	idleMax     = 200_000
	idleDialers = 64       // at a time
	idleWelcome = 16 << 10 // bytes of the answer to a login
)

// IdleOptions says how many connections do nothing but stay alive, at which server.
type IdleOptions struct {
	Wire        string        `json:"wire"` // stomp or mqtt
	Target      string        `json:"target"`
	Login       string        `json:"login,omitempty"`
	Passcode    string        `json:"-"`
	Connections int           `json:"connections"`
	Subscribed  bool          `json:"subscribed"`    // each has a subscription, to one of a hundred queues or topics
	Beat        time.Duration `json:"heart_beat_ns"` // both ways; MQTT: the keep alive, and a PINGREQ as often
	Duration    time.Duration `json:"duration_ns"`
	Prefix      string        `json:"prefix"`
	ServerPID   int           `json:"server_pid"` // 0: its memory and CPU time are not known
}

func (o *IdleOptions) check() error {
	if _, port, err := net.SplitHostPort(o.Target); err != nil || port == "" {
		return fmt.Errorf("target %q: must be host:port: %w", o.Target, ErrOptions)
	}
	switch {
	case o.Connections < 1 || o.Connections > idleMax:
		return fmt.Errorf("%d connections: must be 1 to %d: %w", o.Connections, idleMax, ErrOptions)
	case o.Beat < time.Second || o.Beat > time.Hour || o.Beat%time.Second != 0:
		return fmt.Errorf("heart-beats every %v: must be whole seconds, 1s to 1h: %w", o.Beat, ErrOptions)
	case o.Duration <= 0:
		return fmt.Errorf("no duration is given: %w", ErrOptions)
	case o.Wire != "stomp" && o.Wire != "mqtt":
		return fmt.Errorf("wire %q: %w", o.Wire, ErrOptions)
	}
	return nil
}

// IdleReport is what connections cost that do nothing but stay alive.
type IdleReport struct {
	Connections int     `json:"connections"`
	Beats       int64   `json:"beats"`            // bytes, or PINGRESPs, that came from the server
	Before      Memory  `json:"memory_before"`    // of the server, without connections
	Memory      Memory  `json:"memory"`           // at the end
	Each        int64   `json:"bytes_each"`       // what a connection adds to what is resident
	CPU         float64 `json:"server_cpu_cores"` // CPU time of the server by time
}

func (r *IdleReport) line() string {
	return fmt.Sprintf("%d idle connections: %s resident, %s without them, %.1f KiB each; %.2f %% of a core; %d heart-beats came",
		r.Connections, mebibytes(r.Memory.RSS), mebibytes(r.Before.RSS), float64(r.Each)/1024, 100*r.CPU, r.Beats)
}

// idleRun is one run under way.
type idleRun struct {
	o       IdleOptions
	beats   atomic.Int64
	ended   atomic.Bool
	mu      sync.Mutex
	ready   []net.Conn // that have logged in
	errors  map[string]int64
	workers sync.WaitGroup
}

// RunIdle connects, waits, and tells what that costs the server. A connection that
// ends, or hears nothing for twice the time of a heart-beat and a second, is an
// error.
func RunIdle(ctx context.Context, o IdleOptions) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &idleRun{o: o, errors: make(map[string]int64)}
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); r.close() }()
	r.workers.Go(func() { r.beat(ctx) }) // the first must not wait for the last
	report := &IdleReport{Connections: o.Connections}
	if o.ServerPID > 0 {
		report.Before, _ = ProcessMemory(o.ServerPID)
	}
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	// A round of heart-beats goes by before the server is measured.
	if err := pause(ctx, o.Beat); err != nil {
		return nil, err
	}
	r.beats.Store(0)
	cost := startCost(o.ServerPID)
	if err := pause(ctx, o.Duration); err != nil {
		return nil, err
	}
	cost.end(o.ServerPID)
	report.Beats = r.beats.Load()
	res := &Result{Kind: o.Wire, Mode: "idle", Options: o, Machine: ThisMachine(), Seconds: cost.elapsed.Seconds(), Idle: report}
	if o.ServerPID > 0 {
		report.Memory, _ = ProcessMemory(o.ServerPID)
		report.Each = (report.Memory.RSS - report.Before.RSS) / int64(o.Connections)
		report.CPU = cost.server.Seconds() / cost.elapsed.Seconds()
	}
	cancel()
	r.close()
	res.Errors = r.errors
	return res, nil
}

// connect logs all connections in, some at a time.
func (r *idleRun) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var dialers sync.WaitGroup
	for range min(idleDialers, r.o.Connections) {
		dialers.Go(func() {
			for i := range next {
				if err := r.dial(ctx, i); err != nil {
					cancel(fmt.Errorf("connection %d: %w", i, err))
				}
			}
		})
	}
	for i := range r.o.Connections {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	dialers.Wait()
	return context.Cause(ctx)
}

func (r *idleRun) dial(ctx context.Context, i int) error {
	c, err := (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, "tcp", r.o.Target)
	if err != nil {
		return err
	}
	if err = r.logIn(c, i); err != nil {
		return errors.Join(err, c.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = append(r.ready, c)
	r.workers.Go(func() { r.listen(c) })
	return nil
}

func (r *idleRun) logIn(c net.Conn, i int) error {
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	login, subscribe := r.stompFrames(i)
	if r.o.Wire == "mqtt" {
		login, subscribe = r.mqttPackets(i)
	}
	if err := r.ask(c, login); err != nil {
		return err
	}
	if r.o.Subscribed {
		if err := r.ask(c, subscribe); err != nil {
			return err
		}
	}
	return c.SetDeadline(time.Time{})
}

// stompFrames returns how connection i logs in and subscribes.
func (r *idleRun) stompFrames(i int) (login, subscribe []byte) {
	ms := r.o.Beat.Milliseconds()
	login = fmt.Appendf(nil, "CONNECT\naccept-version:1.2\nhost:/\nheart-beat:%d,%d\n", ms, ms)
	if r.o.Login != "" {
		login = fmt.Appendf(login, "login:%s\npasscode:%s\n", r.o.Login, r.o.Passcode)
	}
	subscribe = fmt.Appendf(nil, "SUBSCRIBE\nid:0\ndestination:/queue/%s-%d\nack:client\nreceipt:r\n\n\x00", r.o.Prefix, i%100)
	return append(login, '\n', 0), subscribe
}

// mqttPackets is stompFrames of MQTT 3.1.1, with a clean session.
func (r *idleRun) mqttPackets(i int) (login, subscribe []byte) {
	text := func(b []byte, s string) []byte { return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...) }
	packet := func(kind byte, body []byte) []byte {
		return append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...)
	}
	flags := byte(0x02)
	if r.o.Login != "" {
		flags |= 0xc0
	}
	body := append(text(nil, "MQTT"), 4, flags)
	body = binary.BigEndian.AppendUint16(body, uint16(r.o.Beat/time.Second))
	body = text(body, fmt.Sprintf("%s-%d", r.o.Prefix, i))
	if r.o.Login != "" {
		body = text(text(body, r.o.Login), r.o.Passcode)
	}
	topic := append(text([]byte{0, 1}, fmt.Sprintf("%s/%d", r.o.Prefix, i%100)), 1)
	return packet(0x10, body), packet(0x82, topic)
}

// ask writes a login or subscription and reads the answer, which must be one that
// grants it.
func (r *idleRun) ask(c net.Conn, request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	var one [1]byte
	var answer []byte
	for len(answer) < idleWelcome {
		if _, err := io.ReadFull(c, one[:]); err != nil {
			return fmt.Errorf("answered by %.200q: %w", answer, err)
		}
		answer = append(answer, one[0])
		if r.o.Wire == "mqtt" {
			if len(answer) < 2 || len(answer) < 2+int(answer[1]) {
				continue
			}
			if kind, code := answer[0], answer[len(answer)-1]; kind == 0x20 && code == 0 || kind == 0x90 && code <= 2 {
				return nil
			}
			break
		}
		answer = bytes.TrimLeft(answer, "\n")
		if one[0] == 0 && (bytes.HasPrefix(answer, []byte("CONNECTED\n")) || bytes.HasPrefix(answer, []byte("RECEIPT\n"))) {
			return nil
		}
		if one[0] == 0 {
			break
		}
	}
	return fmt.Errorf("answered by %.200q", answer)
}

// listen counts what comes.
func (r *idleRun) listen(c net.Conn) {
	size := int64(1)
	if r.o.Wire == "mqtt" {
		size = 2 // of a PINGRESP
	}
	var b [64]byte
	for {
		err := c.SetReadDeadline(time.Now().Add(2*r.o.Beat + time.Second))
		n := 0
		if err == nil {
			n, err = c.Read(b[:])
		}
		r.beats.Add(int64(n) / size)
		if err == nil {
			continue
		}
		if !r.ended.Load() {
			r.mu.Lock()
			r.errors["idle: "+errorText(err)]++
			r.mu.Unlock()
		}
		return
	}
}

// beat has each connection send a heart-beat in every Beat, evenly spread.
func (r *idleRun) beat(ctx context.Context) {
	const steps = 100 // of a Beat
	text := []byte("\n")
	if r.o.Wire == "mqtt" {
		text = []byte{0xc0, 0}
	}
	tick := time.NewTicker(r.o.Beat / steps)
	defer tick.Stop()
	for step := 0; ; step = (step + 1) % steps {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		all := r.ready
		r.mu.Unlock()
		for i := step; i < len(all); i += steps {
			_, _ = all[i].Write(text) // its reader tells what is wrong
		}
	}
}

// close ends all connections, once the heart-beats are to end.
func (r *idleRun) close() {
	r.ended.Store(true)
	r.mu.Lock()
	for _, c := range r.ready {
		_ = c.Close() // some have been closed by the server
	}
	r.mu.Unlock()
	r.workers.Wait()
}
