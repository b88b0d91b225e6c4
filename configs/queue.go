package configs

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Queue is a queue that a node creates at its start. What is nil, or an empty
// text, is not asked for: a queue that is created gets the default, one that is
// there may have anything.
type Queue struct {
	Name string `yaml:"-"`

	FIFO              *bool          `yaml:"fifo" doc:"Deliver in order, and each message once. By the name if not given: that of a FIFO queue, and of no other, ends in .fifo."`
	Priority          *bool          `yaml:"priority" doc:"Deliver by priority, 0 to 9."`
	VisibilityTimeout *time.Duration `yaml:"visibility_timeout" doc:"How long a received message is hidden from others; 0s to 12h (30s)."`
	Delay             *time.Duration `yaml:"delay" doc:"How long a sent message is hidden at first; 0s to 15m (0s)."`
	ReceiveWait       *time.Duration `yaml:"receive_wait" doc:"How long a receive waits for a message; 0s to 20s (0s)."`
	Retention         *time.Duration `yaml:"retention" doc:"How long a message is kept; 0s is for ever, else at least 1m (4d)."`
	MaxMessageSize    *int64         `yaml:"max_message_size" unit:"bytes" doc:"Largest message; 1KiB to 1MiB (1MiB)."`
	MaxMessages       *int64         `yaml:"max_messages" doc:"Most messages; 0 is no limit (0)."`
	MaxSize           *int64         `yaml:"max_size" unit:"bytes" doc:"Most bytes of all messages together; 0 is no limit (0)."`
	Overflow          string         `yaml:"overflow" oneof:"reject|drop-oldest" doc:"What a send beyond max_messages or max_size does (reject)."`
	ContentDedup      *bool          `yaml:"content_dedup" doc:"FIFO: a message without a deduplication id gets the hash of its body as one (false)."`
	DedupScope        string         `yaml:"dedup_scope" oneof:"queue|group" doc:"FIFO: where a deduplication id counts (queue)."`
	Marks             string         `yaml:"marks" oneof:"async|sync" doc:"Whether a receive waits until its mark is on disk; FIFO queues always do (async)."`
	CopyTo            []string       `yaml:"copy_to" doc:"Queues, of queues, that get a copy of each message that is sent here; up to 16."`
	MoveTo            string         `yaml:"move_to" doc:"The queue, of queues, that gets what is sent here in the place of this one."`
	PublishTopic      string         `yaml:"publish_topic" doc:"A topic that what is sent here is published to, and not kept; {name} in it stands for the value of that message attribute, without which a send fails."`
	DeadLetter        DeadLetter     `yaml:"dead_letter"`
	Redelivery        Redelivery     `yaml:"redelivery"`

	Tags          map[string]string `yaml:"tags" doc:"Tags, up to 50."`
	SQSAttributes map[string]string `yaml:"sqs_attributes" doc:"Attributes that only SQS has, as SetQueueAttributes takes them: Policy, RedriveAllowPolicy, KmsMasterKeyId, KmsDataKeyReusePeriodSeconds, SqsManagedSseEnabled, FifoThroughputLimit."`
}

// DeadLetter says where messages go that nobody can process.
type DeadLetter struct {
	Queue       string `yaml:"queue" doc:"Name of the dead-letter queue: one of queues, of the same kind."`
	MaxReceives *int   `yaml:"max_receives" doc:"How often a message is received before it goes there; 1 to 1000."`
	Expired     *bool  `yaml:"expired" doc:"Messages that have expired go there too (false: they are dropped)."`
}

// Redelivery says when a rejected message is ready again.
type Redelivery struct {
	Delay      *time.Duration `yaml:"delay" doc:"Delay after the first rejection; 0s to 12h (0s)."`
	Multiplier *float64       `yaml:"multiplier" doc:"Factor of each further delay; 0 to 1000 (1)."`
	MaxDelay   *time.Duration `yaml:"max_delay" doc:"Longest delay; 0s to 12h; 0s is no limit (0s)."`
}

// fifoSuffix ends the name of every FIFO queue, and of no other.
const fifoSuffix = ".fifo"

// IsFIFO tells whether q is a FIFO queue: its name says so.
func (q Queue) IsFIFO() bool { return strings.HasSuffix(q.Name, fifoSuffix) }

// QueueFields lists the keys below queues.NAME in the order of Queue.
func QueueFields() []Field {
	fields := appendFields(nil, reflect.ValueOf(Queue{}), "", nil)
	for i := range fields {
		fields[i].Env, fields[i].Flag = "", ""
	}
	return fields
}

// values returns what q has as data that YAML and JSON can write, in order.
func (q Queue) values() yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, f := range QueueFields() {
		v := reflect.ValueOf(q).FieldByIndex(f.index)
		if v.IsZero() {
			continue
		}
		value := reflect.Indirect(v).Interface()
		switch f.Kind {
		case "duration":
			value = text(reflect.Indirect(v))
		case "map":
			value = inOrder(v.Interface().(map[string]string))
		}
		section, name, nested := strings.Cut(f.Key, ".")
		if !nested {
			out = append(out, yaml.MapItem{Key: f.Key, Value: value})
			continue
		}
		if len(out) == 0 || out[len(out)-1].Key != section {
			out = append(out, yaml.MapItem{Key: section, Value: yaml.MapSlice{}})
		}
		last := &out[len(out)-1]
		last.Value = append(last.Value.(yaml.MapSlice), yaml.MapItem{Key: name, Value: value})
	}
	return out
}

func queueValues(queues []Queue) yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, q := range queues {
		out = append(out, yaml.MapItem{Key: q.Name, Value: q.values()})
	}
	return out
}

// putQueue adds q, or puts it in place of the one of that name.
func (c *Config) putQueue(q Queue) {
	if at := slices.IndexFunc(c.Queues, func(other Queue) bool { return other.Name == q.Name }); at >= 0 {
		c.Queues[at] = q
		return
	}
	c.Queues = append(c.Queues, q)
}
