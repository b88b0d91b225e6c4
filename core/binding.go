package core

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/leasemq/broker/core/match"
	"github.com/leasemq/broker/core/selector"
)

// Bounds of bindings.
const (
	QueueBindingsMax      = 10_000   // bindings a queue: its deletion drops them in one Change
	BindingOptionBytesMax = 64 << 10 // bytes of the options of a binding
)

// Binding sends a copy of what is published to the topics that a filter matches
// to a queue. A queue gets one copy of a message, however many of its bindings
// match. A binding lives as long as its queue: it is kept through a purge, and
// gone with a deletion.
type Binding struct {
	Filter  string // see package match
	Queue   string
	Origin  Origin
	Options BindingOptions
}

// BindingOptions says which of the messages that a filter matches are meant, and
// what frontends keep with a binding.
type BindingOptions struct {
	NoLocal string // messages whose TopicPublish.From is the same are passed over; empty: none
	Accept  Accept
	// Selector, of package selector, selects among the messages as they are
	// published; a queue gets what one of its bindings selects. Empty: all.
	Selector string
	QoS      uint8  // kept for frontends
	Data     []byte // the same: opaque
}

// Accept says which publishes a binding lets through. The numbers are stored.
type Accept uint8

// The values of Accept.
const (
	AcceptAll        Accept = 0
	AcceptReliable   Accept = 1 // those that are not TopicPublish.Unreliable
	AcceptUnreliable Accept = 2 // those that are
)

// wants tells whether the binding lets p through.
func (o *BindingOptions) wants(p *TopicPublish) bool {
	switch {
	case o.NoLocal != "" && o.NoLocal == p.From:
		return false
	case o.Accept == AcceptReliable:
		return !p.Unreliable
	case o.Accept == AcceptUnreliable:
		return p.Unreliable
	}
	return true
}

// After is where Client.Bindings of all queues goes on behind b.
func (b *Binding) After() string { return b.record()[len(bindingPrefix):] }

// binding is a Binding in the tree. It is never changed, only replaced.
type binding struct {
	Binding
	id    QID    // Queue.ID
	group uint64 // that stores it
	sel   *selector.Selector
}

// topicTable holds the bindings of a node. Its lock is taken last of all, under
// that of a queue or of the sequencer.
type topicTable struct {
	tree  match.Tree[*binding]
	ready chan struct{} // closed when the stored ones have been read
	err   error         // why they could not be; set before ready is closed

	mu      sync.Mutex
	byQueue map[QID]map[string]*binding // by Queue.ID and filter
}

// Stored bindings are node-wide records, named by queue and filter; the length of
// the queue's name keeps it apart from a longer one that begins alike.
const (
	bindingPrefix  = "binding/"
	bindingVersion = 3
)

func queueBindingPrefix(queue string) string {
	return fmt.Sprintf("%s%03x/%s/", bindingPrefix, len(queue), queue)
}

// record is the name of b's record.
func (b *Binding) record() string { return queueBindingPrefix(b.Queue) + b.Filter }

// append appends the value of b's record: version, Queue.ID (uvarint), origin,
// QoS, accept, and no-local, data and selector, each with its length (uvarint).
func (b *binding) append(v []byte) []byte {
	v = binary.AppendUvarint(append(v, bindingVersion), uint64(b.id))
	v = append(v, byte(b.Origin), b.Options.QoS, byte(b.Options.Accept))
	v = appendString(v, b.Options.NoLocal)
	v = appendBytes(v, b.Options.Data)
	return appendString(v, b.Options.Selector)
}

// decodeBinding reads a record of the name and value that a binding has.
func decodeBinding(name string, v []byte) (*binding, error) {
	r := reader{b: v}
	version := r.byte()
	b := &binding{id: QID(r.uvarint())}
	b.Origin, b.Options.QoS = Origin(r.byte()), r.byte()
	if version > 1 {
		b.Options.Accept = Accept(r.byte())
	}
	b.Options.NoLocal, b.Options.Data = string(r.bytes()), slices.Clone(r.bytes())
	if version > 2 {
		b.Options.Selector = string(r.bytes())
	}
	ok := !r.bad && version >= 1 && version <= bindingVersion && b.Options.Accept <= AcceptUnreliable && len(r.b) == 0
	if ok {
		b.Queue, b.Filter, ok = cutBinding(strings.TrimPrefix(name, bindingPrefix))
	}
	if ok {
		var err error
		b.sel, err = selector.Parse(b.Options.Selector)
		ok = err == nil
	}
	if !ok || match.CheckFilter(b.Filter) != nil {
		return nil, fmt.Errorf("record of a binding, %q: %w", name, ErrCorrupt)
	}
	return b, nil
}

// cutBinding takes the name of a binding's record apart.
func cutBinding(name string) (queue, filter string, ok bool) {
	length, rest, _ := strings.Cut(name, "/")
	n, err := strconv.ParseUint(length, 16, 16)
	if err != nil || n >= uint64(len(rest)) || rest[n] != '/' {
		return "", "", false
	}
	return rest[:n], rest[n+1:], true
}

// startTopics reads the bindings without holding up the open: what needs them
// waits.
func (e *Engine) startTopics() {
	e.topics.ready = make(chan struct{})
	e.topics.byQueue = make(map[QID]map[string]*binding)
	e.background(func() {
		defer close(e.topics.ready)
		var bad error
		err := e.store.Records(bindingPrefix, "", func(name string, value []byte) bool {
			var b *binding
			if b, bad = decodeBinding(name, value); bad == nil {
				e.topics.put(b)
			}
			return bad == nil && !e.stopped()
		})
		if err == nil {
			err = bad
		}
		if err != nil {
			e.topics.err = fmt.Errorf("bindings: %w", err)
			e.complain("topics", err)
		}
	})
}

// loaded waits until the stored bindings are known.
func (t *topicTable) loaded() error {
	<-t.ready
	return t.err
}

// isReady tells whether the stored bindings have been read.
func (t *topicTable) isReady() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// put adds b, in the place of an older one. The new one comes first: there is no
// moment without.
func (t *topicTable) put(b *binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.byQueue[b.id]
	if of == nil {
		of = make(map[string]*binding)
		t.byQueue[b.id] = of
	}
	old := of[b.Filter]
	of[b.Filter] = b
	t.tree.Insert(b.Filter, b)
	if old != nil {
		t.tree.Remove(b.Filter, old)
	}
}

// take removes the binding of a filter.
func (t *topicTable) take(id QID, filter string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.byQueue[id]
	if b := of[filter]; b != nil {
		t.tree.Remove(filter, b)
		if delete(of, filter); len(of) == 0 {
			delete(t.byQueue, id)
		}
	}
}

// find returns the binding of a filter, nil if there is none, and how many the
// queue has.
func (t *topicTable) find(id QID, filter string) (*binding, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byQueue[id][filter], len(t.byQueue[id])
}

// list returns the bindings of a queue.
func (t *topicTable) list(id QID) []*binding {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byQueue[id]))
}

// forget drops the bindings of a queue that is deleted within g.
func (t *topicTable) forget(g *group, q *queue) {
	for _, b := range t.list(q.id) {
		q.edit(g, Edit{Kind: EditDropRecord, Key: []byte(b.record())})
		t.take(q.id, b.Filter)
	}
}

// newBindings checks what a queue is to be bound to.
func (e *Engine) newBindings(queue string, bindings []Binding) ([]*binding, error) {
	if len(bindings) > QueueBindingsMax {
		return nil, ErrTooManyBindings
	}
	fresh := make([]*binding, len(bindings))
	for i, b := range bindings {
		if match.CheckFilter(b.Filter) != nil {
			return nil, ErrInvalidTopic
		}
		if len(b.Options.NoLocal)+len(b.Options.Data) > BindingOptionBytesMax || b.Options.Accept > AcceptUnreliable {
			return nil, ErrInvalidArgument
		}
		sel, err := selector.Parse(b.Options.Selector)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
		}
		b.Queue, b.Options.Data = queue, slices.Clone(b.Options.Data)
		fresh[i] = &binding{Binding: b, sel: sel}
	}
	return fresh, nil
}

// putBinding stores a binding of the queue id.
func (g *group) putBinding(b *binding, id QID) {
	b.id, b.group = id, g.n
	g.put(Edit{Kind: EditPutRecord, Key: []byte(b.record()), Value: b.append(nil)})
}

// Bind binds a queue, which must exist, to the topics that a filter matches, and
// answers when that is durable, which for a memory queue it never is. A binding of
// the same filter and queue is replaced. The error for a selector that cannot be
// parsed is that of package selector, and ErrInvalidArgument.
func (c *Client) Bind(ctx context.Context, b Binding) error {
	e := c.engine
	fresh, err := e.newBindings(b.Queue, []Binding{b})
	if err != nil {
		return err
	}
	if err := e.bindable(b.Queue); err != nil {
		return err
	}
	var done *commit
	err = e.with(b.Queue, func(q *queue) (err error) {
		done, err = q.bind(fresh[0])
		return err
	})
	if err != nil || done == nil {
		return err
	}
	return wait(ctx, done)
}

// bindable waits until what is known of the bindings of a queue can be changed:
// for a stored one, until the stored ones have been read. Publishes wait for those
// as well, so that a memory queue that is bound before misses none.
func (e *Engine) bindable(name string) error {
	q, err := e.queue(name)
	if err != nil || q.memory != nil {
		return err
	}
	return e.topics.loaded()
}

// bind returns the commit to wait for, nil if the binding is durable.
func (q *queue) bind(b *binding) (*commit, error) {
	e := q.engine
	old, n := e.topics.find(q.id, b.Filter)
	switch {
	case old != nil && old.same(&b.Binding):
		return e.seq.commitOf(old.group), nil
	case old == nil && n >= QueueBindingsMax:
		return nil, ErrTooManyBindings
	}
	if q.memory != nil {
		b.id = q.id
		e.topics.put(b)
		return nil, nil
	}
	g, err := e.seq.begin()
	if err != nil {
		return nil, err
	}
	defer e.seq.end()
	g.putBinding(b, q.id)
	e.topics.put(b)
	return g.done, nil
}

// same tells whether b says what is known already.
func (b *binding) same(o *Binding) bool {
	x, y := &b.Options, &o.Options
	return b.Origin == o.Origin && x.NoLocal == y.NoLocal && x.Accept == y.Accept && x.QoS == y.QoS &&
		x.Selector == y.Selector && string(x.Data) == string(y.Data)
}

// Unbind removes a binding and answers when that is durable. What the queue has
// got by it stays. ErrNoBinding says that there was none.
func (c *Client) Unbind(ctx context.Context, filter, name string) error {
	e := c.engine
	if err := e.topics.loaded(); err != nil {
		return err
	}
	var done *commit
	err := e.with(name, func(q *queue) error {
		b, _ := e.topics.find(q.id, filter)
		switch {
		case b == nil:
			return ErrNoBinding
		case q.memory != nil:
			e.topics.take(q.id, filter)
			return nil
		}
		g, err := e.seq.begin()
		if err != nil {
			return err
		}
		defer e.seq.end()
		g.put(Edit{Kind: EditDropRecord, Key: []byte(b.record())})
		e.topics.take(q.id, filter)
		done = g.done
		return nil
	})
	if err != nil || done == nil {
		return err
	}
	return wait(ctx, done)
}

// Bindings returns up to most bindings of a queue, ordered by filter, behind the
// filter after; or, for the queue "", of all queues behind the Binding.After of
// the last one seen. What they show is durable; those of memory queues are shown
// for their queue alone.
func (c *Client) Bindings(ctx context.Context, name, after string, most int) ([]Binding, error) {
	e := c.engine
	if name != "" && !e.topics.isReady() {
		return e.storedBindings(name, after, most)
	}
	if err := e.topics.loaded(); err != nil {
		return nil, err
	}
	if err := e.read(ctx); err != nil {
		return nil, err
	}
	var out []Binding
	if name != "" {
		err := e.with(name, func(q *queue) error {
			for _, b := range e.topics.list(q.id) {
				if b.Filter > after {
					out = append(out, b.Binding)
				}
			}
			return nil
		})
		return sortBindings(out, most), err
	}
	return e.readBindings(bindingPrefix, bindingPrefix+after, most)
}

// storedBindings are those of a queue while the others are being read. Until then
// nobody changes the stored ones: a session can go on at once after a start, with
// however many others there are.
func (e *Engine) storedBindings(name, after string, most int) ([]Binding, error) {
	q, err := e.queue(name)
	if err != nil {
		return nil, err
	}
	if q.memory == nil {
		prefix := queueBindingPrefix(name)
		return e.readBindings(prefix, prefix+after, most)
	}
	var out []Binding
	for _, b := range e.topics.list(q.id) {
		if b.Filter > after {
			out = append(out, b.Binding)
		}
	}
	return sortBindings(out, most), nil
}

func sortBindings(b []Binding, most int) []Binding {
	slices.SortFunc(b, func(a, b Binding) int { return strings.Compare(a.Filter, b.Filter) })
	return b[:min(most, len(b))]
}

// readBindings reads up to most bindings whose records begin with prefix and sort
// after the given name.
func (e *Engine) readBindings(prefix, after string, most int) (out []Binding, err error) {
	var bad error
	err = e.store.Records(prefix, after, func(record string, value []byte) bool {
		var b *binding
		if b, bad = decodeBinding(record, value); bad == nil {
			out = append(out, b.Binding)
		}
		return bad == nil && len(out) < most
	})
	if err == nil {
		err = bad
	}
	return out, err
}
