package stomp

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
)

// destinationKind says what a destination is of.
type destinationKind uint8

const (
	toQueue     destinationKind = iota
	toTopic                     // or, to subscribe to, the topics that a filter matches
	toTemp                      // a temporary queue of this connection, by its own name
	toTempTopic                 // the same of a topic
	toReply                     // a temporary queue of whatever connection, by ours
	toMany                      // several at once
)

// destination is one that was read. It is kept for the frames that name it again.
type destination struct {
	kind   destinationKind
	text   string        // as the client wrote it
	queue  string        // name in the core
	topic  string        // canonical, or a filter; see topicFilter
	usual  bool          // text is how we write it
	wild   bool          // topic has wildcards
	create bool          // the queue is created when it is not there
	parts  []destination // of toMany
}

// Bounds of destinations.
const (
	placesMax = 64 // that a connection remembers
	partsMax  = 64 // that one frame may name
)

// place reads the destination of a frame.
func (c *conn) place(text string) (destination, *fault) {
	if d, ok := c.places[text]; ok {
		return d, nil
	}
	d, f := parseDestination(text)
	if f != nil {
		return d, f
	}
	if c.server.options.NoAutoCreate {
		d.create = false
		for i := range d.parts {
			d.parts[i].create = false
		}
	}
	if c.places == nil || len(c.places) >= placesMax {
		c.places = make(map[string]destination)
	}
	c.places[d.text] = d
	return d, nil
}

// How we write the destinations of queues and topics.
const (
	queuePrefix = "/queue/"
	topicPrefix = "/topic/"
	tempPrefix  = "/temp-queue/"
	replyPrefix = "/reply-queue/"
	// replyTopicPrefix is that of a topic that one connection subscribes to.
	replyTopicPrefix = "/remote-temp-topic/"
)

// Names in the core that no client can write as those of its own queues and topics.
const (
	durablePrefix   = "dsub/"
	temporaryPrefix = "temp/"
	exchangeTopic   = "$exchange/"
	temporaryTopic  = "$temp/"
)

// parseDestination reads a destination: that of ActiveMQ and of RabbitMQ alike.
// Several stand behind each other with a comma, each with its slash: a comma may
// be in a name.
func parseDestination(text string) (destination, *fault) {
	if !strings.HasPrefix(text, "/") || !strings.Contains(text, ",/") {
		return parseOne(text)
	}
	d := destination{kind: toMany, text: text}
	for rest := text; rest != ""; {
		one := rest
		if i := strings.Index(rest, ",/"); i >= 0 {
			one, rest = rest[:i], rest[i+1:]
		} else {
			rest = ""
		}
		part, bad := parseOne(one)
		if bad != nil {
			return d, bad
		}
		if d.parts = append(d.parts, part); len(d.parts) > partsMax {
			return d, fail("Invalid destination", "A frame names at most %d destinations.", partsMax)
		}
	}
	return d, nil
}

func parseOne(text string) (destination, *fault) {
	d, bad := parseKind(text)
	switch {
	case bad != nil:
	case d.kind == toTopic:
		d.usual = text == topicPrefix+string(appendTopic(nil, d.topic))
	case d.kind == toQueue:
		d.usual = text == queuePrefix+d.queue
	}
	return d, bad
}

func parseKind(text string) (destination, *fault) {
	if !strings.HasPrefix(text, "/") { // a name alone is that of a queue
		return queueDestination(text, text)
	}
	kind, rest, ok := strings.Cut(text[1:], "/")
	if !ok {
		return destination{}, unknownDestination(text)
	}
	switch kind {
	case "queue":
		return queueDestination(text, rest)
	case "topic":
		return topicDestination(text, rest)
	case "exchange":
		return exchangeDestination(text, rest)
	case "amq":
		if name, ok := strings.CutPrefix(rest, "queue/"); ok {
			d, bad := queueDestination(text, name)
			d.create = false
			return d, bad
		}
	case "dsub":
		d := destination{text: text, queue: durablePrefix + rest}
		if !validName(rest) || len(d.queue) > core.QueueNameBytesMax {
			return d, invalidDestination(rest, "durable subscription")
		}
		return d, nil
	case "temp-queue", "temp-topic":
		d := destination{kind: toTemp, text: text}
		if kind == "temp-topic" {
			d.kind = toTempTopic
		}
		if !validName(rest) {
			return d, invalidDestination(rest, "temporary destination")
		}
		return d, nil
	case "reply-queue", "remote-temp-queue":
		if !isToken(rest) {
			return destination{}, invalidDestination(rest, "reply queue")
		}
		return destination{kind: toReply, text: text, queue: temporaryPrefix + rest}, nil
	case "remote-temp-topic":
		if !isToken(rest) {
			return destination{}, invalidDestination(rest, "reply topic")
		}
		return destination{kind: toTopic, text: text, topic: temporaryTopic + rest}, nil
	}
	return destination{}, unknownDestination(text)
}

func unknownDestination(text string) *fault {
	return fail("Unknown destination", "'%.200s' is not a destination. Those begin with /queue/, /topic/, /exchange/, /amq/queue/, /dsub/, /temp-queue/, /temp-topic/ or /reply-queue/.", text)
}

func invalidDestination(name, kind string) *fault {
	return fail("Invalid destination", "'%.300s' is not a valid %s destination", name, kind)
}

// validName tells whether name can be that of a queue.
func validName(name string) bool {
	return name != "" && len(name) <= core.QueueNameBytesMax && utf8.ValidString(name) && strings.IndexByte(name, 0) < 0
}

func queueDestination(text, name string) (destination, *fault) {
	d := destination{text: text, queue: unescapePath(name), create: true}
	if !validName(d.queue) || reserved(d.queue) {
		return d, invalidDestination(name, "queue")
	}
	return d, nil
}

func topicDestination(text, name string) (destination, *fault) {
	d := destination{kind: toTopic, text: text}
	var ok bool
	d.topic, d.wild, ok = topicFilter(name)
	if !ok || strings.HasPrefix(d.topic, "$") {
		return d, invalidDestination(name, "topic")
	}
	return d, nil
}

// exchangeDestination reads those of RabbitMQ's exchanges that it always has. The
// keys of amq.topic are topics; the others are topics that nobody else can name.
func exchangeDestination(text, rest string) (destination, *fault) {
	exchange, key, _ := strings.Cut(rest, "/")
	d := destination{kind: toTopic, text: text}
	switch exchange {
	case "amq.topic":
		return topicDestination(text, key)
	case "amq.fanout":
		d.topic = exchangeTopic + exchange
	case "amq.direct":
		key = unescapePath(key)
		d.topic = exchangeTopic + exchange + "/" + strings.NewReplacer("%", "%25", "/", "%2F", "+", "%2B", "#", "%23").Replace(key)
		if match.CheckTopic(d.topic) != nil {
			return d, invalidDestination(rest, "exchange")
		}
	case "":
		return d, invalidDestination(rest, "exchange")
	default:
		return d, fail("not_found", "no exchange '%.200s'. There are amq.topic, amq.fanout and amq.direct.", exchange)
	}
	return d, nil
}

// unescapePath decodes %XX; a lone % stands for itself.
func unescapePath(name string) string {
	if strings.IndexByte(name, '%') < 0 {
		return name
	}
	if decoded, err := url.PathUnescape(name); err == nil {
		return decoded
	}
	return name
}

// reserved tells whether a name is one of those that other protocols and
// subscriptions keep for their own queues.
func reserved(name string) bool {
	for _, p := range []string{"mqtt/", "share/", durablePrefix, temporaryPrefix} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// DefaultNewQueue is the configuration of a queue that is created when it is first
// used: FIFO if its name ends in .fifo. It keeps messages until they are taken, as
// other STOMP servers do.
func DefaultNewQueue(name string) core.QueueConfig {
	kind := core.KindStandard
	if strings.HasSuffix(name, ".fifo") {
		kind = core.KindFIFO
	}
	cfg := core.DefaultQueueConfig(kind)
	cfg.ContentDedup = kind == core.KindFIFO
	cfg.Retention = 0
	return cfg
}

// declare creates the queue of d, if that is allowed.
func (c *conn) declare(d destination) error {
	if !d.create {
		return core.ErrNoQueue
	}
	_, err := c.declareNamed(d.queue, virtualBindings(d.queue)...)
	return err
}

// declareNamed creates a queue that is bound from the start, and tells whether
// there was none.
func (c *conn) declareNamed(name string, bindings ...core.Binding) (created bool, err error) {
	_, created, err = c.client.DeclareBound(c.ctx, name, c.server.options.NewQueue(name), bindings...)
	if created && err == nil {
		c.server.options.Logger.Info("queue created", "queue", name, "by", c.server.Name())
	}
	return created, err
}
