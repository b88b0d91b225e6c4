package sqs

import (
	"context"

	"github.com/leasemq/broker/core"
)

// cannedCore answers at once what a core might, for benchmarks of what the
// frontend itself costs, and for errors that a real core cannot be made to have.
type cannedCore struct {
	publish    func() // called by Publish
	err        error  // of every call
	deliveries []core.Delivery
}

func (c *cannedCore) Publish(_ context.Context, _ string, msgs []core.Message, out []core.Published) ([]core.Published, error) {
	if c.publish != nil {
		c.publish()
	}
	for range msgs {
		out = append(out, core.Published{ID: core.MessageID{1, 2, 3, 4}, Seq: 1 << 40})
	}
	return out, c.err
}

func (c *cannedCore) Receive(_ context.Context, _ string, o core.ReceiveOptions, out []core.Delivery) ([]core.Delivery, error) {
	return append(out, c.deliveries[:min(o.Max, len(c.deliveries))]...), c.err
}

func (c *cannedCore) Settle(_ context.Context, _ string, s []core.Settlement, errs []error) ([]error, error) {
	for range s {
		errs = append(errs, nil)
	}
	return errs, c.err
}

func (c *cannedCore) Peek(_ context.Context, _ string, after core.PeekPos, _ int) ([]core.Peeked, core.PeekPos, error) {
	return nil, after, c.err
}

func (c *cannedCore) AppendHandle(dst []byte, _ core.Receipt) []byte {
	return append(dst, "AQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAAAAAAABAAAAAAABAAAAAUmWAtLQx3h0ZXN0"...)
}

func (c *cannedCore) Queue(_ context.Context, name string) (core.Queue, error) {
	return core.Queue{Name: name, Config: core.DefaultQueueConfig(core.KindStandard)}, c.err
}

func (c *cannedCore) Declare(ctx context.Context, name string, _ core.QueueConfig) (core.Queue, bool, error) {
	q, err := c.Queue(ctx, name)
	return q, true, err
}

func (c *cannedCore) Configure(ctx context.Context, name string, _ func(*core.QueueConfig) error) (core.Queue, error) {
	return c.Queue(ctx, name)
}

func (c *cannedCore) Queues(context.Context, string, string, int) ([]string, error) {
	return nil, c.err
}

func (c *cannedCore) Sources(context.Context, string, string, int) ([]string, error) {
	return nil, c.err
}

func (c *cannedCore) Delete(context.Context, string) error { return c.err }
func (c *cannedCore) Purge(context.Context, string) error  { return c.err }

func (c *cannedCore) Stats(context.Context, string) (core.QueueStats, error) {
	return core.QueueStats{}, c.err
}
