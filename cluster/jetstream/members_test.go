package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/clustertest"
	"github.com/leasemq/broker/core"
)

const testLease = 1500 * time.Millisecond

// broker is a member whose state is in memory, and who writes all the time when
// it leads.
type broker struct {
	node   string
	store  *clustertest.Store
	member *cluster.Member
	stop   context.CancelFunc
	exited chan error
}

// ledger is what was acknowledged, by whomever.
type ledger struct {
	mu     sync.Mutex
	next   int
	acked  map[string]uint32 // keys, with the epoch
	epochs []uint32
	events chan string // names of nodes that lead
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// lead submits numbers, several at a time, until the lease ends.
func (l *ledger) lead(node string) func(context.Context, *cluster.Lease) error {
	return func(ctx context.Context, lease *cluster.Lease) error {
		l.mu.Lock()
		l.epochs = append(l.epochs, lease.Epoch())
		l.mu.Unlock()
		l.events <- node
		var pending sync.WaitGroup
		defer pending.Wait()
		for ctx.Err() == nil {
			l.mu.Lock()
			l.next++
			key := fmt.Sprint("k", l.next)
			l.mu.Unlock()
			c := &core.Change{Time: 1, Edits: []core.Edit{{Kind: core.EditPutRecord, Key: []byte(key), Value: make([]byte, 2000)}}}
			pending.Add(1)
			lease.Submit(c, func(_ core.Pos, err error) {
				defer pending.Done()
				if err == nil {
					l.mu.Lock()
					l.acked[key] = lease.Epoch()
					l.mu.Unlock()
				}
			})
			_ = wait(ctx, 2*time.Millisecond)
		}
		return nil
	}
}

// run starts a member on a log. Its state is that of the broker before, if any.
func (l *ledger) run(t *testing.T, rank int, log cluster.Log, before *broker) *broker {
	t.Helper()
	b := &broker{node: fmt.Sprint("n", rank), exited: make(chan error, 1)}
	gate := &clustertest.Gate{}
	if b.store = clustertest.NewStore(gate, func(core.LogPosition, uint64) {}); before != nil {
		b.store = before.store.Crash(gate, func(n int) int { return n / 2 })
	}
	var err error
	b.member, err = cluster.New(cluster.Options{
		Node: b.node, Rank: rank, Log: log, Store: b.store, Lead: l.lead(b.node), Lease: testLease, Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() { b.exited <- b.member.Run(ctx) }()
	return b
}

// end stops a member and tells how it ended.
func (b *broker) end(t *testing.T) {
	t.Helper()
	b.stop()
	if err := <-b.exited; err != nil {
		t.Errorf("%s: %v", b.node, err)
	}
}

// commits waits until whoever leads has committed something.
func (l *ledger) commits(t *testing.T) {
	t.Helper()
	late := time.Now().Add(30 * time.Second)
	for n := l.count(); l.count() < n+20; {
		if time.Now().After(late) {
			t.Fatal("nothing is committed")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leads waits until a node other than not leads, and has committed something.
func (l *ledger) leads(t *testing.T, not string) string {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case node := <-l.events:
			if node != not {
				l.commits(t)
				return node
			}
		case <-late:
			t.Fatal("nobody leads")
		}
	}
}

// check tells whether all that was acknowledged is in all stores, in the end.
func (l *ledger) check(t *testing.T, brokers []*broker) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.epochs {
		if i > 0 && e <= l.epochs[i-1] {
			t.Errorf("epochs %v do not rise", l.epochs)
		}
	}
	for _, b := range brokers {
		missing := 0
		for key := range l.acked {
			if _, ok, _ := b.store.Read(key); !ok {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("%s lacks %d of %d that were acknowledged", b.node, missing, len(l.acked))
		}
	}
}

func newLedger() *ledger { return &ledger{acked: map[string]uint32{}, events: make(chan string, 100)} }

// level waits until all stores are where the first one is.
func level(t *testing.T, brokers []*broker) {
	t.Helper()
	for range 400 {
		if at := brokers[0].store.Applied(); at == brokers[1].store.Applied() && at == brokers[2].store.Applied() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("stores do not become equal")
}

// TestMembersOutliveServers loses the server that leads the log, then the one of
// the primary, and then has the log change its leader while it is written.
func TestMembersOutliveServers(t *testing.T) {
	s := startServers(t, nil)
	led := newLedger()
	var brokers []*broker
	var logs []*Log
	for i := range replicas {
		logs = append(logs, s.open(i))
		brokers = append(brokers, led.run(t, i, logs[i], nil))
	}
	restart := func(i int) {
		s.stop(i)
		led.commits(t)
		brokers[i].stop()
		<-brokers[i].exited // its log is gone
		s.start(i)
		logs[i] = s.open(i)
		brokers[i] = led.run(t, i, logs[i], brokers[i])
	}
	led.commits(t)
	primary, leader := led.settled(t, brokers, logs)
	t.Logf("%s leads, and s%d the log", brokers[primary].node, leader)
	if len(led.epochs) != 1 {
		t.Errorf("moving the leader of the log took epochs %v", led.epochs)
	}
	restart(leader)
	primary, _ = led.settled(t, brokers, logs)
	restart(primary)
	for range 3 {
		_, leader = led.settled(t, brokers, logs)
		ctx, cancel := context.WithTimeout(patient(t), 2*time.Second)
		_ = logs[leader].MoveLeader(ctx) // it may come back
		cancel()
		led.commits(t)
	}
	t.Logf("%d acknowledged in epochs %v", led.count(), led.epochs)
	for _, b := range brokers {
		if b.member.LeaseCovers() {
			_ = b.member.Handover(patient(t), "nobody") // they follow until a lease has passed
		}
	}
	level(t, brokers)
	for _, b := range brokers {
		b.end(t)
	}
	led.check(t, brokers)
}

// settled waits until there are a primary and a leader of the log, which is on
// another node.
func (l *ledger) settled(t *testing.T, brokers []*broker, logs []*Log) (primary, leader int) {
	t.Helper()
	for range 600 {
		for primary = range brokers {
			name := leaderOf(patient(t), logs[primary])
			if !brokers[primary].member.LeaseCovers() || name == "" {
				continue
			}
			if leader = int(name[1] - '0'); leader != primary {
				return primary, leader
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("no primary away from the leader of the log")
	return 0, 0
}

// leaderOf is who leads the stream, "" if nobody is known to.
func leaderOf(ctx context.Context, l *Log) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if err != nil || info.Cluster == nil {
		return ""
	}
	return info.Cluster.Leader
}

// TestMembersOnExternalServers reaches the servers by their address, as those of
// anybody, and cuts the primary off from them.
func TestMembersOnExternalServers(t *testing.T) {
	s := startServers(t, func(_ int, o *ServerOptions) { o.listen = "127.0.0.1:0" })
	led := newLedger()
	var brokers []*broker
	var logs []*Log
	for i := range replicas {
		nc, err := Connect(s.running[i].server.ClientURL(), natsUser(s.running[i]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		l, err := Open(patient(t), Options{Conn: nc, Name: "test", MaxBytes: 64 << 20, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if l.Durability() != Unverified {
			t.Errorf("durability is %v without a system account", l.Durability())
		}
		logs = append(logs, l)
		brokers = append(brokers, led.run(t, i, l, nil))
	}
	first := led.leads(t, "")
	at := int(first[1] - '0')
	logs[at].nc.Close()
	led.leads(t, first)
	if brokers[at].member.LeaseCovers() {
		t.Errorf("%s is covered without the log", first)
	}
	brokers[at].stop()
	<-brokers[at].exited
	for i, b := range brokers {
		if i != at {
			b.end(t)
			defer led.check(t, []*broker{b})
		}
	}
}

func TestServersAreRefused(t *testing.T) {
	s := startServers(t, func(i int, o *ServerOptions) { o.unsynced = i == 1 })
	nc, system := s.connect(0)
	good := Options{Conn: nc, System: system, Name: "test", MaxBytes: 64 << 20, Logger: quiet()}
	if _, err := Open(patient(t), good); !errors.Is(err, ErrUnsynced) {
		t.Errorf("with a server that does not fsync: %v", err)
	}
	allowed := good
	allowed.AllowUnsynced = true
	l, err := Open(patient(t), allowed)
	if err != nil || l.Durability() != Unsynced {
		t.Fatalf("allowed: %v", err)
	}
	// Its settings are changed, one at a time, in another stream of the same kind.
	for i, spoil := range []func(c *jetstream.StreamConfig){
		func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		func(c *jetstream.StreamConfig) { c.AllowDirect = false },
		func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		func(c *jetstream.StreamConfig) { c.Replicas = 1 },
		func(c *jetstream.StreamConfig) { c.RePublish = nil },
		func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
	} {
		o, err := allowed.check()
		if err != nil {
			t.Fatal(err)
		}
		o.Generation, o.MaxBytes = uint32(100+i), maxBytesMin
		other := &Log{o: o, name: fmt.Sprint("LEASE_test_g", o.Generation), subject: fmt.Sprint("lease.log.test.g", o.Generation), tail: fmt.Sprint("lease.rep.test.g", o.Generation)}
		config := other.config()
		spoil(&config)
		if _, err := l.js.CreateStream(patient(t), config); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(patient(t), o); !errors.Is(err, ErrSettings) {
			t.Errorf("settings %d: %v", i, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.AppendAtomic(patient(t), 0, [][]byte{{1}}); !errors.Is(err, cluster.ErrRefused) {
		t.Errorf("append to a closed log: %v", err)
	}
}

func TestServerAloneIsRefused(t *testing.T) {
	alone, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	go alone.Start()
	defer alone.WaitForShutdown()
	defer alone.Shutdown()
	if !alone.ReadyForConnections(startWait) {
		t.Fatal("it does not start")
	}
	nc, err := Connect("", natsInProcess(alone))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := Open(patient(t), Options{Conn: nc, Name: "test"}); !errors.Is(err, ErrAlone) {
		t.Errorf("a server without a cluster: %v", err)
	}
}

func TestVersionsAreChecked(t *testing.T) {
	for version, ok := range map[string]bool{
		"2.15.0": true, "2.15.3": true, "v2.16.0-RC.1": true, "3.0.0": true,
		"2.14.9": false, "1.99.0": false, "": false, "x.y": false,
	} {
		if err := checkVersion(version); (err == nil) != ok || err != nil && !errors.Is(err, ErrOldServer) {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no connection": {Name: "test"},
	} {
		if _, err := Open(t.Context(), o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, o := range []ServerOptions{
		{}, {Name: "a", Cluster: "c", Dir: "d", Listen: "127.0.0.1:0"}, {Name: "a", Cluster: "c", Dir: "d", Secret: "s", Listen: "no address"},
	} {
		if s, err := StartServer(o); err == nil {
			s.Close()
			t.Errorf("started with %+v", o)
		}
	}
}
