package sqs

import (
	"time"

	"github.com/leasemq/broker/core"
)

// receiptHandleMax is the length of a receipt handle on AWS. Ours are shorter.
const receiptHandleMax = 1024

func deleteMessage(c *call) error {
	return c.settleOne("DeleteMessage", core.SettleDelete)
}

func changeMessageVisibility(c *call) error {
	return c.settleOne("ChangeMessageVisibility", core.SettleExtend)
}

func deleteMessageBatch(c *call) error {
	return c.settleBatch("DeleteMessageBatch", core.SettleDelete)
}

func changeMessageVisibilityBatch(c *call) error {
	return c.settleBatch("ChangeMessageVisibilityBatch", core.SettleExtend)
}

// settleOne serves an action on one receipt handle.
func (c *call) settleOne(name string, do core.SettleAction) error {
	queue, err := c.queueName()
	if err != nil {
		return err
	}
	e := &c.params.one
	if e.handle == nil {
		return missing("ReceiptHandle")
	}
	s, err := settlement(e, do)
	if err != nil {
		return err
	}
	c.settlements = append(c.settlements, s)
	if c.errs, err = c.client.Settle(contextOfWork(), queue, c.settlements, c.errs[:0]); err != nil {
		return err
	}
	if err := c.errs[0]; err != nil {
		return settleFailure(err, e)
	}
	c.answer.void(name, c.id())
	return nil
}

// settleBatch serves the batch of an action on receipt handles.
func (c *call) settleBatch(name string, do core.SettleAction) error {
	queue, err := c.queueName()
	if err != nil {
		return err
	}
	if err := c.checkBatch(name); err != nil {
		return err
	}
	for i := range c.params.entries {
		r := result{sent: len(c.settlements)}
		s, err := settlement(&c.params.entries[i], do)
		if err != nil {
			r.failure = asFailure(err)
		} else {
			c.settlements = append(c.settlements, s)
		}
		c.results = append(c.results, r)
	}
	if c.errs, err = c.client.Settle(contextOfWork(), queue, c.settlements, c.errs[:0]); err != nil {
		return err
	}
	for i := range c.results {
		r := &c.results[i]
		if r.failure == nil && c.errs[r.sent] != nil {
			r.failure = settleFailure(c.errs[r.sent], &c.params.entries[i])
		}
	}
	c.writeBatch(name, func(*result) {})
	return nil
}

// settlement checks e and says what to ask of the core.
func settlement(e *entry, do core.SettleAction) (core.Settlement, error) {
	s := core.Settlement{Handle: e.handle.view(), Action: do}
	if do == core.SettleExtend {
		switch v := e.visibility; {
		case !v.isSet():
			return s, missing("VisibilityTimeout")
		case v.n < 0 || v.n > visibilityMax:
			return s, invalidVisibility(v)
		}
		s.Delay = time.Duration(e.visibility.n) * time.Second
	}
	if len(e.handle) == 0 || len(e.handle) > receiptHandleMax {
		return s, settleFailure(core.ErrBadReceipt, e)
	}
	return s, nil
}
