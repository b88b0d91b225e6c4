package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasemq/broker/cluster/gossip"
	"github.com/leasemq/broker/cluster/jetstream"
)

// reachLog connects to the servers of the log, of which one is in this process
// unless the log is elsewhere.
func (m *clusterNode) reachLog(ctx context.Context) error {
	reach := m.startServer
	if m.config.NATS != "" {
		reach = m.connect
	}
	conn, system, err := reach(ctx)
	m.mu.Lock()
	m.conn, m.system = conn, system
	m.mu.Unlock()
	return err
}

// openLog opens the newest generation of the log, in the place of what was open.
func (m *clusterNode) openLog(ctx context.Context) error {
	found, err := jetstream.Generations(ctx, m.conn, m.config.Name)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	if n := len(found); n > 0 && found[n-1] > m.generation() {
		if err := m.setGeneration(found[n-1]); err != nil {
			return err
		}
	}
	o := jetstream.Options{
		Conn: m.conn, System: m.system, Name: m.config.Name, Generation: m.generation(), MaxBytes: m.config.LogSize,
		AllowUnsynced: m.config.AllowUnsyncedLog, AckTimeout: m.config.Lease, Logger: m.log,
	}
	if m.config.NATS == "" {
		o.Server = m.config.Node
		for _, other := range m.logMembers() {
			if other.Witness {
				o.Prefer = other.Node
			}
		}
	}
	replica, err := jetstream.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	m.mu.Lock()
	before := m.replica
	m.replica = replica
	m.mu.Unlock()
	m.log.Info("log is open", "generation", o.Generation, "durability", replica.Durability().String())
	if before != nil {
		return before.Close()
	}
	return nil
}

func (m *clusterNode) setGeneration(generation uint32) error {
	return m.changeState(func(s *clusterState) {
		s.Generation = generation
		m.leader = leader{} // epochs of another log say nothing
	})
}

// changeState changes what outlives the process, by edit, which has m.mu.
func (m *clusterNode) changeState(edit func(*clusterState)) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	edit(&m.state)
	s := m.state
	s.Log = slices.Clone(s.Log)
	m.mu.Unlock()
	return s.save(m.dir)
}

// logMembers lists who keeps the log.
func (m *clusterNode) logMembers() []logMember {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state.Log)
}

// startServer starts this node's server of the log, once it is known who the others
// are.
func (m *clusterNode) startServer(ctx context.Context) (conn, system *nats.Conn, err error) {
	if err := m.knowLogMembers(ctx); err != nil {
		return nil, nil, err
	}
	listen, err := m.node.settings.config.Resolve(m.config.Listen)
	if err != nil {
		return nil, nil, err
	}
	var secure *tls.Config
	if m.config.SecretFile != "" {
		secure = m.id.Peers()
	}
	server, err := jetstream.StartServer(jetstream.ServerOptions{
		Name: m.config.Node, Cluster: m.config.Name, Dir: filepath.Join(m.dir, clusterLogDir), Listen: listen,
		Routes: m.routes(), Secret: m.id.Password(), TLS: secure, MaxBytes: m.config.LogSize, Logger: m.log,
	})
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	m.server = server
	m.mu.Unlock()
	if conn, err = server.Connect(); err != nil {
		return nil, nil, err
	}
	system, err = server.System()
	return conn, system, err
}

// knowLogMembers waits, at the first start, until all who keep the log are there.
func (m *clusterNode) knowLogMembers(ctx context.Context) error {
	if len(m.logMembers()) > 0 {
		return nil
	}
	m.log.Info("waiting for the nodes that keep the log", "nodes", logMembersCount, "join", strings.Join(m.config.Join, ", "))
	found, err := m.gossip.Bootstrap(ctx, logMembersCount)
	if err != nil {
		return err
	}
	var list []logMember
	for _, other := range found {
		list = append(list, logMember{Node: other.Node.Name, Route: other.Node.Route, Witness: !slices.Contains(other.Node.Roles, roleBroker)})
	}
	slices.SortFunc(list, func(a, b logMember) int { return cmp.Compare(a.Node, b.Node) })
	return m.changeState(func(s *clusterState) { s.Log = list })
}

// routes lists where the servers of the log reach each other.
func (m *clusterNode) routes() []string {
	var routes []string
	for _, other := range m.logMembers() {
		routes = append(routes, other.Route)
	}
	return routes
}

// connect reaches the NATS cluster of the configuration.
func (m *clusterNode) connect(ctx context.Context) (conn, system *nats.Conn, err error) {
	reach := func(key, file string) (*nats.Conn, error) {
		var user nats.Option
		if file != "" {
			name, password, err := readUser(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			user = nats.UserInfo(name, password)
		}
		for complained := false; ; complained = true {
			options := []nats.Option{nats.Name("leasemq " + m.config.Node)}
			if user != nil {
				options = append(options, user)
			}
			c, err := jetstream.Connect(m.config.NATS, options...)
			if err == nil {
				return c, nil
			}
			if !complained {
				m.log.Warn("servers of the log are not reached: trying on", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(reconnectWait):
			}
		}
	}
	if conn, err = reach("cluster.nats_user_file", m.config.NATSUserFile); err != nil || m.config.NATSSystemUserFile == "" {
		return conn, nil, err
	}
	system, err = reach("cluster.nats_system_user_file", m.config.NATSSystemUserFile)
	return conn, system, err
}

// learnRoutes tells the log's server of nodes that are elsewhere than before.
func (m *clusterNode) learnRoutes(members []gossip.Member) {
	list, changed := m.logMembers(), false
	for i := range list {
		for _, other := range members {
			if g := other.Node; other.State == gossip.Alive && g.Name == list[i].Node && g.Route != "" && g.Route != list[i].Route {
				list[i].Route, changed = g.Route, true
			}
		}
	}
	if !changed {
		return
	}
	if err := m.changeState(func(s *clusterState) { s.Log = list }); err != nil {
		m.log.Error("new addresses of nodes are not kept", "error", err)
	}
	m.mu.Lock()
	server := m.server
	m.mu.Unlock()
	if server == nil {
		return
	}
	if err := server.SetRoutes(m.routes()); err != nil {
		m.log.Error("new addresses of nodes are not taken over", "error", err)
	}
}
