package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
)

// cluster FILE serves the API of each node of a cluster that does nothing, whose
// status is in FILE and whose comparison, if asked for, in FILE.verify. It sets
// BROKER_ADMIN to the node that the status is of, and ADMIN_name for the others.
func cluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: cluster FILE")
	}
	c := &stagedCluster{}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &c.status))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0]+".verify")), &c.verify))
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	ts.Defer(func() {
		stop()
		serving.Wait()
	})
	c.mu.Lock() // the first serves before the last has its address
	defer c.mu.Unlock()
	for i := range c.status.Nodes {
		n := &c.status.Nodes[i]
		if !n.Reachable {
			continue
		}
		server, err := admin.New(nil, admin.Options{Logger: slog.New(slog.DiscardHandler), Cluster: stagedNode{c, n.Node}})
		ts.Check(err)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		n.Addresses = map[string]string{"admin": ln.Addr().String()}
		ts.Setenv("ADMIN_"+n.Node, ln.Addr().String())
		if n.Node == c.status.Node {
			ts.Setenv("BROKER_ADMIN", ln.Addr().String())
		}
		serving.Go(func() { _ = server.Serve(ctx, ln) })
	}
}

// stagedCluster is what the nodes of a staged cluster share.
type stagedCluster struct {
	mu     sync.Mutex
	status admin.ClusterStatus
	verify admin.ClusterVerify
}

// stagedNode is a cluster as one of its nodes sees it.
type stagedNode struct {
	*stagedCluster
	name string
}

// Status tells all nodes the same.
func (n stagedNode) Status(context.Context) (admin.ClusterStatus, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.status
	st.Nodes = slices.Clone(st.Nodes)
	st.Node = n.name
	for _, other := range st.Nodes {
		if other.Node == n.name {
			st.Role = other.Role
		}
	}
	return st, nil
}

// Handover exchanges two roles. With to "other" another standby takes over, with
// "nobody" the primary itself.
func (n stagedNode) Handover(_ context.Context, to string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.status.Primary != n.name {
		return core.ErrNotPrimary
	}
	next := slices.IndexFunc(n.status.Nodes, func(c admin.ClusterNode) bool {
		return c.Role == "standby" && (to == "" || to == c.Node || to == "other") || to == "nobody" && c.Node == n.name
	})
	if next < 0 {
		return fmt.Errorf("%w: there is no standby %s", core.ErrInvalidArgument, to)
	}
	for i := range n.status.Nodes {
		if n.status.Nodes[i].Role == "primary" {
			n.status.Nodes[i].Role = "standby"
		}
	}
	n.status.Nodes[next].Role = "primary"
	n.status.Primary = n.status.Nodes[next].Node
	n.status.Epoch++
	return nil
}

// Verify answers what was staged.
func (n stagedNode) Verify(context.Context) (admin.ClusterVerify, error) { return n.verify, nil }

// Reseed only compares the name.
func (n stagedNode) Reseed(_ context.Context, confirm string) error {
	if confirm != n.name {
		return fmt.Errorf("%w: confirm is %s, and the node is %s", core.ErrInvalidArgument, confirm, n.name)
	}
	return fmt.Errorf("%w: the log has lost nothing", admin.ErrClusterState)
}
