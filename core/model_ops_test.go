package core_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
)

// actions are what a step may be. Names with a number only make an action more
// frequent.
func (r *rig) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"send": r.opSend, "send 2": r.opSend, "send 3": r.opSend,
		"receive": r.opReceive, "receive 2": r.opReceive, "receive 3": r.opReceive,
		"settle": r.opSettle, "settle 2": r.opSettle, "settle 3": r.opSettle,
		"wait": r.opWait, "cancel": r.opCancel,
		"advance": r.opAdvance, "advance 2": r.opAdvance, "advance far": r.opAdvanceFar,
		"declare": r.opDeclare, "configure": r.opConfigure, "purge": r.opPurge, "drop": r.opDrop,
		"bind": r.opBind, "bind all": r.opBindAll, "unbind": r.opUnbind, "publish": r.opPublish, "publish 2": r.opPublish,
		"tx": r.opTx, "session": r.opSession, "restart": r.opRestart,
		"trim": func(*rapid.T) {
			core.Trim(r.n.engine)
			for _, q := range r.queues {
				q.cold = true // it may have left memory
			}
		},
	}
}

// Times that leases end at are never whole seconds, and steps of the clock are:
// so that nothing is just ending when the model looks.
func halves(t *rapid.T, label string, most int) time.Duration {
	return time.Duration(rapid.IntRange(0, most).Draw(t, label))*time.Second + 500*time.Millisecond
}

// config draws the configuration of a queue.
func (r *rig) config(t *rapid.T, kind core.QueueKind) core.QueueConfig {
	cfg := core.DefaultQueueConfig(kind)
	cfg.VisibilityTimeout = halves(t, "visibility", 8)
	cfg.ContentDedup = rapid.Bool().Draw(t, "content dedup")
	if rapid.IntRange(0, 3).Draw(t, "group scope") == 0 {
		cfg.DedupScope = core.DedupGroup
	}
	if rapid.IntRange(0, 3).Draw(t, "delayed") == 0 {
		cfg.Delay = halves(t, "delay", 4)
	}
	cfg.Retention = rapid.SampledFrom([]time.Duration{0, core.RetentionDefault, 20*time.Second + 500*time.Millisecond, 90*time.Second + 500*time.Millisecond}).Draw(t, "retention")
	if r.p.pad > 0 {
		cfg.Retention = core.RetentionDefault
	}
	if rapid.IntRange(0, 5).Draw(t, "bounded") == 0 {
		cfg.MaxMessages = int64(rapid.IntRange(1, 20).Draw(t, "max messages"))
		if r.p.pad == 0 {
			cfg.Overflow = core.Overflow(rapid.IntRange(0, 1).Draw(t, "overflow"))
		}
	}
	if r.p.pad == 0 && rapid.Bool().Draw(t, "redelivery") {
		p := &cfg.Redelivery
		p.MaxReceives = rapid.IntRange(1, 4).Draw(t, "max receives")
		p.DeadLetterQueue = rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "dlq")
		p.InitialDelay = rapid.SampledFrom([]time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond}).Draw(t, "initial delay")
		p.Multiplier = rapid.SampledFrom([]float64{0, 3}).Draw(t, "multiplier")
		cfg.ExpiredToDLQ = rapid.Bool().Draw(t, "expired to dlq")
	}
	if rapid.IntRange(0, 3).Draw(t, "marks") == 0 {
		cfg.Marks = core.MarksSync
	}
	return cfg
}

func (r *rig) queue(t *rapid.T) *mQueue { return rapid.SampledFrom(r.queues).Draw(t, "queue") }

func (r *rig) opDeclare(t *rapid.T) {
	q := r.queue(t)
	kind := rapid.SampledFrom([]core.QueueKind{core.KindStandard, core.KindStandard, core.KindFIFO, core.KindPriority}).Draw(t, "kind")
	cfg := r.config(t, kind)
	info, created, err := r.n.client.Declare(r.t.Context(), q.name, cfg)
	if err != nil || created == q.exists {
		r.failf("declare %s: created %v, error %v", q.name, created, err)
	}
	if !created {
		if info.ID != q.info.ID || info.Config.Kind != q.cfg().Kind {
			r.failf("declare %s, which exists: %+v, want %+v", q.name, info, q.info)
		}
		return
	}
	r.note("  %s: %+v", q.name, info.Config)
	q.exists, q.info, q.cold = true, info, false
}

func (r *rig) opConfigure(t *rapid.T) {
	q := r.queue(t)
	if !q.exists {
		return
	}
	r.look()
	cfg := r.config(t, q.cfg().Kind)
	info, err := r.n.client.Configure(r.t.Context(), q.name, func(c *core.QueueConfig) error {
		*c = cfg
		return nil
	})
	if err != nil {
		r.failf("configure %s: %v", q.name, err)
	}
	r.note("  %s: %+v", q.name, info.Config)
	q.info = info
}

func (r *rig) opPurge(t *rapid.T) {
	q := r.queue(t)
	if rapid.IntRange(0, 3).Draw(t, "really") != 0 {
		return
	}
	err := r.n.client.Purge(r.t.Context(), q.name)
	if !q.exists {
		r.wantErr("purge", err, core.ErrNoQueue)
		return
	}
	r.wantErr("purge", err, nil)
	r.note("  %s purged", q.name)
	for _, m := range q.msgs {
		r.forgetReceipts(m)
	}
	r.lose(q)
	q.cold = false
}

func (r *rig) opDrop(t *rapid.T) {
	q := r.queue(t)
	if rapid.IntRange(0, 3).Draw(t, "really") != 0 {
		return
	}
	err := r.n.client.Delete(r.t.Context(), q.name)
	if !q.exists {
		r.wantErr("drop", err, core.ErrNoQueue)
		return
	}
	r.wantErr("drop", err, nil)
	r.note("  %s dropped", q.name)
	q.bound = nil
	for _, m := range q.msgs {
		r.forgetReceipts(m)
	}
	r.lose(q)
	q.exists = false
}

func (r *rig) wantErr(what string, got, want error) {
	if !errors.Is(got, want) && got != want {
		r.failf("%s: error %v, want %v", what, got, want)
	}
}

// message draws a message for q.
func (r *rig) message(t *rapid.T, q *mQueue) core.Message {
	r.bodies++
	m := core.Message{Body: fmt.Appendf(nil, "m%d", r.bodies), Delay: -1, Priority: uint8(rapid.IntRange(0, 9).Draw(t, "priority"))}
	if q.exists && q.fifo() || rapid.IntRange(0, 3).Draw(t, "grouped") == 0 {
		m.Group = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "group")
	}
	if rapid.Bool().Draw(t, "has id") {
		m.DedupID = rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8"}).Draw(t, "id")
	}
	if rapid.IntRange(0, 3).Draw(t, "delayed") == 0 {
		m.Delay = rapid.SampledFrom([]time.Duration{0, 500 * time.Millisecond, 2500 * time.Millisecond, 7500 * time.Millisecond}).Draw(t, "delay")
	}
	if r.p.pad > 0 {
		m.Attributes = []core.Attribute{{Name: "pad", Value: make([]byte, r.p.pad)}}
	} else if rapid.IntRange(0, 7).Draw(t, "expires") == 0 {
		m.TTL = halves(t, "ttl", 12)
	}
	return m
}

func (r *rig) messages(t *rapid.T, q *mQueue) []core.Message {
	msgs := make([]core.Message, rapid.IntRange(1, 5).Draw(t, "messages"))
	for i := range msgs {
		msgs[i] = r.message(t, q)
	}
	return msgs
}

func (r *rig) opSend(t *rapid.T) {
	q := r.queue(t)
	msgs := r.messages(t, q)
	fresh, want := r.sendResult(q, msgs)
	var out []core.Published
	var err error
	if rapid.IntRange(0, 3).Draw(t, "async") == 0 {
		done := make(chan error, 1)
		err = r.n.client.PublishAsync(q.name, msgs, func(p []core.Published, err error) {
			out = p
			done <- err
		})
		if err == nil {
			err = <-done
		}
	} else {
		out, err = r.n.client.Publish(r.t.Context(), q.name, msgs, nil)
	}
	r.wantErr("send to "+q.name, err, want)
	if err == nil {
		r.sent(q, msgs, fresh, out)
	}
}

// dedupKeyOf is what a message is unique by.
func dedupKeyOf(q *mQueue, m *core.Message) string {
	id := m.DedupID
	if id == "" {
		sum := sha256.Sum256(m.Body)
		id = hex.EncodeToString(sum[:])
	}
	if q.cfg().DedupScope == core.DedupGroup {
		return "group " + m.Group + " " + id
	}
	return "queue " + id
}

// sendResult tells what a send has to be answered with, and which of the
// messages are no duplicates.
func (r *rig) sendResult(q *mQueue, msgs []core.Message) (fresh []bool, err error) {
	if !q.exists {
		return nil, core.ErrNoQueue
	}
	fresh = make([]bool, len(msgs))
	seen := make(map[string]bool)
	n := 0
	for i := range msgs {
		m := &msgs[i]
		fresh[i] = true
		if q.fifo() {
			if m.DedupID == "" && !q.cfg().ContentDedup {
				return nil, core.ErrMissingDedupID
			}
			key := dedupKeyOf(q, m)
			before, known := q.dedup[key]
			fresh[i] = !seen[key] && !(known && r.now()-before.sentAt < (5*time.Minute).Milliseconds())
			seen[key] = true
		}
		if fresh[i] {
			n++
		}
	}
	if most := q.cfg().MaxMessages; most > 0 && n > 0 && q.cfg().Overflow == core.OverflowReject {
		r.look() // what has expired may still count
		if int64(len(q.msgs)+n) > most {
			return nil, core.ErrQueueFull
		}
	}
	return fresh, nil
}

// sent takes over what was sent.
func (r *rig) sent(q *mQueue, msgs []core.Message, fresh []bool, out []core.Published) {
	if len(out) != len(msgs) {
		r.failf("send of %d messages has %d results", len(msgs), len(out))
	}
	now := r.now()
	for i := range msgs {
		m, p := &msgs[i], out[i]
		if p.Duplicate == fresh[i] {
			r.failf("%s sent to %s: duplicate %v", m.Body, q.name, p.Duplicate)
		}
		if p.Duplicate {
			if d := q.dedup[dedupKeyOf(q, m)]; p.ID != d.id || p.Seq != d.seq {
				r.failf("%s is a duplicate of %v, want %v", m.Body, p, d)
			}
			continue
		}
		r.add(q, m, p, now)
	}
}

func (r *rig) add(q *mQueue, m *core.Message, p core.Published, now int64) {
	if n := len(q.msgs); n > 0 && q.msgs[n-1].seq >= p.Seq || slices.ContainsFunc(r.byID[p.ID], func(m *mMessage) bool { return m.q == q && m.seq != 0 }) {
		r.failf("%s has sequence %d and id %v, which is not new", m.Body, p.Seq, p.ID)
	}
	mm := &mMessage{
		id: p.ID, seq: p.Seq, body: string(m.Body), group: m.Group, dedupID: m.DedupID, priority: m.Priority,
		sentAt: now, status: mReady, size: int64(len(m.Body)),
	}
	for _, a := range m.Attributes {
		mm.size += int64(len(a.Name) + len(a.Value))
	}
	if m.TTL > 0 {
		mm.expires = now + m.TTL.Milliseconds()
	}
	delay := m.Delay
	if delay < 0 {
		delay = q.cfg().Delay
	}
	switch {
	case q.fifo():
		if m.DedupID == "" {
			sum := sha256.Sum256(m.Body)
			mm.dedupID = hex.EncodeToString(sum[:])
		}
		q.dedup[dedupKeyOf(q, m)] = mDedup{id: p.ID, seq: p.Seq, sentAt: now}
	case delay > 0:
		mm.due = now + delay.Milliseconds()
	}
	q.insert(mm)
	r.note("  %s: %v", q.name, mm)
	r.byID[p.ID] = append(r.byID[p.ID], mm)
}

func (r *rig) options(t *rapid.T) (core.ReceiveOptions, *mOwner) {
	o := core.ReceiveOptions{Max: rapid.IntRange(1, 12).Draw(t, "max"), Visibility: -1}
	if rapid.Bool().Draw(t, "own visibility") {
		o.Visibility = halves(t, "visibility", 10)
		if rapid.IntRange(0, 5).Draw(t, "open") == 0 {
			o.Visibility = 0
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "by session") == 0 && len(r.owners) > 0 {
		owner := rapid.SampledFrom(r.owners).Draw(t, "owner")
		o.Owner = owner.o
		r.selecting(t, &o)
		return o, owner
	}
	r.selecting(t, &o)
	return o, nil
}

func (r *rig) opReceive(t *rapid.T) {
	q := r.queue(t)
	o, owner := r.options(t)
	got, err := r.n.client.Receive(r.t.Context(), q.name, o, nil)
	if !q.exists {
		r.wantErr("receive from "+q.name, err, core.ErrNoQueue)
		return
	}
	r.wantErr("receive from "+q.name, err, nil)
	r.note("  %s max=%d owner=%v selector=%q gave %s", q.name, o.Max, owner, o.Selector.Text(), bodies(got))
	r.received(q, &o, owner, got, r.now(), true, true)
}

func bodies(got []core.Delivery) []string {
	var out []string
	for i := range got {
		out = append(out, string(got[i].Body))
	}
	return out
}

// opWait parks a receive.
func (r *rig) opWait(t *rapid.T) {
	q := r.queue(t)
	if len(r.waiters) >= 6 || !q.exists {
		return
	}
	o, owner := r.options(t)
	if o.Visibility == 0 {
		o.Visibility = -1 // others that wake at the same moment would be given the same
	}
	o.Wait = rapid.SampledFrom([]time.Duration{250 * time.Millisecond, 3 * time.Second, 20 * time.Second}).Draw(t, "wait")
	ctx, cancel := context.WithCancel(context.Background())
	w := &mWaiter{q: q, o: o, owner: owner, started: r.now(), cancel: cancel, ended: make(chan struct{})}
	r.note("  %s max=%d owner=%v selector=%q wait=%v", q.name, o.Max, owner, o.Selector.Text(), o.Wait)
	client, engine := r.n.client, r.n.engine
	go func() {
		defer close(w.ended)
		w.got, w.err = client.Receive(ctx, q.name, o, nil)
		w.at = engine.Now()
	}()
	r.waiters = append(r.waiters, w)
}

func (r *rig) opCancel(t *rapid.T) {
	if len(r.waiters) == 0 {
		return
	}
	w := rapid.SampledFrom(r.waiters).Draw(t, "waiter")
	w.stopped = true
	w.cancel()
}

// endWaits looks at the parked receives: those that have ended, and those that
// ought to have.
func (r *rig) endWaits() {
	var ended []*mWaiter
	r.waiters = slices.DeleteFunc(r.waiters, func(w *mWaiter) bool {
		select {
		case <-w.ended:
			ended = append(ended, w)
			return true
		default:
			return false
		}
	})
	slices.SortStableFunc(ended, func(a, b *mWaiter) int { return int(a.at - b.at) })
	for _, w := range ended {
		w.cancel()
		alone := !slices.ContainsFunc(ended, func(v *mWaiter) bool { return v != w && v.q == w.q && v.at == w.at })
		r.endWait(w, alone)
	}
	now := r.now()
	for _, w := range r.waiters {
		sel := selectorOf(&w.o)
		if due := r.deliverable(w.q, sel, now); len(due) > 0 {
			r.failf("a receive of %d with selector %q waits on %s though %s is there: %v", w.o.Max, w.o.Selector.Text(), w.q.name, due[0].body, w.q)
		}
	}
}

func (r *rig) endWait(w *mWaiter, alone bool) {
	r.note("  wait on %s ended at %v with %s %v", w.q.name, time.UnixMilli(w.at).Sub(r.start), bodies(w.got), w.err)
	switch {
	case w.err == nil && (len(w.got) > 0 || r.ended):
	case w.err == nil:
		if w.at < w.started+w.o.Wait.Milliseconds() {
			r.failf("a wait of %v on %s ended empty after %d ms", w.o.Wait, w.q.name, w.at-w.started)
		}
	case errors.Is(w.err, context.Canceled) && (w.stopped || w.owner != nil && !slices.Contains(r.owners, w.owner)):
		return
	case w.err == core.ErrNoQueue && !w.q.exists:
		return
	default:
		r.failf("a wait on %s ended with %v", w.q.name, w.err)
	}
	if w.q.exists {
		r.received(w.q, &w.o, w.owner, w.got, w.at, alone && r.passing && len(w.got) > 0, false)
	}
}

// opAdvance lets some seconds pass, in steps that are shorter than any lease.
func (r *rig) opAdvance(t *rapid.T) {
	r.passing = true
	defer func() { r.passing = false }()
	for range rapid.IntRange(1, 8).Draw(t, "seconds") * 4 {
		time.Sleep(250 * time.Millisecond)
		r.settleDown()
	}
}

// opAdvanceFar lets minutes pass: sweeps come, deduplication ends, queues leave
// memory. Nobody waits then.
func (r *rig) opAdvanceFar(t *rapid.T) {
	if len(r.waiters) > 0 || rapid.IntRange(0, 3).Draw(t, "really") != 0 {
		return
	}
	minutes := rapid.IntRange(1, 6).Draw(t, "minutes")
	r.look()
	time.Sleep(time.Duration(minutes) * time.Minute)
	r.settleDown()
	r.look()
	for _, q := range r.queues {
		q.cold = true
	}
}
