package core_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
)

// printer gives messages and queues the names that the script uses, and prints
// Changes.
type printer struct {
	mu     sync.Mutex
	byID   map[core.MessageID]string
	bySeq  map[core.Seq]string
	queues map[core.QID]string
	times  map[string]int // incarnations by name
	lines  []string
}

func newPrinter() *printer {
	return &printer{
		byID: make(map[core.MessageID]string), bySeq: make(map[core.Seq]string),
		queues: make(map[core.QID]string), times: make(map[string]int),
	}
}

// take returns the edits since the last take, those of a Change in a paragraph.
func (p *printer) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.lines
	p.lines = nil
	return out
}

func (p *printer) learn(pub core.Published, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byID[pub.ID] = body
}

func (p *printer) sent(pub core.Published) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if body, ok := p.byID[pub.ID]; ok && p.bySeq[pub.Seq] == body {
		return body
	}
	return fmt.Sprintf("what was never sent: %v", pub)
}

// change notes what a Change does. It is called before the commit, by one
// goroutine at a time.
func (p *printer) change(c *core.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range c.Edits {
		if e := &c.Edits[i]; e.Kind == core.EditPutName {
			p.times[string(e.Key)]++
			p.queues[e.QID] = string(e.Key)
			if n := p.times[string(e.Key)]; n > 1 {
				p.queues[e.QID] = fmt.Sprintf("%s'%d", e.Key, n)
			}
		}
	}
	for i := range c.Edits {
		p.lines = append(p.lines, p.edit(&c.Edits[i], c.Time))
	}
	p.lines = append(p.lines, "--")
}

func (p *printer) queue(q core.QID) string {
	if name, ok := p.queues[q]; ok {
		return name
	}
	return "?"
}

func (p *printer) message(s core.Seq) string {
	if name, ok := p.bySeq[s]; ok {
		return name
	}
	return fmt.Sprintf("seq %d.%d", s.Term(), s-core.MakeSeq(s.Term()))
}

func (p *printer) edit(e *core.Edit, now int64) string {
	q := p.queue(e.QID)
	switch e.Kind {
	case core.EditPutMessage:
		if s, err := core.DecodeRecord(e.Value); err == nil {
			p.bySeq[e.Seq] = string(s.Body)
			p.byID[s.ID] = string(s.Body)
		}
		return fmt.Sprintf("put %s %s%s", q, p.message(e.Seq), lane(e.Place, now))
	case core.EditDropMessage:
		return fmt.Sprintf("drop %s %s", q, p.message(e.Seq))
	case core.EditPutState:
		return fmt.Sprintf("put-state %s %s %s", q, p.message(e.Seq), state(e.State, now))
	case core.EditDropState:
		how := "delete"
		if e.Single {
			how = "singledel"
		}
		return fmt.Sprintf("drop-state %s %s by %s", q, p.message(e.Seq), how)
	case core.EditPutQueueState:
		st, err := core.DecodeQueueState(e.Value)
		if err != nil {
			return err.Error()
		}
		return "state " + q + p.queueState(st)
	case core.EditPutLane:
		cursor, count, _ := core.DecodeLaneState(e.Value)
		return fmt.Sprintf("put-lane %s%s count=%d cursor=%s", q, lane(e.Place, now), count, p.cursor(cursor))
	}
	names := map[core.EditKind]string{
		core.EditPutQueue: "put-queue", core.EditDropQueue: "drop-queue", core.EditPutName: "put-name", core.EditDropName: "drop-name",
		core.EditDropLane: "drop-lane", core.EditPutDedup: "put-dedup", core.EditDropDedup: "drop-dedup",
		core.EditPutReap: "put-reap", core.EditDropReap: "drop-reap", core.EditReapQueue: "reap",
		core.EditPutRecord: "put-record", core.EditDropRecord: "drop-record",
	}
	if e.Kind == core.EditPutRecord {
		if t, err := core.DecodeMoveTask(e.Value); err == nil {
			return "put-move " + t.Source + " " + moveTask(&t)
		}
	}
	switch e.Kind {
	case core.EditPutName, core.EditDropName, core.EditPutRecord, core.EditDropRecord:
		return names[e.Kind] + " " + string(e.Key)
	case core.EditDropLane:
		return fmt.Sprintf("drop-lane %s%s", q, lane(e.Place, now))
	case core.EditDropDedup:
		return "drop-dedup"
	}
	return names[e.Kind] + " " + q
}

func lane(p core.Place, now int64) string {
	switch p.Kind {
	case core.PlacePriority:
		return fmt.Sprintf(" priority=%d", core.PriorityMax-p.N)
	case core.PlaceGroup:
		return " grouped"
	case core.PlaceDelayed:
		return fmt.Sprintf(" due=%v", after(int64(p.N), now))
	}
	return ""
}

func after(at, now int64) time.Duration { return time.Duration(at-now) * time.Millisecond }

func state(st core.MessageState, now int64) string {
	out := ""
	if st.Flags&core.StateSession != 0 {
		out = "session"
	} else {
		out = fmt.Sprintf("visible=%v", after(st.VisibleAt, now))
	}
	out += fmt.Sprintf(" receives=%d", st.Receives)
	if st.Failures != st.Receives {
		out += fmt.Sprintf(" failures=%d", st.Failures)
	}
	return out
}

// cursor tells which is the newest known message that a cursor has passed.
func (p *printer) cursor(c core.Seq) string {
	newest, name := core.Seq(0), "start"
	for s, n := range p.bySeq {
		if s < c && s >= newest {
			newest, name = s, "past "+n
		}
	}
	return strings.ReplaceAll(name, " ", "-")
}

func (p *printer) queueState(st core.QueueState) string {
	out := fmt.Sprintf(" messages=%d", st.Messages)
	for _, f := range []struct {
		name string
		n    int64
	}{{"bytes", st.Bytes}, {"received", st.Received}, {"delayed", st.Delayed}, {"ordinal", int64(st.Ordinal)}} {
		if f.n != 0 {
			out += fmt.Sprintf(" %s=%d", f.name, f.n)
		}
	}
	return out + " cursor=" + p.cursor(st.Cursor)
}

// deliveries prints what a receive gave and keeps the receipts.
func (s *script) deliveries(got []core.Delivery) string {
	var out []string
	for i := range got {
		d := &got[i]
		body := string(d.Body)
		s.mu.Lock()
		s.given[body] = append(s.given[body], given{receipt: d.Receipt, handle: string(s.n.client.AppendHandle(nil, d.Receipt))})
		s.mu.Unlock()
		line := body + counts(d.State)
		if d.Redelivered {
			line += " redelivered"
		}
		out = append(out, line+dead(&d.Stored))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// counts prints the counts of a message unless they are those of a first receive.
func counts(st core.MessageState) string {
	out := ""
	if st.Receives > 1 {
		out += fmt.Sprintf(" receives=%d", st.Receives)
	}
	if st.Failures != st.Receives {
		out += fmt.Sprintf(" failures=%d", st.Failures)
	}
	return out
}

// dead prints what dead-lettering left on a message.
func dead(m *core.Stored) string {
	if m.DeadLetter.Reason == core.DeadLetterNone {
		return ""
	}
	reason := map[core.DeadLetterReason]string{
		core.DeadLetterMaxReceives: "max-receives", core.DeadLetterExpired: "expired", core.DeadLetterRejected: "rejected",
	}[m.DeadLetter.Reason]
	return fmt.Sprintf(" prior=%d dead=%s from=%s", m.PriorReceives, reason, m.DeadLetter.Source)
}

func (s *script) peeked(got []core.Peeked) string {
	var out []string
	for i := range got {
		m := &got[i]
		line := string(m.Body)
		if m.InFlight {
			line += " in-flight"
		}
		if m.State != (core.MessageState{}) {
			line += counts(m.State)
		}
		if m.Place.Kind == core.PlaceDelayed {
			line += lane(m.Place, s.n.engine.Now())
		}
		out = append(out, line+dead(&m.Stored))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// stored prints what storage has of a queue, in the order of its keys.
func stored(c *call) string {
	db, p := c.s.n.db, c.s.print
	qid, err := db.QueueID(c.arg(0))
	if err != nil || qid == 0 {
		return fmt.Sprint("no queue ", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	now := c.s.n.engine.Now()
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if b, err := db.QueueState(qid); err == nil && b != nil {
		st, err := core.DecodeQueueState(b)
		add("state%s%s", p.queueState(st), fault(err))
	}
	if err := walk(db, qid, func(r core.Ref, _ []byte) {
		add("body %s%s", p.message(r.Seq), lane(r.Place, now))
	}); err != nil {
		return fault(err)
	}
	if err := db.States(core.Ref{QID: qid}, func(r core.Ref, st core.MessageState) bool {
		add("state %s %s", p.message(r.Seq), state(st, now))
		return true
	}); err != nil {
		return fault(err)
	}
	return strings.Join(out, "\n")
}

// walk visits all message records of an incarnation.
func walk(s core.Store, q core.QID, visit func(r core.Ref, rec []byte)) error {
	places := []core.Place{{}}
	if err := s.Lanes(q, core.Place{}, func(p core.Place, _ []byte) bool {
		places = append(places, p)
		return true
	}); err != nil {
		return err
	}
	for _, p := range places {
		err := s.Messages(q, p, 0, core.SeqMax, func(s core.Seq, rec []byte) bool {
			visit(core.Ref{QID: q, Place: p, Seq: s}, rec)
			return true
		})
		if err != nil {
			return err
		}
	}
	return s.Delayed(q, 0, 0, 1<<48-1, func(due uint64, s core.Seq, rec []byte) bool {
		visit(core.Ref{QID: q, Place: core.Place{Kind: core.PlaceDelayed, N: due}, Seq: s}, rec)
		return true
	})
}
