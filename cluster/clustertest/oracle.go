package clustertest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/core"
)

// batchOf is the body of a record with one Change.
func batchOf(c *core.Change) []byte {
	form, err := c.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	return append(binary.AppendUvarint([]byte{3}, uint64(len(form))), form...)
}

// oracle is what the log says, told in the plainest way and by other code than
// the members use.
type oracle struct {
	state    State
	sums     []uint64           // of the state behind each sequence
	changes  map[uint64]verdict // by the sequence of the last part
	stale    []uint64           // sequences of records that are skipped
	broken   string             // the first record that does not fit
	firstOf  map[uint32]uint64  // sequence of the record that began an epoch
	ownerAt  map[uint64]string  // by sequence of a Change: the key's value before it
	hasOwner map[uint64]bool
}

type verdict struct {
	epoch  uint32
	change *core.Change
}

// consult replays all records.
func consult(records [][]byte) *oracle {
	o := &oracle{
		state: newState(), changes: map[uint64]verdict{}, firstOf: map[uint32]uint64{},
		ownerAt: map[uint64]string{}, hasOwner: map[uint64]bool{},
		sums: make([]uint64, len(records)+1),
	}
	var epoch uint32
	var last cluster.Hash
	var parts []byte
	skipping := false
	for i, data := range records {
		seq := uint64(i + 1)
		r, err := cluster.DecodeRecord(data)
		switch {
		case err != nil:
			o.broken = fmt.Sprint(seq, ": ", err)
		case r.Epoch < epoch:
			o.stale, skipping = append(o.stale, seq), true
		case skipping && r.Epoch == epoch && r.Prev != last:
			// It was sent behind one whose place a stale record took.
		case r.Prev != last || (r.Kind == cluster.KindEpoch) != (r.Epoch > epoch):
			o.broken = fmt.Sprint(seq, ": it does not fit")
		case r.Kind == cluster.KindEpoch:
			epoch, last, parts, skipping = r.Epoch, cluster.HashOf(data), nil, false
			o.firstOf[epoch] = seq
		case r.Kind == cluster.KindBatch:
			last, skipping = cluster.HashOf(data), false
			parts = append(parts, r.Body[1:]...)
			if r.Body[0]&2 != 0 {
				o.change(seq, epoch, parts)
				parts = nil
			}
		default:
			skipping = false
		}
		o.sums[seq] = o.state.Sum
	}
	return o
}

func (o *oracle) change(seq uint64, epoch uint32, batch []byte) {
	n, w := binary.Uvarint(batch)
	if w <= 0 || int(n) != len(batch)-w {
		o.broken = fmt.Sprint(seq, ": batch of another length")
		return
	}
	c, err := core.DecodeChange(batch[w:])
	if err != nil {
		o.broken = fmt.Sprint(seq, ": ", err)
		return
	}
	o.ownerAt[seq], o.hasOwner[seq] = o.state.Records[string(c.Edits[0].Key)], false
	if _, ok := o.state.Records[string(c.Edits[0].Key)]; ok {
		o.hasOwner[seq] = true
	}
	o.changes[seq] = verdict{epoch, c}
	o.state.apply(c)
}

// check holds what happened against what the log says.
func (w *world) check() {
	records := w.server.Records()
	if w.sim.Regress {
		w.checkRegress(uint64(len(records)))
		return
	}
	o := consult(records)
	if o.broken != "" {
		w.report("log is broken at %s", o.broken)
		return
	}
	for _, n := range w.nodes {
		if at := n.store.Applied(); n.store.state.Sum != o.sums[at.Seq] {
			w.report("I6: state of %s at %d is not what the log says", n.name, at.Seq)
		}
	}
	for range o.firstOf {
		w.saw("epochs")
	}
	for _, seq := range o.stale {
		if w.saw("stale records stored"); !w.forged[seq] {
			w.report("I8: record %d of a deposed primary was stored", seq)
		}
	}
	for seq, sum := range w.sums {
		if sum != o.sums[seq] {
			w.report("I8: state at %d is not what the log says", seq)
		}
	}
	w.checkEvents(o)
}

// checkRegress holds the nodes that go on against each other: what the log says
// now is not what it said. Who goes on may be one whose state has what was lost.
func (w *world) checkRegress(last uint64) {
	alive := slices.DeleteFunc(slices.Clone(w.nodes[:]), func(n *node) bool { return n.failed != nil })
	for _, n := range alive {
		at := n.store.Applied()
		if at.Seq > last {
			w.report("I6: %s goes on at %d, beyond the end of the log at %d", n.name, at.Seq, last)
		}
		for _, other := range alive {
			if theirs := other.store.Applied(); at.Seq == theirs.Seq && (at != theirs || n.store.state.Sum != other.store.state.Sum) {
				w.report("I6: states of %s and %s at %d differ", n.name, other.name, at.Seq)
			}
		}
	}
}

// checkEvents goes through what clients saw.
func (w *world) checkEvents(o *oracle) {
	nodeOf := map[uint32]string{}
	var newest uint64 // sequence of what a client knows of
	last := map[uint32]uint64{}
	for i := range w.events {
		e := &w.events[i]
		if n, ok := nodeOf[e.epoch]; ok && n != e.node {
			w.report("I7: %s and %s both answer in epoch %d", n, e.node, e.epoch)
		}
		nodeOf[e.epoch] = e.node
		if e.read {
			w.saw("reads")
			if e.seq < newest {
				w.report("I2: %s read at %d in epoch %d after %d was acknowledged", e.node, e.seq, e.epoch, newest)
			}
			continue
		}
		w.saw("acknowledgements")
		w.checkAck(o, e)
		if e.seq <= last[e.epoch] {
			w.report("I7: acknowledgement of %d follows that of %d in epoch %d", e.seq, last[e.epoch], e.epoch)
		}
		last[e.epoch] = e.seq
		if e.covered {
			newest = max(newest, e.seq)
		}
	}
	for epoch, seq := range last {
		for other, first := range o.firstOf {
			if other > epoch && first < seq {
				w.report("I7: epoch %d acknowledged %d, behind the start of epoch %d at %d", epoch, seq, other, first)
			}
		}
	}
}

// checkAck looks for what was acknowledged, and whether it was right to.
func (w *world) checkAck(o *oracle, e *event) {
	v, ok := o.changes[e.seq]
	switch {
	case !ok:
		w.report("I1: op %d was acknowledged at %d, where there is none", e.op.id, e.seq)
		return
	case v.epoch != e.epoch:
		w.report("I7: op %d of epoch %d is in the log in epoch %d", e.op.id, e.epoch, v.epoch)
	case string(v.change.Edits[0].Key) != e.op.key || (v.change.Edits[0].Kind == core.EditPutRecord) != e.op.claim:
		w.report("I1: op %d was acknowledged at %d, where there is another", e.op.id, e.seq)
	}
	if e.op.claim == o.hasOwner[e.seq] || o.ownerAt[e.seq] != e.op.was {
		w.report("I3: op %d was decided on another state than that before %d", e.op.id, e.seq)
	}
}
