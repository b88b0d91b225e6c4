package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasemq/broker/cluster"
)

// Faults are probabilities of what befalls one request to the log, in percent.
type Faults struct {
	LoseRequest int // it never arrives
	LateCommit  int // it arrives when its sender has long given it up
	LoseAnswer  int // it is stored, and nobody learns of it
	TwiceAnswer int // the answer comes twice
	Refuse      int // the log refuses it, such as for want of space
	SlowTail    int // a reader sees the record much later
}

// Server is the replicated log.
type Server struct {
	// Timeout is when a request without an answer is given up.
	Timeout time.Duration

	mu       sync.Mutex
	rng      *rand.Rand
	entries  []entry // of all sequences from 1 on
	trimmed  uint64  // up to here they are gone
	conns    []*Conn
	electing time.Time // until then nobody leads
	fenced   int       // requests that came too late, by a take-over, and were refused
}

type entry struct {
	data []byte
	at   time.Time
	by   *Conn
}

// Conn is the way of one process to the log. It implements cluster.Log.
type Conn struct {
	server *Server
	gate   *Gate
	faults Faults
	news   chan struct{} // a record was stored; capacity 1

	cut     time.Time // until then nothing gets through
	holding bool      // requests are held until somebody else takes over
	held    []*request
	arrived time.Time  // of the newest request
	coming  []*request // on their way: they keep their order
}

type request struct {
	prev    uint64
	records [][]byte
	sent    time.Time
	answer  func(first uint64, err error)
}

// NewServer makes an empty log.
func NewServer(rng *rand.Rand, timeout time.Duration) *Server {
	return &Server{rng: rng, Timeout: timeout}
}

// Connect makes the way of a process.
func (s *Server) Connect(g *Gate, f Faults) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Conn{server: s, gate: g, faults: f, news: make(chan struct{}, 1)}
	s.conns = append(s.conns, c)
	return c
}

// Disconnect forgets the way of a process that has ended.
func (s *Server) Disconnect(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.conns {
		if other == c {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			return
		}
	}
}

// Elect leaves the log without a leader for a while.
func (s *Server) Elect(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.electing = time.Now().Add(d)
}

// Cut lets nothing through between the process and the log for a while.
func (c *Conn) Cut(d time.Duration) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.cut = time.Now().Add(d)
}

// Hold keeps what the process sends from now on, until another one has taken
// over: then all of it arrives at once.
func (c *Conn) Hold() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.holding = true
}

// Heal ends all faults but those of single requests. Requests that were held
// never arrive.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.electing = time.Time{}
	for _, c := range s.conns {
		c.cut, c.holding, c.held, c.faults = time.Time{}, false, nil, Faults{}
	}
	s.announceLocked()
}

// Regress loses the last n records, as a log does whose disks lied.
func (s *Server) Regress(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = s.entries[:max(0, len(s.entries)-n)]
}

// Forge stores data at the end, as a writer does that keeps to no rule, and
// returns its sequence.
func (s *Server) Forge(data []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, entry{data: data, at: time.Now()})
	s.announceLocked()
	return uint64(len(s.entries))
}

// Last returns the last sequence.
func (s *Server) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.entries))
}

// Records returns all records that were ever stored, trimmed ones too.
func (s *Server) Records() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][]byte
	for _, e := range s.entries {
		out = append(out, e.data)
	}
	return out
}

func (s *Server) announceLocked() {
	for _, c := range s.conns {
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
}

// storeLocked is what the leader does with a request.
func (s *Server) storeLocked(c *Conn, r *request) (first uint64, err error) {
	last := uint64(len(s.entries))
	if r.prev != last {
		return 0, &cluster.WrongLastError{Last: last}
	}
	now := time.Now()
	for _, data := range r.records {
		s.entries = append(s.entries, entry{data: data, at: now, by: c})
	}
	s.announceLocked()
	if len(r.records[0]) > 1 && cluster.Kind(r.records[0][1]) == cluster.KindEpoch {
		s.releaseLocked(c)
	}
	return last + 1, nil
}

// releaseLocked lets the requests arrive that were held until c took over.
func (s *Server) releaseLocked(taker *Conn) {
	for _, c := range s.conns {
		if c == taker || !c.holding {
			continue
		}
		held := c.held
		c.held, c.holding = nil, false
		for _, r := range held {
			first, err := s.storeLocked(c, r)
			if err != nil {
				s.fenced++
			}
			c.answerLocked(r, first, err)
		}
	}
}

// Generation implements cluster.Log.
func (c *Conn) Generation() uint32 { return 1 }

// Info implements cluster.Log.
func (c *Conn) Info(ctx context.Context) (cluster.LogInfo, error) {
	if err := c.travel(ctx); err != nil {
		return cluster.LogInfo{}, err
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return cluster.LogInfo{First: s.trimmed + 1, Last: uint64(len(s.entries))}, nil
}

// Append implements cluster.Log.
func (c *Conn) Append(prev uint64, data []byte, done func(seq uint64, err error)) {
	if c.gate.Pass() != nil {
		return
	}
	c.send(&request{prev: prev, records: [][]byte{data}, answer: func(seq uint64, err error) {
		if c.gate.Pass() == nil {
			done(seq, err)
		}
	}})
}

// AppendAtomic implements cluster.Log.
func (c *Conn) AppendAtomic(ctx context.Context, prev uint64, records [][]byte) (uint64, error) {
	if err := c.gate.Pass(); err != nil {
		return 0, err
	}
	type answer struct {
		first uint64
		err   error
	}
	got := make(chan answer, 1)
	c.send(&request{prev: prev, records: records, answer: func(first uint64, err error) {
		select {
		case got <- answer{first, err}:
		default: // it has one
		}
	}})
	select {
	case a := <-got:
		if err := c.gate.Pass(); err != nil {
			return 0, err
		}
		return a.first, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", cluster.ErrUnknown, ctx.Err())
	}
}

// chance tells whether what befalls percent of the requests befalls this one.
func (s *Server) chance(percent int) bool { return percent > 0 && s.rng.IntN(100) < percent }

// delay is how long something takes on its way, mostly.
func (s *Server) delay() time.Duration {
	return time.Duration(int64(time.Millisecond)/2 + s.rng.Int64N(int64(5*time.Millisecond)))
}

func (c *Conn) send(r *request) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	r.sent = time.Now()
	delay := s.delay()
	switch {
	case s.chance(c.faults.LoseRequest):
		c.giveUpLocked(r)
		return
	case s.chance(c.faults.LateCommit):
		c.giveUpLocked(r)
		delay = s.Timeout/2 + time.Duration(s.rng.Int64N(int64(3*s.Timeout)))
		time.AfterFunc(delay, func() { c.arrive(r) })
		return
	}
	at := r.sent.Add(delay)
	if !at.After(c.arrived) {
		at = c.arrived.Add(time.Nanosecond)
	}
	c.arrived = at
	c.coming = append(c.coming, r)
	time.AfterFunc(at.Sub(r.sent), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		next := c.coming[0]
		c.coming = c.coming[1:]
		c.arriveLocked(next)
	})
}

// giveUpLocked answers r when nothing else has for long.
func (c *Conn) giveUpLocked(r *request) {
	time.AfterFunc(time.Until(r.sent.Add(c.server.Timeout)), func() { r.answer(0, cluster.ErrUnknown) })
}

func (c *Conn) arrive(r *request) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.arriveLocked(r)
}

func (c *Conn) arriveLocked(r *request) {
	s := c.server
	now := time.Now()
	until := c.cut
	if s.electing.After(until) {
		until = s.electing
	}
	switch {
	case c.holding:
		c.giveUpLocked(r)
		c.held = append(c.held, r)
	case until.After(now):
		c.giveUpLocked(r)
		if s.rng.IntN(2) == 0 {
			// It was on its way, or in a log that got its leader back.
			time.AfterFunc(until.Sub(now)+s.delay(), func() { c.arrive(r) })
		}
	case s.chance(c.faults.Refuse):
		c.answerLocked(r, 0, cluster.ErrRefused)
	default:
		first, err := s.storeLocked(c, r)
		c.answerLocked(r, first, err)
	}
}

func (c *Conn) answerLocked(r *request, first uint64, err error) {
	s := c.server
	if s.chance(c.faults.LoseAnswer) {
		c.giveUpLocked(r)
		return
	}
	times := 1
	if s.chance(c.faults.TwiceAnswer) {
		times = 2
	}
	for range times {
		time.AfterFunc(s.delay(), func() {
			s.mu.Lock()
			lost := c.cut.After(time.Now())
			if lost {
				c.giveUpLocked(r)
			}
			s.mu.Unlock()
			if !lost {
				r.answer(first, err)
			}
		})
	}
}

// travel takes a question to the log and its answer back.
func (c *Conn) travel(ctx context.Context) error {
	if err := c.gate.Pass(); err != nil {
		return err
	}
	s := c.server
	s.mu.Lock()
	delay, lost := s.delay(), c.cut.After(time.Now()) || s.electing.After(time.Now())
	s.mu.Unlock()
	if lost {
		delay = s.Timeout
	}
	if err := sleep(ctx, delay); err != nil {
		return err
	}
	if lost {
		return cluster.ErrUnknown
	}
	return c.gate.Pass()
}

// sleep waits unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
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

// Read implements cluster.Log.
func (c *Conn) Read(ctx context.Context, from, to uint64, visit func(cluster.Entry) error) error {
	if err := c.travel(ctx); err != nil {
		return err
	}
	for seq := from; seq <= to; seq++ {
		e, _, err := c.at(seq)
		if err != nil {
			return err
		}
		if e.data == nil {
			return fmt.Errorf("record %d of %d: %w", seq, to, cluster.ErrUnknown)
		}
		if err := visit(cluster.Entry{Seq: seq, Data: e.data}); err != nil {
			return err
		}
	}
	return nil
}

// at returns a record, without data if there is none yet, and when it can be
// seen.
func (c *Conn) at(seq uint64) (e entry, wait time.Duration, err error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq <= s.trimmed {
		return entry{}, 0, cluster.ErrTrimmed
	}
	now := time.Now()
	if c.cut.After(now) {
		return entry{}, c.cut.Sub(now), nil
	}
	if seq > uint64(len(s.entries)) {
		return entry{}, 0, nil
	}
	e = s.entries[seq-1]
	seen := e.at.Add(s.delay())
	if s.chance(c.faults.SlowTail) {
		seen = seen.Add(s.Timeout / 4)
	}
	return e, seen.Sub(now), nil
}

// Tail implements cluster.Log.
func (c *Conn) Tail(ctx context.Context, from uint64, visit func(cluster.Entry) error) error {
	for {
		if err := c.gate.Pass(); err != nil {
			return err
		}
		e, wait, err := c.at(from)
		if err != nil {
			return err
		}
		if wait > 0 {
			if err := sleep(ctx, wait); err != nil {
				return err
			}
			if err := c.gate.Pass(); err != nil {
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e.data != nil:
			if err := visit(cluster.Entry{Seq: from, Data: e.data}); err != nil {
				return err
			}
			from++
		case wait <= 0:
			select {
			case <-c.news:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// Trim implements cluster.Log.
func (c *Conn) Trim(ctx context.Context, seq uint64) error {
	if err := c.travel(ctx); err != nil {
		return err
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimmed = max(s.trimmed, min(seq, uint64(len(s.entries))))
	return nil
}
