package sqs

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/leasemq/broker/core"
)

// redrivePolicy returns the canonical form, which Terraform compares.
func (s *Server) redrivePolicy(c *core.QueueConfig) (string, bool) {
	if c.Redelivery.DeadLetterQueue == "" {
		return "", false
	}
	b := append([]byte(nil), `{"deadLetterTargetArn":`...)
	b = appendQuoted(b, bytesOf(s.arn(c.Redelivery.DeadLetterQueue)))
	b = append(b, `,"maxReceiveCount":`...)
	b = strconv.AppendInt(b, int64(c.Redelivery.MaxReceives), 10)
	return string(append(b, '}')), true
}

// Bounds of maxReceiveCount.
const (
	maxReceivesMin = 1
	maxReceivesMax = 1000
)

// setRedrivePolicy reads {"deadLetterTargetArn":"...","maxReceiveCount":3}; the
// count may be a string. An empty value removes the policy.
func (c *call) setRedrivePolicy(cfg *core.QueueConfig, value string) error {
	if value == "" {
		cfg.Redelivery.DeadLetterQueue, cfg.Redelivery.MaxReceives = "", 0
		return nil
	}
	wrong := func(reason string) error { return invalid(text(value), attrRedrive, reason) }
	var p struct {
		Target *string        `json:"deadLetterTargetArn"`
		Count  jsontext.Value `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(value), &p); err != nil {
		return wrong("Redrive policy is not a valid JSON map.")
	}
	switch {
	case p.Target == nil:
		return wrong("Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
	case p.Count == nil:
		return wrong("Redrive policy does not contain mandatory attribute: maxReceiveCount.")
	}
	digits := string(p.Count)
	if unquoted, err := jsontext.AppendUnquote(nil, p.Count); err == nil {
		digits = string(unquoted)
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < maxReceivesMin || n > maxReceivesMax {
		return wrong("Invalid value for maxReceiveCount: " + digits + ", valid values are from 1 to 1000 both inclusive.")
	}
	name, ok := c.server.queueOfARN(*p.Target)
	if !ok {
		return wrong("Dead letter target does not exist.")
	}
	cfg.Redelivery.DeadLetterQueue, cfg.Redelivery.MaxReceives = name, n
	return nil
}

// checkDeadLetterQueue checks that the dead-letter queue in cfg, the one of queue
// name, exists, is of the same kind, and allows it.
func (c *call) checkDeadLetterQueue(cfg *core.QueueConfig, name string, value text) error {
	dlq, err := c.client.Queue(contextOfWork(), cfg.Redelivery.DeadLetterQueue)
	switch {
	case errors.Is(err, core.ErrNoQueue):
		return invalid(value, attrRedrive, "Dead letter target does not exist.")
	case err != nil:
		return err
	case (dlq.Config.Kind == core.KindFIFO) != (cfg.Kind == core.KindFIFO):
		return invalid(value, attrRedrive, "Dead-letter queue must be same type of queue as the source.")
	}
	if !allowsDeadLetter(&dlq.Config, c.server.arn(name)) {
		return invalid(value, attrRedrive, "Queue "+name+" does not have permission to use the target as its dead-letter queue.")
	}
	return nil
}

// AllowDeadLetter returns core.Options.AllowDeadLetter by the RedriveAllowPolicy of
// queues whose ARNs have that region and account.
func AllowDeadLetter(region, account string) func(deadLetter *core.QueueConfig, source string) bool {
	o := Options{Region: region, Account: account}
	return func(deadLetter *core.QueueConfig, source string) bool {
		return allowsDeadLetter(deadLetter, o.arn(source))
	}
}

// allowsDeadLetter tells whether a queue lets the one of an ARN name it as its
// dead-letter queue.
func allowsDeadLetter(deadLetter *core.QueueConfig, source string) bool {
	allow, err := parseRedriveAllow(deadLetter.Attributes[attrRedriveAllow])
	switch {
	case err != nil:
		return true // it was checked when it was set
	case allow.Permission == allowByQueue:
		return slices.Contains(allow.Sources, source)
	}
	return allow.Permission != allowNone
}

// The permissions of a RedriveAllowPolicy.
const (
	allowEvery      = "allowAll"
	allowNone       = "denyAll"
	allowByQueue    = "byQueue"
	allowSourcesMax = 10
)

// textNoRedriveAllow begins what AWS says of a RedriveAllowPolicy.
const textNoRedriveAllow = "Amazon SQS can't create the redrive allow policy. "

// redriveAllow is a RedriveAllowPolicy.
type redriveAllow struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns"`
}

// parseRedriveAllow reads a RedriveAllowPolicy; none at all allows every queue.
func parseRedriveAllow(value string) (redriveAllow, error) {
	if value == "" {
		return redriveAllow{Permission: allowEvery}, nil
	}
	wrong := func(reason string) error {
		return invalid(text(value), attrRedriveAllow, textNoRedriveAllow+reason)
	}
	var p redriveAllow
	if err := json.Unmarshal([]byte(value), &p); err != nil {
		return p, wrong("It must be a JSON map of redrivePermission and sourceQueueArns.")
	}
	switch p.Permission {
	case allowEvery, allowNone:
		if len(p.Sources) > 0 {
			return p, wrong("To specify one or more source queue ARNs, you must set redrivePermission to byQueue.")
		}
	case allowByQueue:
		if len(p.Sources) == 0 {
			return p, wrong("When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values.")
		}
		if len(p.Sources) > allowSourcesMax {
			return p, wrong("You can specify up to 10 sourceQueueArns values.")
		}
		if i := slices.IndexFunc(p.Sources, func(arn string) bool { return !isQueueARN(arn) }); i >= 0 {
			return p, wrong("The value " + p.Sources[i] + " of sourceQueueArns is not the ARN of a queue.")
		}
	default:
		return p, wrong("The redrivePermission must be allowAll, denyAll or byQueue.")
	}
	return p, nil
}

// canonical returns the form that is kept, whatever was sent.
func (p redriveAllow) canonical() string {
	b := append([]byte(nil), `{"redrivePermission":`...)
	b = appendQuoted(b, bytesOf(p.Permission))
	if len(p.Sources) > 0 {
		b = append(b, `,"sourceQueueArns":[`...)
		for i, arn := range p.Sources {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendQuoted(b, bytesOf(arn))
		}
		b = append(b, ']')
	}
	return string(append(b, '}'))
}

// isQueueARN tells whether arn is that of a queue, of whatever account.
func isQueueARN(arn string) bool {
	parts := strings.Split(arn, ":")
	return len(parts) == 6 && parts[0] == "arn" && parts[2] == "sqs" && isAccount(parts[4]) && validQueueName(parts[5])
}
