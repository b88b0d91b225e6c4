package sqs

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/leasemq/broker/core"
)

const textQueueName = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"

// contextOfWork is the context of what is answered once it is durable: neither a
// peer that hangs up nor a drain may leave it without its answer. The core ends
// it by itself, with the commit or with the node.
func contextOfWork() context.Context { return context.Background() }

// queue returns the queue that the request names.
func (c *call) queue() (core.Queue, error) {
	name, err := c.queueName()
	if err != nil {
		return core.Queue{}, err
	}
	return c.queueNamed(name)
}

func (c *call) queueNamed(name string) (core.Queue, error) {
	q, err := c.client.Queue(contextOfWork(), name)
	if errors.Is(err, core.ErrNoQueue) && c.server.options.AutoCreate && validQueueName(name) {
		return c.autoCreate(name)
	}
	return q, err
}

// autoCreate makes a queue that was used before anyone created it. Actions that
// settle messages, delete the queue, peek, or name queues by ARN do not come
// here: what they speak of cannot be in a queue that is new.
func (c *call) autoCreate(name string) (core.Queue, error) {
	var cfg core.QueueConfig
	if c.server.options.NewQueue != nil {
		cfg = c.server.options.NewQueue(name)
	} else {
		cfg = DefaultNewQueue(name)
	}
	q, _, err := c.client.Declare(contextOfWork(), name, cfg)
	return q, err
}

// DefaultNewQueue is what AutoCreate creates if nothing else is asked for.
func DefaultNewQueue(name string) core.QueueConfig {
	kind := core.KindStandard
	if strings.HasSuffix(name, fifoSuffix) {
		kind = core.KindFIFO
	}
	cfg := core.DefaultQueueConfig(kind)
	// A producer that expects the queue to be there cannot be asked what it
	// wants; this way ids are not required of it.
	cfg.ContentDedup = kind == core.KindFIFO
	return cfg
}

func createQueue(c *call) error {
	name := string(c.params.queueName)
	if name == "" {
		return missing("QueueName")
	}
	cfg, err := c.newConfig(name)
	if err != nil {
		return err
	}
	q, err := c.client.Queue(contextOfWork(), name)
	switch {
	case errors.Is(err, core.ErrNoQueue):
		if !c.server.options.RelaxedLimits && c.server.deleted.within(name, c.server.now()) {
			return fail(faultQueueDeletedRecently, "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
		}
		var created bool
		if q, created, err = c.client.Declare(contextOfWork(), name, cfg); err == nil && !created {
			err = c.compareConfig(&q, cfg) // someone else was first
		}
	case err == nil:
		err = c.compareConfig(&q, cfg)
	}
	if err != nil {
		return err
	}
	return c.answerQueueURL("CreateQueue", name)
}

// newConfig returns the configuration that CreateQueue asks for.
func (c *call) newConfig(name string) (core.QueueConfig, error) {
	kind, err := c.wantedKind(name)
	if err != nil {
		return core.QueueConfig{}, err
	}
	cfg := core.DefaultQueueConfig(kind)
	if err := c.applyAttributes(&cfg, name, true); err != nil {
		return cfg, err
	}
	return cfg, c.addTags(&cfg, name)
}

// wantedKind finds out whether a FIFO queue is asked for, and checks the name by
// it.
func (c *call) wantedKind(name string) (core.QueueKind, error) {
	isFIFO := false
	for _, a := range c.params.attributes {
		if a.name.view() != attrFIFOQueue {
			continue
		}
		switch a.value.view() {
		case "true":
			isFIFO = true
		case "false":
			isFIFO = false
		default:
			return 0, invalidAttribute(attrFIFOQueue)
		}
	}
	switch {
	case isFIFO && (!validQueueName(name) || !strings.HasSuffix(name, fifoSuffix)):
		return 0, fail(faultInvalidParameter, "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length")
	case isFIFO:
		return core.KindFIFO, nil
	case !validQueueName(name) || strings.HasSuffix(name, fifoSuffix):
		return 0, fail(faultInvalidParameter, textQueueName)
	}
	return core.KindStandard, nil
}

// compareConfig refuses to create a queue that exists with other values of the
// attributes that were given. Tags are not compared. A queue that was not made
// by SQS may be of the other kind than its name says.
func (c *call) compareConfig(present *core.Queue, wanted core.QueueConfig) error {
	const different = "A queue already exists with the same name and a different value for attribute %s"
	if (present.Config.Kind == core.KindFIFO) != (wanted.Kind == core.KindFIFO) {
		return fail(faultQueueExists, different, attrFIFOQueue)
	}
	w := core.Queue{Name: present.Name, Config: wanted}
	for _, a := range c.params.attributes {
		name := a.name.view()
		asked, _ := c.server.attribute(&w, nil, name)
		if is, _ := c.server.attribute(present, nil, name); is != asked && !sameDocument(is, asked) {
			return fail(faultQueueExists, different, name)
		}
	}
	return nil
}

// sameDocument tells whether two JSON objects, such as policies, say the same.
func sameDocument(a, b string) bool {
	v, w := jsontext.Value(a), jsontext.Value(b)
	return isJSONObject(a) && isJSONObject(b) && v.Canonicalize() == nil && w.Canonicalize() == nil && string(v) == string(w)
}

func (c *call) answerQueueURL(action, name string) error {
	c.answer.open(action)
	c.answer.field("QueueUrl", bytesOf(c.queueURL(name)))
	c.answer.close(action, c.id())
	return nil
}

func getQueueURL(c *call) error {
	p := &c.params
	if len(p.queueName) == 0 {
		return missing("QueueName")
	}
	name := string(p.queueName)
	if !validQueueName(name) || p.owner != nil && p.owner.view() != c.server.options.Account {
		return core.ErrNoQueue
	}
	if _, err := c.queueNamed(name); err != nil {
		return err
	}
	return c.answerQueueURL("GetQueueUrl", name)
}

func deleteQueue(c *call) error {
	name, err := c.queueName()
	if err != nil {
		return err
	}
	if err := c.client.Delete(contextOfWork(), name); err != nil {
		return err
	}
	c.server.purged.forget(name)
	if !c.server.options.RelaxedLimits {
		c.server.deleted.mark(name, c.server.now())
	}
	c.answer.void("DeleteQueue", c.id())
	return nil
}

func purgeQueue(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	if !c.server.options.RelaxedLimits && !c.server.purged.mark(q.Name, c.server.now()) {
		return fail(faultPurgeInProgress, "Only one PurgeQueue operation on %s is allowed every 60 seconds.", q.Name)
	}
	if err := c.client.Purge(contextOfWork(), q.Name); err != nil {
		c.server.purged.forget(q.Name)
		return err
	}
	c.answer.void("PurgeQueue", c.id())
	return nil
}

func getQueueAttributes(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	names, err := c.attributeNames()
	if err != nil {
		return err
	}
	var stats *core.QueueStats
	for _, name := range names {
		if isCount(name) && stats == nil {
			s, err := c.client.Stats(contextOfWork(), q.Name)
			if err != nil {
				return err
			}
			stats = &s
		}
	}
	a := &c.answer
	a.open("GetQueueAttributes")
	start := a.beginMap("Attributes")
	for _, name := range names {
		if value, ok := c.server.attribute(&q, stats, name); ok {
			a.member("Attribute", name, bytesOf(value))
		}
	}
	a.endMap(start)
	a.close("GetQueueAttributes", c.id())
	return nil
}

// attributeNames returns the names that are asked for, each once, All resolved.
func (c *call) attributeNames() ([]string, error) {
	all := attributeList()
	wanted := make([]bool, len(all))
	for _, n := range c.params.names {
		known := false
		for i, name := range all {
			if n.view() == "All" || n.view() == name {
				wanted[i], known = true, true
			}
		}
		if !known {
			return nil, fail(faultInvalidAttributeName, "Unknown Attribute %s.", n)
		}
	}
	names := all[:0]
	for i, name := range all {
		if wanted[i] {
			names = append(names, name)
		}
	}
	return names, nil
}

func setQueueAttributes(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	if !c.params.attributesSent {
		return missing("Attributes")
	}
	// Checked against a copy first: the dead-letter queue must be looked up,
	// which Configure's function may not do.
	cfg := q.Config
	if err := c.applyAttributes(&cfg, q.Name, false); err != nil {
		return err
	}
	_, err = c.client.Configure(contextOfWork(), q.Name, func(cfg *core.QueueConfig) error {
		return c.setAttributes(cfg, false)
	})
	if err != nil {
		return err
	}
	c.answer.void("SetQueueAttributes", c.id())
	return nil
}
