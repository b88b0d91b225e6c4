package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// What a Verify ends with.
var (
	ErrDiffer  = errors.New("states differ at one position of the log")
	ErrNeverAt = errors.New("nodes were not met at one position of the log")
)

// Bounds of a Verify.
const (
	verifyTries  = 5
	verifyAhead  = 8 // records, eight times as many in each try
	verifySettle = 3 * time.Second
)

// Verify has nodes, at least two that have a state, hash it at one position of the
// log, which goes on meanwhile, and returns the digests. The error wraps ErrDiffer
// if they are not equal, and ErrNeverAt if no such position was met: a node lags
// too much.
func (p *Peers) Verify(ctx context.Context, nodes []string) ([]Digest, error) {
	if len(nodes) < 2 || len(nodes) > nodesMax {
		return nil, fmt.Errorf("%d nodes cannot be compared, 2 to %d can", len(nodes), nodesMax)
	}
	var digests []Digest
	for try, ahead := 0, uint64(verifyAhead); try < verifyTries; try, ahead = try+1, ahead*8 {
		at, err := p.meetingPoint(ctx, nodes, ahead)
		if err != nil {
			return nil, err
		}
		if digests, err = each(nodes, func(node string) (Digest, error) { return p.Digest(ctx, node, at, p.settle) }); err != nil {
			return nil, err
		}
		if !together(digests) {
			continue
		}
		for _, d := range digests {
			if d.Sum != digests[0].Sum {
				return digests, fmt.Errorf("nodes %s and %s: %w", digests[0].Node, d.Node, ErrDiffer)
			}
		}
		return digests, nil
	}
	return digests, ErrNeverAt
}

// meetingPoint is a sequence that none of the nodes has reached, so that all can
// stop there; 0 if nothing is going on.
func (p *Peers) meetingPoint(ctx context.Context, nodes []string, ahead uint64) (uint64, error) {
	all, err := each(nodes, func(node string) (Status, error) { return p.Status(ctx, node) })
	if err != nil {
		return 0, err
	}
	last, still := uint64(0), true
	for _, s := range all {
		last, still = max(last, s.Applied), still && s.Hash == all[0].Hash && s.Generation == all[0].Generation
	}
	if still && ahead == verifyAhead {
		return 0, nil
	}
	return last + ahead, nil
}

// together tells whether all digests are of one position. It is the hash of the
// newest valid record that names it: records behind that one change nothing, and
// not every node stores that it has passed them.
func together(digests []Digest) bool {
	for _, d := range digests {
		if d.At.Generation != digests[0].At.Generation || d.At.Hash != digests[0].At.Hash {
			return false
		}
	}
	return true
}

// each asks all nodes at once.
func each[T any](nodes []string, ask func(node string) (T, error)) ([]T, error) {
	got, errs := make([]T, len(nodes)), make([]error, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { got[i], errs[i] = ask(node) })
	}
	asking.Wait()
	return got, errors.Join(errs...)
}
