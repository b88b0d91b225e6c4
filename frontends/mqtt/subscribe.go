package mqtt

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// bindsMax is how many filters of one packet are bound at the same time, so that
// they share commits.
const bindsMax = 32

// wish is one filter of a SUBSCRIBE on its way.
type wish struct {
	wire.Filter
	sub      state.Sub
	group    destination
	shared   bool
	existed  bool
	previous byte // QoS of the subscription that it replaces
	code     wire.Reason
}

// subscribe carries out a SUBSCRIBE.
func (c *conn) subscribe(pk *wire.Packet) error {
	in, err := wire.ParseSubscribe(pk, c.version)
	if err != nil {
		return err
	}
	c.flush()
	wishes := make([]wish, len(in.Filters))
	for i, f := range in.Filters {
		w := &wishes[i]
		w.Filter, w.code = f, wire.Reason(f.QoS)
		w.sub = state.Sub{Filter: f.Filter, QoS: f.QoS, NoLocal: f.NoLocal, RetainPublished: f.RetainPublished, ID: in.SubscriptionID}
		w.group, w.shared = shared(f.Filter)
		if w.shared && w.group.filter == "" && f.QoS == 2 {
			// The queue is not the session's own: it delivers at least once.
			w.sub.QoS, w.QoS, w.code = 1, 1, 1
		}
		if w.shared && f.NoLocal {
			return wire.Fail(wire.ProtocolError, "a shared subscription has no-local")
		}
	}
	c.bindAll(wishes)
	if err := c.keepWishes(wishes); err != nil {
		return coreError(err)
	}
	codes := make([]byte, len(wishes))
	for i := range wishes {
		codes[i] = byte(wishes[i].code)
		if wishes[i].code >= wire.Unspecified && c.version != wire.V5 {
			codes[i] = byte(wire.Unspecified)
		}
	}
	c.answerNow(answer{raw: wire.AppendSuback(nil, c.version, wire.SUBACK, in.ID, codes)})
	for i := range wishes {
		if w := &wishes[i]; w.code < wire.Unspecified && !w.shared && (w.RetainHandling == 0 || w.RetainHandling == 1 && !w.existed) {
			c.replay(w.sub)
		}
	}
	return nil
}

// bindAll binds what is asked for, several at the same time.
func (c *conn) bindAll(wishes []wish) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, bindsMax)
	for i := range wishes {
		w := &wishes[i]
		if w.code = c.prepare(w); w.code >= wire.Unspecified {
			continue
		}
		if w.shared {
			if err := c.join(w.group, w.sub, false); err != nil {
				w.code = subscribeReason(err)
			}
			continue
		}
		firm := w.QoS > 0 || w.existed && w.previous > 0
		if !firm {
			continue
		}
		if err := c.openFirm(); err != nil {
			w.code = subscribeReason(err)
			continue
		}
		if len(wishes) == 1 {
			c.bindFirm(w)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			c.bindFirm(w)
			<-slots
		})
	}
	wg.Wait()
}

// prepare checks a filter and subscribes in memory.
func (c *conn) prepare(w *wish) wire.Reason {
	granted := wire.Reason(w.QoS)
	if w.shared {
		if !w.group.valid() {
			return wire.BadFilter
		}
		return granted
	}
	if match.CheckFilter(w.sub.Filter) != nil || reservedFilter(w.sub.Filter) {
		return wire.BadFilter
	}
	for _, denied := range c.server.options.DenyFilters {
		if denied == w.sub.Filter || match.CheckTopic(w.sub.Filter) == nil && match.Matches(denied, w.sub.Filter) {
			return wire.Unspecified // why is not the client's to know
		}
	}
	if old := c.subs.find(w.sub.Filter); old != nil {
		w.existed, w.previous = true, old.QoS
	} else if c.subs.len() >= core.QueueBindingsMax {
		return wire.QuotaExceeded
	}
	c.subs.put(w.sub)
	if err := c.bindLoose(w.sub); err != nil {
		c.subs.take(w.sub.Filter)
		return subscribeReason(err)
	}
	return granted
}

// bindFirm binds a filter to the firm queue, or takes it off if it is of QoS 0 now.
func (c *conn) bindFirm(w *wish) {
	var err error
	queue := c.firm.queue
	if w.QoS == 0 {
		err = c.client.Unbind(c.ctx, w.sub.Filter, queue)
		if errors.Is(err, core.ErrNoBinding) {
			err = nil
		}
	} else {
		b := c.binding(&w.sub, queue, core.AcceptReliable)
		b.Options.QoS, b.Options.Data = w.QoS, w.sub.Append(nil)
		err = c.client.Bind(c.ctx, b)
	}
	if err != nil {
		w.code = subscribeReason(err)
	}
}

func (c *conn) binding(sub *state.Sub, queue string, accept core.Accept) core.Binding {
	b := core.Binding{Filter: sub.Filter, Queue: queue, Origin: core.OriginMQTT, Options: core.BindingOptions{Accept: accept}}
	if sub.NoLocal {
		b.Options.NoLocal = c.from
	}
	return b
}

// bindLoose binds a filter to the loose queue.
func (c *conn) bindLoose(sub state.Sub) error {
	if c.loose == nil {
		queue := "mqtt/~loose/" + strconv.FormatUint(c.server.numbers.Add(1), 36)
		if err := c.declareMemory(queue, core.OverflowDropOldest); err != nil {
			return err
		}
		c.loose = c.start(&source{queue: queue, kind: sourceLoose})
	}
	accept := core.AcceptUnreliable
	if sub.QoS == 0 {
		accept = core.AcceptAll
	}
	return c.client.Bind(c.ctx, c.binding(&sub, c.loose.queue, accept))
}

// openFirm makes the firm queue if there is none.
func (c *conn) openFirm() error {
	if c.firm != nil {
		return nil
	}
	queue := state.Queue(c.key)
	var err error
	if c.stored {
		err = c.declareFirm()
	} else {
		queue = "mqtt/~firm/" + strconv.FormatUint(c.server.numbers.Add(1), 36)
		err = c.declareMemory(queue, core.OverflowClose)
	}
	if err == nil {
		c.startFirm(queue)
	}
	return err
}

// declareFirm makes the queue of a session that outlives its connection.
func (c *conn) declareFirm() error {
	cfg := core.DefaultQueueConfig(core.KindStandard)
	cfg.Retention, cfg.InOrder = 0, true
	c.boundFirm(&cfg)
	_, _, err := c.client.Declare(c.ctx, state.Queue(c.key), cfg)
	return err
}

// boundFirm bounds such a queue. What there is no room for is refused: it is never
// dropped after it was acknowledged.
func (c *conn) boundFirm(cfg *core.QueueConfig) {
	cfg.MaxMessages, cfg.MaxBytes = c.server.options.SessionMessages, c.server.options.SessionBytes
}

// boundAgain has a queue of before keep to the bounds of now.
func (c *conn) boundAgain(queue string) error {
	q, err := c.client.Queue(c.ctx, queue)
	if err != nil {
		return err
	}
	want := q.Config
	if c.boundFirm(&want); want.MaxMessages == q.Config.MaxMessages && want.MaxBytes == q.Config.MaxBytes {
		return nil
	}
	_, err = c.client.Configure(c.ctx, queue, func(cfg *core.QueueConfig) error {
		c.boundFirm(cfg)
		return nil
	})
	return err
}

func (c *conn) startFirm(queue string) { c.firm = c.start(&source{queue: queue, kind: sourceFirm}) }

// declareMemory makes a queue that is gone with the connection.
func (c *conn) declareMemory(queue string, overflow core.Overflow) error {
	o := &c.server.options
	_, err := c.client.DeclareMemory(queue, core.QueueConfig{
		Kind: core.KindMemory, MaxMessages: int64(o.LooseMessages), MaxBytes: o.LooseBytes, Overflow: overflow,
	}, c.owner, func() { c.end(endLost, wire.QuotaExceeded, "messages came faster than they were taken") })
	return err
}

// keepWishes stores the subscriptions that no binding of a stored queue stands for.
func (c *conn) keepWishes(wishes []wish) error {
	if !c.stored {
		return nil
	}
	changed := false
	for i := range wishes {
		w := &wishes[i]
		if w.code >= wire.Unspecified {
			continue
		}
		n := len(c.record.Subs)
		c.dropKept(w.sub.Filter)
		changed = changed || n != len(c.record.Subs)
		if w.shared || w.QoS == 0 {
			c.record.Subs = append(c.record.Subs, w.sub)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return c.putRecord()
}

func (c *conn) dropKept(filter string) {
	c.record.Subs = slices.DeleteFunc(c.record.Subs, func(s state.Sub) bool { return s.Filter == filter })
}

// unsubscribe carries out an UNSUBSCRIBE. What is queued already is delivered.
func (c *conn) unsubscribe(pk *wire.Packet) error {
	in, err := wire.ParseUnsubscribe(pk, c.version)
	if err != nil {
		return err
	}
	c.flush()
	codes := make([]byte, len(in.Filters))
	kept := len(c.record.Subs)
	for i := range in.Filters {
		filter := in.Filters[i].Filter
		c.dropKept(filter)
		r, err := c.drop(filter)
		if err != nil {
			return coreError(err)
		}
		codes[i] = byte(r)
	}
	if c.stored && len(c.record.Subs) != kept {
		if err := c.putRecord(); err != nil {
			return coreError(err)
		}
	}
	c.answerNow(answer{raw: wire.AppendSuback(nil, c.version, wire.UNSUBACK, in.ID, codes)})
	return nil
}

// drop ends the subscription of a filter.
func (c *conn) drop(filter string) (wire.Reason, error) {
	if d, ok := shared(filter); ok {
		if !c.leaveGroup(d) {
			return wire.NoSubscription, nil
		}
		return wire.Success, nil
	}
	sub := c.subs.find(filter)
	if sub == nil {
		return wire.NoSubscription, nil
	}
	for _, s := range []*source{c.firm, c.loose} {
		if s == nil || s == c.firm && sub.QoS == 0 {
			continue
		}
		if err := c.client.Unbind(c.ctx, filter, s.queue); err != nil && !errors.Is(err, core.ErrNoBinding) {
			return 0, err
		}
	}
	c.subs.take(filter)
	return wire.Success, nil
}

// subscribeReason is the code of a subscription that could not be made.
func subscribeReason(err error) wire.Reason {
	switch {
	case errors.Is(err, core.ErrInvalidTopic), errors.Is(err, core.ErrInvalidName), errors.Is(err, core.ErrNoQueue):
		return wire.BadFilter
	case errors.Is(err, core.ErrTooManyBindings), errors.Is(err, core.ErrOverLimit):
		return wire.QuotaExceeded
	}
	return wire.Unspecified
}

// reasonOf is the reason code of an error of the core.
func reasonOf(err error) wire.Reason {
	switch {
	case errors.Is(err, core.ErrInvalidTopic):
		return wire.BadTopic
	case errors.Is(err, core.ErrQueueFull), errors.Is(err, core.ErrDiskFull), errors.Is(err, core.ErrTooLarge), errors.Is(err, core.ErrInvalidArgument):
		return wire.QuotaExceeded
	case errors.Is(err, core.ErrStopped), errors.Is(err, core.ErrDraining), errors.Is(err, context.Canceled):
		return wire.ServerShuttingDown
	case errors.Is(err, core.ErrNotPrimary):
		return wire.ServerUnavailable
	}
	return wire.Unspecified
}

// coreError ends a connection with an error of the core.
func coreError(err error) error {
	return wire.Fail(reasonOf(err), "the packet could not be carried out")
}

// reservedFilter tells whether a filter looks like one of a kind that there is not.
func reservedFilter(filter string) bool {
	first, _, _ := strings.Cut(filter, "/")
	return first == "$share" || first == "$queue"
}

// reservedTopic tells whether clients may not publish to a topic.
func reservedTopic(topic string) bool {
	if topic == "" || topic[0] != '$' {
		return false
	}
	first, _, _ := strings.Cut(topic, "/")
	return first == "$SYS" || first == "$share" || first == "$queue"
}
