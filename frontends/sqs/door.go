package sqs

import (
	"context"

	"github.com/leasemq/broker/core"
)

// messages is what the frontend asks of core.Client about messages.
type messages interface {
	Publish(ctx context.Context, name string, msgs []core.Message, out []core.Published) ([]core.Published, error)
	Receive(ctx context.Context, name string, o core.ReceiveOptions, out []core.Delivery) ([]core.Delivery, error)
	Settle(ctx context.Context, name string, s []core.Settlement, errs []error) ([]error, error)
	Peek(ctx context.Context, name string, after core.PeekPos, max int) ([]core.Peeked, core.PeekPos, error)
	AppendHandle(dst []byte, r core.Receipt) []byte
}

// queues is what the frontend asks of core.Client about queues.
type queues interface {
	Declare(ctx context.Context, name string, cfg core.QueueConfig) (q core.Queue, created bool, err error)
	Configure(ctx context.Context, name string, edit func(*core.QueueConfig) error) (core.Queue, error)
	Queue(ctx context.Context, name string) (core.Queue, error)
	Queues(ctx context.Context, prefix, after string, max int) ([]string, error)
	Delete(ctx context.Context, name string) error
	Purge(ctx context.Context, name string) error
	Sources(ctx context.Context, name, after string, max int) ([]string, error)
	Stats(ctx context.Context, name string) (core.QueueStats, error)
}

// door is the core as one principal sees it. All parts are one core.Client;
// benchmarks put a canned one in its place.
type door struct {
	messages
	queues
	moves
}

// sameDoor opens d to every principal.
func sameDoor(d door) func(id string) door { return func(string) door { return d } }
