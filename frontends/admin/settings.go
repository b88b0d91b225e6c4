package admin

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/leasemq/broker/core"
)

// showQueue returns q as the API shows it.
func showQueue(q core.Queue, st core.QueueStats) Queue {
	return Queue{
		Name:       q.Name,
		CreatedAt:  when(q.CreatedAt),
		ModifiedAt: when(q.ModifiedAt),
		Stats: Stats{
			Messages: st.Messages, Ready: st.Ready, InFlight: st.InFlight, Delayed: st.Delayed,
			Bytes: st.Bytes, Oldest: when(st.OldestAt), Waiters: st.Waiters,
		},
		Settings: showSettings(q.Config),
	}
}

func showSettings(c core.QueueConfig) Settings {
	return Settings{
		Kind:              nameOf(c.Kind, append(namesOfKind(), "memory")), // sessions make those
		VisibilityTimeout: Duration(c.VisibilityTimeout),
		Delay:             Duration(c.Delay),
		Retention:         Duration(c.Retention),
		ReceiveWait:       Duration(c.ReceiveWait),
		MaxMessageBytes:   c.MaxMessageBytes,
		MaxMessages:       c.MaxMessages,
		MaxBytes:          c.MaxBytes,
		Overflow:          nameOf(c.Overflow, append(namesOfOverflow(), "close")),
		Marks:             nameOf(c.Marks, namesOfMarks()),
		ContentDedup:      c.ContentDedup,
		DedupScope:        nameOf(c.DedupScope, namesOfScope()),
		Redelivery: Redelivery{
			DeadLetterQueue: c.Redelivery.DeadLetterQueue,
			MaxReceives:     c.Redelivery.MaxReceives,
			InitialDelay:    Duration(c.Redelivery.InitialDelay),
			Multiplier:      c.Redelivery.Multiplier,
			MaxDelay:        Duration(c.Redelivery.MaxDelay),
		},
		ExpiredToDLQ: c.ExpiredToDLQ,
		CopyTo:       c.Routes.CopyTo,
		MoveTo:       c.Routes.MoveTo,
		PublishTopic: c.Routes.PublishTopic,
		Attributes:   c.Attributes,
		Tags:         c.Tags,
	}
}

// configOf returns the configuration that a request asks for with s. Attributes
// are checked by who owns them, but for those of old, which may be of a time or a
// frontend with other rules.
func (a *access) configOf(settings Settings, old map[string]string) (core.QueueConfig, error) {
	c, err := settings.config()
	if err == nil && a.setAttributes != nil && !maps.Equal(c.Attributes, old) {
		err = a.setAttributes(&c, c.Attributes)
	}
	return c, err
}

// config returns the configuration that s spells.
func (s Settings) config() (core.QueueConfig, error) {
	kind, errKind := valueOf[core.QueueKind]("kind", s.Kind, namesOfKind())
	overflow, errOverflow := valueOf[core.Overflow]("overflow", s.Overflow, namesOfOverflow())
	marks, errMarks := valueOf[core.Marks]("marks", s.Marks, namesOfMarks())
	scope, errScope := valueOf[core.DedupScope]("dedup_scope", s.DedupScope, namesOfScope())
	if err := errors.Join(errKind, errOverflow, errMarks, errScope); err != nil {
		return core.QueueConfig{}, fmt.Errorf("%w: %w", core.ErrInvalidConfig, err)
	}
	if kind != core.KindFIFO && (s.ContentDedup || scope != core.DedupQueue) {
		return core.QueueConfig{}, fmt.Errorf("%w: only FIFO queues deduplicate: content_dedup and dedup_scope are for them", core.ErrInvalidConfig)
	}
	return core.QueueConfig{
		Kind:              kind,
		VisibilityTimeout: time.Duration(s.VisibilityTimeout),
		Delay:             time.Duration(s.Delay),
		Retention:         time.Duration(s.Retention),
		ReceiveWait:       time.Duration(s.ReceiveWait),
		MaxMessageBytes:   s.MaxMessageBytes,
		MaxMessages:       s.MaxMessages,
		MaxBytes:          s.MaxBytes,
		Overflow:          overflow,
		Marks:             marks,
		ContentDedup:      s.ContentDedup,
		DedupScope:        scope,
		Redelivery: core.Redelivery{
			DeadLetterQueue: s.Redelivery.DeadLetterQueue,
			MaxReceives:     s.Redelivery.MaxReceives,
			InitialDelay:    time.Duration(s.Redelivery.InitialDelay),
			Multiplier:      s.Redelivery.Multiplier,
			MaxDelay:        time.Duration(s.Redelivery.MaxDelay),
		},
		ExpiredToDLQ: s.ExpiredToDLQ,
		Routes:       core.Routes{CopyTo: s.CopyTo, MoveTo: s.MoveTo, PublishTopic: s.PublishTopic},
		Attributes:   s.Attributes,
		Tags:         s.Tags,
	}, nil
}
