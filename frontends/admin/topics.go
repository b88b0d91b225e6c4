package admin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/leasemq/broker/core"
)

const (
	bindingsMax = 1000 // bindings in one answer
	retainedMax = 100  // retained values in one answer
)

func (a *access) listBindings(r *http.Request) (int, any, error) {
	limit, err := number(r, "limit", messagesMax, bindingsMax)
	if err != nil {
		return 0, nil, err
	}
	q := r.URL.Query()
	got, err := a.client.Bindings(r.Context(), q.Get("queue"), q.Get("after"), limit)
	if err != nil {
		return 0, nil, ofQueue(err, q.Get("queue"))
	}
	list := BindingList{Bindings: make([]Binding, len(got))}
	for i := range got {
		list.Bindings[i] = showBinding(&got[i])
	}
	if n := len(got); n == limit {
		if list.Next = got[n-1].Filter; q.Get("queue") == "" {
			list.Next = got[n-1].After()
		}
	}
	return http.StatusOK, list, nil
}

func (a *access) bind(r *http.Request, b []byte) (int, any, error) {
	var req BindRequest
	if err := decode(b, &req); err != nil {
		return 0, nil, err
	}
	binding := core.Binding{Filter: req.Filter, Queue: req.Queue, Origin: core.OriginAdmin}
	binding.Options.Selector = req.Selector
	if err := a.client.Bind(r.Context(), binding); err != nil {
		return 0, nil, ofTopic(ofQueue(err, req.Queue), req.Filter)
	}
	return http.StatusCreated, showBinding(&binding), nil
}

func (a *access) unbind(r *http.Request) (int, any, error) {
	q := r.URL.Query()
	err := a.client.Unbind(r.Context(), q.Get("filter"), q.Get("queue"))
	return http.StatusNoContent, nil, ofQueue(err, q.Get("queue"))
}

func (a *access) publishTopic(r *http.Request, b []byte) (int, any, error) {
	var req TopicRequest
	if err := decode(b, &req); err != nil {
		return 0, nil, err
	}
	msgs, err := messagesOf(req.Messages)
	if err != nil {
		return 0, nil, err
	}
	for i := range msgs {
		msgs[i].ID = core.NewMessageID()
	}
	out, err := a.client.PublishTopic(r.Context(), core.TopicPublish{Topic: req.Topic, Messages: msgs, Retain: req.Retain}, nil)
	if err != nil {
		return 0, nil, ofTopic(err, req.Topic)
	}
	res := TopicResponse{Messages: make([]TopicPublished, len(out))}
	for i, p := range out {
		res.Messages[i] = TopicPublished{ID: msgs[i].ID.String(), Queues: p.Matched, Full: p.Full, TooLarge: p.TooLarge}
	}
	return http.StatusOK, res, nil
}

func (a *access) listRetained(r *http.Request) (int, any, error) {
	limit, err := number(r, "limit", 10, retainedMax)
	if err != nil {
		return 0, nil, err
	}
	q := r.URL.Query()
	filter, after := q.Get("filter"), q.Get("after")
	if filter == "" {
		filter = "#"
	}
	list := RetainedList{Retained: []Retained{}}
	size, more := 0, false
	err = a.client.Retained(r.Context(), filter, func(topic string, m *core.Stored) bool {
		if topic <= after { // values come in the order of their topics
			return true
		}
		if n := len(list.Retained); n == limit || n > 0 && size+len(m.Body) > answerBytesMax {
			more = true
			return false
		}
		size += len(m.Body)
		list.Retained = append(list.Retained, Retained{Topic: topic, Message: showMessage(m, core.MessageState{})})
		return true
	})
	if err != nil {
		return 0, nil, ofTopic(err, filter)
	}
	if more {
		list.Next = list.Retained[len(list.Retained)-1].Topic
	}
	return http.StatusOK, list, nil
}

// showBinding returns b as the API shows it.
func showBinding(b *core.Binding) Binding {
	return Binding{
		Filter: b.Filter, Queue: b.Queue, Origin: nameOf(b.Origin, namesOfOrigin()),
		NoLocal: b.Options.NoLocal, Selector: b.Options.Selector,
	}
}

// namesOfOrigin are the spellings of core.Origin, by number.
func namesOfOrigin() []string { return []string{"core", "sqs", "stomp", "mqtt", "admin"} }

// ofQueue adds the name of a queue that is not there.
func ofQueue(err error, name string) error {
	if name != "" && errors.Is(err, core.ErrNoQueue) {
		return fmt.Errorf("%w: %s", err, name)
	}
	return err
}

// ofTopic adds the topic or filter that is not valid.
func ofTopic(err error, name string) error {
	if errors.Is(err, core.ErrInvalidTopic) {
		return fmt.Errorf("%w: %.100q", err, name)
	}
	return err
}
