package stomp

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
)

// destination is one that was read. It is kept for the frames that name it again.
type destination struct {
	text   string // as the client wrote it
	queue  string // name in the core
	create bool   // the queue is created when it is not there
}

// placesMax bounds the destinations that a connection remembers.
const placesMax = 64

// place reads the destination of a frame.
func (c *conn) place(text string) (destination, *fault) {
	if d, ok := c.places[text]; ok {
		return d, nil
	}
	d, f := parseDestination(text)
	if f != nil {
		return d, f
	}
	d.create = d.create && !c.server.options.NoAutoCreate
	if c.places == nil || len(c.places) >= placesMax {
		c.places = make(map[string]destination)
	}
	c.places[d.text] = d
	return d, nil
}

// queuePrefix is how we write the destination of a queue.
const queuePrefix = "/queue/"

// parseDestination reads a destination: that of ActiveMQ and of RabbitMQ alike. A
// name alone is that of a queue.
func parseDestination(text string) (destination, *fault) {
	d := destination{text: text, create: true}
	name := text
	if strings.HasPrefix(text, "/") {
		kind, rest, ok := strings.Cut(text[1:], "/")
		switch {
		case ok && kind == "queue":
			name = rest
		case ok && kind == "amq" && strings.HasPrefix(rest, "queue/"):
			name, d.create = rest[len("queue/"):], false
		default:
			return d, fail("Unknown destination", "'%.200s' is not a destination. Those of queues begin with /queue/ or /amq/queue/.", text)
		}
	}
	decoded, err := url.PathUnescape(name)
	if err != nil {
		decoded = name // a lone % stands for itself
	}
	if decoded == "" || len(decoded) > core.QueueNameBytesMax || !utf8.ValidString(decoded) || reserved(decoded) || strings.ContainsRune(decoded, 0) {
		return d, fail("Invalid destination", "'%.300s' is not a valid queue destination", name)
	}
	d.queue = decoded
	return d, nil
}

// reserved tells whether a name is one of those that other protocols and
// subscriptions keep for their own queues.
func reserved(name string) bool {
	for _, p := range []string{"mqtt/", "share/", "dsub/", "temp/"} {
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
	_, created, err := c.client.Declare(c.ctx, d.queue, c.server.options.NewQueue(d.queue))
	if created && err == nil {
		c.server.options.Logger.Info("queue created", "queue", d.queue, "by", c.server.Name())
	}
	return err
}
