package broker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/leasemq/broker/cluster/peers"
	"github.com/leasemq/broker/frontends/admin"
)

// verify compares the states of all brokers that answer.
func verify(ctx context.Context, ask *peers.Peers) (admin.ClusterVerify, error) {
	all, err := ask.All(ctx)
	if err != nil && len(all) == 0 {
		return admin.ClusterVerify{}, err
	}
	var nodes []string
	for _, s := range all {
		if s.Role == peers.RolePrimary || s.Role == peers.RoleStandby {
			nodes = append(nodes, s.Node)
		}
	}
	if len(nodes) < 2 {
		return admin.ClusterVerify{}, fmt.Errorf("%w: %d brokers answer, there is nothing to compare", admin.ErrClusterState, len(nodes))
	}
	digests, err := ask.Verify(ctx, nodes)
	if err != nil && !errors.Is(err, peers.ErrDiffer) {
		return admin.ClusterVerify{}, err
	}
	v := admin.ClusterVerify{Equal: err == nil}
	for _, d := range digests {
		v.Sequence = max(v.Sequence, d.At.Seq)
		v.Nodes = append(v.Nodes, admin.ClusterDigest{Node: d.Node, Sequence: d.At.Seq, SHA256: hex.EncodeToString(d.Sum[:])})
	}
	return v, nil
}
