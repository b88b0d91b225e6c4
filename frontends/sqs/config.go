package sqs

import (
	"maps"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/leasemq/broker/core"
)

// The attributes of a queue.
const (
	attrPolicy            = "Policy"
	attrVisibility        = "VisibilityTimeout"
	attrMaxMessageSize    = "MaximumMessageSize"
	attrRetention         = "MessageRetentionPeriod"
	attrMessages          = "ApproximateNumberOfMessages"
	attrNotVisible        = "ApproximateNumberOfMessagesNotVisible"
	attrCreated           = "CreatedTimestamp"
	attrModified          = "LastModifiedTimestamp"
	attrARN               = "QueueArn"
	attrDelayed           = "ApproximateNumberOfMessagesDelayed"
	attrDelay             = "DelaySeconds"
	attrWait              = "ReceiveMessageWaitTimeSeconds"
	attrRedrive           = "RedrivePolicy"
	attrFIFOQueue         = "FifoQueue"
	attrContentDedup      = "ContentBasedDeduplication"
	attrKMSKey            = "KmsMasterKeyId"
	attrKMSReuse          = "KmsDataKeyReusePeriodSeconds"
	attrDedupScope        = "DeduplicationScope"
	attrThroughput        = "FifoThroughputLimit"
	attrRedriveAllow      = "RedriveAllowPolicy"
	attrManagedEncryption = "SqsManagedSseEnabled"
	attrPublishTopic      = "PublishTopic" // not of AWS: core.Routes.PublishTopic
)

// attributeList lists the attributes of a queue in the order of the API
// reference, and those that AWS does not have.
func attributeList() []string {
	return []string{
		attrPolicy, attrVisibility, attrMaxMessageSize, attrRetention, attrMessages, attrNotVisible, attrCreated,
		attrModified, attrARN, attrDelayed, attrDelay, attrWait, attrRedrive, attrFIFOQueue, attrContentDedup,
		attrKMSKey, attrKMSReuse, attrDedupScope, attrThroughput, attrRedriveAllow, attrManagedEncryption,
		attrPublishTopic,
	}
}

func isCount(name string) bool {
	return name == attrMessages || name == attrNotVisible || name == attrDelayed
}

// Values of attributes, where they are words.
const (
	scopeQueue      = "queue"
	scopeGroup      = "messageGroup"
	perQueue        = "perQueue"
	perGroup        = "perMessageGroupId"
	kmsReuseDefault = "300"
)

// attribute returns the value of an attribute as GetQueueAttributes shows it,
// and whether the queue has one. stats may be nil if name is no count.
func (s *Server) attribute(q *core.Queue, stats *core.QueueStats, name string) (value string, ok bool) {
	c := &q.Config
	switch name {
	case attrARN:
		return s.arn(q.Name), true
	case attrCreated:
		return strconv.FormatInt(q.CreatedAt/1000, 10), true
	case attrModified:
		return strconv.FormatInt(q.ModifiedAt/1000, 10), true
	case attrDelay:
		return seconds(c.Delay), true
	case attrVisibility:
		return seconds(c.VisibilityTimeout), true
	case attrRetention:
		return seconds(c.Retention), true
	case attrWait:
		return seconds(c.ReceiveWait), true
	case attrMaxMessageSize:
		if c.MaxMessageBytes == 0 {
			return strconv.Itoa(s.options.MessageBytesMax), true
		}
		return strconv.FormatInt(c.MaxMessageBytes, 10), true
	case attrRedrive:
		return s.redrivePolicy(c)
	case attrPublishTopic:
		return c.Routes.PublishTopic, c.Routes.PublishTopic != ""
	}
	if isCount(name) && stats != nil {
		return count(stats, name), true
	}
	if v, ok, isFIFO := fifoAttribute(c, name); isFIFO {
		return v, ok
	}
	return keptAttribute(c, name)
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

func count(stats *core.QueueStats, name string) string {
	n := stats.Ready
	switch name {
	case attrNotVisible:
		n = stats.InFlight
	case attrDelayed:
		n = stats.Delayed
	}
	return strconv.FormatInt(n, 10)
}

// fifoAttribute is attribute for those that only FIFO queues have; known tells
// whether name is one.
func fifoAttribute(c *core.QueueConfig, name string) (value string, ok, known bool) {
	isFIFO := c.Kind == core.KindFIFO
	switch name {
	case attrFIFOQueue:
		return "true", isFIFO, true
	case attrContentDedup:
		return strconv.FormatBool(c.ContentDedup), isFIFO, true
	case attrDedupScope:
		if c.DedupScope == core.DedupGroup {
			return scopeGroup, isFIFO, true
		}
		return scopeQueue, isFIFO, true
	case attrThroughput:
		if v, ok := c.Attributes[attrThroughput]; ok {
			return v, isFIFO, true
		}
		return perQueue, isFIFO, true
	}
	return "", false, false
}

// keptAttribute is attribute for those that are kept as they were sent.
func keptAttribute(c *core.QueueConfig, name string) (value string, ok bool) {
	value, ok = c.Attributes[name]
	_, hasKey := c.Attributes[attrKMSKey]
	switch {
	case name == attrManagedEncryption && hasKey:
		return "false", true
	case name == attrManagedEncryption && !ok:
		return "true", true
	case name == attrKMSReuse && hasKey && !ok:
		return kmsReuseDefault, true
	}
	return value, ok
}

func invalidAttribute(name string) error {
	return fail(faultInvalidAttributeValue, "Invalid value for the parameter %s.", name)
}

func unknownAttribute(name string) error {
	return fail(faultInvalidAttributeName, "Unknown Attribute %s.", name)
}

// applyAttributes checks the attributes of the request, including what the
// dead-letter queue says to them, and sets them in cfg.
func (c *call) applyAttributes(cfg *core.QueueConfig, name string, create bool) error {
	if err := c.setAttributes(cfg, create); err != nil {
		return err
	}
	for _, a := range c.params.attributes {
		if a.name.view() == attrRedrive && len(a.value) > 0 {
			return c.checkDeadLetterQueue(cfg, name, a.value)
		}
	}
	return nil
}

// setAttributes sets the attributes of the request in cfg, which may share its
// maps with others.
func (c *call) setAttributes(cfg *core.QueueConfig, create bool) error {
	cfg.Attributes = maps.Clone(cfg.Attributes)
	var sse encryption
	for _, a := range c.params.attributes {
		name := string(a.name)
		if err := c.setAttribute(cfg, name, string(a.value), create); err != nil {
			return err
		}
		sse.see(name, a.value.view())
	}
	return reconcile(cfg, sse)
}

// encryption is what attributes of one request ask for.
type encryption struct{ kms, managed bool }

func (e *encryption) see(name, value string) {
	e.kms = e.kms || name == attrKMSKey && value != ""
	e.managed = e.managed || name == attrManagedEncryption && value == "true"
}

// reconcile checks what attributes that have been set in cfg are to each other.
func reconcile(cfg *core.QueueConfig, asked encryption) error {
	switch {
	case asked.kms && asked.managed:
		return fail(faultInvalidAttributeName, "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
	case asked.kms:
		delete(cfg.Attributes, attrManagedEncryption)
	case asked.managed:
		delete(cfg.Attributes, attrKMSKey)
		delete(cfg.Attributes, attrKMSReuse)
	}
	if cfg.Attributes[attrThroughput] == perGroup && cfg.DedupScope != core.DedupGroup {
		return fail(faultInvalidAttributeValue, "Invalid value for the parameter %s. Reason: %s is allowed only when %s is set to %s.", attrThroughput, perGroup, attrDedupScope, scopeGroup)
	}
	return nil
}

func (c *call) setAttribute(cfg *core.QueueConfig, name, value string, create bool) error {
	switch name {
	case attrDelay:
		return setSeconds(&cfg.Delay, name, value, 0, delayMax)
	case attrVisibility:
		return setSeconds(&cfg.VisibilityTimeout, name, value, 0, visibilityMax)
	case attrRetention:
		return setSeconds(&cfg.Retention, name, value, 60, 1_209_600)
	case attrWait:
		return setSeconds(&cfg.ReceiveWait, name, value, 0, waitSecondsMax)
	case attrMaxMessageSize:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1024 || n > int64(c.server.options.MessageBytesMax) {
			return invalidAttribute(name)
		}
		cfg.MaxMessageBytes = n
		return nil
	case attrRedrive:
		return c.setRedrivePolicy(cfg, value)
	case attrFIFOQueue, attrContentDedup, attrDedupScope, attrThroughput:
		return setFIFOAttribute(cfg, name, value, create)
	case attrPublishTopic:
		if !validText(bytesOf(value)) {
			return invalidAttribute(name)
		}
		cfg.Routes.PublishTopic = value // the core checks it
		return nil
	}
	return setKept(cfg, name, value)
}

func setSeconds(field *time.Duration, name, value string, low, high int64) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		return invalidAttribute(name)
	}
	*field = time.Duration(n) * time.Second
	return nil
}

// setFIFOAttribute sets what only FIFO queues have.
func setFIFOAttribute(cfg *core.QueueConfig, name, value string, create bool) error {
	if cfg.Kind != core.KindFIFO {
		if name == attrFIFOQueue || name == attrContentDedup {
			return unknownAttribute(name)
		}
		return fail(faultInvalidAttributeName, "You can specify the %s only when FifoQueue is set to true.", name)
	}
	switch name + "=" + value {
	case attrFIFOQueue + "=true":
	case attrFIFOQueue + "=false":
		if !create {
			return fail(faultInvalidAttributeValue, "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.")
		}
		return invalidAttribute(name)
	case attrContentDedup + "=true":
		cfg.ContentDedup = true
	case attrContentDedup + "=false":
		cfg.ContentDedup = false
	case attrDedupScope + "=" + scopeQueue:
		cfg.DedupScope = core.DedupQueue
	case attrDedupScope + "=" + scopeGroup:
		cfg.DedupScope = core.DedupGroup
	case attrThroughput + "=" + perQueue, attrThroughput + "=" + perGroup:
		keep(cfg, name, value)
	default:
		return invalidAttribute(name)
	}
	return nil
}

// setKept checks an attribute that the core has no field for, and keeps it. An
// empty value removes it.
func setKept(cfg *core.QueueConfig, name, value string) error {
	ok := false
	switch name {
	case attrPolicy:
		ok = value == "" || len(value) <= policyBytesMax && isJSONObject(value)
	case attrRedriveAllow:
		if len(value) > policyBytesMax {
			return invalidAttribute(name)
		}
		p, err := parseRedriveAllow(value)
		if err != nil {
			return err
		}
		ok = true
		if value != "" {
			value = p.canonical()
		}
	case attrKMSKey:
		ok = len(value) <= 2048 && validText(bytesOf(value))
	case attrKMSReuse:
		n, err := strconv.ParseInt(value, 10, 64)
		ok = err == nil && 60 <= n && n <= 86_400
	case attrManagedEncryption:
		ok = value == "true" || value == "false"
	default:
		return unknownAttribute(name)
	}
	if !ok {
		return invalidAttribute(name)
	}
	if value == "" {
		delete(cfg.Attributes, name)
		return nil
	}
	keep(cfg, name, value)
	return nil
}

func keep(cfg *core.QueueConfig, name, value string) {
	if cfg.Attributes == nil {
		cfg.Attributes = make(map[string]string)
	}
	cfg.Attributes[name] = value
}

func isJSONObject(s string) bool {
	v := jsontext.Value(s)
	return v.IsValid() && v.Kind() == '{'
}
