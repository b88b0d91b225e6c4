package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasemq/broker/cluster/gossip"
	"github.com/leasemq/broker/cluster/jetstream"
	"github.com/leasemq/broker/cluster/peers"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
)

// clusterCheckpointsDir is where copies for other nodes are made.
const clusterCheckpointsDir = "checkpoints"

// answerPeers begins to answer the other nodes.
func (m *clusterNode) answerPeers() error {
	ask, err := peers.New(m.conn, peers.AskOptions{Cluster: m.config.Name, Nodes: m.expected})
	if err != nil {
		return err
	}
	o := peers.Options{Cluster: m.config.Name, Node: m.config.Node, Status: m.status, Logger: m.log}
	if !m.config.Witness {
		o.Handover, o.Digest, o.Checkpoint = m.handover, m.digest, m.checkpoint
		o.Dir = filepath.Join(m.dir, clusterCheckpointsDir)
	}
	answers, err := peers.Serve(m.conn, o)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.peers, m.answers = ask, answers
	m.mu.Unlock()
	return nil
}

// expected lists the nodes that are there, as far as is known.
func (m *clusterNode) expected() []string {
	members, _ := m.gossip.Watch()
	var names []string
	for _, other := range members {
		if other.State == gossip.Alive {
			names = append(names, other.Node.Name)
		}
	}
	return names
}

// role is what this node is just now.
func (m *clusterNode) role() peers.Role {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.leads.Load() != 0 && m.member != nil && m.member.LeaseCovers():
		return peers.RolePrimary
	case m.config.Witness && m.replica != nil:
		return peers.RoleWitness
	case m.member != nil:
		return peers.RoleStandby
	}
	return peers.RoleStarting
}

// status is what this node tells the others of itself.
func (m *clusterNode) status() peers.Status {
	self := m.gossip.Self().Node
	s := peers.Status{
		Node: m.config.Node, Role: m.role(), Version: m.node.settings.version,
		Relay: self.Relay, Clients: self.Clients, TimeMS: time.Now().UnixMilli(),
	}
	if db := m.node.db.Load(); db != nil {
		// Durable is read first: it follows.
		durable := db.Durable().Seq
		s.SetApplied(db.Applied())
		s.Durable = min(durable, s.Applied)
		if err := db.Err(); err != nil {
			s.Degraded = err.Error()
		}
	} else {
		s.Generation = m.generation()
	}
	m.mu.Lock()
	s.Degraded = cmp.Or(s.Degraded, m.copying)
	m.mu.Unlock()
	if err := m.gossip.Conflict(); err != nil && s.Degraded == "" {
		s.Degraded = err.Error()
	}
	return s
}

// errNoState is what a node answers that has no state at the moment.
var errNoState = errors.New("node has no state at the moment")

func (m *clusterNode) digest(ctx context.Context, at uint64, wait time.Duration) (core.LogPosition, [32]byte, error) {
	db := m.node.db.Load()
	if db == nil {
		return core.LogPosition{}, [32]byte{}, errNoState
	}
	return db.DigestAt(ctx, at, wait)
}

func (m *clusterNode) checkpoint(dir string) (core.LogPosition, error) {
	db := m.node.db.Load()
	if db == nil {
		return core.LogPosition{}, errNoState
	}
	return db.Checkpoint(dir)
}

func (m *clusterNode) generation() uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Generation
}

// handover hands over what this node leads.
func (m *clusterNode) handover(ctx context.Context, to string) error {
	m.mu.Lock()
	member := m.member
	m.mu.Unlock()
	if member == nil {
		return core.ErrNotPrimary
	}
	return member.Handover(ctx, to)
}

// clusterAdmin implements admin.Cluster on a node.
type clusterAdmin struct{ node *Node }

var _ admin.Cluster = clusterAdmin{}

// clusterAdmin is what admins ask about the cluster; nil: there is none.
func (n *Node) clusterAdmin() admin.Cluster {
	if !n.settings.config.Cluster.On() {
		return nil
	}
	return clusterAdmin{n}
}

// primaryAdmin is admin.Options.Primary.
func (n *Node) primaryAdmin() func() (string, bool) {
	if !n.settings.config.Cluster.On() {
		return nil
	}
	return func() (string, bool) {
		m := n.cluster
		if m == nil {
			return "", false
		}
		members, _ := m.gossip.Watch()
		p := m.primaryAmong(members)
		for _, other := range members {
			if at := other.Node.Clients[adminName]; at != "" && other.Node.Name == p.Node && p.Node != m.config.Node {
				return "http://" + at, true
			}
		}
		return "", false
	}
}

// member returns what the node has with the others.
func (a clusterAdmin) member() (*clusterNode, *peers.Peers, error) {
	m := a.node.cluster
	if m == nil {
		return nil, nil, fmt.Errorf("%w: the node is being started", admin.ErrClusterState)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m, m.peers, nil
}

// Status implements admin.Cluster.
func (a clusterAdmin) Status(ctx context.Context) (admin.ClusterStatus, error) {
	m, ask, err := a.member()
	if err != nil {
		return admin.ClusterStatus{}, err
	}
	own := m.status()
	st := admin.ClusterStatus{
		Node: own.Node, Role: string(own.Role), Epoch: uint64(own.Epoch), Generation: uint64(own.Generation),
		Log: admin.ClusterLog{Durability: jetstream.Unverified.String()},
	}
	answered := []peers.Status{own}
	if ask != nil {
		if answered, err = ask.All(ctx); err != nil {
			m.log.Debug("status of the cluster", "error", err)
		}
	}
	m.logStatus(ctx, &st.Log)
	byName := map[string]admin.ClusterNode{}
	for _, n := range m.knownNodes() {
		byName[n.Node] = n
	}
	first := uint64(0)
	for _, s := range answered {
		byName[s.Node] = admin.ClusterNode{
			Node: s.Node, Role: string(s.Role), Epoch: uint64(s.Epoch), Applied: s.Applied, Durable: s.Durable,
			Reachable: true, Version: s.Version, Addresses: s.Clients, Warning: s.Degraded,
		}
		if s.Role == peers.RolePrimary && uint64(s.Epoch) >= st.Epoch {
			st.Primary, st.Epoch, first = s.Node, uint64(s.Epoch), s.Applied
		}
	}
	if own.Role == peers.RolePrimary && st.Primary != own.Node && st.Primary != "" {
		st.Role = string(peers.RoleStandby) // it was, when this began
	}
	for _, n := range byName {
		if n.Role != string(peers.RoleWitness) && n.Reachable && n.Applied < first {
			n.Lag = first - n.Applied
		}
		st.Nodes = append(st.Nodes, n)
	}
	slices.SortFunc(st.Nodes, func(a, b admin.ClusterNode) int { return cmp.Compare(a.Node, b.Node) })
	return st, nil
}

// logStatus asks the servers of the log, if they are reached.
func (m *clusterNode) logStatus(ctx context.Context, l *admin.ClusterLog) {
	m.mu.Lock()
	replica := m.replica
	m.mu.Unlock()
	if replica == nil {
		return
	}
	l.Durability = replica.Durability().String()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := replica.State(ctx)
	if err != nil {
		m.log.Debug("state of the log", "error", err)
		return
	}
	l.Leader, l.First, l.Last, l.Bytes, l.MaxBytes = s.Leader, s.First, s.Last, s.Bytes, s.MaxBytes
}

// knownNodes lists the nodes that are known of, as they are until they answer.
func (m *clusterNode) knownNodes() []admin.ClusterNode {
	members, _ := m.gossip.Watch()
	byName := map[string]admin.ClusterNode{}
	m.mu.Lock()
	for _, l := range m.state.Log {
		n := admin.ClusterNode{Node: l.Node, Role: string(peers.RoleStandby), Warning: "is not reached"}
		if l.Witness {
			n.Role = string(peers.RoleWitness)
		}
		byName[l.Node] = n
	}
	m.mu.Unlock()
	for _, other := range members {
		if other.State == gossip.Left {
			continue // it said so; who keeps the log is missed all the same
		}
		n := admin.ClusterNode{Node: other.Node.Name, Role: string(peers.RoleStandby), Version: other.Node.Version, Addresses: other.Node.Clients}
		if !slices.Contains(other.Node.Roles, roleBroker) {
			n.Role = string(peers.RoleWitness)
		}
		n.Warning = "does not answer"
		if other.State == gossip.Dead {
			n.Warning = "is not reached"
		}
		byName[n.Node] = n
	}
	var list []admin.ClusterNode
	for _, n := range byName {
		list = append(list, n)
	}
	return list
}

// Handover implements admin.Cluster.
func (a clusterAdmin) Handover(ctx context.Context, to string) error {
	m, ask, err := a.member()
	if err != nil {
		return err
	}
	if ask == nil {
		return fmt.Errorf("%w: the node does not reach the others yet", admin.ErrClusterState)
	}
	all, err := ask.All(ctx)
	if err != nil && len(all) == 0 {
		return err
	}
	primary, target := "", false
	for _, s := range all {
		if s.Role == peers.RolePrimary {
			primary = s.Node
		}
		target = target || s.Role == peers.RoleStandby && (to == "" || s.Node == to)
	}
	switch {
	case primary == "":
		return fmt.Errorf("%w: there is no primary", admin.ErrClusterState)
	case primary == to:
		return fmt.Errorf("%w: %s is the primary", admin.ErrClusterState, to)
	case !target && to == "":
		return fmt.Errorf("%w: no standby answers", admin.ErrClusterState)
	case !target:
		return fmt.Errorf("%w: %s is no standby that answers", admin.ErrClusterState, to)
	case primary == m.config.Node:
		return m.handover(ctx, to)
	}
	return ask.Handover(ctx, primary, to)
}

// Verify implements admin.Cluster.
func (a clusterAdmin) Verify(ctx context.Context) (admin.ClusterVerify, error) {
	_, ask, err := a.member()
	if err != nil {
		return admin.ClusterVerify{}, err
	}
	if ask == nil {
		return admin.ClusterVerify{}, fmt.Errorf("%w: the node does not reach the others yet", admin.ErrClusterState)
	}
	return verify(ctx, ask)
}
