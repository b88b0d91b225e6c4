package broker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasemq/broker/cluster/peers"
	"github.com/leasemq/broker/frontends/admin"
)

// How nodes are compared. While the log moves, they have to stop for it at one
// record, which is some way ahead.
const (
	verifyTries  = 8
	verifyAhead  = 64 // records; twice as many at each try
	verifySettle = time.Second
)

// verify compares the states of all brokers that answer.
func verify(ctx context.Context, ask *peers.Peers) (admin.ClusterVerify, error) {
	var v admin.ClusterVerify
	for try := range verifyTries {
		all, err := ask.All(ctx)
		if err != nil && len(all) == 0 {
			return v, err
		}
		var nodes []string
		newest := uint64(0)
		for _, s := range all {
			if s.Role == peers.RolePrimary || s.Role == peers.RoleStandby {
				nodes, newest = append(nodes, s.Node), max(newest, s.Applied)
			}
		}
		if len(nodes) < 2 {
			return v, fmt.Errorf("%w: %d brokers answer, there is nothing to compare", admin.ErrClusterState, len(nodes))
		}
		var sure bool
		if v, sure = compare(ctx, ask, nodes, newest+verifyAhead<<try); sure {
			return v, nil
		}
	}
	return v, errors.New("the nodes could not be stopped at one record: try again with less load")
}

// compare asks nodes for their digests at a sequence. It is sure if they are equal,
// or differ at one position, or if one of them cannot tell.
func compare(ctx context.Context, ask *peers.Peers, nodes []string, at uint64) (v admin.ClusterVerify, sure bool) {
	digests := make([]peers.Digest, len(nodes))
	errs := make([]error, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { digests[i], errs[i] = ask.Digest(ctx, node, at, verifySettle) })
	}
	asking.Wait()
	v.Equal, sure = true, true
	for i, d := range digests {
		if errs[i] != nil {
			v.Equal = false
			v.Nodes = append(v.Nodes, admin.ClusterDigest{Node: nodes[i], Error: errs[i].Error()})
			continue
		}
		v.Nodes = append(v.Nodes, admin.ClusterDigest{Node: nodes[i], Sequence: d.At.Seq, SHA256: hex.EncodeToString(d.Sum[:])})
		v.Sequence = max(v.Sequence, d.At.Seq)
		if errs[0] == nil && d.Sum != digests[0].Sum {
			v.Equal, sure = false, sure && d.At.Seq == digests[0].At.Seq
		}
	}
	return v, sure
}
