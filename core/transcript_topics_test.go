package core_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
)

// bind is "bind filter queue": with qos= and no-local= its options.
func bind(c *call) string {
	b := core.Binding{Filter: c.arg(0), Queue: c.arg(1), Origin: core.OriginAdmin}
	b.Options.QoS = uint8(c.number("qos", 0))
	b.Options.NoLocal, _ = c.take("no-local")
	b.Options.Accept = core.Accept(c.number("accept", 0))
	b.Options.Selector, _ = c.take("selector")
	if data, ok := c.take("data"); ok {
		b.Options.Data = []byte(data)
	}
	return fault(c.s.n.client.Bind(c.ctx, b))
}

func unbind(c *call) string { return fault(c.s.n.client.Unbind(c.ctx, c.arg(0), c.arg(1))) }

// bindings is "bindings [queue]", with a line for each; max= reads them in pages.
func bindings(c *call) string {
	queue, after := "", ""
	if len(c.args) > 0 {
		queue = c.arg(0)
	}
	most := c.number("max", 100)
	var out []string
	for {
		page, err := c.s.n.client.Bindings(c.ctx, queue, after, most)
		if err != nil {
			return fault(err)
		}
		for i := range page {
			b := &page[i]
			line := b.Filter + " " + b.Queue
			if b.Options.QoS > 0 {
				line += fmt.Sprintf(" qos=%d", b.Options.QoS)
			}
			if b.Options.Accept > 0 {
				line += fmt.Sprintf(" accept=%d", b.Options.Accept)
			}
			if b.Options.Selector != "" {
				line += " selector=" + b.Options.Selector
			}
			if b.Options.NoLocal != "" {
				line += " no-local=" + b.Options.NoLocal
			}
			if len(b.Options.Data) > 0 {
				line += fmt.Sprintf(" data=%s", b.Options.Data)
			}
			out = append(out, line)
			if after = b.Filter; queue == "" {
				after = b.After()
			}
		}
		if len(page) < most {
			return strings.Join(out, "\n")
		}
	}
}

func matched(r core.TopicResult) string {
	if r.Full > 0 {
		return fmt.Sprintf("%d, %d full", r.Matched, r.Full)
	}
	if r.TooLarge > 0 {
		return fmt.Sprintf("%d, %d too large", r.Matched, r.TooLarge)
	}
	return fmt.Sprint(r.Matched)
}

// publish is "pub topic body...": it tells to how many queues each went.
func (c *call) publish() core.TopicPublish {
	p := core.TopicPublish{Topic: c.arg(0)}
	p.From, _ = c.take("from")
	p.Retain = c.flag("retain")
	p.Unreliable = c.flag("unreliable")
	bodies := slices.Clone(c.args[1:])
	for i, b := range bodies {
		if b == "(nothing)" {
			bodies[i] = ""
		}
	}
	p.Messages = c.messages(bodies)
	return p
}

func publishTopic(c *call) string {
	out, err := c.s.n.client.PublishTopic(c.ctx, c.publish(), nil)
	return matches(out, err)
}

func matches(out []core.TopicResult, err error) string {
	if err != nil {
		return fault(err)
	}
	words := make([]string, len(out))
	for i, r := range out {
		words[i] = matched(r)
	}
	return strings.Join(words, " ")
}

// retained is "retained filter": what is kept for it; max= ends it after so many.
func retained(c *call) string {
	var out []string
	most := c.number("max", 1000)
	err := c.s.n.client.Retained(c.ctx, c.arg(0), func(topic string, m *core.Stored) bool {
		if topic != string(m.Topic) {
			out = append(out, "another's: "+string(m.Topic))
		}
		out = append(out, fmt.Sprintf("%s %s", topic, m.Body))
		return len(out) < most
	})
	if err != nil {
		out = append(out, fault(err))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}

// publishTopicAsync reports when it is answered.
func publishTopicAsync(c *call) string {
	j := &job{name: "pub-async " + c.arg(0), result: make(chan string, 1), cancel: func() {}}
	c.s.jobs = append(c.s.jobs, j)
	err := c.s.n.client.PublishTopicAsync(c.publish(), func(out []core.TopicResult, err error) { j.result <- matches(out, err) })
	if err != nil {
		j.result <- fault(err)
	}
	return ""
}

// closed reports, from any goroutine, that a memory queue has ended.
func (s *script) closed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = append(s.news, name)
}

// declareMemory is "declare-memory q session", with the settings of declare. What
// ends by an overflow is told as a job of the queue's name.
func declareMemory(c *call) string {
	cfg := core.QueueConfig{Kind: core.KindMemory, VisibilityTimeout: 30 * time.Second}
	c.configure(&cfg)
	_, err := c.s.n.client.DeclareMemory(c.arg(0), cfg, c.s.owner(c.arg(1)), func() { c.s.closed(c.arg(0)) })
	return fault(err)
}

// refused tells which copies did not come into their queues.
func refused(c *call) string {
	n := c.s.n.engine.Refused()
	return fmt.Sprintf("full=%d too-large=%d no-queue=%d", n.Full, n.TooLarge, n.NoQueue)
}

// record is "record name".
func record(c *call) string {
	v, err := c.s.n.client.Record(c.ctx, c.arg(0))
	switch {
	case err != nil:
		return fault(err)
	case v == nil:
		return "nothing"
	}
	return string(v)
}

// records is "records prefix": after= goes on behind a name, max= ends it after so
// many.
func records(c *call) string {
	after, _ := c.take("after")
	most := c.number("max", 100)
	var out []string
	err := c.s.n.client.Records(c.ctx, c.arg(0), after, func(name string, value []byte) bool {
		out = append(out, fmt.Sprintf("%s=%s", name, value))
		return len(out) < most
	})
	if err != nil {
		out = append(out, fault(err))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}
