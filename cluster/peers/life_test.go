package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/jetstream"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

const lifeLease = 1500 * time.Millisecond

// broker is a node with everything but clients: state, log and member.
type broker struct {
	t      *testing.T
	w      *world
	i      int
	dir    string // of the state
	server *jetstream.Server

	db      *storage.DB
	log     *jetstream.Log
	member  *cluster.Member
	peers   *Server
	stop    context.CancelFunc
	ended   chan error
	running sync.WaitGroup
}

func (b *broker) name() string { return fmt.Sprint("n", b.i) }

// open opens the state, as a start does.
func (b *broker) open() {
	b.t.Helper()
	err := FinishReplace(b.dir)
	if err == nil {
		b.db, _, err = storage.Open(storageOptions(b.dir))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// start follows the log of a generation. The error is that of cluster.New.
func (b *broker) start(generation uint32) error {
	b.t.Helper()
	b.open()
	system, err := b.server.System()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(system.Close)
	b.log, err = jetstream.Open(patient(b.t), jetstream.Options{
		Conn: b.w.conns[b.i], System: system, Name: "test", Generation: generation, MaxBytes: 64 << 20, AckTimeout: time.Second, Logger: quiet(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.member, err = cluster.New(cluster.Options{
		Node: b.name(), Rank: b.i, Log: b.log, Store: b.db, Lead: b.lead, Lease: lifeLease, Logger: quiet(),
	})
	if err != nil {
		return errors.Join(err, b.log.Close(), b.db.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop, b.ended = stop, make(chan error, 1)
	b.running.Go(func() { b.ended <- b.member.Run(ctx) })
	b.running.Go(func() {
		if err := KeepDurable(ctx, b.db, 20*time.Millisecond); err != nil {
			b.t.Error(err)
		}
	})
	member, db := b.member, b.db
	b.peers = b.w.serve(b.i, Options{
		Dir: b.dir + ".checkpoints", Checkpoint: db.Checkpoint, Digest: db.DigestAt, Handover: member.Handover,
		Status: func() Status {
			s := Status{Role: RoleStandby, TimeMS: time.Now().UnixMilli()}
			s.SetApplied(db.Applied())
			s.Durable = min(db.Durable().Seq, s.Applied)
			if member.LeaseCovers() {
				s.Role = RolePrimary
			}
			return s
		},
	})
	return nil
}

// lead writes until the lease ends, and trims the log.
func (b *broker) lead(ctx context.Context, l *cluster.Lease) error {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		err := KeepTrimmed(ctx, TrimOptions{
			Peers: b.w.ask(b.i, AskOptions{}), Node: b.name(), Generation: b.log.Generation(), Trim: b.member.Trim,
			Usage: func(ctx context.Context) (used, most uint64, err error) {
				s, err := b.log.State(ctx)
				return uint64(s.Bytes), uint64(s.MaxBytes), err
			},
			Every: 100 * time.Millisecond, Forget: 2 * time.Second, Logger: quiet(),
			Nodes: func() []string { return []string{"n0", "n1"} },
		})
		if err != nil {
			b.t.Error(err)
		}
	})
	rng := rand.New(rand.NewPCG(uint64(l.Epoch()), 1))
	for n := uint64(0); ctx.Err() == nil; n++ {
		body := make([]byte, 2000)
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		done := make(chan error, 1)
		seq := core.Seq(uint64(l.Epoch())<<40 | n)
		l.Submit(&core.Change{Time: 1, Edits: []core.Edit{{Kind: core.EditPutMessage, Ref: core.Ref{QID: 1, Seq: seq}, Value: body}}},
			func(_ core.Pos, err error) { done <- err })
		if err := <-done; err != nil {
			return nil
		}
		_ = pause(ctx, 2*time.Millisecond)
	}
	return nil
}

// end stops the node. It returns what the member ended with.
func (b *broker) end() error {
	b.t.Helper()
	b.stop()
	b.running.Wait()
	if err := errors.Join(b.peers.Close(), b.log.Close(), b.db.Close()); err != nil {
		b.t.Error(err)
	}
	return <-b.ended
}

// restart starts the node from a copy of another's state.
func (b *broker) restart(from string, generation uint32) core.LogPosition {
	b.t.Helper()
	fetched := b.dir + ".fetched"
	p := b.w.ask(b.i, AskOptions{})
	at, err := p.Fetch(patient(b.t), from, fetched, nil)
	if err == nil {
		err = Replace(b.dir, fetched)
	}
	if err == nil {
		err = b.start(generation)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return at
}

// first is the oldest record of the log.
func (b *broker) first() uint64 {
	info, err := b.log.Info(patient(b.t))
	if err != nil {
		return 0
	}
	return info.First
}

// verify compares both.
func (b *broker) verify(what string) {
	b.t.Helper()
	digests, err := b.w.peers.Verify(patient(b.t), []string{"n0", "n1"})
	if err != nil {
		b.t.Fatalf("%s: %+v, %v", what, digests, err)
	}
}

// TestLifeOfAStandby has a node stay away until the log is trimmed, start from a
// copy, and then lets the log be lost and started anew.
func TestLifeOfAStandby(t *testing.T) {
	w := &world{t: t}
	var brokers []*broker
	for i, s := range startServers(t) {
		w.conns = append(w.conns, connect(t, s))
		if i < 2 {
			brokers = append(brokers, &broker{t: t, w: w, i: i, server: s, dir: filepath.Join(t.TempDir(), "store")})
		}
	}
	w.peers = w.ask(0, AskOptions{})
	a, b := brokers[0], brokers[1]
	start := func(n *broker, generation uint32) {
		t.Helper()
		if err := n.start(generation); err != nil {
			t.Fatal(err)
		}
	}
	start(a, 1)
	late := within(t, 30*time.Second)
	for !a.member.LeaseCovers() && late.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	start(b, 1)
	eventually(t, "the log is trimmed", func() bool { return a.first() > 100 })
	a.verify("while the log is written")

	away := b.db.Applied().Seq
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log is trimmed beyond the standby", func() bool { return a.first() > away+100 })
	start(b, 1)
	select {
	case err := <-b.ended:
		if !errors.Is(err, cluster.ErrTrimmed) {
			t.Fatalf("a node whose records are gone: %v", err)
		}
		b.ended <- err
	case <-late.Done():
		t.Fatal("a node whose records are gone follows")
	}
	_ = b.end()
	at := b.restart("n0", 1)
	eventually(t, "the copy follows", func() bool { return b.db.Applied().Seq > at.Seq+50 })
	a.verify("with a copy")

	for _, n := range []*broker{b, a} { // so that a is ahead
		if err := n.end(); err != nil {
			t.Fatal(err)
		}
	}
	a.open()
	b.open()
	newest, err := cluster.Newest([]cluster.Standing{{Node: "n0", At: a.db.Applied()}, {Node: "n1", At: b.db.Applied()}})
	if err != nil || newest.Node != "n0" {
		t.Fatalf("the newest is %+v, %v", newest, err)
	}
	if _, err := cluster.Reseed(a.db, 2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.db.Close(), b.db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := b.start(2); !errors.Is(err, cluster.ErrGeneration) {
		t.Fatalf("a node of the generation before: %v", err)
	}
	start(a, 2)
	eventually(t, "the new generation is written", func() bool { return a.db.Applied().Seq > 100 })
	b.restart("n0", 2)
	eventually(t, "the copy follows", func() bool { return b.db.Applied().Seq > a.first()+50 })
	a.verify("in the new generation")
	for _, n := range brokers {
		if err := n.end(); err != nil {
			t.Error(err)
		}
	}
}
