package sqs

// decodeJSON reads the parameters of an AWS JSON 1.0 request. It is strict on
// the grammar (RFC 8259, UTF-8, no lone surrogates) and on the types of the
// members that SQS has. Members that it does not know are skipped, null counts
// as absent, and of two members with one name the last wins.
func decodeJSON(body []byte, a *arena, p *params) error {
	s := scanner{b: body, arena: a}
	s.space()
	if s.i == len(s.b) || s.b[s.i] != '{' {
		return s.fail("the request is not a JSON object")
	}
	if err := s.params(p); err != nil {
		return err
	}
	s.space()
	if s.i != len(s.b) {
		return s.fail("there is something after the JSON object")
	}
	return nil
}

func (s *scanner) params(p *params) error {
	return s.object(func(key text) error {
		known, err := s.scalarParam(key.view(), p)
		if known || err != nil {
			return err
		}
		switch key.view() {
		case "Attributes":
			p.attributesSent = true
			p.attributes = p.attributes[:0]
			return s.pairs(&p.attributes, nil)
		case "tags", "Tags":
			p.tags, p.tagCount = p.tags[:0], 0
			return s.pairs(&p.tags, &p.tagCount)
		case "TagKeys":
			p.tagKeys = []text{}
			return s.texts(&p.tagKeys)
		case "AWSAccountIds":
			p.accounts = []text{}
			return s.texts(&p.accounts)
		case "Actions":
			p.grants = []text{}
			return s.texts(&p.grants)
		case "AttributeNames", "MessageSystemAttributeNames":
			return s.texts(&p.names)
		case "MessageAttributeNames":
			p.messageNames = p.messageNames[:0]
			return s.texts(&p.messageNames)
		case "Entries":
			return s.entries(p)
		}
		known, err = s.entryMember(key.view(), &p.one)
		if known || err != nil {
			return err
		}
		return s.skip()
	})
}

// scalarParam reads the value of a member that is a string or a number, and
// tells whether key is one.
func (s *scanner) scalarParam(key string, p *params) (known bool, err error) {
	switch key {
	case "QueueUrl":
		p.queueURL, err = s.str()
	case "QueueName":
		p.queueName, err = s.str()
	case "QueueOwnerAWSAccountId":
		p.owner, err = s.str()
	case "QueueNamePrefix":
		p.prefix, err = s.str()
	case "NextToken":
		p.nextToken, err = s.str()
	case "ReceiveRequestAttemptId":
		p.attemptID, err = s.str()
	case "Label":
		p.label, err = s.str()
	case "MaxResults":
		p.maxResults, err = s.integer()
	case "MaxNumberOfMessages":
		p.max, err = s.integer()
	case "WaitTimeSeconds":
		p.wait, err = s.integer()
	default:
		return s.moveParam(key, &p.move)
	}
	return true, err
}

// entryMember reads the value of a member that a message to send, delete or
// change has, and tells whether key is one.
func (s *scanner) entryMember(key string, e *entry) (known bool, err error) {
	switch key {
	case "Id":
		e.id, err = s.str()
	case "MessageBody":
		e.body, err = s.str()
	case "MessageGroupId":
		e.group, err = s.str()
	case "MessageDeduplicationId":
		e.dedupID, err = s.str()
	case "ReceiptHandle":
		e.handle, err = s.str()
	case "DelaySeconds":
		e.delay, err = s.integer()
	case "VisibilityTimeout":
		e.visibility, err = s.integer()
	case "MessageAttributes":
		e.attributes, e.attributeCount = e.attributes[:0], 0
		err = s.attributes(&e.attributes, &e.attributeCount)
	case "MessageSystemAttributes":
		e.system, e.systemCount = e.system[:0], 0
		err = s.attributes(&e.system, &e.systemCount)
	default:
		return false, nil
	}
	return true, err
}

func (s *scanner) entries(p *params) error {
	p.entries, p.entryCount = p.entries[:0], 0
	return s.array(func() error {
		p.entryCount++
		if p.entryCount > batchEntriesMax {
			return s.skip()
		}
		e := p.addEntry()
		e.reset()
		return s.object(func(key text) error {
			known, err := s.entryMember(key.view(), e)
			if known || err != nil {
				return err
			}
			return s.skip()
		})
	})
}

// attributes reads a map of message attributes. It keeps one more than there
// may be and counts the rest.
func (s *scanner) attributes(list *[]attribute, count *int) error {
	return s.object(func(name text) error {
		if *count++; *count > messageAttributesMax+1 {
			return s.skip()
		}
		a := attribute{name: name}
		err := s.object(func(key text) (err error) {
			switch key.view() {
			case "DataType":
				a.dataType, err = s.str()
			case "StringValue":
				a.str, err = s.str()
			case "BinaryValue":
				a.binary, err = s.str()
			case "StringListValues", "BinaryListValues":
				full := false
				err = s.array(func() error { full = true; return s.skip() })
				a.isList = a.isList || full
			default:
				err = s.skip()
			}
			return err
		})
		*list = append(*list, a)
		return err
	})
}

// pairs reads a map of strings. count, if given, counts also those beyond
// pairsMax, which else are an error.
func (s *scanner) pairs(list *[]pair, count *int) error {
	return s.object(func(name text) error {
		value, err := s.str()
		if err != nil {
			return err
		}
		if count != nil {
			*count++
		}
		if len(*list) < pairsMax {
			*list = append(*list, pair{name: name, value: value})
		} else if count == nil {
			return s.fail("there are too many attributes")
		}
		return nil
	})
}

func (s *scanner) texts(list *[]text) error {
	return s.array(func() error {
		t, err := s.str()
		if err != nil {
			return err
		}
		if len(*list) == namesMax {
			return s.fail("there are too many names in a list")
		}
		if t != nil {
			*list = append(*list, t)
		}
		return nil
	})
}
