package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasemq/broker/cluster"
)

// visitError is an error of the caller's function, which ends a read.
type visitError struct{ error }

func (e visitError) Unwrap() error { return e.error }

// Read implements cluster.Log. It asks again, of whichever replica answers,
// until it has all records or ctx ends.
func (l *Log) Read(ctx context.Context, from, to uint64, visit func(cluster.Entry) error) error {
	for from <= to {
		n, err := l.get(ctx, from, to, visit)
		from += n
		var failed visitError
		switch {
		case errors.As(err, &failed):
			return failed.error
		case errors.Is(err, cluster.ErrTrimmed):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("read record %d of %d: %w", from, to, ctx.Err())
		case n == 0:
			if err := wait(ctx, readRetry); err != nil {
				return err
			}
		}
	}
	return nil
}

// get visits what one replica has of the records, without gaps, and returns how
// many that were.
func (l *Log) get(ctx context.Context, from, to uint64, visit func(cluster.Entry) error) (n uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	most := min(to-from+1, readRecordsMax)
	ask, err := json.Marshal(struct {
		Seq      uint64 `json:"seq"`
		Batch    uint64 `json:"batch"`
		MaxBytes int    `json:"max_bytes"`
	}{from, most, readBytesMax})
	if err != nil {
		return 0, err
	}
	answers, err := l.nc.SubscribeSync(l.nc.NewInbox())
	if err != nil {
		return 0, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := l.nc.PublishRequest("$JS.API.DIRECT.GET."+l.name, answers.Subject, ask); err != nil {
		return 0, err
	}
	for n < most {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return n, err
		}
		if status := m.Header.Get(headerStatus); status != "" {
			if n == 0 && status == "404" {
				return 0, l.trimmed(ctx, from)
			}
			return n, nil // the end of what it has, or of a batch
		}
		seq, err := strconv.ParseUint(m.Header.Get(headerSeq), 10, 64)
		if err != nil || seq != from+n {
			return n, l.trimmed(ctx, from+n)
		}
		if err := visit(cluster.Entry{Seq: seq, Data: m.Data}); err != nil {
			return n, visitError{err}
		}
		n++
	}
	return n, nil
}

// trimmed returns an error if seq is not in the log any more.
func (l *Log) trimmed(ctx context.Context, seq uint64) error {
	info, err := l.Info(ctx)
	if err == nil && info.First > seq {
		err = fmt.Errorf("record %d, the first is %d: %w", seq, info.First, cluster.ErrTrimmed)
	}
	return err
}

// Tail implements cluster.Log.
func (l *Log) Tail(ctx context.Context, from uint64, visit func(cluster.Entry) error) error {
	news := make(chan *nats.Msg, tailBacklog) // what does not fit is dropped, and read
	sub, err := l.nc.ChanSubscribe(l.tail, news)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	next := from
	step := func(e cluster.Entry) error {
		if err := visit(e); err != nil {
			return err
		}
		next = e.Seq + 1
		return nil
	}
	if err := l.catchUp(ctx, &next, step); err != nil {
		return err
	}
	poll := time.NewTimer(tailPoll)
	defer poll.Stop()
	for {
		select {
		case m := <-news:
			seq, err := strconv.ParseUint(m.Header.Get(headerSeq), 10, 64)
			if err != nil || seq < next {
				continue
			}
			if seq > next {
				if err := l.Read(ctx, next, seq-1, step); err != nil {
					return err
				}
			}
			if err := step(cluster.Entry{Seq: seq, Data: m.Data}); err != nil {
				return err
			}
		case <-poll.C:
			if err := l.catchUp(ctx, &next, step); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		poll.Reset(tailPoll)
	}
}

// catchUp reads what a replica has. That it has no answer is no error: there is
// another try.
func (l *Log) catchUp(ctx context.Context, next *uint64, step func(cluster.Entry) error) error {
	for {
		from := *next
		n, err := l.get(ctx, from, from+readRecordsMax-1, step)
		var failed visitError
		switch {
		case errors.As(err, &failed):
			return failed.error
		case errors.Is(err, cluster.ErrTrimmed):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case n == 0:
			return nil
		}
	}
}

// wait waits unless ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
