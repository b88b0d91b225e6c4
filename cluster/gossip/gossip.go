package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// What a Gossip tells of its own place.
var (
	ErrConflict = errors.New("another node has the same id or name")
	ErrClosed   = errors.New("gossip is closed")
)

// goneMax bounds the members that are known to be gone; the oldest are forgotten.
const goneMax = 64

// Gossip is this node among the members.
type Gossip struct {
	o      Options
	timing timing
	log    *slog.Logger
	list   *memberlist.Memberlist
	ring   *memberlist.Keyring
	ctx    context.Context // ends with Leave or Close
	cancel context.CancelFunc
	loops  sync.WaitGroup
	told   chan struct{} // there is something to tell; capacity 1

	closing sync.Mutex // held over Leave and Close
	closed  bool

	mu       sync.Mutex
	node     Node
	encoded  []byte // node
	members  map[string]Member
	changed  chan struct{} // closed and replaced by each change
	conflict string        // the last other node that had this node's id
	until    time.Time     // it is told
}

// Start binds and begins to join. It does not wait for any other member.
func Start(o Options) (*Gossip, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	g := &Gossip{
		o: o, timing: o.timing(), log: o.Logger,
		told: make(chan struct{}, 1), members: make(map[string]Member), changed: make(chan struct{}),
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	var err error
	if g.encoded, err = o.Node.encode(); err != nil {
		return nil, err
	}
	g.node = clone(o.Node)
	if g.ring, err = ringOf(o.Keys); err != nil {
		return nil, err
	}
	c := o.config(log.New(&logWriter{log: o.Logger}, "", 0), g.ring)
	d := &delegate{g}
	c.Delegate, c.Events, c.Conflict = d, d, d
	if g.list, err = memberlist.Create(c); err != nil {
		return nil, fmt.Errorf("gossip on %v: %w", o.Bind, err)
	}
	g.loops.Go(g.join)
	g.loops.Go(g.tell)
	return g, nil
}

// Self is this node as the others see it.
func (g *Gossip) Self() Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[g.o.ID]
	m.Node = clone(g.node)
	return m
}

// Members lists all members that are known, this node and those that are gone too,
// in the order of their ids.
func (g *Gossip) Members() []Member {
	members, _ := g.Watch()
	return members
}

// Watch returns what Members does, and a channel that is closed when it changes.
func (g *Gossip) Watch() ([]Member, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	members := make([]Member, 0, len(g.members))
	for _, m := range g.members {
		m.Node = clone(m.Node)
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members, g.changed
}

// clone copies what n refers to.
func clone(n Node) Node {
	n.Clients, n.Roles = maps.Clone(n.Clients), slices.Clone(n.Roles)
	return n
}

// Update changes what this node says of itself by edit, which must not call g. The
// others hear it a little later; of changes in quick succession only the last one. An
// error leaves all as it was.
func (g *Gossip) Update(edit func(*Node)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := clone(g.node)
	edit(&n)
	encoded, err := n.encode()
	if err != nil || bytes.Equal(encoded, g.encoded) {
		return err
	}
	g.node, g.encoded = clone(n), encoded
	select {
	case g.told <- struct{}{}:
	default:
	}
	return nil
}

// UseKeys has the first of keys encrypt from now on, and all decrypt. Nodes may get a
// new first key in any order if all had it somewhere in their list before. Keys that
// were in use still decrypt until the node is restarted: memberlist cannot remove a
// key safely while packets come in.
func (g *Gossip) UseKeys(keys [][]byte) error {
	if len(keys) == 0 || len(g.o.Keys) == 0 {
		return errors.New("keys cannot be turned on or off while the node runs")
	}
	for _, k := range keys {
		if err := memberlist.ValidateKey(k); err != nil {
			return fmt.Errorf("key of %d bytes: want 16, 24 or 32", len(k))
		}
	}
	for _, k := range keys {
		if err := g.ring.AddKey(slices.Clone(k)); err != nil {
			return err
		}
	}
	return g.ring.UseKey(keys[0])
}

// Conflict returns an ErrConflict while another node has this one's id or name: data
// that was copied, or a node that came back at another address before the others
// took it for dead, which passes.
func (g *Gossip) Conflict() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.until) {
		return fmt.Errorf("%w: id %s is also at %s", ErrConflict, g.o.ID, g.conflict)
	}
	for _, m := range g.members {
		if m.ID != g.o.ID && m.State == Alive && m.Node.Name == g.node.Name {
			return fmt.Errorf("%w: name %s is also that of %s at %v", ErrConflict, g.node.Name, m.ID, m.Address)
		}
	}
	return nil
}

// Bootstrap waits until n members with RoleLog are alive at once, and returns them in
// the order of their ids: each of them gets the same list. It is for the first start
// of the log alone. More than n are an error, since nodes might choose differently,
// and so are members that expect another number, or two of one name.
func (g *Gossip) Bootstrap(ctx context.Context, n int) ([]Member, error) {
	if n < 1 {
		return nil, fmt.Errorf("a log of %d members", n)
	}
	if err := g.Update(func(node *Node) { node.Expect = n }); err != nil {
		return nil, err
	}
	for {
		members, changed := g.Watch()
		if found, err := logMembers(members, n); err != nil || found != nil {
			return found, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %d log members: %w", n, ctx.Err())
		case <-g.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// logMembers returns the log members if there are n, nil if there are fewer.
func logMembers(members []Member, n int) ([]Member, error) {
	var found []Member
	names := make(map[string]string)
	for _, m := range members {
		if m.State != Alive || m.Node.Leaving || !slices.Contains(m.Node.Roles, RoleLog) {
			continue
		}
		if x := m.Node.Expect; x != 0 && x != n {
			return nil, fmt.Errorf("node %s expects %d log members, this one %d", m.Node.Name, x, n)
		}
		if id, ok := names[m.Node.Name]; ok {
			return nil, fmt.Errorf("%w: %s is the name of %s and %s", ErrConflict, m.Node.Name, id, m.ID)
		}
		names[m.Node.Name] = m.ID
		found = append(found, m)
	}
	switch {
	case len(found) > n:
		return nil, fmt.Errorf("%d log members, want %d", len(found), n)
	case len(found) < n:
		return nil, nil
	}
	return found, nil
}

// Leave says that this node leaves, then leaves and closes. The error says that the
// others may not have heard it.
func (g *Gossip) Leave() error {
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.closed {
		return nil
	}
	g.cancel()
	g.loops.Wait()
	err := g.Update(func(n *Node) { n.Leaving = true })
	if err == nil {
		err = g.list.UpdateNode(g.timing.leave)
	}
	err = errors.Join(err, g.list.Leave(g.timing.leave), g.close())
	if err != nil {
		return fmt.Errorf("leave gossip: %w", err)
	}
	return nil
}

// Close ends at once: the others find out that this node is dead. It does nothing
// after Leave.
func (g *Gossip) Close() error {
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.closed {
		return nil
	}
	g.cancel()
	err := g.close() // what waits for a peer fails sooner
	g.loops.Wait()
	return err
}

func (g *Gossip) close() error {
	g.closed = true
	return g.list.Shutdown()
}

// tell has the others hear what Update changed.
func (g *Gossip) tell() {
	for {
		select {
		case <-g.told:
		case <-g.ctx.Done():
			return
		}
		// The time-out says that the news is still on its way.
		_ = g.list.UpdateNode(g.timing.tell)
		if !sleep(g.ctx, g.timing.tell) {
			return
		}
	}
}

// join joins by way of the seeds: soon again while none is reached, and seldom after
// that, since two halves that took each other for dead do not look for each other.
func (g *Gossip) join() {
	if len(g.o.Seeds) == 0 {
		return
	}
	pause := g.timing.retryMin
	for {
		reached, err := g.joinOnce()
		wait := g.timing.rejoin
		switch {
		case g.ctx.Err() != nil:
			return
		case err != nil && reached == 0:
			g.log.Warn("no seed is reached", "error", err, "retry_in", pause)
			fallthrough
		case err != nil:
			wait, pause = pause, min(2*pause, g.timing.retryMax)
		default:
			pause = g.timing.retryMin
		}
		if !sleep(g.ctx, wait) {
			return
		}
	}
}

// joinOnce tries each address of each seed. The error is of those that failed.
func (g *Gossip) joinOnce() (reached int, err error) {
	var errs []error
	own := g.Self().Address
	for _, seed := range g.o.Seeds {
		addresses, err := g.resolve(seed)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, a := range addresses {
			if a == own {
				continue
			}
			if g.ctx.Err() != nil {
				return reached, g.ctx.Err()
			}
			n, err := g.list.Join([]string{a.String()})
			reached += n
			if err != nil {
				errs = append(errs, errors.New(strings.Join(strings.Fields(err.Error()), " ")))
			}
		}
	}
	return reached, errors.Join(errs...)
}

// resolve returns the addresses of a seed as they are now.
func (g *Gossip) resolve(seed string) ([]netip.AddrPort, error) {
	host, port, err := splitSeed(seed)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	ctx, cancel := context.WithTimeout(g.ctx, g.timing.resolve)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addresses := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addresses[i] = netip.AddrPortFrom(ip.Unmap(), port)
	}
	return addresses, nil
}

// sleep returns false if ctx ended before d was over.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
