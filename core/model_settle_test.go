package core_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
)

// receipt draws a receipt: of a message that is there, or of one that is gone.
func (r *rig) receipt(t *rapid.T) (mReceipt, bool) {
	var all []mReceipt
	for _, q := range r.queues {
		for _, m := range q.msgs {
			for _, receipt := range m.receipts[max(0, len(m.receipts)-3):] {
				all = append(all, mReceipt{r: receipt, q: q, m: m})
			}
		}
	}
	if len(r.gone) > 0 && (len(all) == 0 || rapid.IntRange(0, 9).Draw(t, "of a message that is gone") == 0) {
		return rapid.SampledFrom(r.gone).Draw(t, "old receipt"), true
	}
	if len(all) == 0 {
		return mReceipt{}, false
	}
	return rapid.SampledFrom(all).Draw(t, "receipt"), true
}

// settlement draws what to do with it.
func (r *rig) drawSettlement(t *rapid.T, m *mMessage, most core.SettleAction) core.Settlement {
	s := core.Settlement{Action: rapid.SampledFrom([]core.SettleAction{
		core.SettleDelete, core.SettleDelete, core.SettleDelete, core.SettleExtend, core.SettleRelease, core.SettleReject, core.SettleDeadLetter,
	}).Draw(t, "action")}
	if s.Action > most {
		s.Action = core.SettleDelete
	}
	if s.Action == core.SettleExtend && m != nil && m.owner != nil {
		s.Action = core.SettleRelease // session leases have no deadline
	}
	if (s.Action == core.SettleExtend || s.Action == core.SettleRelease) && rapid.Bool().Draw(t, "later") {
		s.Delay = halves(t, "delay", 6)
	}
	return s
}

// opSettle settles up to three messages of one queue in one call.
func (r *rig) opSettle(t *rapid.T) {
	r.look() // what has expired is there or not
	first, ok := r.receipt(t)
	if !ok {
		return
	}
	q := first.q
	receipts := []mReceipt{first}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		if more, _ := r.receipt(t); more.q == q {
			receipts = append(receipts, more)
		}
	}
	var batch []core.Settlement
	for _, x := range receipts {
		s := r.drawSettlement(t, x.m, core.SettleDeadLetter)
		if rapid.Bool().Draw(t, "as text") {
			s.Handle = string(r.n.client.AppendHandle(nil, x.r))
		} else {
			s.Receipt = x.r
		}
		batch = append(batch, s)
	}
	if slices.ContainsFunc(receipts, func(x mReceipt) bool { return x.m != nil && x.m.unsure(r.now()) }) {
		return
	}
	errs, err := r.n.client.Settle(r.t.Context(), q.name, batch, nil)
	if !q.exists {
		r.wantErr("settle on "+q.name, err, core.ErrNoQueue)
		return
	}
	r.wantErr("settle on "+q.name, err, nil)
	now := r.now()
	for i, x := range receipts {
		s := &batch[i]
		r.note("  %s action %d by %v on %v: %v", q.name, s.Action, s.Delay, x.m, errs[i])
		if x.m != nil && (x.m.q != q || !slices.Contains(q.msgs, x.m) || x.m.seq == 0) {
			x.m = nil // gone by what came before in the batch
		}
		want := r.settleResult(x, s, now)
		if errs[i] != want {
			r.failf("settle %d of %s by %d of %d: error %v, want %v; message %+v", s.Action, q.name, i, len(batch), errs[i], want, x.m)
		}
		if want == nil && x.m != nil {
			r.settled(x, s, now)
		}
	}
}

// newest tells whether no later receive has taken the message from the receipt's
// holder. A receipt with a higher count is of a receive whose mark was lost.
func (m *mMessage) newest(receipt core.Receipt) bool {
	return receipt.Receives > m.state.Receives || receipt.Receives == m.state.Receives && receipt.Nonce == m.state.Nonce
}

// settleResult tells what a settlement has to be answered with.
func (r *rig) settleResult(x mReceipt, s *core.Settlement, now int64) error {
	if x.r.Queue != x.q.info.ID {
		return core.ErrBadReceipt
	}
	m := x.m
	if m == nil {
		if s.Action == core.SettleDelete {
			return nil
		}
		return core.ErrNoMessage
	}
	held := m.status == mLeased && !m.mayBeReady(now)
	newest := m.newest(x.r)
	switch {
	case m.q.fifo() && (!held || !newest):
		return core.ErrReceiptExpired
	case !newest && s.Action == core.SettleDelete:
		return nil
	case !newest:
		return core.ErrReceiptExpired
	case s.Action > core.SettleExtend && !held:
		return core.ErrNotInFlight
	}
	return nil
}

// settled takes a settlement over.
func (r *rig) settled(x mReceipt, s *core.Settlement, now int64) {
	m := x.m
	if !m.newest(x.r) {
		return // an older receipt: nothing happens
	}
	if !m.received {
		// Its mark was lost: the receipt tells of it.
		m.received = true
		m.state = core.MessageState{FirstReceived: now, Receives: x.r.Receives, Failures: x.r.Receives, Nonce: x.r.Nonce}
	}
	switch s.Action {
	case core.SettleDelete:
		r.forgetReceipts(m)
		r.remove(m)
		return
	case core.SettleReject:
		r.rejected(m, now)
		return
	case core.SettleDeadLetter:
		if d := r.dlqOf(m.q); d != nil {
			r.deadLetter(m, d, core.DeadLetterRejected, now)
		} else if m.q.cfg().Redelivery.DeadLetterQueue == "" {
			r.forgetReceipts(m)
			r.remove(m)
		} else {
			m.back(now)
		}
		return
	}
	until := now + s.Delay.Milliseconds()
	m.back(until)
	if until > now {
		m.status = mHidden
		if s.Action == core.SettleExtend {
			m.status = mLeased
		}
	}
}

// back hands m back, for a time to come or at once.
func (m *mMessage) back(until int64) {
	m.owner, m.status, m.until = nil, mReady, until
	m.state.VisibleAt = until
	m.state.Flags = 0
	m.mark = m.state
}

// rejected follows the queue's policy.
func (r *rig) rejected(m *mMessage, now int64) {
	p := &m.q.cfg().Redelivery
	failures := m.state.Failures
	if m.owner != nil {
		failures++
	}
	d := r.dlqOf(m.q)
	if p.MaxReceives > 0 && int(failures) >= p.MaxReceives {
		switch {
		case d != nil:
			r.deadLetter(m, d, core.DeadLetterMaxReceives, now)
		case p.DeadLetterQueue == "":
			r.forgetReceipts(m)
			r.remove(m)
		default:
			m.state.Failures = failures
			m.back(now)
		}
		return
	}
	m.state.Failures = failures
	wait := p.InitialDelay
	for range int(failures) - 1 {
		if p.Multiplier > 1 {
			wait = min(time.Duration(float64(wait)*p.Multiplier), core.VisibilityMax)
		}
	}
	m.back(now + wait.Milliseconds())
	if wait > 0 {
		m.status = mHidden
	}
}

// opTx commits sends and settlements of several queues, or finds that it cannot.
func (r *rig) opTx(t *rapid.T) {
	r.look()
	tx := r.n.client.Begin()
	type sends struct {
		q     *mQueue
		msgs  []core.Message
		fresh []bool
	}
	var out []sends
	var want error
	for _, q := range r.queues {
		if !q.exists || rapid.Bool().Draw(t, "send to "+q.name) {
			continue
		}
		x := sends{q: q, msgs: r.messages(t, q)}
		for i := range x.msgs {
			if err := tx.Publish(q.name, x.msgs[i]); err != nil {
				r.failf("tx publish: %v", err)
			}
		}
		var err error
		if x.fresh, err = r.sendResult(q, x.msgs); err != nil {
			want = err
		}
		out = append(out, x)
	}
	var done []mReceipt
	var settlements []core.Settlement
	for range rapid.IntRange(0, 3).Draw(t, "settlements") {
		x, ok := r.receipt(t)
		if !ok || !x.q.exists || x.m != nil && (x.m.unsure(r.now()) || slices.ContainsFunc(done, func(y mReceipt) bool { return y.m == x.m })) {
			continue
		}
		s := r.drawSettlement(t, x.m, core.SettleRelease)
		s.Receipt = x.r
		if err := tx.Settle(x.q.name, s); err != nil {
			r.failf("tx settle: %v", err)
		}
		if err := r.settleResult(x, &s, r.now()); err != nil {
			want = err
		}
		done, settlements = append(done, x), append(settlements, s)
	}
	pub, err := tx.Commit(r.t.Context())
	if (err == nil) != (want == nil) {
		r.failf("commit: error %v, want %v", err, want)
	}
	if err != nil {
		r.adopted(done)
		return
	}
	for _, x := range out {
		r.sent(x.q, x.msgs, x.fresh, pub[:len(x.msgs)])
		pub = pub[len(x.msgs):]
	}
	for i, x := range done {
		if x.m != nil {
			r.settled(x, &settlements[i], r.now())
		}
	}
}

// adopted allows for what a transaction that failed may leave behind: a message
// whose mark was lost gets it back by its receipt.
func (r *rig) adopted(done []mReceipt) {
	for _, x := range done {
		if x.m == nil || x.m.received {
			continue
		}
		for _, p := range r.peekAll(x.q) {
			if p.Seq == x.m.seq && p.State.Receives > 0 {
				x.m.received = true
				x.m.state = core.MessageState{FirstReceived: r.now(), Receives: x.r.Receives, Failures: x.r.Receives, Nonce: x.r.Nonce}
				x.m.mark = x.m.state
			}
		}
	}
}

// opSession starts a session or ends one, orderly or not.
func (r *rig) opSession(t *rapid.T) {
	if len(r.owners) < 2 || len(r.owners) < 4 && rapid.Bool().Draw(t, "start") {
		r.bodies++
		r.owners = append(r.owners, &mOwner{o: r.n.client.NewOwner(), name: "s" + string('0'+rune(r.bodies%10))})
		return
	}
	owner := rapid.SampledFrom(r.owners).Draw(t, "owner")
	r.endOwner(owner, rapid.Bool().Draw(t, "abnormal"))
}

func (r *rig) endOwner(owner *mOwner, abnormal bool) {
	r.look()
	if err := r.n.client.ReleaseOwner(owner.o, abnormal); err != nil {
		r.failf("release owner: %v", err)
	}
	r.note("  %s, abnormal %v", owner.name, abnormal)
	r.owners = slices.DeleteFunc(r.owners, func(o *mOwner) bool { return o == owner })
	for _, q := range r.queues {
		for _, m := range q.msgs {
			if m.owner == owner {
				if abnormal {
					m.state.Failures++
				}
				m.back(r.now())
			}
		}
	}
	r.settleDown()
}

// opRestart closes the node in order and opens it again on the same files.
func (r *rig) opRestart(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "really") != 0 {
		return
	}
	if rapid.Bool().Draw(t, "end sessions") {
		for len(r.owners) > 0 {
			r.endOwner(r.owners[0], false)
		}
	}
	r.look()
	r.ended = true
	r.n.engine.Drain()
	r.settleDown()
	if len(r.waiters) > 0 {
		r.failf("%d receives wait though the node drains", len(r.waiters))
	}
	r.note("  closed and opened again")
	r.n.close()
	r.n.gate = nil
	r.n.open()
	r.ended = false
	r.owners = nil
	r.reopened()
}

// reopened looks at what sessions held: it is ready again, with the count that
// was stored last.
func (r *rig) reopened() {
	now := r.now()
	for _, q := range r.queues {
		if !q.exists {
			continue
		}
		q.cold = true
		for _, m := range q.msgs {
			if m.status == mHidden {
				m.status = mLeased // the state record does not tell them apart
			}
		}
		for _, p := range r.peekAll(q) {
			m := q.bySeq(p.Seq)
			if m == nil || m.owner == nil {
				continue
			}
			got := p.State
			late := now-m.leasedAt > 150
			if got.Receives > m.state.Receives || got.Receives < m.mark.Receives || late && got.Receives != m.state.Receives {
				r.failf("%s was held by a session, receive %d; after a restart it shows %+v", m.body, m.state.Receives, got)
			}
			m.state, m.received = got, got.Receives > 0
			m.owner, m.status, m.until = nil, mReady, now
			m.mark = got
		}
	}
	r.look()
}

// drainAll ends the run: all that is left is received once and deleted.
func (r *rig) drainAll() {
	r.look()
	for len(r.owners) > 0 {
		r.endOwner(r.owners[0], false)
	}
	for _, w := range r.waiters {
		w.stopped = true
		w.cancel()
	}
	r.settleDown()
	r.look()
	for _, q := range r.queues {
		if q.exists {
			r.freeze(q)
		}
	}
	time.Sleep(20 * time.Second) // longer than any lease
	r.settleDown()
	r.look()
	for _, q := range r.queues {
		for q.exists {
			o := core.ReceiveOptions{Max: 10, Visibility: time.Hour}
			got, err := r.n.client.Receive(r.t.Context(), q.name, o, nil)
			r.wantErr("receive from "+q.name, err, nil)
			r.received(q, &o, nil, got, r.now(), true, true)
			if len(got) == 0 {
				break
			}
			r.deleteAll(q, got)
		}
	}
	r.settleDown()
	r.checkStats()
	r.recount()
	for _, q := range r.queues {
		if len(q.msgs) > 0 {
			r.failf("%d messages of %s are left, first %+v", len(q.msgs), q.name, q.msgs[0])
		}
	}
}

// freeze makes a queue keep and give all that it has.
func (r *rig) freeze(q *mQueue) {
	info, err := r.n.client.Configure(r.t.Context(), q.name, func(c *core.QueueConfig) error {
		c.Delay, c.Retention, c.Redelivery = 0, 0, core.Redelivery{}
		c.MaxMessages, c.MaxBytes = 0, 0
		return nil
	})
	r.wantErr("configure "+q.name, err, nil)
	q.info = info
}

func (r *rig) deleteAll(q *mQueue, got []core.Delivery) {
	var batch []core.Settlement
	for i := range got {
		batch = append(batch, core.Settlement{Receipt: got[i].Receipt})
	}
	errs, err := r.n.client.Settle(r.t.Context(), q.name, batch, nil)
	r.wantErr("settle on "+q.name, err, nil)
	for i := range got {
		r.wantErr("delete on "+q.name, errs[i], nil)
		if m := q.bySeq(got[i].Seq); m != nil {
			r.forgetReceipts(m)
			r.remove(m)
		}
	}
}
