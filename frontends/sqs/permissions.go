package sqs

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/leasemq/broker/core"
)

// Bounds of a policy and of what AddPermission adds to it.
const (
	policyBytesMax      = 8192
	policyStatementsMax = 20
	grantsMax           = 7
	labelMax            = 80
)

// addPermission adds a statement to the policy. Like the rest of a policy it is
// kept and shown, not enforced.
func addPermission(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	if err := c.checkPermission(); err != nil {
		return err
	}
	s := c.statement(q.Name)
	_, err = c.client.Configure(contextOfWork(), q.Name, func(cfg *core.QueueConfig) error {
		p, err := c.policyOf(cfg, q.Name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(p.statements, c.isLabelled) {
			return invalid(c.params.label, "Label", "Already exists.")
		}
		p.statements = append(p.statements, s)
		document := p.encode()
		if len(p.statements) > policyStatementsMax || len(document) > policyBytesMax {
			return fail(faultOverLimit, "The policy of the queue would exceed %d statements or %d bytes.", policyStatementsMax, policyBytesMax)
		}
		keep(cfg, attrPolicy, document)
		return nil
	})
	if err != nil {
		return err
	}
	c.answer.void("AddPermission", c.id())
	return nil
}

// removePermission takes the statement with the label out of the policy, which
// goes with its last one.
func removePermission(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	if len(c.params.label) == 0 {
		return missing("Label")
	}
	_, err = c.client.Configure(contextOfWork(), q.Name, func(cfg *core.QueueConfig) error {
		p, err := c.policyOf(cfg, q.Name)
		if err != nil {
			return err
		}
		before := len(p.statements)
		p.statements = slices.DeleteFunc(p.statements, c.isLabelled)
		switch len(p.statements) {
		case before:
			return invalid(c.params.label, "Label", "can't find label.")
		case 0:
			delete(cfg.Attributes, attrPolicy)
		default:
			keep(cfg, attrPolicy, p.encode())
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.answer.void("RemovePermission", c.id())
	return nil
}

// checkPermission checks the parameters of AddPermission.
func (c *call) checkPermission() error {
	p := &c.params
	switch {
	case len(p.label) == 0:
		return missing("Label")
	case len(p.label) > labelMax || slices.ContainsFunc(p.label, func(b byte) bool { return !isNameByte(b) }):
		return invalid(p.label, "Label", textQueueName+".")
	case len(p.grants) == 0:
		return missing("Actions")
	case len(p.grants) > grantsMax:
		return fail(faultOverLimit, "%d Actions were found, maximum allowed is %d.", len(p.grants), grantsMax)
	case p.accounts == nil:
		return missing("AWSAccountIds")
	case len(p.accounts) == 0:
		return badPrincipal("")
	}
	for _, grant := range p.grants {
		if err := c.checkGrant(grant.view()); err != nil {
			return err
		}
	}
	for _, account := range p.accounts {
		if !isAccount(account.view()) {
			return badPrincipal(account.view())
		}
	}
	return nil
}

func badPrincipal(account string) error {
	return invalid(text("["+account+"]"), "PrincipalId", "Unable to verify.")
}

// checkGrant tells whether an action may be granted to others. That of a batch
// goes with its single one.
func (c *call) checkGrant(action string) error {
	switch action {
	case "*", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl",
		"ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage", "SendMessage":
		return nil
	}
	reason := "Please refer to the appropriate WSDL for a list of valid actions."
	if _, ok := c.server.actions[action]; ok && !strings.HasSuffix(action, "Batch") {
		reason = "Only the queue owner is allowed to invoke this action."
	}
	return invalid(text("SQS:"+action), "ActionName", reason)
}

// statement returns the statement that AddPermission asks for.
func (c *call) statement(queue string) jsontext.Value {
	accounts := each(c.params.accounts, func(id string) string { return "arn:aws:iam::" + id + ":root" })
	grants := each(c.params.grants, func(action string) string { return "SQS:" + action })
	b := append([]byte(nil), `{"Sid":`...)
	b = appendQuoted(b, c.params.label)
	b = append(b, `,"Effect":"Allow","Principal":{"AWS":`...)
	b = appendOneOrMore(b, accounts)
	b = append(b, `},"Action":`...)
	b = appendOneOrMore(b, grants)
	b = append(b, `,"Resource":`...)
	b = appendQuoted(b, bytesOf(c.server.arn(queue)))
	return append(b, '}')
}

// each returns what f makes of each value, without repetitions.
func each(values []text, f func(string) string) (out []string) {
	for _, v := range values {
		if s := f(v.view()); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// appendOneOrMore appends a single value as a string, and several as an array.
func appendOneOrMore(b []byte, values []string) []byte {
	if len(values) == 1 {
		return appendQuoted(b, bytesOf(values[0]))
	}
	for i, v := range values {
		b = append(b, "[,"[min(i, 1)])
		b = appendQuoted(b, bytesOf(v))
	}
	return append(b, ']')
}

// isLabelled tells whether a statement of a policy has the label of the request.
func (c *call) isLabelled(statement jsontext.Value) bool {
	var s struct{ Sid string }
	return json.Unmarshal(statement, &s) == nil && s.Sid == c.params.label.view()
}

// policy is a policy document.
type policy struct {
	head       []policyMember // all but the statements, in their order
	statements []jsontext.Value
}

type policyMember struct {
	name  string
	value jsontext.Value
}

// policyOf returns the policy in cfg, of the queue called name; one without
// statements if there is none.
func (c *call) policyOf(cfg *core.QueueConfig, name string) (*policy, error) {
	document := cfg.Attributes[attrPolicy]
	if document == "" {
		id := appendQuoted(nil, bytesOf(c.server.arn(name)+"/SQSDefaultPolicy"))
		return &policy{head: []policyMember{{"Version", jsontext.Value(`"2008-10-17"`)}, {"Id", id}}}, nil
	}
	p, err := parsePolicy(document)
	if err != nil {
		return nil, invalidAttribute(attrPolicy)
	}
	return p, nil
}

func parsePolicy(document string) (*policy, error) {
	d := jsontext.NewDecoder(strings.NewReader(document))
	p := &policy{}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := policyMember{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if m.name != "Statement" {
			m.value = bytes.Clone(value)
			p.head = append(p.head, m)
			continue
		}
		// A single statement may stand without its array.
		if value.Kind() == '{' {
			p.statements = []jsontext.Value{bytes.Clone(value)}
		} else if err := json.Unmarshal(value, &p.statements); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return p, err
}

func (p *policy) encode() string {
	b := []byte{'{'}
	for _, m := range p.head {
		b = appendQuoted(b, bytesOf(m.name))
		b = append(b, ':')
		b = append(append(b, m.value...), ',')
	}
	b = append(b, `"Statement":`...)
	for i, s := range p.statements {
		b = append(b, "[,"[min(i, 1)])
		b = append(b, s...)
	}
	return string(append(b, "]}"...))
}
