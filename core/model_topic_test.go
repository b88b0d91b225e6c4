package core_test

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
)

// mKept is the model of a retained value.
type mKept struct {
	id      core.MessageID
	expires int64
}

func (r *rig) filter(t *rapid.T) string {
	return rapid.SampledFrom([]string{"t/0", "t/+", "t/#", "#"}).Draw(t, "filter")
}

func (r *rig) opBind(t *rapid.T) {
	q := r.queue(t)
	b := core.Binding{Filter: r.filter(t), Queue: q.name}
	var sel *mSelector
	if rapid.Bool().Draw(t, "selects") {
		sel = rapid.SampledFrom(selectors()).Draw(t, "selector")
		b.Options.Selector = sel.text
	}
	err := r.n.client.Bind(r.t.Context(), b)
	if !q.exists {
		r.wantErr("bind", err, core.ErrNoQueue)
		return
	}
	r.wantErr("bind", err, nil)
	r.note("  %s bound to %s, %q", q.name, b.Filter, b.Options.Selector)
	if q.bound == nil {
		q.bound = make(map[string]*mSelector)
	}
	q.bound[b.Filter] = sel
}

// opBindAll binds all queues, so that large bodies are shared.
func (r *rig) opBindAll(t *rapid.T) {
	filter := r.filter(t)
	for _, q := range r.queues {
		if !q.exists {
			continue
		}
		r.wantErr("bind", r.n.client.Bind(r.t.Context(), core.Binding{Filter: filter, Queue: q.name}), nil)
		if q.bound == nil {
			q.bound = make(map[string]*mSelector)
		}
		q.bound[filter] = nil
	}
}

func (r *rig) opUnbind(t *rapid.T) {
	q, filter := r.queue(t), r.filter(t)
	want := error(nil)
	if _, ok := q.bound[filter]; !ok {
		want = core.ErrNoBinding
	}
	if !q.exists {
		want = core.ErrNoQueue
	}
	r.wantErr("unbind", r.n.client.Unbind(r.t.Context(), filter, q.name), want)
	delete(q.bound, filter)
}

// wants tells whether a queue gets a copy.
func (q *mQueue) wants(topic string, m *core.Message) bool {
	for filter, sel := range q.bound {
		if match.Matches(filter, topic) && sel.selects(&mMessage{group: m.Group, priority: m.Priority}) {
			return true
		}
	}
	return false
}

func (r *rig) opPublish(t *rapid.T) {
	r.look()
	p := core.TopicPublish{Topic: rapid.SampledFrom([]string{"t", "t/0", "t/1"}).Draw(t, "topic"), Retain: rapid.IntRange(0, 3).Draw(t, "retain") == 0}
	p.Messages = r.messages(t, r.queues[0])
	for i := range p.Messages {
		m := &p.Messages[i]
		m.ID = core.NewMessageID()
		if n := rapid.SampledFrom([]int{0, 0, 511, 512, 512, 1500}).Draw(t, "body bytes"); len(m.Body) < n {
			m.Body = append(m.Body, bytes.Repeat([]byte("."), n-len(m.Body))...)
		}
		if m.Group == "" {
			m.Group = "x"
		}
		if m.DedupID == "" { // it would get one that nobody knows
			m.DedupID = "9"
		}
	}
	want := make([]core.TopicResult, len(p.Messages))
	stored := make(map[*mQueue][]int)
	for _, q := range r.queues {
		if !q.exists {
			continue
		}
		if q.fifo() && q.cfg().MaxMessages > 0 && q.cfg().Overflow == core.OverflowDropOldest {
			return // what is dropped at once would not be known as a duplicate
		}
		stored[q] = r.copies(q, &p, want)
	}
	got, err := r.n.client.PublishTopic(r.t.Context(), p, nil)
	r.wantErr("publish", err, nil)
	if !slices.Equal(got, want) {
		r.failf("publish to %s: %+v, want %+v", p.Topic, got, want)
	}
	now := r.now()
	for _, q := range r.queues {
		r.takeCopies(q, &p, stored[q], now)
	}
	if last := &p.Messages[len(p.Messages)-1]; p.Retain {
		k := mKept{id: last.ID}
		if last.TTL > 0 {
			k.expires = now + last.TTL.Milliseconds()
		}
		r.kept[p.Topic] = k
	}
}

// copies lists which of the messages a queue stores, and counts what it is told of
// them.
func (r *rig) copies(q *mQueue, p *core.TopicPublish, count []core.TopicResult) (stored []int) {
	seen := make(map[string]bool)
	for i := range p.Messages {
		m := &p.Messages[i]
		if !q.wants(p.Topic, m) {
			continue
		}
		if q.fifo() {
			key := dedupKeyOf(q, m)
			before, known := q.dedup[key]
			if seen[key] || known && r.now()-before.sentAt < (5*time.Minute).Milliseconds() {
				count[i].Matched++
				continue
			}
			seen[key] = true
		}
		if c := q.cfg(); c.Overflow == core.OverflowReject && c.MaxMessages > 0 && int64(len(q.msgs)+len(stored)) >= c.MaxMessages {
			count[i].Full++
			continue
		}
		stored = append(stored, i)
		count[i].Matched++
	}
	return stored
}

// takeCopies takes over what a queue has got. Where it lies is not told.
func (r *rig) takeCopies(q *mQueue, p *core.TopicPublish, stored []int, now int64) {
	if len(stored) == 0 {
		return
	}
	at := make(map[core.MessageID]core.Seq)
	for _, shown := range r.peekAll(q) {
		if q.bySeq(shown.Seq) == nil {
			at[shown.ID] = shown.Seq
		}
	}
	for _, i := range stored {
		m := &p.Messages[i]
		seq := at[m.ID]
		switch {
		case seq != 0:
			r.add(q, m, core.Published{ID: m.ID, Seq: seq}, now)
		case q.cfg().Overflow != core.OverflowDropOldest && q.cfg().Retention == 0:
			r.failf("%s has no copy of %s", q.name, m.Body)
		}
	}
}

// checkTopics compares bindings and retained values.
func (r *rig) checkTopics() {
	for _, q := range r.queues {
		if !q.exists {
			continue
		}
		got, err := r.n.client.Bindings(r.t.Context(), q.name, "", 100)
		if err != nil || len(got) != len(q.bound) {
			r.failf("bindings of %s: %v, %v, want %v", q.name, got, err, q.bound)
		}
		for _, b := range got {
			sel, ok := q.bound[b.Filter]
			if text := b.Options.Selector; !ok || sel == nil && text != "" || sel != nil && sel.text != text {
				r.failf("bindings of %s: %+v", q.name, b)
			}
		}
	}
	left, now := maps.Clone(r.kept), r.now()
	err := r.n.client.Retained(r.t.Context(), "#", func(topic string, m *core.Stored) bool {
		if k := left[topic]; k.id != m.ID || k.expires != 0 && k.expires <= now {
			r.failf("%s keeps %s, want %+v, now is %d", topic, m.Body, k, now)
		}
		delete(left, topic)
		return true
	})
	for topic, k := range left {
		if err != nil || k.expires == 0 || k.expires > now {
			r.failf("%s keeps nothing, want %+v: %v", topic, k, err)
		}
	}
}
