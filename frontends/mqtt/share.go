package mqtt

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
	"github.com/leasemq/broker/frontends/mqtt/state"
)

// Bounds of groups.
const (
	// groupKept is how long the queue of a group outlives its last member while it
	// holds messages, and how long it keeps them.
	groupKept  = 24 * time.Hour
	groupSweep = time.Minute
	groupsPage = 1000
)

// sharePrefix begins the names of the queues of groups.
const sharePrefix = "share/"

// destination is a queue that several sessions consume: of a group, or a queue of
// the core by its name.
type destination struct {
	queue  string
	filter string // of the group's topics; empty: a queue of the core
}

// shared reads "$share/GROUP/FILTER" and "$queue/NAME".
func shared(filter string) (destination, bool) {
	if name, ok := strings.CutPrefix(filter, "$queue/"); ok {
		return destination{queue: name}, true
	}
	rest, ok := strings.CutPrefix(filter, "$share/")
	if !ok {
		return destination{}, false
	}
	group, topics, ok := strings.Cut(rest, "/")
	if !ok || group == "" || topics == "" || strings.ContainsAny(group, "+#") {
		return destination{filter: "#/"}, true // no filter at all
	}
	return destination{queue: sharePrefix + state.Key(group) + "/" + topics, filter: topics}, true
}

// valid tells whether there may be such a queue.
func (d destination) valid() bool {
	if d.filter != "" {
		return match.CheckFilter(d.filter) == nil && len(d.queue) <= core.QueueNameBytesMax
	}
	for _, internal := range []string{"mqtt/", sharePrefix, "dsub/", "temp/"} {
		if strings.HasPrefix(d.queue, internal) {
			return false
		}
	}
	return d.queue != "" && len(d.queue) <= core.QueueNameBytesMax && !strings.ContainsAny(d.queue, "+#")
}

// groups knows who is in which group, whether connected or not.
type groups struct {
	// gate is held while the queue of a group is made or deleted.
	gate sync.Mutex

	mu      sync.Mutex
	members map[string]map[string]struct{} // keys of sessions by queue
	empty   map[string]int64               // since when queues have had no member
}

func (g *groups) join(queue, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members[queue] == nil {
		g.members[queue] = make(map[string]struct{})
	}
	g.members[queue][key] = struct{}{}
	delete(g.empty, queue)
}

// quit takes a session out of a group.
func (s *Server) quit(d destination, key string) {
	if d.filter == "" {
		return
	}
	g := &s.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members[d.queue], key)
	if len(g.members[d.queue]) == 0 {
		delete(g.members, d.queue)
		g.empty[d.queue] = s.now()
		s.timers.add(timer{at: s.now(), group: true, name: d.queue})
	}
}

// sweepGroup deletes the queue of a group without members that holds nothing, or
// has for long. Otherwise it looks again later.
func (s *Server) sweepGroup(ctx context.Context, queue string) error {
	g := &s.groups
	g.gate.Lock()
	defer g.gate.Unlock()
	g.mu.Lock()
	since, empty := g.empty[queue]
	g.mu.Unlock()
	if !empty {
		return nil
	}
	now := s.now()
	st, err := s.client.Stats(ctx, queue)
	if err == nil && st.Messages > 0 && now-since < groupKept.Milliseconds() {
		s.timers.add(timer{at: now + groupSweep.Milliseconds(), group: true, name: queue})
		return nil
	}
	if err == nil {
		err = s.client.Delete(ctx, queue)
	}
	if err != nil && !errors.Is(err, core.ErrNoQueue) {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.empty, queue)
	return nil
}

// findGroups counts the queues of groups that were there at the start, and have no
// member, as left just now.
func (s *Server) findGroups(ctx context.Context) error {
	after := ""
	for {
		names, err := s.client.Queues(ctx, sharePrefix, after, groupsPage)
		if err != nil || len(names) == 0 {
			return err
		}
		s.groups.mu.Lock()
		for _, name := range names {
			if len(s.groups.members[name]) == 0 {
				s.groups.empty[name] = s.now()
				s.timers.add(timer{at: s.now(), group: true, name: name})
			}
		}
		s.groups.mu.Unlock()
		after = names[len(names)-1]
	}
}

// join makes the session a member of a group, or a consumer of a queue. A session
// that resumes starts its own queue when it knows all its subscriptions.
func (c *conn) join(d destination, sub state.Sub, resumes bool) error {
	for _, s := range c.sources {
		if s.kind == sourceShared && s.group == d && !s.hasStopped() {
			c.mu.Lock()
			s.sub = sub
			c.mu.Unlock()
			return nil
		}
	}
	if d.filter == "" {
		if _, err := c.client.Queue(c.ctx, d.queue); err != nil {
			return err
		}
	} else if err := c.openGroup(d); err != nil {
		return err
	}
	keeps := sub.QoS == 2 && c.stored // see source.move
	if keeps {
		if err := c.declareFirm(); err != nil {
			return err
		}
	}
	c.start(&source{queue: d.queue, kind: sourceShared, group: d, sub: sub})
	if keeps && !resumes {
		return c.openFirm()
	}
	return nil
}

// openGroup makes the queue of a group if there is none.
func (c *conn) openGroup(d destination) error {
	g := &c.server.groups
	g.gate.Lock()
	defer g.gate.Unlock()
	cfg := core.DefaultQueueConfig(core.KindStandard)
	cfg.Retention = groupKept
	if _, _, err := c.client.Declare(c.ctx, d.queue, cfg); err != nil {
		return err
	}
	err := c.client.Bind(c.ctx, core.Binding{Filter: d.filter, Queue: d.queue, Origin: core.OriginMQTT})
	if err == nil {
		g.join(d.queue, c.key)
	}
	return err
}

// leaveGroup ends a shared subscription, and tells whether there was one.
func (c *conn) leaveGroup(d destination) bool {
	for _, s := range c.sources {
		if s.kind == sourceShared && s.group == d && !s.hasStopped() {
			s.stop()
			c.server.quit(d, c.key)
			return true
		}
	}
	return false
}

// keepFromOthers deletes what a session that ends has been sent with QoS 2 by its
// groups: no other member may get it.
func (c *conn) keepFromOthers() {
	if c.stored {
		return
	}
	c.mu.Lock()
	batches := make(map[*source][]core.Settlement)
	for _, f := range c.flights {
		if f.qos == 2 && f.state == flightSent && f.source != nil && f.source.kind == sourceShared {
			batches[f.source] = append(batches[f.source], core.Settlement{Receipt: f.receipt, Action: core.SettleDelete})
		}
	}
	c.mu.Unlock()
	for s, batch := range batches {
		s.settle(batch)
	}
}

// leaveGroups takes a session that ends with its connection out of its groups.
func (c *conn) leaveGroups() {
	if c.stored {
		return
	}
	for _, s := range c.sources {
		if s.kind == sourceShared && !s.stopped {
			c.server.quit(s.group, c.key)
		}
	}
}
