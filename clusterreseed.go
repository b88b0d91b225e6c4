package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/jetstream"
	"github.com/leasemq/broker/cluster/peers"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
)

// generationsEvery is how often a node that has stopped, or a witness, looks for
// another generation of the log.
const generationsEvery = 2 * time.Second

// reseed is a generation of the log that is asked for.
type reseed struct {
	confirm string
	done    chan error
}

// Reseed implements admin.Cluster.
func (a clusterAdmin) Reseed(ctx context.Context, confirm string) error {
	m, _, err := a.member()
	if err != nil {
		return err
	}
	r := reseed{confirm: confirm, done: make(chan error, 1)}
	select {
	case m.reseeds <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(generationsEvery):
		return fmt.Errorf("%w: log and state of this node fit together, or it has none: there is nothing to reseed", admin.ErrClusterState)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitReseed returns when there is another generation of the log, which this node
// or another has begun. Why the node has stopped is shown until then.
func (m *clusterNode) awaitReseed(ctx context.Context, reason error) error {
	m.setCopying(reason.Error())
	defer m.setCopying("")
	look := time.NewTicker(generationsEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-m.reseeds:
			err := m.reseed(ctx, r.confirm)
			r.done <- err
			if err == nil {
				return nil
			}
			m.log.Error("no new generation of the log is begun", "error", err)
		case <-look.C:
			if newer, err := m.newerGeneration(ctx); err == nil && newer {
				return m.openLog(ctx)
			}
		}
	}
}

// awaitBeginning keeps a node without a state from beginning the log anew beside one
// that has a state: of an empty log, all brokers must say that they have none. The
// error wraps cluster.ErrDiverged if one has, and cluster.ErrGeneration if one follows
// a later generation.
func (m *clusterNode) awaitBeginning(ctx context.Context) error {
	if m.node.db.Load().Applied() != (core.LogPosition{}) {
		return nil
	}
	defer m.setCopying("")
	for told := ""; ; {
		who, err := m.mayBegin(ctx)
		if who == "" {
			return err
		}
		if who != told {
			m.log.Info("the log may be empty: waiting for the brokers that may have a state", "nodes", who, "error", err)
			m.setCopying("the log may be empty: waits for " + who + " to say whether there is a state")
			told = who
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reconnectWait):
		}
	}
}

// mayBegin asks once whether a node without a state may follow the log. who lists
// what has not answered; without it err says why the node may not.
func (m *clusterNode) mayBegin(ctx context.Context) (who string, err error) {
	all, err := m.peers.All(ctx)
	// The log is asked after the brokers: it has what any of them got from it meanwhile.
	info, logErr := m.replica.Info(ctx)
	if logErr == nil && info.Last > 0 {
		return "", nil
	}
	absent := m.knownBrokers()
	for _, s := range all {
		switch {
		case s.Generation > m.generation():
			return "", fmt.Errorf("node %s is at generation %d of the log: %w", s.Node, s.Generation, cluster.ErrGeneration)
		case s.HasState() && logErr == nil:
			return "", fmt.Errorf("the log is empty, and node %s has a state of generation %d up to record %d: %w", s.Node, s.Generation, s.Applied, cluster.ErrDiverged)
		case s.Opened():
			absent = slices.DeleteFunc(absent, func(name string) bool { return name == s.Node })
		}
	}
	if logErr != nil {
		absent = append(absent, "the log")
	}
	if len(absent) == 0 {
		return "", nil
	}
	return strings.Join(absent, ", "), errors.Join(err, logErr)
}

// newerGeneration tells whether there is a generation after that of this node.
func (m *clusterNode) newerGeneration(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, generationsEvery)
	defer cancel()
	found, err := jetstream.Generations(ctx, m.conn, m.config.Name)
	return len(found) > 0 && found[len(found)-1] > m.generation(), err
}

// watchGenerations has a witness know which generation there is.
func (m *clusterNode) watchGenerations(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(generationsEvery):
		}
		if newer, err := m.newerGeneration(ctx); err == nil && newer {
			if err := m.openLog(ctx); err != nil {
				return err
			}
		}
	}
}

// reseed begins the next generation of the log with the state of this node, which
// must be the newest there is.
func (m *clusterNode) reseed(ctx context.Context, confirm string) error {
	all, err := m.peers.All(ctx)
	if err != nil && len(all) == 0 {
		return err
	}
	answered := map[string]bool{}
	var standings []cluster.Standing
	for _, s := range all {
		answered[s.Node] = s.Opened()
		switch {
		case s.Role == peers.RolePrimary || s.Role == peers.RoleStandby:
			return fmt.Errorf("%w: %s follows generation %d of the log", admin.ErrClusterState, s.Node, s.Generation)
		case s.Role == peers.RoleWitness:
		default:
			if s.HasState() {
				standings = append(standings, cluster.Standing{Node: s.Node, At: s.Position()})
			}
		}
	}
	want := m.config.Node
	for _, name := range m.knownBrokers() {
		if !answered[name] {
			want += " without " + name
		}
	}
	if confirm != want {
		return fmt.Errorf("%w: what the other brokers have and this one has not is lost by it; confirm with %q", core.ErrInvalidArgument, want)
	}
	newest, err := cluster.Newest(standings)
	if err != nil {
		return fmt.Errorf("%w: %w", admin.ErrClusterState, err)
	}
	if newest.Node != m.config.Node {
		return fmt.Errorf("%w: %s has a newer state than this node: ask it", admin.ErrClusterState, newest.Node)
	}
	found, err := jetstream.Generations(ctx, m.conn, m.config.Name)
	if err != nil {
		return err
	}
	generation := max(m.generation(), newest.At.Generation)
	if n := len(found); n > 0 {
		generation = max(generation, found[n-1])
	}
	generation++
	at, err := cluster.Reseed(m.node.db.Load(), generation)
	if err != nil {
		return err
	}
	m.log.Warn("the log is begun anew with the state of this node", "generation", generation, "epoch", at.Epoch, "confirmed", confirm)
	if err := m.setGeneration(generation); err != nil {
		return err
	}
	if err := jetstream.RemoveBefore(ctx, m.conn, m.config.Name, generation); err != nil {
		return err
	}
	return m.openLog(ctx)
}

// knownBrokers lists the brokers of the log, by name.
func (m *clusterNode) knownBrokers() []string {
	names := map[string]bool{}
	m.mu.Lock()
	for _, l := range m.state.Log {
		names[l.Node] = !l.Witness
	}
	m.mu.Unlock()
	for _, name := range m.brokers() {
		names[name] = true
	}
	var list []string
	for name, is := range names {
		if is {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
