package sqs

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"slices"
)

// queryPairsMax bounds the parameters of a Query request. A full batch with ten
// attributes for each message and every optional parameter has under 500.
const queryPairsMax = 4096

// Errors of the Query decoder.
var (
	errQuerySyntax = errors.New("a percent sign is not followed by two hexadecimal digits")
	errQueryPairs  = errors.New("there are too many parameters")
)

// decodeQuery reads parameters in the flat form of the Query protocol from a
// query string or a form body, and adds them to what p holds. It returns the
// value of Action. Parameters that it does not know are skipped; of two with
// one name the last wins. sortQuery is called once all is read.
func decodeQuery(form []byte, a *arena, p *params, action text) (text, error) {
	for pairs := 0; len(form) > 0; {
		var field []byte
		field, form, _ = bytes.Cut(form, []byte{'&'})
		if len(field) == 0 {
			continue
		}
		if pairs++; pairs > queryPairsMax {
			return nil, errQueryPairs
		}
		rawKey, rawValue, _ := bytes.Cut(field, []byte{'='})
		key, err := unescapeQuery(rawKey, a)
		if err != nil {
			return nil, err
		}
		value, err := unescapeQuery(rawValue, a)
		if err != nil {
			return nil, err
		}
		if key.view() == "Action" {
			action = value
			continue
		}
		if err := p.set(key, value); err != nil {
			return nil, err
		}
	}
	return action, nil
}

// unescapeQuery resolves %XX and +. The result is a view of b where there is
// nothing to resolve.
func unescapeQuery(b []byte, a *arena) (text, error) {
	if bytes.IndexByte(b, '%') < 0 && bytes.IndexByte(b, '+') < 0 {
		return text(b[:len(b):len(b)]), nil
	}
	dst := a.room(len(b))
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '+':
			dst = append(dst, ' ')
		case '%':
			if i+2 >= len(b) {
				return nil, errQuerySyntax
			}
			var d [1]byte
			if _, err := hex.Decode(d[:], b[i+1:i+3]); err != nil {
				return nil, errQuerySyntax
			}
			dst = append(dst, d[0])
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return a.commit(dst), nil
}

// step splits the first name off a key such as "Attribute.1.Name".
func step(key text) (name string, rest text) {
	head, tail, _ := bytes.Cut(key, []byte{'.'})
	return text(head).view(), text(tail)
}

// number splits the index off the rest of a key. A key without one, such as
// boto2's plain AttributeName, is the first of its list.
func number(rest text) (index int, after text, ok bool) {
	if len(rest) == 0 {
		return 0, nil, true
	}
	head, tail, _ := bytes.Cut(rest, []byte{'.'})
	if len(head) == 0 || len(head) > 9 {
		return 0, nil, false
	}
	for _, c := range head {
		if c < '0' || c > '9' {
			return 0, nil, false
		}
		index = index*10 + int(c-'0')
	}
	return index, text(tail), true
}

// set takes one parameter.
func (p *params) set(key, value text) error {
	name, rest := step(key)
	if len(rest) == 0 && p.setScalar(name, value) {
		return nil
	}
	index, after, ok := number(rest)
	if !ok {
		return nil
	}
	switch name {
	case "Attribute":
		setPair(at(&p.attributes, index), after, value)
		p.attributesSent = true
	case "Tag":
		setPair(at(&p.tags, index), after, value)
	case "TagKey":
		return addName(&p.tagKeys, value)
	case "AWSAccountId":
		return addName(&p.accounts, value)
	case "ActionName":
		return addName(&p.grants, value)
	case "AttributeName", "MessageSystemAttributeName":
		return addName(&p.names, value)
	case "MessageAttributeName":
		return addName(&p.messageNames, value)
	case "SendMessageBatchRequestEntry", "DeleteMessageBatchRequestEntry", "ChangeMessageVisibilityBatchRequestEntry":
		p.entryAt(index).set(after, value)
	default:
		p.one.set(key, value)
	}
	return nil
}

// setScalar takes a parameter without an index and tells whether name is one.
func (p *params) setScalar(name string, value text) bool {
	switch name {
	case "QueueUrl":
		p.queueURL = value
	case "QueueName":
		p.queueName = value
	case "QueueOwnerAWSAccountId":
		p.owner = value
	case "QueueNamePrefix":
		p.prefix = value
	case "NextToken":
		p.nextToken = value
	case "ReceiveRequestAttemptId":
		p.attemptID = value
	case "Label":
		p.label = value
	case "ShowInvisible":
		p.showInvisible = value.view() == "true"
	case "ShowDelayed":
		p.showDelayed = value.view() == "true"
	case "MaxResults":
		p.maxResults, _ = parseInteger(value)
	case "MaxNumberOfMessages":
		p.max, _ = parseInteger(value)
	case "WaitTimeSeconds":
		p.wait, _ = parseInteger(value)
	case "DefaultVisibilityTimeout": // of the API of 2008, which kombu still sends
		p.attributes = append(p.attributes, pair{name: text("VisibilityTimeout"), value: value, index: -1})
		p.attributesSent = true
	default:
		return p.move.set(name, value)
	}
	return true
}

// set takes a parameter of one message to send, delete or change.
func (e *entry) set(key, value text) {
	name, rest := step(key)
	switch name {
	case "Id":
		e.id = value
	case "MessageBody":
		e.body = value
	case "MessageGroupId":
		e.group = value
	case "MessageDeduplicationId":
		e.dedupID = value
	case "ReceiptHandle":
		e.handle = value
	case "DelaySeconds":
		e.delay, _ = parseInteger(value)
	case "VisibilityTimeout":
		e.visibility, _ = parseInteger(value)
	case "MessageAttribute", "MessageSystemAttribute":
		list := &e.attributes
		if name == "MessageSystemAttribute" {
			list = &e.system
		}
		if index, after, ok := number(rest); ok {
			setAttribute(at(list, index), after, value)
		}
	}
}

func setPair(p *pair, key, value text) {
	switch key.view() {
	case "Name", "Key":
		p.name = value
	case "Value":
		p.value = value
	}
}

func setAttribute(a *attribute, key, value text) {
	name, rest := step(key)
	switch name {
	case "Name":
		a.name = value
	case "Value":
		switch kind, _ := step(rest); kind {
		case "StringValue":
			a.str = value
		case "BinaryValue":
			a.binary = value
		case "DataType":
			a.dataType = value
		case "StringListValue", "BinaryListValue":
			a.isList = true
		}
	}
}

func addName(list *[]text, value text) error {
	if len(*list) == namesMax {
		return errQueryPairs
	}
	*list = append(*list, value)
	return nil
}

// indexed is an element of a numbered list.
type indexed[T any] interface {
	*T
	number() *int
}

func (p *pair) number() *int      { return &p.index }
func (a *attribute) number() *int { return &a.index }
func (e *entry) number() *int     { return &e.index }

// at returns the element with index, a new one if there is none. Parameters
// come grouped as a rule, so that it is the last one.
func at[T any, E indexed[T]](list *[]T, index int) E {
	for i := len(*list) - 1; i >= 0; i-- {
		if e := E(&(*list)[i]); *e.number() == index {
			return e
		}
	}
	var zero T
	*list = append(*list, zero)
	e := E(&(*list)[len(*list)-1])
	*e.number() = index
	return e
}

func (p *params) entryAt(index int) *entry {
	for i := len(p.entries) - 1; i >= 0; i-- {
		if p.entries[i].index == index {
			return &p.entries[i]
		}
	}
	e := p.addEntry()
	e.reset()
	e.index = index
	return e
}

// sortQuery puts numbered lists in the order of their numbers and counts them.
func (p *params) sortQuery() {
	slices.SortStableFunc(p.attributes, func(a, b pair) int { return cmp.Compare(a.index, b.index) })
	slices.SortStableFunc(p.tags, func(a, b pair) int { return cmp.Compare(a.index, b.index) })
	slices.SortStableFunc(p.entries, func(a, b entry) int { return cmp.Compare(a.index, b.index) })
	p.tagCount, p.entryCount = len(p.tags), len(p.entries)
	p.one.sortQuery()
	for i := range p.entries {
		p.entries[i].sortQuery()
	}
}

func (e *entry) sortQuery() {
	slices.SortStableFunc(e.attributes, func(a, b attribute) int { return cmp.Compare(a.index, b.index) })
	slices.SortStableFunc(e.system, func(a, b attribute) int { return cmp.Compare(a.index, b.index) })
	e.attributeCount, e.systemCount = len(e.attributes), len(e.system)
}
