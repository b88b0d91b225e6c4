package core_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/selector"
)

// commands are the verbs of a transcript. They are quiet when there is nothing
// but success to tell.
func commands() map[string]func(*call) string {
	return map[string]func(*call) string{
		"declare": declare, "declare-memory": declareMemory, "configure": configure, "drop": drop, "purge": purge, "queues": queues, "queue": describe, "sources": sources,
		"send": send, "send-async": sendAsync, "flood": flood, "consume": consume, "receive": receive, "peek": peek, "stats": stats, "stored": stored,
		"delete":  settler(core.SettleDelete),
		"extend":  settler(core.SettleExtend),
		"release": settler(core.SettleRelease),
		"reject":  settler(core.SettleReject),
		"dead":    settler(core.SettleDeadLetter),
		"settle":  settleMany,
		"advance": advance, "clock": clock, "wall": wall,
		"restart": restart, "crash": crash,
		"move": startMove, "moves": moves, "cancel-move": cancelMove, "bury": bury,
		"session": session, "end": endSession,
		"bind": bind, "unbind": unbind, "bindings": bindings, "pub": publishTopic, "pub-async": publishTopicAsync, "retained": retained,
		"tx": tx, "commit": commitTx, "rollback": rollback, "record": record, "records": records, "refused": refused,
		"bg": background, "cancel": cancel, "waiting": waiting, "drain": drain, "close": closeEngine,
		"hold": hold, "go": resume, "fail-commits": failCommits, "refuse-producers": refuseProducers,
		"changes": changes, "skip-changes": func(c *call) string { c.s.print.take(); return "" },
	}
}

func declare(c *call) string {
	cfg := core.DefaultQueueConfig(core.KindStandard)
	if len(c.args) > 1 {
		kinds := map[string]core.QueueKind{"fifo": core.KindFIFO, "priority": core.KindPriority}
		cfg = core.DefaultQueueConfig(kinds[c.arg(1)])
	}
	c.configure(&cfg)
	_, created, err := c.s.n.client.Declare(c.ctx, c.arg(0), cfg)
	if err == nil && !created {
		return "exists"
	}
	return fault(err)
}

// configure takes the settings of a queue out of the call.
func (c *call) configure(cfg *core.QueueConfig) {
	cfg.VisibilityTimeout = c.duration("visibility", cfg.VisibilityTimeout)
	cfg.Delay = c.duration("delay", cfg.Delay)
	cfg.Retention = c.duration("retention", cfg.Retention)
	cfg.ReceiveWait = c.duration("wait", cfg.ReceiveWait)
	cfg.MaxMessages = int64(c.number("max-messages", int(cfg.MaxMessages)))
	cfg.MaxBytes = int64(c.number("max-bytes", int(cfg.MaxBytes)))
	r := &cfg.Redelivery
	r.MaxReceives = c.number("max-receives", r.MaxReceives)
	r.InitialDelay = c.duration("initial-delay", r.InitialDelay)
	r.MaxDelay = c.duration("max-delay", r.MaxDelay)
	if v, ok := c.take("multiplier"); ok {
		r.Multiplier, _ = strconv.ParseFloat(v, 64)
	}
	if v, ok := c.take("dlq"); ok {
		r.DeadLetterQueue = v
	}
	if v, ok := c.take("overflow"); ok {
		cfg.Overflow = map[string]core.Overflow{"drop-oldest": core.OverflowDropOldest, "close": core.OverflowClose}[v]
	}
	if v, ok := c.take("marks"); ok && v == "sync" {
		cfg.Marks = core.MarksSync
	}
	if v, ok := c.take("dedup"); ok {
		cfg.ContentDedup = v == "content"
	}
	if v, ok := c.take("scope"); ok && v == "group" {
		cfg.DedupScope = core.DedupGroup
	}
	if v, ok := c.take("expired"); ok {
		cfg.ExpiredToDLQ = v == "dlq"
	}
	cfg.MaxMessageBytes = int64(c.number("max-message", int(cfg.MaxMessageBytes)))
	if v, ok := c.take("copy-to"); ok {
		cfg.Routes.CopyTo = strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
	}
	if v, ok := c.take("move-to"); ok {
		cfg.Routes.MoveTo = v
	}
	if v, ok := c.take("topic"); ok {
		cfg.Routes.PublishTopic = v
	}
}

func configure(c *call) string {
	_, err := c.s.n.client.Configure(c.ctx, c.arg(0), func(cfg *core.QueueConfig) error {
		c.configure(cfg)
		return nil
	})
	return fault(err)
}

func drop(c *call) string  { return fault(c.s.n.client.Delete(c.ctx, c.arg(0))) }
func purge(c *call) string { return fault(c.s.n.client.Purge(c.ctx, c.arg(0))) }

func queues(c *call) string {
	prefix, _ := c.take("prefix")
	after, _ := c.take("after")
	names, err := c.s.n.client.Queues(c.ctx, prefix, after, c.number("max", 100))
	return strings.Join(names, " ") + fault(err)
}

func sources(c *call) string {
	after, _ := c.take("after")
	names, err := c.s.n.client.Sources(c.ctx, c.arg(0), after, c.number("max", 100))
	return strings.Join(names, " ") + fault(err)
}

func describe(c *call) string {
	q, err := c.s.n.client.Queue(c.ctx, c.arg(0))
	if err != nil {
		return fault(err)
	}
	return fmt.Sprintf("created=%v modified=%v visibility=%v", c.s.since(q.CreatedAt), c.s.since(q.ModifiedAt), q.Config.VisibilityTimeout)
}

// messages makes what a send sends: "body" or "body@group" a message.
func (c *call) messages(bodies []string) []core.Message {
	m := core.Message{
		Delay: c.duration("delay", -1), TTL: c.duration("ttl", 0), Priority: uint8(c.number("priority", 4)),
	}
	m.Group, _ = c.take("group")
	m.DedupID, _ = c.take("dedup")
	pad := c.number("pad", 0)
	if pad > 0 {
		m.Attributes = []core.Attribute{{Name: "pad", Type: "Binary", Value: make([]byte, pad)}}
	}
	if v, ok := c.take("color"); ok {
		m.Attributes = append(m.Attributes, core.Attribute{Name: "color", Value: []byte(v)})
	}
	var out []core.Message
	for _, b := range bodies {
		one := m
		if body, group, ok := strings.Cut(b, "@"); ok {
			b, one.Group = body, group
		}
		one.Body = []byte(b)
		out = append(out, one)
	}
	return out
}

func send(c *call) string {
	pub, err := c.s.n.client.Publish(c.ctx, c.arg(0), c.messages(c.args[1:]), nil)
	if err != nil {
		return fault(err)
	}
	return c.s.published(c.args[1:], pub)
}

// flood sends numbered messages, in batches of a hundred: "flood q 5000".
func flood(c *call) string {
	n, err := strconv.Atoi(c.arg(1))
	if err != nil {
		c.misuse("%v", err)
	}
	like := c.messages([]string{""})[0]
	var batch []core.Message
	for range n {
		c.s.flooded++
		m := like
		m.Body = []byte(strconv.Itoa(c.s.flooded))
		if batch = append(batch, m); len(batch) == 100 {
			if _, err := c.s.n.client.Publish(c.ctx, c.arg(0), batch, nil); err != nil {
				return fault(err)
			}
			batch = batch[:0]
		}
	}
	_, err = c.s.n.client.Publish(c.ctx, c.arg(0), batch, nil)
	return fault(err)
}

// consume receives and deletes up to so many messages, and tells the runs of
// numbers that it saw: "consume q 5000".
func consume(c *call) string {
	most, err := strconv.Atoi(c.arg(1))
	if err != nil {
		c.misuse("%v", err)
	}
	var out []string
	from, last, seen := 0, 0, 0
	flush := func() {
		if last != 0 {
			out = append(out, fmt.Sprintf("%d-%d", from, last))
		}
	}
	for seen < most {
		got, err := c.s.n.client.Receive(c.ctx, c.arg(0), core.ReceiveOptions{Max: min(100, most-seen), Visibility: time.Hour}, nil)
		if err != nil {
			return fault(err)
		}
		if len(got) == 0 {
			break
		}
		var batch []core.Settlement
		for i := range got {
			n, _ := strconv.Atoi(string(got[i].Body))
			if last == 0 || n != last+1 {
				flush()
				from = n
			}
			last = n
			batch = append(batch, core.Settlement{Receipt: got[i].Receipt})
		}
		seen += len(got)
		if res := c.settle(batch, make([]string, len(batch))); res != "" {
			return res
		}
	}
	flush()
	if len(out) > 8 {
		return fmt.Sprintf("%d messages in %d runs", seen, len(out))
	}
	return strings.Join(out, " ")
}

// published tells which of the messages sent were duplicates.
func (s *script) published(bodies []string, pub []core.Published) string {
	var out []string
	for i, p := range pub {
		body, _, _ := strings.Cut(bodies[i], "@")
		if p.Duplicate {
			out = append(out, fmt.Sprintf("%s is a duplicate of %s", body, s.print.sent(p)))
			continue
		}
		s.print.learn(p, body)
	}
	return strings.Join(out, ", ")
}

func sendAsync(c *call) string {
	bodies := c.args[1:]
	j := &job{name: strings.Join(append([]string{"sent"}, bodies...), " "), result: make(chan string, 1), cancel: func() {}}
	err := c.s.n.client.PublishAsync(c.arg(0), c.messages(bodies), func(pub []core.Published, err error) {
		res := "ok"
		if err != nil {
			res = fault(err)
		} else if dup := c.s.published(bodies, pub); dup != "" {
			res = dup
		}
		j.result <- res
	})
	if err == nil {
		c.s.jobs = append(c.s.jobs, j)
	}
	return fault(err)
}

func receive(c *call) string {
	o := core.ReceiveOptions{
		Max: c.number("max", 1), MaxBytes: int64(c.number("max-bytes", 0)),
		Visibility: c.duration("visibility", -1), Wait: c.duration("wait", 0),
	}
	o.AttemptID, _ = c.take("attempt")
	if text, ok := c.take("selector"); ok {
		var err error
		if o.Selector, err = selector.Parse(strings.ReplaceAll(text, "~", " ")); err != nil {
			c.misuse("%v", err)
		}
	}
	if name, ok := c.take("owner"); ok {
		o.Owner = c.s.owner(name)
	}
	if c.flag("gone") {
		o.Alive = func() bool { return false }
	}
	got, err := c.s.n.client.Receive(c.ctx, c.arg(0), o, nil)
	if err != nil {
		return fault(err)
	}
	return c.s.deliveries(got)
}

func (s *script) owner(name string) *core.Owner {
	o := s.owners[name]
	if o == nil {
		panic(misuse("no session " + name))
	}
	return o
}

func peek(c *call) string {
	q := c.arg(0)
	pos := core.PeekPos{}
	if c.flag("on") {
		pos = c.s.lastPeek[q]
	}
	got, next, err := c.s.n.client.Peek(c.ctx, q, pos, c.number("max", 100))
	if err != nil {
		return fault(err)
	}
	c.s.lastPeek[q] = next
	return c.s.peeked(got)
}

func stats(c *call) string {
	st, err := c.s.n.client.Stats(c.ctx, c.arg(0))
	if err != nil {
		return fault(err)
	}
	out := fmt.Sprintf("messages=%d bytes=%d", st.Messages, st.Bytes)
	for _, f := range []struct {
		name string
		n    int64
	}{{"ready", st.Ready}, {"in-flight", st.InFlight}, {"delayed", st.Delayed}, {"waiters", int64(st.Waiters)}} {
		if f.n != 0 {
			out += fmt.Sprintf(" %s=%d", f.name, f.n)
		}
	}
	if st.OldestAt != 0 {
		out += fmt.Sprintf(" oldest=%v", c.s.since(st.OldestAt))
	}
	return out
}

// settler settles messages by the newest receipt given for each; "a#1" is the
// first receipt of a, "a!" the newest with one sign changed.
func settler(action core.SettleAction) func(*call) string {
	return func(c *call) string {
		var batch []core.Settlement
		delay := c.duration("by", 0)
		for _, name := range c.args[1:] {
			batch = append(batch, core.Settlement{Handle: c.s.handle(name), Action: action, Delay: delay})
		}
		return c.settle(batch, c.args[1:])
	}
}

// settleMany settles in one call: "settle q extend:a:5s delete:a".
func settleMany(c *call) string {
	var batch []core.Settlement
	for _, word := range c.args[1:] {
		batch = append(batch, c.s.settlement(word))
	}
	return c.settle(batch, c.args[1:])
}

// settlement reads "action:message" or "action:message:delay".
func (s *script) settlement(word string) core.Settlement {
	part := strings.Split(word, ":")
	actions := map[string]core.SettleAction{
		"delete": core.SettleDelete, "extend": core.SettleExtend, "release": core.SettleRelease,
		"reject": core.SettleReject, "dead": core.SettleDeadLetter,
	}
	action, ok := actions[part[0]]
	if !ok || len(part) < 2 {
		panic(misuse("settlement " + word))
	}
	out := core.Settlement{Handle: s.handle(part[1]), Action: action}
	if len(part) > 2 {
		d, err := time.ParseDuration(part[2])
		if err != nil {
			panic(misuse("settlement " + word))
		}
		out.Delay = d
	}
	return out
}

func (c *call) settle(batch []core.Settlement, names []string) string {
	errs, err := c.s.n.client.Settle(c.ctx, c.arg(0), batch, nil)
	if err != nil {
		return fault(err)
	}
	var out []string
	for i, err := range errs {
		switch {
		case err != nil && len(errs) > 1:
			out = append(out, names[i]+": "+err.Error())
		case err != nil:
			out = append(out, fault(err))
		}
	}
	return strings.Join(out, ", ")
}

// handle returns the receipt handle that name stands for.
func (s *script) handle(name string) string {
	if name == "garbage" {
		return name
	}
	body, forged := strings.CutSuffix(name, "!")
	body, number, old := strings.Cut(body, "#")
	s.mu.Lock()
	all := s.given[body]
	s.mu.Unlock()
	n := len(all)
	if old {
		n, _ = strconv.Atoi(number)
	}
	if n < 1 || n > len(all) {
		panic(misuse(name + " has no receipt"))
	}
	h := all[n-1].handle
	if forged {
		return h[:9] + string(h[9]^1) + h[10:]
	}
	return h
}

func advance(c *call) string {
	d, err := time.ParseDuration(c.arg(0))
	if err != nil {
		c.misuse("%v", err)
	}
	synctest.Wait()
	time.Sleep(d)
	return ""
}

// since is a time of the core's clock as seen from the scenario's start.
func (s *script) since(ms int64) time.Duration {
	return time.UnixMilli(ms).Sub(s.start.Truncate(time.Millisecond))
}

func clock(c *call) string { return c.s.since(c.s.n.engine.Now()).String() }

// wall is the machine's clock, which the core follows.
func wall(c *call) string { return time.Since(c.s.start).String() }

func restart(c *call) string {
	c.s.n.close()
	c.s.n.gate = c.s.n.gate.again()
	c.s.n.open()
	return ""
}

func crash(c *call) string {
	c.s.n.crash()
	return ""
}

func session(c *call) string {
	c.s.owners[c.arg(0)] = c.s.n.client.NewOwner()
	return ""
}

func endSession(c *call) string {
	abnormal := c.flag("abnormal")
	return fault(c.s.n.client.ReleaseOwner(c.s.owner(c.arg(0)), abnormal))
}

// tx adds to a transaction: "tx t send q a", "tx t settle q delete:a", "tx t put-record
// name value".
func tx(c *call) string {
	s := c.s
	t := s.txs[c.arg(0)]
	if t == nil {
		t = s.n.client.Begin()
		s.txs[c.arg(0)] = t
	}
	if len(c.args) == 1 {
		return ""
	}
	what, q := c.arg(1), c.arg(2)
	if what == "drop-record" {
		return fault(t.DropRecord(q))
	}
	inner := &call{ctx: c.ctx, s: s, set: make(map[string]string)}
	for _, w := range c.args[3:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			inner.set[key] = value
		} else {
			inner.args = append(inner.args, w)
		}
	}
	for _, w := range inner.args {
		var err error
		if what == "settle" {
			err = t.Settle(q, s.settlement(w))
		} else if what == "send" {
			set := map[string]string{}
			for k, v := range inner.set {
				set[k] = v
			}
			one := &call{ctx: c.ctx, s: s, set: set}
			err = t.Publish(q, one.messages([]string{w})[0])
		} else if what == "pub" || what == "retain" {
			one := &call{ctx: c.ctx, s: s, set: inner.set}
			err = t.PublishTopic(core.TopicPublish{Topic: q, Retain: what == "retain", Messages: one.messages([]string{w})})
		} else if what == "put-record" {
			err = t.PutRecord(q, []byte(w))
		}
		if err != nil {
			return fault(err)
		}
	}
	return ""
}

func commitTx(c *call) string {
	pub, err := c.s.txs[c.arg(0)].Commit(c.ctx)
	if err != nil {
		return fault(err)
	}
	out := ""
	for _, p := range pub {
		if p.Duplicate {
			out += " duplicate of " + c.s.print.sent(p)
		}
	}
	for _, r := range c.s.txs[c.arg(0)].Topics() {
		out += " " + matched(r)
	}
	return strings.TrimSpace(out)
}

func rollback(c *call) string {
	c.s.txs[c.arg(0)].Rollback()
	delete(c.s.txs, c.arg(0))
	return ""
}

// background runs the rest of the line beside the script: "bg w receive q wait=20s".
func background(c *call) string {
	c.s.spawn(c.arg(0), strings.Join(c.args[1:], " "))
	return ""
}

func cancel(c *call) string {
	for _, j := range c.s.jobs {
		if j.name == c.arg(0) {
			j.cancel()
			return ""
		}
	}
	return "no such job"
}

// waiting names the commands that run beside the script.
func waiting(c *call) string {
	var names []string
	for _, j := range c.s.jobs {
		names = append(names, j.name)
	}
	return strings.Join(names, " ")
}

func drain(c *call) string {
	c.s.n.engine.Drain()
	return ""
}

func closeEngine(c *call) string { return fault(c.s.n.engine.Close()) }

// hold keeps Changes from the committer until "go": nothing becomes durable.
func hold(c *call) string {
	c.s.n.gate.hold()
	return ""
}

// resume lets all Changes go, or as many as it is told: "go 1".
func resume(c *call) string {
	if len(c.args) == 0 {
		c.s.n.gate.release()
		return ""
	}
	n, err := strconv.Atoi(c.arg(0))
	if err != nil {
		c.misuse("%v", err)
	}
	c.s.n.gate.let(n)
	return ""
}

func failCommits(c *call) string {
	c.s.n.gate.fail()
	return ""
}

func refuseProducers(c *call) string {
	if c.flag("no") {
		c.s.n.engine.HoldProducers(nil)
	} else {
		c.s.n.engine.HoldProducers(core.ErrDiskFull)
	}
	return ""
}

func changes(c *call) string { return strings.Join(c.s.print.take(), "\n") }
