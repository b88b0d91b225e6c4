package clustertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/core"
)

// Sim is one history to be simulated.
type Sim struct {
	Seed uint64
	Tune func(o *cluster.Options) // may be nil
	// Troubles is how many faults come one after another; 0: 3.
	Troubles int
	// Stale lets every fault be one in which a deposed primary's records arrive
	// right behind the epoch record of the next, or are forged.
	Stale bool
	// Regress lets the log lose records. What was acknowledged may be lost then,
	// and nodes stop, but none goes on with a state that is not the log's.
	Regress bool
	Verbose io.Writer // may be nil
	// Seen, if set, counts what happened, over all histories.
	Seen map[string]int
}

const (
	nodes   = 3
	keys    = 6
	lease   = time.Second
	opEvery = lease / 7
	// calm is how long it may take from the end of all faults to a primary.
	calm = 20 * lease
)

// world is one history.
type world struct {
	sim    Sim
	server *Server
	nodes  [nodes]*node
	log    *slog.Logger
	began  time.Time

	mu     sync.Mutex
	rng    *rand.Rand
	ops    uint64
	events []event
	sums   map[uint64]uint64 // of the state at each position
	forged map[uint64]bool   // sequences
	bad    []string
}

// node is one member and the process that it lives in.
type node struct {
	name   string
	gate   *Gate
	conn   *Conn
	store  *Store
	member *cluster.Member
	stop   context.CancelFunc
	exited chan error
	failed error // how the last process ended, if it was not killed
}

// event is what a client saw, in the order in which it happened.
type event struct {
	read    bool
	node    string
	epoch   uint32
	seq     uint64 // of the record that was acknowledged; of the state that was read
	covered bool   // a client was answered
	op      op
}

// op is what a Change does to one key.
type op struct {
	id    uint64
	key   string
	claim bool   // the key was free, and is now the claimer's
	was   string // of a release: whose it was
}

// Simulate runs one history and returns what was wrong with it. It is to run in
// a bubble of testing/synctest.
func Simulate(sim Sim) []string {
	if sim.Troubles == 0 {
		sim.Troubles = 3
	}
	w := &world{
		sim: sim, rng: rand.New(rand.NewPCG(sim.Seed, 77)), began: time.Now(),
		sums: map[uint64]uint64{}, forged: map[uint64]bool{}, log: slog.New(slog.DiscardHandler),
	}
	if sim.Verbose != nil {
		w.log = slog.New(slog.NewTextHandler(sim.Verbose, nil))
	}
	w.server = NewServer(rand.New(rand.NewPCG(sim.Seed, 78)), lease)
	for i := range w.nodes {
		w.nodes[i] = &node{name: fmt.Sprint("n", i)}
		w.start(i, func(g *Gate) *Store { return NewStore(g, w.applied) })
	}
	w.trouble()
	w.server.Heal()
	for _, n := range w.nodes {
		n.gate.Resume()
	}
	w.settle()
	for _, n := range w.nodes {
		n.stop()
	}
	for _, n := range w.nodes {
		w.exited(n, <-n.exited)
	}
	for range w.server.fenced {
		w.saw("stale records refused")
	}
	w.check()
	return w.bad
}

// settle waits until a primary has committed something after all faults, and the
// others have it.
func (w *world) settle() {
	w.mu.Lock()
	from, began := len(w.events), time.Now()
	w.mu.Unlock()
	for time.Since(began) < calm {
		time.Sleep(lease / 8)
		if w.acked(from) && !w.sim.Regress {
			time.Sleep(lease / 8)
			return
		}
	}
	if !w.sim.Regress {
		w.report("no primary %v after the last fault", calm)
	}
}

// acked tells whether anything was acknowledged to a client after so many events.
func (w *world) acked(from int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.events[from:], func(e event) bool { return !e.read && e.covered })
}

func (w *world) report(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

// saw counts something.
func (w *world) saw(what string) {
	if w.sim.Seen == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sim.Seen[what]++
}

// intN draws a number of the history.
func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// between draws a time.
func (w *world) between(least, most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return least + time.Duration(w.rng.Int64N(int64(most-least)))
}

// start begins a process of node i with what its disk holds.
func (w *world) start(i int, disk func(g *Gate) *Store) {
	n := w.nodes[i]
	n.gate = &Gate{}
	n.store = disk(n.gate)
	n.conn = w.server.Connect(n.gate, w.faults())
	// Clocks differ by up to a twentieth.
	rate := 0.95 + float64(w.intN(1000))/10000
	began := time.Now()
	o := cluster.Options{
		Node: n.name, Rank: i, Log: n.conn, Store: n.store, Lease: lease, Depth: 4 + w.intN(5),
		Clock:  func() time.Duration { return time.Duration(float64(time.Since(began)) * rate) },
		Logger: w.log.With("node", n.name),
	}
	binary.BigEndian.PutUint64(o.Instance[:], w.sim.Seed)
	binary.BigEndian.PutUint64(o.Instance[8:], uint64(w.intN(1<<30))<<2|uint64(i))
	gate, store := n.gate, n.store
	o.Lead = func(ctx context.Context, l *cluster.Lease) error {
		c := &client{world: w, node: n.name, gate: gate, store: store, lease: l, busy: map[string]bool{}}
		return c.run(ctx)
	}
	if w.sim.Tune != nil {
		w.sim.Tune(&o)
	}
	n.exited = make(chan error, 1)
	var err error
	if n.member, err = cluster.New(o); err != nil {
		w.report("%s: %v", n.name, err)
		n.exited <- nil
		n.stop = func() {}
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	member, exited := n.member, n.exited
	go func() { exited <- member.Run(ctx) }()
}

// faults draws how often single requests fail in a process. Mostly they do not.
func (w *world) faults() Faults {
	if w.intN(3) > 0 || w.sim.Stale {
		return Faults{}
	}
	return Faults{
		LoseRequest: w.intN(3), LateCommit: w.intN(3), LoseAnswer: w.intN(3),
		TwiceAnswer: w.intN(20), Refuse: w.intN(2), SlowTail: w.intN(10),
	}
}

// exited judges how a process ended that was not killed.
func (w *world) exited(n *node, err error) {
	n.failed = err
	if err == nil {
		return
	}
	w.log.Info("stopped", "node", n.name, "error", err)
	if w.sim.Regress && errors.Is(err, cluster.ErrDiverged) {
		w.saw("divergences found")
		return
	}
	w.report("%s stopped: %v", n.name, err)
}

// applied compares the states of all nodes at equal positions.
func (w *world) applied(at core.LogPosition, sum uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other, ok := w.sums[at.Seq]; ok && other != sum && !w.sim.Regress {
		w.bad = append(w.bad, fmt.Sprintf("I6: states differ at %d", at.Seq))
	}
	w.sums[at.Seq] = sum
}
