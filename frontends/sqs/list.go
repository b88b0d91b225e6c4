package sqs

import (
	"context"
	"encoding/base64"
	"strings"
)

// listMax is how many queues one answer lists.
const listMax = 1000

func listQueues(c *call) error {
	return c.list("ListQueues", "QueueUrls", func(ctx context.Context, after string) ([]string, error) {
		return c.client.Queues(ctx, string(c.params.prefix), after, listMax)
	})
}

func listDeadLetterSourceQueues(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	return c.list("ListDeadLetterSourceQueues", "queueUrls", func(ctx context.Context, after string) ([]string, error) {
		return c.client.Sources(ctx, q.Name, after, listMax)
	})
}

// list answers an action that lists the URLs of queues, page by page. names
// returns up to listMax names that sort after the given one.
func (c *call) list(action, member string, names func(ctx context.Context, after string) ([]string, error)) error {
	limit, after, err := c.page()
	if err != nil {
		return err
	}
	// One more than asked for tells whether there is a next page.
	found, err := listNames(after, limit+1, names)
	if err != nil {
		return err
	}
	a := &c.answer
	a.open(action)
	if more := len(found) > limit; more {
		found = found[:limit]
		// Without MaxResults a token breaks clients that do not page.
		if c.params.maxResults.isSet() {
			a.field("NextToken", bytesOf(base64.RawURLEncoding.EncodeToString(bytesOf(found[limit-1]))))
		}
	}
	if len(found) > 0 {
		a.beginList(member)
		base := c.queueURL("")
		for _, name := range found {
			a.element("QueueUrl", bytesOf(base+name))
		}
		a.endList()
	} else {
		a.emptyList(member)
	}
	a.close(action, c.id())
	return nil
}

// page returns how many names the request wants, and after which one.
func (c *call) page() (limit int, after string, err error) {
	p := &c.params
	limit = listMax
	if p.maxResults.isSet() {
		if p.maxResults.n < 1 || p.maxResults.n > listMax {
			return 0, "", invalid(p.maxResults.sent, "MaxResults", "Must be between 1 and 1000, if provided.")
		}
		limit = int(p.maxResults.n)
	}
	if len(p.nextToken) > 0 {
		b, err := base64.RawURLEncoding.DecodeString(p.nextToken.view())
		if err != nil || !validQueueName(string(b)) {
			return 0, "", fail(faultInvalidParameter, "Invalid or expired next token.")
		}
		after = string(b)
	}
	return limit, after, nil
}

// listNames returns up to limit names that SQS can spell.
func listNames(after string, limit int, names func(ctx context.Context, after string) ([]string, error)) ([]string, error) {
	var found []string
	for {
		page, err := names(contextOfWork(), after)
		if err != nil {
			return nil, err
		}
		for _, name := range page {
			if after = name; validQueueName(name) {
				if found = append(found, name); len(found) == limit {
					return found, nil
				}
			}
		}
		if len(page) < listMax {
			return found, nil
		}
		// Other wires keep many queues below a prefix that ends in a slash:
		// skip the rest of them. Names are UTF-8, which has no byte 0xFF.
		if i := strings.IndexByte(after, '/'); i >= 0 {
			after = after[:i+1] + "\xff"
		}
	}
}
