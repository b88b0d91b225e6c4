package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/leasemq/broker/core"
)

// createRequest is Settings with the name beside them.
type createRequest struct {
	Name     string   `json:"name"`
	Settings Settings `json:"settings"`
}

func (a *access) listQueues(r *http.Request) (int, any, error) {
	limit, err := number(r, "limit", messagesMax, queuesMax)
	if err != nil {
		return 0, nil, err
	}
	q := r.URL.Query()
	names, err := a.client.Queues(r.Context(), q.Get("prefix"), q.Get("after"), limit)
	if err != nil {
		return 0, nil, err
	}
	list := QueueList{Queues: make([]Queue, 0, len(names))}
	for _, name := range names {
		queue, err := a.look(r, name)
		if status, _ := explain(err); err != nil && status == http.StatusNotFound {
			continue // deleted since it was listed
		}
		if err != nil {
			return 0, nil, err
		}
		list.Queues = append(list.Queues, queue)
	}
	if len(names) == limit {
		list.Next = names[len(names)-1]
	}
	return http.StatusOK, list, nil
}

// look returns the queue with its counts.
func (a *access) look(r *http.Request, name string) (Queue, error) {
	q, err := a.client.Queue(r.Context(), name)
	if err != nil {
		return Queue{}, err
	}
	st, err := a.client.Stats(r.Context(), name)
	if err != nil {
		return Queue{}, err
	}
	return showQueue(q, st), nil
}

func (a *access) createQueue(r *http.Request, b []byte) (int, any, error) {
	// The defaults depend on the kind, so that it is read first.
	var kinded struct {
		Name     string `json:"name"`
		Settings struct {
			Kind string `json:"kind"`
		} `json:"settings"`
	}
	if err := json.Unmarshal(b, &kinded); err != nil {
		return 0, nil, badJSON(err)
	}
	kind := core.KindStandard
	switch {
	case kinded.Settings.Kind != "":
		var err error
		if kind, err = valueOf[core.QueueKind]("kind", kinded.Settings.Kind, namesOfKind()); err != nil {
			return 0, nil, fmt.Errorf("%w: %w", core.ErrInvalidConfig, err)
		}
	case strings.HasSuffix(kinded.Name, ".fifo"):
		kind = core.KindFIFO
	}
	req := createRequest{Settings: showSettings(core.DefaultQueueConfig(kind))}
	if err := decode(b, &req); err != nil {
		return 0, nil, err
	}
	cfg, err := a.configOf(req.Settings, nil)
	if err != nil {
		return 0, nil, err
	}
	// A queue that is there keeps the dead-letter queue it has.
	if _, err := a.client.Queue(r.Context(), req.Name); errors.Is(err, core.ErrNoQueue) {
		if err := a.checkDeadLetterQueue(r, cfg); err != nil {
			return 0, nil, err
		}
	}
	q, created, err := a.client.Declare(r.Context(), req.Name, cfg)
	if err != nil {
		return 0, nil, err
	}
	status := http.StatusCreated
	if !created {
		status = http.StatusOK
		if err := sameSettings(q.Config, b, cfg.Attributes); err != nil {
			return 0, nil, err
		}
	}
	queue, err := a.look(r, req.Name)
	return status, queue, err
}

// sameSettings fails if the settings that a request names are not those of the
// queue that is there already. What it does not name may differ. attributes are
// those that the request names in the form in which they are kept.
func sameSettings(c core.QueueConfig, request []byte, attributes map[string]string) error {
	have := showSettings(c)
	want := createRequest{Settings: showSettings(c)}
	want.Settings.Tags, want.Settings.Attributes, want.Settings.CopyTo = nil, nil, nil
	if err := decode(request, &want); err != nil {
		return err
	}
	if want.Settings.Attributes != nil {
		want.Settings.Attributes = attributes
	}
	want.Settings.keepAbsent(have)
	if len(want.Settings.CopyTo) == 0 {
		want.Settings.CopyTo = nil
	}
	if !reflect.DeepEqual(have, want.Settings) {
		return fmt.Errorf("%w: %s", core.ErrQueueExists, want.Name)
	}
	return nil
}

// keepAbsent takes from old the maps and lists that s lacks: they are replaced whole or
// kept, since merging could never remove a tag.
func (s *Settings) keepAbsent(old Settings) {
	if s.Tags == nil {
		s.Tags = old.Tags
	}
	if s.Attributes == nil {
		s.Attributes = old.Attributes
	}
	if s.CopyTo == nil {
		s.CopyTo = old.CopyTo
	}
}

func (a *access) getQueue(r *http.Request) (int, any, error) {
	queue, err := a.look(r, r.PathValue("queue"))
	return http.StatusOK, queue, err
}

func (a *access) patchQueue(r *http.Request, b []byte) (int, any, error) {
	name := r.PathValue("queue")
	edit := func(c *core.QueueConfig) error {
		old := showSettings(*c)
		settings := old
		// The maps and lists of a queue are shared, hence must not be decoded into.
		settings.Tags, settings.Attributes, settings.CopyTo = nil, nil, nil
		if err := decode(b, &settings); err != nil {
			return err
		}
		settings.keepAbsent(old)
		next, err := a.configOf(settings, c.Attributes)
		if err == nil {
			*c = next
		}
		return err
	}
	// Other queues are looked at before the lock of this one is taken.
	q, err := a.client.Queue(r.Context(), name)
	if err != nil {
		return 0, nil, err
	}
	cfg := q.Config
	if err := edit(&cfg); err != nil {
		return 0, nil, err
	}
	if cfg.Redelivery.DeadLetterQueue != q.Config.Redelivery.DeadLetterQueue {
		if err := a.checkDeadLetterQueue(r, cfg); err != nil {
			return 0, nil, err
		}
	}
	if _, err := a.client.Configure(r.Context(), name, edit); err != nil {
		return 0, nil, err
	}
	queue, err := a.look(r, name)
	return http.StatusOK, queue, err
}

// checkDeadLetterQueue refuses a dead-letter queue that is not there, or that
// orders its messages differently: messages would stay where they are.
func (a *access) checkDeadLetterQueue(r *http.Request, cfg core.QueueConfig) error {
	name := cfg.Redelivery.DeadLetterQueue
	if name == "" {
		return nil
	}
	dlq, err := a.client.Queue(r.Context(), name)
	switch {
	case errors.Is(err, core.ErrNoQueue):
		return fmt.Errorf("%w: there is no queue %s", core.ErrDeadLetterQueue, name)
	case err != nil:
		return err
	case (dlq.Config.Kind == core.KindFIFO) != (cfg.Kind == core.KindFIFO):
		return fmt.Errorf("%w: of %s and its source, one is a FIFO queue and one is not", core.ErrDeadLetterQueue, name)
	}
	return nil
}

func (a *access) deleteQueue(r *http.Request) (int, any, error) {
	return http.StatusNoContent, nil, a.client.Delete(r.Context(), r.PathValue("queue"))
}

func (a *access) purgeQueue(r *http.Request) (int, any, error) {
	return http.StatusNoContent, nil, a.client.Purge(r.Context(), r.PathValue("queue"))
}

// QueuePath returns the path of a queue in the API, or of what follows it.
func QueuePath(name string, more ...string) string {
	escaped := url.PathEscape(name)
	if name == "." || name == ".." {
		escaped = strings.ReplaceAll(name, ".", "%2E") // else they are steps of the path
	}
	return "/api/v1/queues/" + strings.Join(append([]string{escaped}, more...), "/")
}
