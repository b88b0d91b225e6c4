package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
	"github.com/leasemq/broker/core/selector"
	"github.com/leasemq/broker/frontends/sqs"
)

// fifoSuffix ends the name of every FIFO queue.
const fifoSuffix = ".fifo"

// createsMax is how many queues, or bindings, are being created at a time: they
// share fsyncs.
const createsMax = 64

// createQueues creates the queues of the configuration. One that is there stays
// as it is; how it differs is logged.
func (n *Node) createQueues(ctx context.Context, client *core.Client) error {
	queues := n.settings.config.Queues
	return together(len(queues), func(i int) error { return n.createQueue(ctx, client, queues[i]) })
}

// createBindings binds the queues of the configuration to topics.
func (n *Node) createBindings(ctx context.Context, client *core.Client) error {
	bindings := n.settings.config.Topics.Bindings
	return together(len(bindings), func(i int) error { return n.createBinding(ctx, client, bindings[i]) })
}

// together calls f with 0 to n-1, many at a time.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, createsMax)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// CheckQueues tells what is wrong with the attributes of SQS that queues of c
// have, alone and to each other, and with the filters and selectors that they are
// bound by. The rest is for c.Check.
func CheckQueues(c configs.Config) error {
	var errs []error
	byName := make(map[string]*core.QueueConfig, len(c.Queues))
	for _, q := range c.Queues {
		cfg, err := configOf(q)
		if err != nil {
			errs = append(errs, fmt.Errorf("queues.%s.sqs_attributes: %w", q.Name, err))
		}
		if err := cfg.Routes.Check(q.Name); err != nil {
			errs = append(errs, fmt.Errorf("queues.%s: %w", q.Name, err))
		}
		byName[q.Name] = &cfg
	}
	allowed := allowDeadLetter(c)
	for _, q := range c.Queues {
		if d := byName[q.DeadLetter.Queue]; d != nil && !allowed(d, q.Name) {
			errs = append(errs, fmt.Errorf("queues.%s.dead_letter.queue: the RedriveAllowPolicy of %s does not allow it", q.Name, q.DeadLetter.Queue))
		}
	}
	if q := c.AutoCreateQueue; q != nil {
		template := *q
		template.Name = "template" + fifoSuffix
		cfg, err := configOf(template)
		if err != nil {
			errs = append(errs, fmt.Errorf("auto_create_queue.sqs_attributes: %w", err))
		}
		if err := cfg.Routes.Check(template.Name); err != nil {
			errs = append(errs, fmt.Errorf("auto_create_queue: %w", err))
		}
	}
	for _, b := range c.Topics.Bindings {
		if b.Filter != "" && match.CheckFilter(b.Filter) != nil {
			errs = append(errs, fmt.Errorf("topics.bindings: %q is not a filter such as devices/+/up or sensors/#", b.Filter))
		}
		if _, err := selector.Parse(b.Selector); err != nil {
			errs = append(errs, fmt.Errorf("topics.bindings: the selector of %s: %w", b.Queue, err))
		}
	}
	return errors.Join(errs...)
}

// allowDeadLetter is core.Options.AllowDeadLetter of a node.
func allowDeadLetter(c configs.Config) func(deadLetter *core.QueueConfig, source string) bool {
	return sqs.AllowDeadLetter(c.SQS.Region, c.SQS.Account)
}

// configOf returns the configuration that a queue of the settings gets.
func configOf(q configs.Queue) (core.QueueConfig, error) {
	kind := core.KindStandard
	switch {
	case q.IsFIFO():
		kind = core.KindFIFO
	case q.Priority != nil && *q.Priority:
		kind = core.KindPriority
	}
	cfg := core.DefaultQueueConfig(kind)
	return cfg, setQueue(&cfg, q)
}

func (n *Node) createQueue(ctx context.Context, client *core.Client, q configs.Queue) error {
	cfg, err := configOf(q)
	if err != nil {
		return fmt.Errorf("create queue %s: %w", q.Name, err)
	}
	q.SQSAttributes = cfg.Attributes // in their canonical form
	present, created, err := client.Declare(ctx, q.Name, cfg)
	if errors.Is(err, core.ErrDeadLetterQueue) {
		// It was set by a client, who must not keep the node from starting.
		n.settings.log.Error("a queue of the configuration is not created", "queue", q.Name, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("create queue %s: %w", q.Name, err)
	}
	if created {
		n.settings.log.Info("queue created", "queue", q.Name)
		return nil
	}
	if found := differences(q, present.Config); len(found) > 0 {
		n.settings.log.Warn("a queue is not as the configuration has it, and is left as it is", "queue", q.Name, "differs", strings.Join(found, "; "))
	}
	return nil
}

func (n *Node) createBinding(ctx context.Context, client *core.Client, b configs.Binding) error {
	err := client.Bind(ctx, core.Binding{
		Filter: b.Filter, Queue: b.Queue, Origin: core.OriginCore, Options: core.BindingOptions{Selector: b.Selector},
	})
	switch {
	case errors.Is(err, core.ErrNoQueue), errors.Is(err, core.ErrTooManyBindings):
		// What clients did must not keep the node from starting.
		n.settings.log.Error("a binding of the configuration is not made", "filter", b.Filter, "queue", b.Queue, "error", err)
	case err != nil:
		return fmt.Errorf("bind %s to %s: %w", b.Queue, b.Filter, err)
	}
	return nil
}

// newQueue returns what queues get that are created when they are first used, on
// top of what a frontend gives them; nil if c says nothing of them.
func newQueue(c configs.Config, base func(name string) core.QueueConfig) func(name string) core.QueueConfig {
	template := c.AutoCreateQueue
	if template == nil {
		return nil
	}
	return func(name string) core.QueueConfig {
		q := *template
		q.Name = name
		cfg := base(name)
		if !q.IsFIFO() {
			q.ContentDedup, q.DedupScope = nil, ""
			q.SQSAttributes = maps.Clone(q.SQSAttributes)
			delete(q.SQSAttributes, "FifoThroughputLimit")
		}
		if dlq := (configs.Queue{Name: q.DeadLetter.Queue}); dlq.IsFIFO() != q.IsFIFO() || dlq.Name == name {
			q.DeadLetter = configs.DeadLetter{}
		}
		// Nor does a queue that others are routed to lead to itself.
		q.CopyTo = slices.DeleteFunc(slices.Clone(q.CopyTo), func(to string) bool { return to == name })
		if q.MoveTo == name {
			q.MoveTo = ""
		}
		_ = setQueue(&cfg, q) // checked by CheckQueues
		return cfg
	}
}

// setQueue sets in cfg what q asks for. The kind is the caller's.
func setQueue(cfg *core.QueueConfig, q configs.Queue) error {
	set(&cfg.VisibilityTimeout, q.VisibilityTimeout)
	set(&cfg.Delay, q.Delay)
	set(&cfg.ReceiveWait, q.ReceiveWait)
	set(&cfg.Retention, q.Retention)
	set(&cfg.MaxMessageBytes, q.MaxMessageSize)
	set(&cfg.MaxMessages, q.MaxMessages)
	set(&cfg.MaxBytes, q.MaxSize)
	set(&cfg.ContentDedup, q.ContentDedup)
	set(&cfg.ExpiredToDLQ, q.DeadLetter.Expired)
	r := &cfg.Redelivery
	r.DeadLetterQueue = cmp.Or(q.DeadLetter.Queue, r.DeadLetterQueue)
	set(&r.MaxReceives, q.DeadLetter.MaxReceives)
	set(&r.InitialDelay, q.Redelivery.Delay)
	set(&r.Multiplier, q.Redelivery.Multiplier)
	set(&r.MaxDelay, q.Redelivery.MaxDelay)
	if q.CopyTo != nil {
		cfg.Routes.CopyTo = q.CopyTo
	}
	cfg.Routes.MoveTo = cmp.Or(q.MoveTo, cfg.Routes.MoveTo)
	cfg.Routes.PublishTopic = cmp.Or(q.PublishTopic, cfg.Routes.PublishTopic)
	setWord(&cfg.Overflow, q.Overflow, overflowWords())
	setWord(&cfg.DedupScope, q.DedupScope, scopeWords())
	setWord(&cfg.Marks, q.Marks, marksWords())
	if q.Tags != nil {
		cfg.Tags = q.Tags
	}
	if q.SQSAttributes != nil {
		return sqs.SetAttributes(cfg, q.SQSAttributes)
	}
	return nil
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// overflowWords spell core.Overflow in the order of its numbers; the others
// alike.
func overflowWords() []string { return []string{"reject", "drop-oldest"} }
func scopeWords() []string    { return []string{"queue", "group"} }
func marksWords() []string    { return []string{"async", "sync"} }

// setWord sets a field to the number of word, if it is one of words.
func setWord[T ~uint8](field *T, word string, words []string) {
	if i := slices.Index(words, word); i >= 0 {
		*field = T(i)
	}
}

func wordOf[T ~uint8](n T, words []string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return fmt.Sprint(uint8(n))
}

// differences lists what q asks for and cfg has otherwise.
func differences(q configs.Queue, cfg core.QueueConfig) []string {
	have := queueOf(q.Name, cfg)
	var out []string
	for _, f := range configs.QueueFields() {
		want, asked := f.TextOf(q)
		if got, _ := f.TextOf(have); asked && got != want {
			out = append(out, fmt.Sprintf("%s is %s, not %s", f.Key, cmp.Or(got, "not set"), want))
		}
	}
	return out
}

// queueOf is the configuration of a queue as the settings spell it.
func queueOf(name string, cfg core.QueueConfig) configs.Queue {
	r := cfg.Redelivery
	return configs.Queue{
		Name:              name,
		FIFO:              new(cfg.Kind == core.KindFIFO),
		Priority:          new(cfg.Kind == core.KindPriority),
		VisibilityTimeout: &cfg.VisibilityTimeout,
		Delay:             &cfg.Delay,
		ReceiveWait:       &cfg.ReceiveWait,
		Retention:         &cfg.Retention,
		MaxMessageSize:    &cfg.MaxMessageBytes,
		MaxMessages:       &cfg.MaxMessages,
		MaxSize:           &cfg.MaxBytes,
		Overflow:          wordOf(cfg.Overflow, overflowWords()),
		ContentDedup:      &cfg.ContentDedup,
		DedupScope:        wordOf(cfg.DedupScope, scopeWords()),
		Marks:             wordOf(cfg.Marks, marksWords()),
		CopyTo:            cfg.Routes.CopyTo,
		MoveTo:            cfg.Routes.MoveTo,
		PublishTopic:      cfg.Routes.PublishTopic,
		DeadLetter:        configs.DeadLetter{Queue: r.DeadLetterQueue, MaxReceives: &r.MaxReceives, Expired: &cfg.ExpiredToDLQ},
		Redelivery:        configs.Redelivery{Delay: &r.InitialDelay, Multiplier: &r.Multiplier, MaxDelay: &r.MaxDelay},
		Tags:              cfg.Tags,
		SQSAttributes:     cfg.Attributes,
	}
}
