package configs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasemq/broker/configs/hocon"
)

// What ElasticMQ takes for granted.
const (
	elasticMQRegion = "elasticmq"
	elasticMQPort   = "9324"
)

// elasticMQ reads the configuration of an ElasticMQ server. What a node cannot
// do becomes a warning that names the key.
func (b *builder) elasticMQ(path string, environ []string) {
	data, err := readFile(path, fileBytesMax)
	if err != nil {
		b.fail("import: %w", err)
		return
	}
	m := elasticMQ{builder: b, path: path, places: map[string]*hocon.Value{}}
	root, err := hocon.Parse(data, hocon.Options{Name: path, Include: m.include, Env: lookup(environ)})
	if err != nil {
		b.fail("import: %w", err)
		return
	}
	b.set("sqs.region", elasticMQRegion, "import "+path)
	// ElasticMQ does not know these limits, in neither mode.
	b.set("sqs.limits", "relaxed", "import "+path)
	for _, key := range root.Keys() {
		m.section(key, root.Get(key))
	}
	m.nodeAddress(root)
	m.finishQueues()
}

func lookup(environ []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, kv := range slices.Backward(environ) {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

// elasticMQ is one import.
type elasticMQ struct {
	*builder
	path     string
	queues   []Queue
	places   map[string]*hocon.Value // of the queues
	template *hocon.Value
}

func (m *elasticMQ) warn(v *hocon.Value, format string, args ...any) {
	m.out.Warnings = append(m.out.Warnings, fmt.Sprintf("%s: %s", v.Pos(), fmt.Sprintf(format, args...)))
}

// put sets one of our keys from v.
func (m *elasticMQ) put(key, text string, v *hocon.Value) {
	m.set(key, text, origin(v))
}

// origin says where v stands.
func origin(v *hocon.Value) string {
	return fmt.Sprintf("import %s:%d", v.Pos().File, v.Pos().Line)
}

// include finds files beside the one that is read. ElasticMQ's own defaults,
// which nearly every file includes, are ours already.
func (m *elasticMQ) include(inc hocon.Include) ([]byte, string, error) {
	switch inc.Kind {
	case "classpath":
		if inc.Path != "application.conf" && inc.Path != "reference.conf" {
			m.out.Warnings = append(m.out.Warnings, fmt.Sprintf("%s: include classpath(%q): there is no class path; nothing is included", inc.Pos, inc.Path))
		}
		return nil, "", nil
	case "url":
		return nil, "", errors.New("URLs are not fetched; put the file beside this one")
	}
	path := inc.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(inc.Pos.File), path)
	}
	data, err := readFile(path, fileBytesMax)
	if errors.Is(err, os.ErrNotExist) && !inc.Required {
		m.out.Warnings = append(m.out.Warnings, fmt.Sprintf("%s: include: there is no file %s", inc.Pos, path))
		return nil, "", nil
	}
	return data, path, err
}

// section reads what stands at the top of the file.
func (m *elasticMQ) section(key string, v *hocon.Value) {
	switch key {
	case "node-address", "generate-node-address": // see nodeAddress
	case "queues":
		m.readQueues(v)
	case "rest-sqs":
		m.restSQS(v)
	case "rest-stats":
		m.restStats(v)
	case "aws":
		m.each(v, key, func(name string, v *hocon.Value) bool {
			switch name {
			case "region":
				m.put("sqs.region", v.Text(), v)
			case "accountId":
				m.put("sqs.account", v.Text(), v)
			default:
				return false
			}
			return true
		})
	case "auto-create-queues":
		m.autoCreate(v)
	case "queues-storage":
		if m.enabled(v) {
			m.warn(v, "queues-storage: the file %q is not read, though it can be imported too; queues are kept in node.data, whoever made them", v.Get("path").Text())
		}
	case "messages-storage":
		if m.enabled(v) {
			m.warn(v, "messages-storage: the database %q is not read; messages are kept in node.data", v.Get("uri").Text())
		}
	default:
		m.warn(v, "%s: no setting of this broker stands for it; ignored", key)
	}
}

// each calls read for the keys of an object, and warns of those that it does not
// know.
func (m *elasticMQ) each(v *hocon.Value, under string, read func(name string, v *hocon.Value) bool) {
	if v.Kind() != hocon.Object {
		m.fail("import: %s: %s: expected keys with values", v.Pos(), under)
		return
	}
	for _, name := range v.Keys() {
		if child := v.Get(name); !read(name, child) {
			m.warn(child, "%s.%s: no setting of this broker stands for it; ignored", under, name)
		}
	}
}

// check takes the error of a value that was read.
func (m *elasticMQ) check(key string, err error) bool {
	if err != nil {
		m.fail("import: %w (%s)", err, key)
	}
	return err == nil
}

// enabled reads the key of that name; absent is false.
func (m *elasticMQ) enabled(v *hocon.Value) bool {
	on := v.Get("enabled")
	if on == nil {
		return false
	}
	b, err := on.Bool()
	return m.check("enabled", err) && b
}

// nodeAddress makes the start of queue URLs, as ElasticMQ does. Without an
// address the URLs are those that the client asked, which suits more of them.
func (m *elasticMQ) nodeAddress(root *hocon.Value) {
	if v := root.Get("generate-node-address"); v != nil {
		if generate, err := v.Bool(); !m.check("generate-node-address", err) || generate {
			return
		}
	}
	v := root.Get("node-address")
	if v == nil {
		return
	}
	protocol, host, port, context := "http", "localhost", elasticMQPort, ""
	m.each(v, "node-address", func(name string, v *hocon.Value) bool {
		switch name {
		case "protocol":
			protocol = v.Text()
		case "host":
			host = v.Text()
		case "port":
			port = v.Text()
		case "context-path":
			context = strings.Trim(v.Text(), "/")
		default:
			return false
		}
		return true
	})
	if host == "*" {
		if context != "" {
			m.warn(v, "node-address.context-path: not in queue URLs together with the host *; set sqs.url_base")
		}
		return
	}
	url := protocol + "://" + net.JoinHostPort(host, port)
	if context != "" {
		url += "/" + context
	}
	m.put("sqs.url_base", url, v)
}

func (m *elasticMQ) restSQS(v *hocon.Value) {
	m.each(v, "rest-sqs", func(name string, v *hocon.Value) bool {
		switch name {
		case "enabled":
			if on, err := v.Bool(); m.check("rest-sqs.enabled", err) && !on {
				m.warn(v, "rest-sqs.enabled: the SQS listener is started all the same")
			}
		case "bind-port", "bind-hostname": // see below
		case "sqs-limits":
			switch strings.ToLower(v.Text()) {
			case "strict":
			case "relaxed":
				m.warn(v, "rest-sqs.sqs-limits: sizes and batches keep the limits of SQS")
			default:
				m.fail("import: %s: rest-sqs.sqs-limits: %q is not strict or relaxed", v.Pos(), v.Text())
			}
		default:
			return false
		}
		return true
	})
	if addr := m.bind(v, "rest-sqs", elasticMQPort); addr != "" {
		m.put("sqs.listen", addr, v)
	}
}

// bind returns the address that a section binds to, "" if it names none.
func (m *elasticMQ) bind(v *hocon.Value, under, port string) string {
	host := v.Get("bind-hostname").Text()
	if p := v.Get("bind-port"); p != nil {
		n, err := p.Int()
		if !m.check(under+".bind-port", err) {
			return ""
		}
		port = strconv.FormatInt(n, 10)
	} else if host == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

func (m *elasticMQ) restStats(v *hocon.Value) {
	m.each(v, "rest-stats", func(name string, v *hocon.Value) bool {
		switch name {
		case "enabled":
			if on, err := v.Bool(); m.check("rest-stats.enabled", err) && !on {
				m.warn(v, "rest-stats.enabled: the admin listener is started all the same")
			}
		case "bind-port", "bind-hostname": // see below
		default:
			return false
		}
		return true
	})
	if addr := m.bind(v, "rest-stats", "9325"); addr != "" {
		m.warn(v, "rest-stats: the admin listener takes this address; it has an API of its own, not ElasticMQ's")
		m.put("admin.listen", addr, v)
	}
}

func (m *elasticMQ) autoCreate(v *hocon.Value) {
	enabled := m.enabled(v)
	m.each(v, "auto-create-queues", func(name string, v *hocon.Value) bool {
		switch {
		case name == "template" && enabled:
			q := Queue{}
			m.queue(&q, "auto-create-queues.template", v)
			if q.FIFO != nil && *q.FIFO {
				m.warn(v, "auto-create-queues.template.fifo: a queue is FIFO if its name ends in %s, and else is not", fifoSuffix)
			}
			q.FIFO = nil
			m.out.Config.AutoCreateQueue, m.template = &q, v
			m.out.origins["auto_create_queue"] = "import " + m.path
		case name != "template" && name != "enabled":
			return false
		}
		return true
	})
	if enabled {
		m.put("sqs.auto_create", "true", v)
	}
}

func (m *elasticMQ) readQueues(v *hocon.Value) {
	m.each(v, "queues", func(name string, v *hocon.Value) bool {
		q := Queue{Name: name}
		m.queue(&q, "queues."+name, v)
		if q.FIFO != nil && *q.FIFO && !q.IsFIFO() {
			q.Name += fifoSuffix // as ElasticMQ does
		}
		m.places[q.Name] = v
		m.queues = append(m.queues, q)
		return true
	})
}

// queue reads the attributes of a queue.
func (m *elasticMQ) queue(q *Queue, under string, v *hocon.Value) {
	m.each(v, under, func(name string, v *hocon.Value) bool {
		key := under + "." + name
		switch name {
		case "defaultVisibilityTimeout":
			q.VisibilityTimeout = m.seconds(key, v)
		case "delay":
			q.Delay = m.seconds(key, v)
		case "receiveMessageWait":
			q.ReceiveWait = m.seconds(key, v)
		case "fifo":
			if b, err := v.Bool(); m.check(key, err) && b {
				q.FIFO = &b
			}
		case "contentBasedDeduplication":
			if b, err := v.Bool(); m.check(key, err) && b {
				q.ContentDedup = &b
			}
		case "deadLettersQueue":
			m.deadLetters(q, key, v)
		case "copyTo":
			if v.Text() != "" {
				q.CopyTo = []string{v.Text()}
			}
		case "moveTo":
			q.MoveTo = v.Text()
		case "tags":
			m.each(v, key, func(name string, v *hocon.Value) bool {
				if v.Kind() != hocon.Text {
					m.fail("import: %s: %s.%s: %s is not a text", v.Pos(), key, name, v.Kind())
					return true
				}
				if q.Tags == nil {
					q.Tags = map[string]string{}
				}
				q.Tags[name] = v.Text()
				return true
			})
		case "created", "lastModified":
			m.warn(v, "%s: not kept; a queue has the times at which this broker made and changed it", key)
		default:
			return false
		}
		return true
	})
}

// seconds reads a duration as ElasticMQ does, which cuts it to whole seconds: 10
// alone is ten milliseconds, hence none.
func (m *elasticMQ) seconds(key string, v *hocon.Value) *time.Duration {
	d, err := v.Duration()
	if !m.check(key, err) {
		return nil
	}
	cut := d.Truncate(time.Second)
	if cut != d {
		m.warn(v, "%s: %v is %v for ElasticMQ, which cuts to whole seconds; so it is here", key, d, cut)
	}
	return &cut
}

func (m *elasticMQ) deadLetters(q *Queue, under string, v *hocon.Value) {
	m.each(v, under, func(name string, v *hocon.Value) bool {
		switch name {
		case "name":
			q.DeadLetter.Queue = v.Text()
		case "maxReceiveCount":
			if n, err := v.Int(); m.check(under+"."+name, err) {
				most := int(n)
				q.DeadLetter.MaxReceives = &most
			}
		default:
			return false
		}
		return true
	})
	if q.DeadLetter.Queue == "" || q.DeadLetter.MaxReceives == nil {
		m.fail("import: %s: %s: name and maxReceiveCount are needed", v.Pos(), under)
	}
}

// finishQueues adds the queues, once all of them are known. ElasticMQ starts
// with dead-letter queues that cannot be, hence so does a node.
func (m *elasticMQ) finishQueues() {
	there := map[string]bool{}
	for _, q := range m.queues {
		there[q.Name] = true
	}
	for _, q := range m.queues {
		place := m.places[q.Name]
		if q.IsFIFO() && q.FIFO == nil {
			m.warn(place, "queues.%s: a queue whose name ends in %s is FIFO here", q.Name, fifoSuffix)
		}
		if !q.IsFIFO() && q.ContentDedup != nil {
			m.warn(place, "queues.%s.contentBasedDeduplication: only FIFO queues deduplicate; ignored", q.Name)
			q.ContentDedup = nil
		}
		m.finishDeadLetters(&q, there, "queues."+q.Name, place)
		if q.DeadLetter.Queue != "" && q.IsFIFO() != strings.HasSuffix(q.DeadLetter.Queue, fifoSuffix) {
			m.warn(place, "queues.%s.deadLettersQueue: %s is not of the same kind, FIFO or not, and SQS demands that; ignored: messages are received again and again",
				q.Name, q.DeadLetter.Queue)
			q.DeadLetter = DeadLetter{}
		}
		m.finishRoutes(&q, there, "queues."+q.Name, place)
		m.out.Config.putQueue(q)
		m.out.origins["queues"], m.out.origins["queues."+q.Name] = "import "+m.path, origin(place)
	}
	if q := m.out.Config.AutoCreateQueue; q != nil {
		m.finishDeadLetters(q, there, "auto-create-queues.template", m.template)
		m.finishRoutes(q, there, "auto-create-queues.template", m.template)
	}
}

// finishRoutes leaves out what cannot be followed. ElasticMQ starts with it.
func (m *elasticMQ) finishRoutes(q *Queue, there map[string]bool, key string, place *hocon.Value) {
	usable := func(name, to string) string {
		if !there[to] && there[to+fifoSuffix] {
			to += fifoSuffix
		}
		switch {
		case to == "":
		case to == q.Name:
			m.warn(place, "%s.%s: that is the queue itself; ignored", key, name)
			return ""
		case !there[to]:
			m.warn(place, "%s.%s: %s is not among queues; ignored", key, name, to)
			return ""
		}
		return to
	}
	q.MoveTo = usable("moveTo", q.MoveTo)
	if len(q.CopyTo) == 0 {
		return
	}
	switch to := usable("copyTo", q.CopyTo[0]); to {
	case "":
		q.CopyTo = nil
	case q.MoveTo:
		m.warn(place, "%s.copyTo: %s gets each message once, since it is moved there too", key, to)
		q.CopyTo = nil
	default:
		q.CopyTo = []string{to}
	}
}

// finishDeadLetters sees to it that the dead-letter queue of q is there.
func (m *elasticMQ) finishDeadLetters(q *Queue, there map[string]bool, key string, place *hocon.Value) {
	d := &q.DeadLetter
	if d.Queue != "" && !there[d.Queue] && there[d.Queue+fifoSuffix] {
		d.Queue += fifoSuffix
	}
	switch {
	case d.Queue == "":
	case d.Queue == q.Name:
		m.warn(place, "%s.deadLettersQueue: that is the queue itself; ignored", key)
		*d = DeadLetter{}
	case !there[d.Queue]:
		m.warn(place, "%s.deadLettersQueue: %s is not among queues; it is created too", key, d.Queue)
		m.out.Config.putQueue(Queue{Name: d.Queue})
		there[d.Queue] = true
	}
}
