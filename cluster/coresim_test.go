package cluster_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/clustertest"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

const coreLease = time.Second

// TestCoreOnThreeNodes runs the real core and storage on three members: what was
// acknowledged to a producer is never lost, and what was acknowledged by a
// consumer is never delivered again.
func TestCoreOnThreeNodes(t *testing.T) {
	answers, deletes := 0, 0
	for seed := range uint64(runs(40)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCoreWorld(t, seed)
				w.run()
				answers, deletes = answers+w.answers, deletes+len(w.deleted)
			})
		})
	}
	if answers == 0 || deletes == 0 {
		t.Errorf("%d answers, %d deletes: nothing was tried", answers, deletes)
	}
}

// coreWorld is one history.
type coreWorld struct {
	t      *testing.T
	rng    *rand.Rand
	server *clustertest.Server
	nodes  [3]*coreNode
	ctx    context.Context // of the clients
	quit   context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	now      int // counts events
	sent     map[string]bool
	deleting map[string]bool // a delete was asked for
	deleted  map[string]int  // when it was acknowledged
	seen     map[string]bool // by the drain
	answers  int
}

// coreNode is one process and its disk.
type coreNode struct {
	w      *coreWorld
	id     int
	gate   *clustertest.Gate
	conn   *clustertest.Conn
	fs     *vfs.MemFS
	db     *storage.DB
	member *cluster.Member
	stop   context.CancelFunc
	exited chan error
	front  atomic.Pointer[coreFront]
}

// coreFront is what clients of a primary talk to.
type coreFront struct {
	gate   *clustertest.Gate
	lease  *cluster.Lease
	client *core.Client
}

// answer tells whether an answer reaches its client.
func (f *coreFront) answer(err error) bool {
	return err == nil && f.gate.Pass() == nil && f.lease.Covers()
}

// gatedDB is a disk that stands still with its process.
type gatedDB struct {
	*storage.DB
	gate *clustertest.Gate
}

func (g *gatedDB) Apply(at core.LogPosition, changes []*core.Change) error {
	if err := g.gate.Pass(); err != nil {
		return err
	}
	return g.DB.Apply(at, changes)
}

func newCoreWorld(t *testing.T, seed uint64) *coreWorld {
	w := &coreWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 5)),
		sent: map[string]bool{}, deleting: map[string]bool{}, deleted: map[string]int{}, seen: map[string]bool{},
	}
	w.ctx, w.quit = context.WithCancel(t.Context())
	w.server = clustertest.NewServer(rand.New(rand.NewPCG(seed, 6)), coreLease)
	for i := range w.nodes {
		w.nodes[i] = &coreNode{w: w, id: i, fs: vfs.NewCrashableMem()}
		w.nodes[i].start()
	}
	return w
}

func (w *coreWorld) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *coreWorld) upTo(d time.Duration) time.Duration { return time.Duration(1 + w.intN(int(d))) }

func (n *coreNode) start() {
	n.gate = &clustertest.Gate{}
	n.conn = n.w.server.Connect(n.gate, clustertest.Faults{LateCommit: n.w.intN(2), LoseAnswer: n.w.intN(2)})
	quiet := slog.New(slog.DiscardHandler)
	var err error
	n.db, _, err = storage.Open(storage.Options{
		Dir: "data", FS: n.fs, Replicated: true, Logger: quiet,
		Profile: storage.Profile{MemTableBytes: 256 << 10, CacheBytes: 1 << 20},
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
	o := cluster.Options{
		Node: fmt.Sprint("n", n.id), Rank: n.id, Log: n.conn, Store: &gatedDB{n.db, n.gate}, Lead: n.lead(n.gate, n.db),
		Lease: coreLease, Logger: quiet,
	}
	binary.BigEndian.PutUint64(o.Instance[8:], uint64(n.w.intN(1<<30))<<2|uint64(n.id)|1<<40)
	cluster.SmallParts(&o, 2000)
	if n.member, err = cluster.New(o); err != nil {
		n.w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	member, exited := n.member, make(chan error, 1)
	n.stop, n.exited = stop, exited
	go func() { exited <- member.Run(ctx) }()
}

// lead is what the front door of a node does when it is the primary.
func (n *coreNode) lead(gate *clustertest.Gate, db *storage.DB) func(context.Context, *cluster.Lease) error {
	return func(ctx context.Context, l *cluster.Lease) error {
		engine, err := core.Open(core.Options{Store: db, Committer: l, Boot: l.Boot(), Logger: slog.New(slog.DiscardHandler)})
		if errors.Is(err, core.ErrStopped) {
			return nil // the lease was lost meanwhile
		}
		if err != nil {
			return err
		}
		n.front.Store(&coreFront{gate, l, engine.Client(core.Principal{})})
		<-ctx.Done()
		n.front.Store(nil)
		_ = engine.Close() // a lost lease is no news
		return nil
	}
}

// kill ends the process, and starts the next one on what its disk kept.
func (n *coreNode) kill() {
	n.gate.Kill()
	after := n.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n.w.intN(101), RNG: rand.New(rand.NewPCG(uint64(n.w.intN(1<<30)), 1))})
	n.stop()
	<-n.exited
	if err := n.db.Close(); err != nil {
		n.w.t.Error(err)
	}
	n.w.server.Disconnect(n.conn)
	n.fs = after
	n.start()
}

// primary returns a node that takes itself for the primary, nil if none does.
func (w *coreWorld) primary() *coreFront {
	from := w.intN(3)
	for i := range w.nodes {
		if f := w.nodes[(from+i)%3].front.Load(); f != nil {
			return f
		}
	}
	return nil
}

func (w *coreWorld) run() {
	for range 3 {
		w.work.Go(w.produce)
	}
	for range 2 {
		w.work.Go(w.consume)
	}
	for range 5 {
		time.Sleep(w.upTo(2 * coreLease))
		n := w.nodes[w.intN(3)]
		switch w.intN(6) {
		case 0:
			n.kill()
		case 1, 2:
			gate := n.gate
			gate.Pause()
			time.AfterFunc(w.upTo(3*coreLease), gate.Resume)
		case 3:
			n.conn.Cut(w.upTo(3 * coreLease))
		case 4:
			w.server.Elect(w.upTo(2 * coreLease))
		case 5:
			ctx, cancel := context.WithTimeout(w.ctx, coreLease)
			_ = n.member.Handover(ctx, "n1")
			cancel()
		}
	}
	w.server.Heal()
	for _, n := range w.nodes {
		n.gate.Resume()
	}
	w.quit()
	w.work.Wait()
	w.drain()
	w.end()
}

// produce sends numbers until the end.
func (w *coreWorld) produce() {
	for w.ctx.Err() == nil {
		time.Sleep(w.upTo(coreLease / 10))
		f := w.primary()
		if f == nil {
			continue
		}
		if _, _, err := f.client.Declare(w.ctx, "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
			continue
		}
		w.mu.Lock()
		w.now++
		id := fmt.Sprint(w.now)
		w.mu.Unlock()
		body := fmt.Appendf(nil, "%s %s", id, bytes.Repeat([]byte("."), w.intN(3000)))
		_, err := f.client.Publish(w.ctx, "q", []core.Message{{Body: body, Delay: -1}}, nil)
		if f.answer(err) {
			w.mu.Lock()
			w.sent[id] = true
			w.answers++
			w.mu.Unlock()
		}
	}
}

// consume receives and deletes until the end.
func (w *coreWorld) consume() {
	for w.ctx.Err() == nil {
		time.Sleep(w.upTo(coreLease / 8))
		if f := w.primary(); f != nil {
			w.receive(w.ctx, f)
		}
	}
}

// receive receives some messages and deletes them. It returns how many there were.
func (w *coreWorld) receive(ctx context.Context, f *coreFront) int {
	w.mu.Lock()
	w.now++
	asked := w.now
	w.mu.Unlock()
	got, err := f.client.Receive(ctx, "q", core.ReceiveOptions{Max: 3, Visibility: coreLease}, nil)
	if !f.answer(err) {
		return 0
	}
	for i := range got {
		id, _, _ := bytes.Cut(got[i].Body, []byte(" "))
		w.delivered(string(id), asked)
		_, err := f.client.Settle(ctx, "q", []core.Settlement{{Receipt: got[i].Receipt}}, nil)
		w.mu.Lock()
		w.deleting[string(id)] = true
		w.mu.Unlock()
		if f.answer(err) {
			w.mu.Lock()
			w.now++
			w.deleted[string(id)] = w.now
			w.mu.Unlock()
		}
	}
	return len(got)
}

func (w *coreWorld) delivered(id string, asked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.deleted[id]; ok && at < asked {
		w.t.Errorf("message %s was delivered after its delete was acknowledged", id)
	}
	w.seen[id] = true
}

// drain empties the queue on whoever is the primary at the end.
func (w *coreWorld) drain() {
	for still := 0; still < 20; still++ {
		time.Sleep(coreLease / 2)
		if f := w.primary(); f != nil && w.receive(context.Background(), f) > 0 {
			still = 0
		}
	}
	if w.primary() == nil {
		w.t.Error("nobody leads at the end")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.sent {
		if !w.seen[id] && !w.deleting[id] {
			w.t.Errorf("message %s was acknowledged and is gone", id)
		}
	}
}

// end stops all nodes and compares what they hold.
func (w *coreWorld) end() {
	byPosition := map[uint64]string{}
	equal := 0
	for _, n := range w.nodes {
		n.stop()
	}
	for _, n := range w.nodes {
		if err := <-n.exited; err != nil {
			w.t.Errorf("node %d stopped: %v", n.id, err)
		}
		at, state := n.db.Applied().Seq, dump(w.t, n.db)
		if other, ok := byPosition[at]; ok {
			if equal++; other != state {
				w.t.Errorf("states at %d differ:\n%s\n%s", at, other, state)
			}
		}
		byPosition[at] = state
		if err := n.db.Close(); err != nil {
			w.t.Error(err)
		}
	}
	if equal == 0 {
		w.t.Errorf("no two nodes are at the same position: %v", len(byPosition))
	}
}

// dump tells what a store holds.
func dump(t *testing.T, db *storage.DB) string {
	var b bytes.Buffer
	var queues []core.QID
	err := errors.Join(
		db.Records("", "", func(name string, v []byte) bool { fmt.Fprintf(&b, "%s=%x\n", name, v); return true }),
		db.Names("", "", func(name string, q core.QID) bool { queues = append(queues, q); return true }),
	)
	for _, q := range queues {
		state, stateErr := db.QueueState(q)
		fmt.Fprintf(&b, "queue %v %x\n", q, state)
		err = errors.Join(err, stateErr,
			db.Messages(q, core.Place{}, 0, core.SeqMax, func(s core.Seq, v []byte) bool { fmt.Fprintf(&b, "%v %x\n", s, v); return true }),
			db.States(core.Ref{QID: q}, func(r core.Ref, s core.MessageState) bool { fmt.Fprintf(&b, "%v %+v\n", r, s); return true }),
		)
	}
	if err != nil {
		t.Error(err)
	}
	return b.String()
}
