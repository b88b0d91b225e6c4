package cluster

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/leasemq/broker/core"
)

// ErrGeneration says that the state of a node is of another generation of the log,
// or that it has none and the log goes on from one: the node must start from a
// checkpoint of a node that follows the log.
var ErrGeneration = errors.New("state is not of this generation of the log")

// Standing is where the state of a node stands.
type Standing struct {
	Node string
	At   core.LogPosition
}

// Newest returns the state that the next generation of the log goes on from, of
// all that there are: that of the highest generation, epoch and sequence, in this
// order. Whatever another has that this one has not is lost: so all nodes must have
// answered, or be given up by somebody. The error wraps ErrDiverged if two that
// stand there are not of one history, and core.ErrInvalidArgument if no node has a
// state.
func Newest(all []Standing) (Standing, error) {
	var best Standing
	for _, s := range all {
		order := compareStandings(s.At, best.At)
		if s.At != (core.LogPosition{}) && (best.Node == "" || order > 0 || order == 0 && s.Node < best.Node) {
			best = s
		}
	}
	if best.Node == "" {
		return Standing{}, fmt.Errorf("no node has a state: %w", core.ErrInvalidArgument)
	}
	for _, s := range all {
		if compareStandings(s.At, best.At) == 0 && s.At.Hash != best.At.Hash {
			return Standing{}, fmt.Errorf("nodes %s and %s stand at record %d of epoch %d, and have other records before: %w",
				best.Node, s.Node, s.At.Seq, s.At.Epoch, ErrDiverged)
		}
	}
	return best, nil
}

func compareStandings(a, b core.LogPosition) int {
	return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
}

// Reseed makes the state in store, of a generation before, the one that the log of
// that generation goes on from, and returns its position. It is at record 0: the
// log must be empty. Epochs go on, since sequences of messages have them. The
// position has a hash of its own, of which the first record of the log follows: so
// a node without a state, or one that goes on from another, stops, and has to start
// from a checkpoint of this one. Nothing else may use store. It may be called again
// after a crash.
func Reseed(store Store, generation uint32) (core.LogPosition, error) {
	at := store.Applied()
	switch {
	case at == core.LogPosition{}:
		return at, fmt.Errorf("reseed: there is no state: %w", core.ErrInvalidArgument)
	case at.Generation == generation && at.Seq == 0:
		return store.SyncApplied() // it was done before
	case at.Generation >= generation:
		return at, fmt.Errorf("reseed: state is of generation %d, which is not before %d: %w", at.Generation, generation, core.ErrInvalidArgument)
	}
	base := core.LogPosition{Generation: generation, Epoch: at.Epoch, Hash: seedHash(at, generation), Time: at.Time}
	if err := store.Apply(base, nil); err != nil {
		return at, fmt.Errorf("reseed: %w", err)
	}
	return store.SyncApplied()
}

// seedHash names the beginning of a generation that goes on from a state.
func seedHash(at core.LogPosition, generation uint32) Hash {
	b := append([]byte("generation"), at.Hash[:]...)
	for _, n := range []uint64{uint64(at.Generation), uint64(at.Epoch), at.Seq, uint64(generation)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return HashOf(b)
}

// checkGeneration tells whether a state can follow a log. One that has none can
// only follow the first generation: the others go on from a state.
func checkGeneration(at core.LogPosition, generation uint32) error {
	switch {
	case at == core.LogPosition{} && generation > 1:
		return fmt.Errorf("there is no state, and the log is at generation %d: %w", generation, ErrGeneration)
	case at != core.LogPosition{} && at.Generation != generation:
		return fmt.Errorf("state is of generation %d of the log, which is now at %d: %w", at.Generation, generation, ErrGeneration)
	}
	return nil
}
