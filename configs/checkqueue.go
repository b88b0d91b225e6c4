package configs

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of queues.
const (
	QueuesMax         = 10_000
	queueNameBytesMax = 80
	visibilityMax     = 12 * time.Hour
	delayMax          = 15 * time.Minute
	receiveWaitMax    = 20 * time.Second
	retentionMin      = time.Minute
	messageSizeMin    = 1 << 10
	messageSizeMax    = 1 << 20
	maxReceivesMax    = 1000
	multiplierMax     = 1000
	tagsMax           = 50
	tagKeyMax         = 128 // characters
	tagValueMax       = 256 // characters
	guessesMax        = 100 // queues among which to look for what was meant
)

// queues checks the queues and what auto_create_queue says of others.
func (k *checker) queues(c Config) {
	if len(c.Queues) > QueuesMax {
		k.fail("queues", "%d of them, over %d", len(c.Queues), QueuesMax)
		return
	}
	byName := make(map[string]Queue, len(c.Queues))
	for _, q := range c.Queues {
		if _, twice := byName[q.Name]; twice {
			k.fail("queues."+q.Name, "named twice")
		}
		byName[q.Name] = q
	}
	for _, q := range c.Queues {
		key := "queues." + q.Name
		k.kind(key, q)
		k.queue(key, q)
		k.deadLetter(key, q, byName)
		k.routes(key, q, byName)
		if target, ok := byName[q.DeadLetter.Queue]; ok && target.IsFIFO() != q.IsFIFO() {
			k.fail(key+".dead_letter.queue", "%s is not of the same kind: a FIFO queue and its dead-letter queue both end in %s", q.DeadLetter.Queue, fifoSuffix)
		}
	}
	if q := c.AutoCreateQueue; q != nil {
		const key = "auto_create_queue"
		if q.FIFO != nil || q.Priority != nil {
			k.fail(key, "fifo and priority are not for here: a queue whose name ends in %s is FIFO", fifoSuffix)
		}
		k.queue(key, *q)
		k.deadLetter(key, *q, byName)
		k.routes(key, *q, byName)
	}
	k.cycles(c.Queues, byName)
}

// kind checks the name and what depends on it.
func (k *checker) kind(key string, q Queue) {
	isFIFO := q.IsFIFO()
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	base := strings.TrimSuffix(q.Name, fifoSuffix)
	if base == "" || len(q.Name) > queueNameBytesMax || strings.Trim(base, letters) != "" {
		k.fail(key, "the name is not of 1 to %d letters, digits, hyphens and underscores, with %s at its end for FIFO", queueNameBytesMax, fifoSuffix)
		return
	}
	switch {
	case q.FIFO != nil && *q.FIFO && !isFIFO:
		k.fail(key+".fifo", "the name of a FIFO queue ends in %s", fifoSuffix)
	case q.FIFO != nil && !*q.FIFO && isFIFO:
		k.fail(key+".fifo", "only the name of a FIFO queue ends in %s", fifoSuffix)
	case q.Priority != nil && *q.Priority && isFIFO:
		k.fail(key+".priority", "a queue is FIFO or has priorities, not both")
	}
	if !isFIFO && q.ContentDedup != nil && *q.ContentDedup {
		k.fail(key+".content_dedup", "only FIFO queues deduplicate")
	}
	if !isFIFO && q.DedupScope != "" {
		k.fail(key+".dedup_scope", "only FIFO queues deduplicate")
	}
	if isFIFO && q.Marks == "async" {
		k.fail(key+".marks", "a FIFO queue always waits for its marks")
	}
}

// queue checks the bounds of what q has.
func (k *checker) queue(key string, q Queue) {
	inside(k, key+".visibility_timeout", q.VisibilityTimeout, 0, visibilityMax)
	inside(k, key+".delay", q.Delay, 0, delayMax)
	inside(k, key+".receive_wait", q.ReceiveWait, 0, receiveWaitMax)
	inside(k, key+".max_message_size", q.MaxMessageSize, messageSizeMin, messageSizeMax)
	inside(k, key+".max_messages", q.MaxMessages, 0, 1<<62)
	inside(k, key+".max_size", q.MaxSize, 0, 1<<62)
	inside(k, key+".redelivery.delay", q.Redelivery.Delay, 0, visibilityMax)
	inside(k, key+".redelivery.multiplier", q.Redelivery.Multiplier, 0, multiplierMax)
	inside(k, key+".redelivery.max_delay", q.Redelivery.MaxDelay, 0, visibilityMax)
	if r := q.Retention; r != nil && *r != 0 && *r < retentionMin {
		k.fail(key+".retention", "%s is neither 0s, which is for ever, nor at least %s", DurationText(*r), DurationText(retentionMin))
	}
	for _, f := range QueueFields() {
		if v, ok := f.TextOf(q); ok {
			if err := f.check(v); err != nil {
				k.fail(key, "%w", err)
			}
		}
	}
	if len(q.Tags) > tagsMax {
		k.fail(key+".tags", "%d of them, over %d", len(q.Tags), tagsMax)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Tags)) {
		value := q.Tags[name]
		if n := utf8.RuneCountInString(name); n == 0 || n > tagKeyMax || !utf8.ValidString(name) {
			k.fail(key+".tags", "the name %q is not of 1 to %d characters", name, tagKeyMax)
		}
		if utf8.RuneCountInString(value) > tagValueMax || !utf8.ValidString(value) {
			k.fail(key+".tags", "the value of %s is longer than %d characters", name, tagValueMax)
		}
	}
}

// deadLetter checks what q says of its dead-letter queue, which is one of
// byName.
func (k *checker) deadLetter(key string, q Queue, byName map[string]Queue) {
	d := q.DeadLetter
	key += ".dead_letter"
	switch {
	case d.Queue == "" && d.MaxReceives != nil:
		k.fail(key+".max_receives", "there is no dead_letter.queue")
	case d.Queue == "" && d.Expired != nil:
		k.fail(key+".expired", "there is no dead_letter.queue")
	case d.Queue == "":
		return
	case d.Queue == q.Name:
		k.fail(key+".queue", "that is the queue itself")
	default:
		k.known(key+".queue", d.Queue, byName)
	}
	switch {
	case d.Queue == "":
	case d.MaxReceives == nil:
		k.fail(key, "needs max_receives: how often a message is received before it goes to %s", d.Queue)
	default:
		inside(k, key+".max_receives", d.MaxReceives, 1, maxReceivesMax)
	}
}

// known checks that a queue is one of byName.
func (k *checker) known(key, name string, byName map[string]Queue) {
	if _, ok := byName[name]; ok {
		return
	}
	near := ""
	if len(byName) <= guessesMax {
		near = didYouMean(name, slices.Sorted(maps.Keys(byName)))
	}
	k.fail(key, "%s is not one of queues%s", name, near)
}

// routes checks where q sends messages on. What the core refuses is for it.
func (k *checker) routes(key string, q Queue, byName map[string]Queue) {
	for _, to := range q.CopyTo {
		k.known(key+".copy_to", to, byName)
	}
	if q.MoveTo != "" {
		k.known(key+".move_to", q.MoveTo, byName)
	}
}

// cycles finds routes that lead back to a queue that they have passed.
func (k *checker) cycles(queues []Queue, byName map[string]Queue) {
	const under, done = 1, 2
	state := make(map[string]int, len(byName))
	var follow func(name string)
	follow = func(name string) {
		state[name] = under
		q := byName[name]
		for _, to := range q.targets() {
			switch _, there := byName[to]; {
			case !there || state[to] == done:
			case to == name:
				// The core tells.
			case state[to] == under:
				k.fail("queues."+name, "its copy_to or move_to leads to %s, and from there back to it", to)
			default:
				follow(to)
			}
		}
		state[name] = done
	}
	for _, q := range queues {
		if state[q.Name] == 0 && len(q.targets()) > 0 {
			follow(q.Name)
		}
	}
}

// targets are the queues that the routes of q lead to.
func (q Queue) targets() []string {
	if q.MoveTo == "" {
		return q.CopyTo
	}
	return append(slices.Clone(q.CopyTo), q.MoveTo)
}

// inside checks a value that may be nil.
func inside[T int | int64 | float64 | time.Duration](k *checker, key string, v *T, lowest, highest T) {
	if v != nil && !(*v >= lowest && *v <= highest) { // NaN too
		k.fail(key, "%s is not between %s and %s", spell(*v), spell(lowest), spell(highest))
	}
}
