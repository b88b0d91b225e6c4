package clustertest

import (
	"context"
	"time"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/core"
)

// trouble lets one fault come after another.
func (w *world) trouble() {
	time.Sleep(w.between(lease/4, lease))
	for range w.sim.Troubles {
		i := w.victim()
		switch {
		case w.sim.Stale:
			w.stale(i)
		case w.sim.Regress && w.intN(3) == 0:
			w.log.Info("fault: the log regresses")
			w.server.Regress(1 + w.intN(12))
		default:
			w.fault(i)
		}
		time.Sleep(w.between(lease/20, lease))
	}
}

// victim is the primary, mostly.
func (w *world) victim() int {
	if w.intN(4) > 0 {
		for i, n := range w.nodes {
			if n.member != nil && n.member.LeaseCovers() {
				return i
			}
		}
	}
	return w.intN(nodes)
}

// fault lets one befall node i.
func (w *world) fault(i int) {
	n := w.nodes[i]
	long := w.between(lease/10, 2*lease)
	switch w.intN(8) {
	case 0, 1:
		w.log.Info("fault: pause", "victim", n.name, "for", long)
		n.gate.Pause()
		gate := n.gate
		time.AfterFunc(long, gate.Resume)
	case 2:
		w.log.Info("fault: kill", "victim", n.name)
		w.kill(i)
	case 3:
		w.log.Info("fault: cut off", "victim", n.name, "for", long)
		n.conn.Cut(long)
	case 4:
		w.log.Info("fault: leader change", "for", long)
		w.server.Elect(long)
	case 5:
		to := w.nodes[w.intN(nodes)].name
		w.log.Info("handover", "victim", n.name, "to", to)
		ctx, cancel := context.WithTimeout(context.Background(), lease)
		_ = n.member.Handover(ctx, to) // there may be nothing to hand over
		cancel()
	case 6:
		w.trim(n)
	case 7:
		w.stale(i)
	}
}

// kill ends a process and starts the next one on what its disk kept.
func (w *world) kill(i int) {
	n := w.nodes[i]
	n.gate.Kill()
	n.stop()
	<-n.exited // what it returns, nobody sees
	w.server.Disconnect(n.conn)
	time.Sleep(w.between(time.Millisecond, lease))
	old := n.store
	w.start(i, func(g *Gate) *Store {
		return old.Crash(g, func(unsynced int) int { return w.intN(unsynced + 1) })
	})
}

// trim lets the primary trim up to what all have on disk.
func (w *world) trim(n *node) {
	var standbys []core.LogPosition
	for _, other := range w.nodes {
		other.store.mu.Lock()
		var at core.LogPosition
		if k := other.store.durable; k > 0 {
			at = other.store.history[k-1].at
		}
		other.store.mu.Unlock()
		at.Generation = 1
		standbys = append(standbys, at)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	to, err := n.member.Trim(ctx, standbys)
	w.log.Info("trim", "victim", n.name, "to", to, "error", err)
	for _, other := range w.nodes {
		_, _ = other.store.SyncApplied() // a process that was killed has none
	}
}

// stale makes the records of a deposed primary arrive after the epoch record of
// the next one: those that were under way when it lost the log, or one that looks
// as if it had been held up for long.
func (w *world) stale(i int) {
	n := w.nodes[i]
	if w.intN(3) == 0 {
		w.forge()
		return
	}
	w.log.Info("fault: requests are held", "victim", n.name)
	n.conn.Hold()
	time.Sleep(2 * lease)
}

// forge stores a record of the epoch before the current one at the end of the
// log, where no writer that keeps to the rules would get it.
func (w *world) forge() {
	records := w.server.Records()
	if len(records) == 0 {
		return
	}
	r, err := cluster.DecodeRecord(records[len(records)-1])
	if err != nil || r.Epoch < 2 {
		return
	}
	forged := op{id: 1 << 40, key: "k0", claim: true}
	r = cluster.Record{Kind: cluster.KindBatch, Epoch: r.Epoch - 1, Time: r.Time, Prev: r.Prev, Body: batchOf(forged.change(w.began, false))}
	seq := w.server.Forge(r.Append(nil))
	w.log.Info("fault: a stale record is forged", "seq", seq)
	w.mu.Lock()
	w.forged[seq] = true
	w.mu.Unlock()
}
