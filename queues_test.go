package broker_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
)

// logs collects a node's log.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) lines(word string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return out
}

// withQueues are the options of a node on dir that has these queues.
func withQueues(dir string, l *logs, queues ...configs.Queue) []broker.Option {
	return []broker.Option{
		broker.Data(dir), broker.WithLogger(slog.New(slog.NewTextHandler(l, nil))),
		broker.Edit(func(c *configs.Config) { c.Queues = queues }),
	}
}

func config(t *testing.T, node *broker.Node, name string) core.QueueConfig {
	t.Helper()
	q, err := node.Client().Queue(t.Context(), name)
	if err != nil {
		t.Fatalf("queue %s: %v", name, err)
	}
	return q.Config
}

func TestQueuesOfTheConfigurationAreCreated(t *testing.T) {
	node := run(t, broker.Edit(func(c *configs.Config) {
		c.Queues = []configs.Queue{
			{
				Name: "a.fifo", VisibilityTimeout: new(time.Minute), Delay: new(2 * time.Second), ReceiveWait: new(3 * time.Second),
				Retention: new(time.Duration(0)), MaxMessageSize: new(int64(2048)), MaxMessages: new(int64(5)), MaxSize: new(int64(6000)),
				Overflow: "drop-oldest", ContentDedup: new(true), DedupScope: "group",
				DeadLetter: configs.DeadLetter{Queue: "b.fifo", MaxReceives: new(7), Expired: new(true)},
				Redelivery: configs.Redelivery{Delay: new(time.Second), Multiplier: new(2.5), MaxDelay: new(time.Hour)},
				Tags:       map[string]string{"k": "v"},

				SQSAttributes: map[string]string{"FifoThroughputLimit": "perMessageGroupId", "RedriveAllowPolicy": `{ "redrivePermission": "denyAll" }`},
			},
			{Name: "b.fifo", FIFO: new(true)},
			{Name: "c", Marks: "sync"},
			{Name: "d", Priority: new(true)},
		}
	}))
	c, d := core.DefaultQueueConfig(core.KindStandard), core.DefaultQueueConfig(core.KindPriority)
	c.Marks = core.MarksSync
	for name, want := range map[string]core.QueueConfig{
		"a.fifo": {
			Kind: core.KindFIFO, VisibilityTimeout: time.Minute, Delay: 2 * time.Second, ReceiveWait: 3 * time.Second,
			MaxMessageBytes: 2048, MaxMessages: 5, MaxBytes: 6000, Overflow: core.OverflowDropOldest, Marks: core.MarksSync,
			ContentDedup: true, DedupScope: core.DedupGroup, ExpiredToDLQ: true,
			Redelivery: core.Redelivery{DeadLetterQueue: "b.fifo", MaxReceives: 7, InitialDelay: time.Second, Multiplier: 2.5, MaxDelay: time.Hour},
			Tags:       map[string]string{"k": "v"},
			Attributes: map[string]string{"FifoThroughputLimit": "perMessageGroupId", "RedriveAllowPolicy": `{"redrivePermission":"denyAll"}`},
		},
		"b.fifo": core.DefaultQueueConfig(core.KindFIFO),
		"c":      c,
		"d":      d,
	} {
		if diff := cmp.Diff(want, config(t, node, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAttributesOfSQSAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		queue configs.Queue
		want  string
	}{
		"no JSON":              {configs.Queue{Name: "a", SQSAttributes: map[string]string{"Policy": "x"}}, "Policy"},
		"unknown":              {configs.Queue{Name: "a", SQSAttributes: map[string]string{"Policies": "{}"}}, "Unknown Attribute Policies"},
		"a key of its own":     {configs.Queue{Name: "a", SQSAttributes: map[string]string{"VisibilityTimeout": "1"}}, "setting of its own"},
		"not FIFO":             {configs.Queue{Name: "a", SQSAttributes: map[string]string{"FifoThroughputLimit": "perQueue"}}, "FifoQueue"},
		"the scope of a queue": {configs.Queue{Name: "a.fifo", SQSAttributes: map[string]string{"FifoThroughputLimit": "perMessageGroupId"}}, "DeduplicationScope"},
		"two encryptions":      {configs.Queue{Name: "a", SQSAttributes: map[string]string{"KmsMasterKeyId": "x", "SqsManagedSseEnabled": "true"}}, "one type of server-side encryption"},
		"a period":             {configs.Queue{Name: "a", SQSAttributes: map[string]string{"KmsDataKeyReusePeriodSeconds": "59"}}, "KmsDataKeyReusePeriodSeconds"},
	} {
		err := refused(t, broker.Edit(func(cfg *configs.Config) { cfg.Queues = []configs.Queue{c.queue} }))
		if !strings.Contains(err.Error(), "queues."+c.queue.Name+".sqs_attributes: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: a node starts or says %v, want %q", name, err, c.want)
		}
	}
}

func TestQueueThatIsThereIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	var first, second, third logs
	queue := configs.Queue{Name: "a", Delay: new(time.Second), Tags: map[string]string{"k": "v"}}
	node, err := broker.Run(t.Context(), withQueues(dir, &first, queue)...)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.lines("queue created")) != 1 {
		t.Errorf("the log does not tell of one queue: %q", first.lines(""))
	}
	_, err = node.Client().Configure(t.Context(), "a", func(c *core.QueueConfig) error {
		c.VisibilityTimeout = time.Hour // which the configuration does not speak of
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}

	// The same configuration finds nothing to say.
	node, err = broker.Run(t.Context(), withQueues(dir, &second, queue)...)
	if err != nil {
		t.Fatal(err)
	}
	if got := second.lines("queue=a"); len(got) > 0 {
		t.Errorf("the log says %q of a queue that is as it should be", got)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}

	// Another one does, and changes nothing.
	queue.Delay, queue.Priority, queue.Tags = new(5*time.Second), new(true), map[string]string{"k": "w"}
	queue.DeadLetter = configs.DeadLetter{Queue: "dead", MaxReceives: new(3)}
	node = run(t, withQueues(dir, &third, queue, configs.Queue{Name: "dead"})...)
	warned := strings.Join(third.lines("level=WARN"), "")
	for _, want := range []string{"queue=a", "priority is false, not true", "delay is 1s, not 5s", "dead_letter.queue is not set, not dead", "dead_letter.max_receives is 0, not 3", "tags is {k: v}, not {k: w}"} {
		if !strings.Contains(warned, want) {
			t.Errorf("the warnings lack %q: %s", want, warned)
		}
	}
	want := core.DefaultQueueConfig(core.KindStandard)
	want.Delay, want.VisibilityTimeout, want.Tags = time.Second, time.Hour, map[string]string{"k": "v"}
	if diff := cmp.Diff(want, config(t, node, "a")); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
}

func TestManyQueuesAreCreated(t *testing.T) {
	const count = 500
	var queues []configs.Queue
	for i := range count {
		queues = append(queues, configs.Queue{Name: "q" + strings.Repeat("x", i%70) + string(rune('a'+i/70))})
	}
	node := run(t, broker.Edit(func(c *configs.Config) { c.Queues = queues }))
	names, err := node.Client().Queues(t.Context(), "", "", count+1)
	if err != nil || len(names) != count {
		t.Errorf("%d queues, %v, want %d", len(names), err, count)
	}
}

func TestWrongQueuesDoNotStart(t *testing.T) {
	node, err := broker.Run(t.Context(), broker.Edit(func(c *configs.Config) {
		c.Queues = []configs.Queue{{Name: "a", DeadLetter: configs.DeadLetter{Queue: "b", MaxReceives: new(1)}}}
	}))
	if err == nil {
		t.Error(errors.Join(errors.New("a node starts without its dead-letter queue"), node.Close()))
	}
}

func TestQueueCreatedOnFirstUseHasWhatIsConfigured(t *testing.T) {
	node := run(t, broker.Edit(func(c *configs.Config) {
		c.SQS.AutoCreate = true
		c.Queues = []configs.Queue{{Name: "dead"}}
		c.AutoCreateQueue = &configs.Queue{
			VisibilityTimeout: new(5 * time.Minute), ContentDedup: new(false), DedupScope: "group",
			DeadLetter: configs.DeadLetter{Queue: "dead", MaxReceives: new(2)},
			Tags:       map[string]string{"env": "dev"},
		}
	}))
	client := sqsClient(node)
	for _, name := range []string{"new", "new.fifo"} {
		if _, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name}); err != nil {
			t.Fatal(err)
		}
		want := core.DefaultQueueConfig(core.KindStandard)
		if name == "new.fifo" {
			// A standard queue cannot take its dead letters.
			want = core.DefaultQueueConfig(core.KindFIFO)
			want.DedupScope = core.DedupGroup
		} else {
			want.Redelivery = core.Redelivery{DeadLetterQueue: "dead", MaxReceives: 2}
		}
		want.VisibilityTimeout, want.Tags = 5*time.Minute, map[string]string{"env": "dev"}
		if diff := cmp.Diff(want, config(t, node, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	// Without it, a queue that is not there is not there.
	node = run(t)
	client = sqsClient(node)
	_, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("new")})
	if missing := (*types.QueueDoesNotExist)(nil); !errors.As(err, &missing) {
		t.Errorf("GetQueueUrl answers %v", err)
	}
}
