package gossip

import (
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls back, with its lock held.
type delegate struct{ g *Gossip }

// NodeMeta is what this node says of itself.
func (d *delegate) NodeMeta(int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	return d.g.encoded
}

// NotifyMsg takes nothing.
func (d *delegate) NotifyMsg([]byte) {}

// GetBroadcasts has nothing.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is empty.
func (d *delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState takes nothing.
func (d *delegate) MergeRemoteState([]byte, bool) {}

// NotifyJoin is told of a member that has come, or come back.
func (d *delegate) NotifyJoin(n *memberlist.Node) { d.g.learn(n) }

// NotifyUpdate is told of a member that says something else.
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.g.learn(n) }

// NotifyLeave is told of a member that is gone. Whether it left or died it does not
// say: what the member said last does.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	if m, ok := d.g.lose(n.Name); ok && m.ID != d.g.o.ID {
		d.g.log.Info("member is gone", "member", m.Node.Name, "id", m.ID, "state", m.State.String())
	}
}

// NotifyConflict is told of a node that has the id of a member and another address.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == d.g.o.ID {
		d.g.contest(other.Address())
	}
	d.g.log.Warn("two nodes have one id", "id", existing.Name, "address", existing.Address(), "other", other.Address())
}

// learn takes in what n says.
func (g *Gossip) learn(n *memberlist.Node) {
	ip, _ := netip.AddrFromSlice(n.Addr) // none: the zero Addr
	m := Member{ID: n.Name, Address: netip.AddrPortFrom(ip.Unmap(), n.Port), State: Alive, Since: time.Now()}
	node, err := decode(n.Meta)
	if err != nil {
		g.log.Warn("what a member says cannot be read", "id", m.ID, "address", m.Address, "error", err)
	}
	m.Node = node
	if g.keep(m) && m.ID != g.o.ID {
		g.log.Info("member is alive", "member", m.Node.Name, "id", m.ID, "address", m.Address)
	}
}

// keep stores m, which is alive, and reports whether it was not before.
func (g *Gossip) keep(m Member) (came bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.members[m.ID]
	came = !known || before.State != Alive
	if !came {
		m.Since = before.Since
	}
	g.members[m.ID] = m
	g.notifyLocked()
	return came
}

// lose stores that a member is gone, and returns it.
func (g *Gossip) lose(id string) (Member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.members[id]
	if !ok {
		return m, false
	}
	m.State, m.Since = Dead, time.Now()
	if m.Node.Leaving {
		m.State = Left
	}
	g.members[id] = m
	g.forgetLocked()
	g.notifyLocked()
	return m, true
}

// contest stores that a node at another address has this node's id.
func (g *Gossip) contest(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conflict, g.until = address, time.Now().Add(g.timing.conflict)
	g.notifyLocked()
}

// notifyLocked wakes who watches.
func (g *Gossip) notifyLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// forgetLocked forgets the member that is gone for longest, if there are too many.
func (g *Gossip) forgetLocked() {
	gone, oldest := 0, Member{}
	for _, m := range g.members {
		if m.State == Alive {
			continue
		}
		if gone++; gone == 1 || m.Since.Before(oldest.Since) {
			oldest = m
		}
	}
	if gone > goneMax {
		delete(g.members, oldest.ID)
	}
}
