package mqtt

import (
	"sync"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// registry knows who has which client identifier.
type registry struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is a client identifier that somebody has, or waits for, or about which
// something is known that is not stored.
type entry struct {
	id      string
	turn    chan struct{} // holds a token while somebody has the identifier
	users   int           // who has it or waits for it
	tickets uint64        // of those who want it
	holder  *conn

	// sent are the packet identifiers of QoS 2 that were sent by the connection
	// before and not answered: if the message has gone, its PUBREL has not.
	sent map[uint16]core.Seq
}

func (r *registry) use(id string) *entry {
	e := r.entries[id]
	if e == nil {
		e = &entry{id: id, turn: make(chan struct{}, 1)}
		r.entries[id] = e
	}
	e.users++
	return e
}

// claim makes c the one connection of a client identifier. The one that has it is
// ended; nobody waits for its socket. It is refused if the other is of another
// principal, or if a third has come meanwhile.
func (r *registry) claim(id string, c *conn) (*entry, error) {
	r.mu.Lock()
	e := r.use(id)
	holder := e.holder
	if holder != nil && holder.principal != c.principal {
		r.dropLocked(e)
		r.mu.Unlock()
		return nil, wire.Fail(wire.NotAuthorized, "the client identifier is another user's")
	}
	e.tickets++
	ticket := e.tickets
	r.mu.Unlock()
	if holder != nil {
		holder.takeOver()
	}
	e.turn <- struct{}{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.tickets != ticket {
		<-e.turn
		r.dropLocked(e)
		return nil, wire.Fail(wire.SessionTakenOver, "another connection has the client identifier")
	}
	e.holder = c
	return e, nil
}

// claimIdle takes a client identifier that no connection has or wants.
func (r *registry) claimIdle(id string) (*entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[id]; e != nil && e.users > 0 {
		return nil, false
	}
	e := r.use(id)
	e.turn <- struct{}{}
	return e, true
}

// release gives a client identifier back.
func (r *registry) release(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.holder = nil
	<-e.turn
	r.dropLocked(e)
}

func (r *registry) dropLocked(e *entry) {
	if e.users--; e.users == 0 && len(e.sent) == 0 {
		delete(r.entries, e.id)
	}
}

// connected returns how many client identifiers have a connection.
func (r *registry) connected() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if e.holder != nil {
			n++
		}
	}
	return n
}
