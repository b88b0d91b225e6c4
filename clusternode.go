package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/gossip"
	"github.com/leasemq/broker/cluster/identity"
	"github.com/leasemq/broker/cluster/jetstream"
	"github.com/leasemq/broker/cluster/peers"
	"github.com/leasemq/broker/cluster/relay"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
)

// logMembersCount is how many nodes keep the log.
const logMembersCount = 3

// reconnectWait is between two tries to reach what is not there yet.
const reconnectWait = 250 * time.Millisecond

// clusterNode is a node as one of a cluster: a broker, which is the primary or a
// standby, or a witness.
type clusterNode struct {
	node   *Node
	config configs.Cluster
	dir    string
	log    *slog.Logger
	id     *identity.Identity
	relay  *port

	gossip    *gossip.Gossip
	forwarder *relay.Forwarder

	saving  sync.Mutex // held while state is written; taken before mu
	mu      sync.Mutex
	state   clusterState
	server  *jetstream.Server // nil: the log is elsewhere, or not up yet
	conn    *nats.Conn        // to the servers of the log; nil: none yet
	system  *nats.Conn        // nil: none
	peers   *peers.Peers      // nil: not yet
	answers *peers.Server     // nil: not yet
	reseeds chan reseed       // asked of a node that has stopped
	copying string            // how far a copy of the state is, in words; "": there is none
	replica *jetstream.Log    // nil: not open yet
	member  *cluster.Member   // nil: none runs
	leader  leader            // who leads, as the log says
	moved   chan struct{}     // leader has changed; capacity 1

	leads      atomic.Uint32 // the epoch in which this node is the primary; 0: it is not
	forwarding sync.WaitGroup
	stopRelay  context.CancelFunc
}

// leader is who leads in an epoch.
type leader struct {
	epoch uint32
	node  string // "": nobody, or not known yet
}

// beginCluster is begin of a node of a cluster. It finds the other nodes in the
// background: without them, there is nothing to serve.
func (n *Node) beginCluster(ctx context.Context) (func() error, error) {
	c := n.settings.config
	m := &clusterNode{node: n, config: c.Cluster, dir: c.Node.Data, log: n.settings.log, moved: make(chan struct{}, 1), reseeds: make(chan reseed), stopRelay: func() {}}
	state, err := openClusterState(m.dir, m.config.Name, m.config.Node, rand.Text)
	if err != nil {
		return nil, err
	}
	m.state = *state
	secret := []byte(openSecret)
	if file := m.config.SecretFile; file != "" {
		if secret, err = identity.ReadSecret(file); err != nil {
			return nil, fmt.Errorf("cluster.secret_file: %w", err)
		}
	}
	if m.id, err = identity.New(secret, m.config.Name, m.config.Node); err != nil {
		return nil, err
	}
	if m.forwarder, err = relay.NewForwarder(relay.ForwarderOptions{TLS: m.id.Client(), Logger: m.log}); err != nil {
		return nil, err
	}
	if err := m.listen(ctx); err != nil {
		if m.relay != nil {
			m.relay.close()
		}
		return nil, err
	}
	n.cluster = m
	return func() error { return m.run(ctx) }, nil
}

// openSecret is what nodes know each other by that only this machine can reach.
const openSecret = "anyone on this machine"

// listen binds what other nodes reach, and begins to look for them.
func (m *clusterNode) listen(ctx context.Context) error {
	c := m.node.settings.config
	resolve := func(key, given string) (netip.AddrPort, error) {
		addr, err := c.Resolve(given)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("%s: %w", key, err)
		}
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("%s: %w", key, err)
		}
		a := tcp.AddrPort()
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
	}
	gossipAt, err := resolve("cluster.gossip_listen", m.config.GossipListen)
	if err != nil {
		return err
	}
	logAt, err := resolve("cluster.listen", m.config.Listen)
	if err != nil {
		return err
	}
	relayAt, err := resolve("cluster.relay_listen", m.config.RelayListen)
	if err != nil {
		return err
	}
	o := gossip.Options{
		ID: m.state.ID, Cluster: m.config.Name, Bind: gossipAt, Seeds: m.config.Join, Logger: m.log,
		Node: gossip.Node{Name: m.config.Node, Version: m.node.settings.version, Clients: m.clients()},
	}
	if !m.config.Witness {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", relayAt.String())
		if err != nil {
			return fmt.Errorf("listen for the relay: %w", err)
		}
		m.relay = newPort(Port{Name: "relay"}, ln)
		o.Node.Relay = m.advertised(ln.Addr().(*net.TCPAddr).AddrPort()).String()
		o.Node.Roles = append(o.Node.Roles, roleBroker)
	}
	if m.config.NATS == "" {
		o.Node.Route = m.advertised(logAt).String()
		o.Node.Roles = append(o.Node.Roles, gossip.RoleLog)
	}
	if m.config.SecretFile != "" {
		o.Keys = [][]byte{m.id.GossipKey()}
	}
	if m.config.Advertise != "" {
		o.Advertise = m.advertised(gossipAt)
	}
	m.gossip, err = gossip.Start(o)
	return err
}

// roleBroker is the role of the nodes that keep messages.
const roleBroker = "broker"

// clients lists where clients reach this node, by listener.
func (m *clusterNode) clients() map[string]string {
	clients := map[string]string{}
	for name, addr := range m.node.addrs {
		if a, err := netip.ParseAddrPort(addr); err == nil {
			clients[name] = m.advertised(a).String()
		}
	}
	return clients
}

// advertised is a as the others reach it.
func (m *clusterNode) advertised(a netip.AddrPort) netip.AddrPort {
	if ip, err := netip.ParseAddr(m.config.Advertise); err == nil {
		return netip.AddrPortFrom(ip, a.Port())
	}
	return a
}

// run is the life of the node in its cluster.
func (m *clusterNode) run(ctx context.Context) error {
	m.startRelay()
	watching, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { m.watchLeader(watching) })
	err := m.join(ctx)
	m.node.draining.Store(true)
	m.node.closePorts()
	m.endRelay()
	stopWatch()
	watch.Wait()
	return errors.Join(err, m.leave())
}

// join finds the log and follows it until ctx ends.
func (m *clusterNode) join(ctx context.Context) error {
	err := m.reachLog(ctx)
	if err == nil {
		err = m.openLog(ctx)
	}
	if err == nil {
		err = m.answerPeers()
	}
	switch {
	case err != nil:
	case m.config.Witness:
		m.log.Info("this node is a witness: it keeps the log")
		err = m.watchGenerations(ctx)
	default:
		err = m.keepOn(ctx)
	}
	return unlessEnded(ctx, err)
}

// keepOn keeps the state of this node until ctx ends, or it is of no use.
func (m *clusterNode) keepOn(ctx context.Context) error {
	if err := peers.FinishReplace(m.storeDir()); err != nil {
		return err
	}
	for {
		err := m.keepState(ctx)
		m.setMember(nil)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, cluster.ErrTrimmed), errors.Is(err, cluster.ErrGeneration):
			m.log.Warn("this node starts from a copy of another one's state: the log does not have what it lacks", "reason", err)
			err = m.copyState(ctx)
		case errors.Is(err, cluster.ErrDiverged):
			m.log.Error("log and state do not fit together: this node stops, until broker cluster reseed", "error", err)
			err = m.awaitReseed(ctx, err)
		case err == nil:
			err = errors.New("the log is followed no more")
		}
		if err != nil {
			return err
		}
	}
}

func (m *clusterNode) storeDir() string { return filepath.Join(m.dir, clusterStoreDir) }

// keepState opens the store and follows the log with it until ctx ends, or that
// cannot go on.
func (m *clusterNode) keepState(ctx context.Context) error {
	if m.node.db.Load() == nil {
		if _, err := m.node.openStorage(m.storeDir(), true); err != nil {
			return err
		}
	}
	if g := m.node.db.Load().Applied().Generation; g > m.generation() {
		// A reseed was interrupted.
		if err := m.setGeneration(g); err != nil {
			return err
		}
		if err := m.openLog(ctx); err != nil {
			return err
		}
	}
	if err := m.awaitBeginning(ctx); err != nil {
		return err
	}
	member, err := cluster.New(cluster.Options{
		Node: m.config.Node, Rank: m.rank(), Log: m.replica, Store: m.node.db.Load(), Lead: m.lead,
		Lease: m.config.Lease, OnEpoch: m.heardEpoch, Logger: m.log,
	})
	if err != nil {
		return err
	}
	m.setMember(member)
	return m.follow(ctx, member)
}

// keepTrimmed trims the log while this node leads.
func (m *clusterNode) keepTrimmed(ctx context.Context) {
	m.mu.Lock()
	member, ask, replica := m.member, m.peers, m.replica
	m.mu.Unlock()
	err := peers.KeepTrimmed(ctx, peers.TrimOptions{
		Peers: ask, Node: m.config.Node, Generation: m.generation(), Trim: member.Trim, Nodes: m.brokers,
		Forget: m.config.TrimAfter, Logger: m.log,
		Usage: func(ctx context.Context) (used, most uint64, err error) {
			s, err := replica.State(ctx)
			return uint64(max(s.Bytes, 0)), uint64(max(s.MaxBytes, 0)), err
		},
	})
	if err != nil {
		m.log.Error("log is not trimmed", "error", err)
	}
}

// brokers lists the nodes that keep a state, as far as is known.
func (m *clusterNode) brokers() []string {
	var names []string
	members, _ := m.gossip.Watch()
	for _, other := range members {
		if other.State != gossip.Left && slices.Contains(other.Node.Roles, roleBroker) {
			names = append(names, other.Node.Name)
		}
	}
	return names
}

func (m *clusterNode) setMember(member *cluster.Member) {
	m.mu.Lock()
	m.member = member
	m.mu.Unlock()
}

// follow runs the member until ctx ends, or either it or the store fails.
func (m *clusterNode) follow(ctx context.Context, member *cluster.Member) error {
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	db := m.node.db.Load()
	go func() {
		select {
		case <-db.Failed():
			cancel(db.Err())
		case <-following.Done():
		}
	}()
	var durable sync.WaitGroup
	durable.Go(func() {
		if err := peers.KeepDurable(following, db, 0); err != nil && following.Err() == nil {
			cancel(err)
		}
	})
	defer durable.Wait()
	defer cancel(nil)
	err := member.Run(following)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(following)
	}
	return err
}

// unlessEnded is err, but for what comes of the end of ctx.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// rank says in which order standbys take over: by name. The first two share the
// first place, since one of them often is the primary that is lost; should both be
// standbys, the log decides.
func (m *clusterNode) rank() int {
	rank := -1
	for _, other := range m.logMembers() {
		if !other.Witness && other.Node < m.config.Node {
			rank++
		}
	}
	return max(rank, 0)
}

// lead is the life of this node as the primary.
func (m *clusterNode) lead(ctx context.Context, lease *cluster.Lease) error {
	m.endRelay()
	err := m.serveTerm(ctx, lease)
	if ctx.Err() == nil || !m.node.stopping() {
		m.startRelay()
	}
	if errors.Is(err, core.ErrNotPrimary) {
		return nil // the lease is over, which the member knows
	}
	return err
}

func (m *clusterNode) serveTerm(ctx context.Context, lease *cluster.Lease) error {
	n := m.node
	receiver, err := relay.NewReceiver(relay.ReceiverOptions{TLS: m.id.Server(), Logger: m.log})
	if err != nil {
		return err
	}
	t, err := n.openTerm(ctx, core.Options{Committer: lease, Boot: lease.Boot(), Covers: lease.Covers})
	if err != nil {
		return unlessEnded(ctx, err)
	}
	relaying, stop := context.WithCancel(context.WithoutCancel(ctx))
	var received sync.WaitGroup
	received.Go(func() {
		if err := receiver.Serve(relaying, m.relay.take(nil)); err != nil {
			m.log.Error("relay ends", "error", err)
		}
	})
	defer received.Wait()
	defer stop()
	if err := t.start(receiver.Listen); err != nil {
		t.drain(true)
		return errors.Join(err, t.close())
	}
	m.setLeads(lease.Epoch())
	var trimming sync.WaitGroup
	trimming.Go(func() { m.keepTrimmed(relaying) })
	defer trimming.Wait()
	defer stop()
	reason := t.watch(ctx)
	m.setLeads(0)
	if n.stopping() {
		n.draining.Store(true)
	}
	t.drain(!lease.Covers())
	return because(reason, t.close())
}

// setLeads tells the others whether this node is the primary.
func (m *clusterNode) setLeads(epoch uint32) {
	m.leads.Store(epoch)
	if err := m.gossip.Update(func(g *gossip.Node) { g.Leads = epoch }); err != nil {
		m.log.Warn("the other nodes are not told who is the primary", "error", err)
	}
}

// startRelay has the ports relay clients to the primary.
func (m *clusterNode) startRelay() {
	ctx, stop := context.WithCancel(context.Background())
	m.mu.Lock()
	m.stopRelay = stop
	m.mu.Unlock()
	for _, p := range m.node.ports {
		ln := p.take(nil)
		m.forwarding.Go(func() {
			if err := m.forwarder.Serve(ctx, p.Name, ln); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				m.log.Error("listener relays no more", "listener", p.Name, "error", err)
				m.node.stop()
			}
		})
	}
}

// endRelay closes all connections that are relayed, and waits until that is done.
func (m *clusterNode) endRelay() {
	m.mu.Lock()
	stop := m.stopRelay
	m.mu.Unlock()
	stop()
	m.forwarding.Wait()
}

// heardEpoch takes what the log says of who leads.
func (m *clusterNode) heardEpoch(epoch uint32, e cluster.Epoch) {
	m.mu.Lock()
	m.leader = leader{epoch: epoch}
	if !e.Vacant {
		m.leader.node = e.Node
	}
	m.mu.Unlock()
	select {
	case m.moved <- struct{}{}:
	default:
	}
}

// watchLeader keeps the forwarder, and the routes of the log's server, to what the
// other nodes say of themselves.
func (m *clusterNode) watchLeader(ctx context.Context) {
	for ctx.Err() == nil {
		members, changed := m.gossip.Watch()
		m.forwarder.SetPrimary(m.primaryAmong(members))
		m.learnRoutes(members)
		select {
		case <-changed:
		case <-m.moved:
		case <-ctx.Done():
		}
	}
}

// primaryAmong finds the node that clients are relayed to: who leads by what the log
// says, or, after a start, by what it says itself.
func (m *clusterNode) primaryAmong(members []gossip.Member) relay.Primary {
	m.mu.Lock()
	led := m.leader
	m.mu.Unlock()
	var p relay.Primary
	for _, other := range members {
		switch g := other.Node; {
		case g.Relay == "" || led.epoch > 0 && g.Name != led.node && g.Leads <= led.epoch:
		case led.epoch > 0 && g.Name == led.node && g.Leads <= led.epoch:
			p = relay.Primary{Node: g.Name, Address: g.Relay, Epoch: led.epoch}
		case other.State == gossip.Alive && g.Leads > p.Epoch:
			p = relay.Primary{Node: g.Name, Address: g.Relay, Epoch: g.Leads}
		}
	}
	return p
}

// ready is a check of readiness: clients are served here, or relayed.
func (m *clusterNode) ready() (string, error) {
	if m.leads.Load() != 0 {
		return fmt.Sprintf("primary in epoch %d", m.leads.Load()), nil
	}
	members, _ := m.gossip.Watch()
	switch p := m.primaryAmong(members); {
	case m.config.Witness:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.server == nil {
			return "", errors.New("witness waits for the other nodes")
		}
		return "witness", nil
	case p.Node == "" || p.Node == m.config.Node:
		return "", errors.New("there is no primary")
	default:
		return fmt.Sprintf("standby of %s, primary in epoch %d", p.Node, p.Epoch), nil
	}
}

// leave closes what the node has with the others.
func (m *clusterNode) leave() error {
	var errs []error
	m.mu.Lock()
	replica, server, answers := m.replica, m.server, m.answers
	conns := []*nats.Conn{m.conn, m.system}
	m.mu.Unlock()
	if answers != nil {
		errs = append(errs, answers.Close())
	}
	if replica != nil {
		errs = append(errs, replica.Close())
	}
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
	if server != nil {
		server.Close()
	}
	if err := m.gossip.Leave(); err != nil {
		m.log.Info("the other nodes may not know that this one leaves", "error", err)
	}
	if m.relay != nil {
		m.relay.close()
	}
	return errors.Join(errs...)
}
