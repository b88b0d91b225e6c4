package admin

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
)

// receiveWaitMax bounds the wait of one receive; clients ask again.
const receiveWaitMax = 20 * time.Second

func (a *access) publish(r *http.Request, b []byte) (int, any, error) {
	var req PublishRequest
	if err := decode(b, &req); err != nil {
		return 0, nil, err
	}
	msgs, err := messagesOf(req.Messages)
	if err != nil {
		return 0, nil, err
	}
	q, err := a.client.Queue(r.Context(), r.PathValue("queue"))
	if err != nil {
		return 0, nil, err
	}
	for i := range msgs {
		if n, most := messageBytes(&msgs[i]), q.Config.MaxMessageBytes; most > 0 && n > most {
			return 0, nil, fmt.Errorf("%w: it has %d bytes, and the queue takes up to %d", core.ErrTooLarge, n, most)
		}
	}
	out, err := a.client.Publish(r.Context(), r.PathValue("queue"), msgs, nil)
	if err != nil {
		return 0, nil, err
	}
	res := PublishResponse{Messages: make([]Published, len(out))}
	for i, p := range out {
		res.Messages[i] = Published{ID: p.ID.String(), Sequence: uint64(p.Seq), Duplicate: p.Duplicate}
	}
	return http.StatusOK, res, nil
}

// messagesOf returns what the core is given for the messages of a request.
func messagesOf(list []NewMessage) ([]core.Message, error) {
	if n := len(list); n < 1 || n > messagesMax {
		return nil, fmt.Errorf("%w: %d messages, not 1 to %d", errBadRequest, n, messagesMax)
	}
	msgs := make([]core.Message, len(list))
	for i, m := range list {
		var err error
		if msgs[i], err = m.message(); err != nil {
			return nil, err
		}
	}
	return msgs, nil
}

// messageBytes is the size of a message as the queue's limit counts it: body, and
// name, type and value of its attributes.
func messageBytes(m *core.Message) int64 {
	n := len(m.Body)
	for _, a := range m.Attributes {
		n += len(a.Name) + len(a.Type) + len(a.Value)
	}
	return int64(n)
}

// message returns what the core is given for m.
func (m NewMessage) message() (core.Message, error) {
	out := core.Message{
		Body:        m.BodyBase64,
		Group:       m.Group,
		DedupID:     m.DedupID,
		ContentType: m.ContentType,
		Priority:    4, // the default of JMS
		Delay:       -1,
		TTL:         time.Duration(m.TTL),
		Origin:      core.OriginAdmin,
	}
	if m.Body != "" {
		if m.BodyBase64 != nil {
			return out, fmt.Errorf("%w: a message has body or body_base64, not both", errBadRequest)
		}
		out.Body = []byte(m.Body)
	}
	if m.Priority != nil {
		if *m.Priority < 0 || *m.Priority > core.PriorityMax {
			return out, fmt.Errorf("%w: priority %d is not from 0 to %d", core.ErrInvalidArgument, *m.Priority, core.PriorityMax)
		}
		out.Priority = uint8(*m.Priority)
	}
	if m.Delay != nil {
		if *m.Delay < 0 {
			return out, fmt.Errorf("%w: a delay is not negative", core.ErrInvalidArgument)
		}
		out.Delay = time.Duration(*m.Delay)
	}
	for _, a := range m.Attributes {
		value := a.ValueBase64
		if value == nil {
			value = []byte(a.Value)
		}
		kind := a.Type
		if kind == "" {
			kind = "String"
		}
		out.Attributes = append(out.Attributes, core.Attribute{Name: a.Name, Type: kind, Value: value})
	}
	return out, nil
}

func (a *access) receive(r *http.Request, b []byte) (int, any, error) {
	req := ReceiveRequest{Max: 1}
	if err := decode(b, &req); err != nil {
		return 0, nil, err
	}
	if req.Max < 1 || req.Max > messagesMax {
		return 0, nil, fmt.Errorf("%w: max is %d, not 1 to %d", core.ErrInvalidArgument, req.Max, messagesMax)
	}
	if wait := time.Duration(req.Wait); wait < 0 || wait > receiveWaitMax {
		return 0, nil, fmt.Errorf("%w: wait is %v, not 0s to %v", core.ErrInvalidArgument, wait, receiveWaitMax)
	}
	o := core.ReceiveOptions{
		Max:        req.Max,
		MaxBytes:   answerBytesMax,
		Visibility: -1,
		Wait:       time.Duration(req.Wait),
		AttemptID:  req.AttemptID,
		Alive:      func() bool { return r.Context().Err() == nil },
	}
	if req.Visibility != nil {
		if o.Visibility = time.Duration(*req.Visibility); o.Visibility < 0 {
			return 0, nil, fmt.Errorf("%w: a visibility timeout is not negative", core.ErrInvalidArgument)
		}
	}
	got, err := a.client.Receive(r.Context(), r.PathValue("queue"), o, nil)
	if err != nil {
		return 0, nil, err
	}
	list := MessageList{Messages: make([]Message, len(got))}
	for i := range got {
		d := &got[i]
		m := showMessage(&d.Stored, d.State)
		m.Receipt = string(a.client.AppendHandle(nil, d.Receipt))
		m.Redelivered = d.Redelivered
		list.Messages[i] = m
	}
	return http.StatusOK, list, nil
}

func (a *access) settle(r *http.Request, b []byte) (int, any, error) {
	var req SettleRequest
	if err := decode(b, &req); err != nil {
		return 0, nil, err
	}
	if n := len(req.Settlements); n < 1 || n > messagesMax {
		return 0, nil, fmt.Errorf("%w: %d settlements, not 1 to %d", errBadRequest, n, messagesMax)
	}
	settlements := make([]core.Settlement, len(req.Settlements))
	for i, x := range req.Settlements {
		action, err := valueOf[core.SettleAction]("action", x.Action, namesOfAction())
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", core.ErrInvalidArgument, err)
		}
		if x.Delay < 0 {
			return 0, nil, fmt.Errorf("%w: a delay is not negative", core.ErrInvalidArgument)
		}
		settlements[i] = core.Settlement{Handle: x.Receipt, Action: action, Delay: time.Duration(x.Delay)}
	}
	errs, err := a.client.Settle(r.Context(), r.PathValue("queue"), settlements, nil)
	if err != nil {
		return 0, nil, err
	}
	res := SettleResponse{Results: make([]SettleResult, len(settlements))}
	for i, err := range errs {
		if err != nil {
			_, e := explain(err)
			res.Results[i].Error = &e
		}
	}
	return http.StatusOK, res, nil
}

// namesOfAction are the spellings of core.SettleAction, by number.
func namesOfAction() []string {
	return []string{"delete", "extend", "release", "reject", "dead_letter"}
}

func (a *access) peek(r *http.Request) (int, any, error) {
	limit, err := number(r, "limit", 10, messagesMax)
	if err != nil {
		return 0, nil, err
	}
	after, err := parseCursor(r.URL.Query().Get("after"))
	if err != nil {
		return 0, nil, err
	}
	got, next, err := a.client.Peek(r.Context(), r.PathValue("queue"), after, limit)
	if err != nil {
		return 0, nil, err
	}
	list := MessageList{Messages: make([]Message, len(got))}
	now := a.engine.Now()
	for i := range got {
		p := &got[i]
		m := showMessage(&p.Stored, p.State)
		switch {
		case p.InFlight:
			m.State = "in_flight"
		case p.Place.Kind == core.PlaceDelayed && int64(p.Place.N) > now, p.State.VisibleAt > now:
			m.State = "delayed"
		default:
			m.State = "ready"
		}
		list.Messages[i] = m
	}
	if len(got) == limit {
		list.Next = formatCursor(next)
	}
	return http.StatusOK, list, nil
}

// A cursor is the binary form of a core.PeekPos in base64.
const cursorBytes = 1 + 8 + 8

func formatCursor(p core.PeekPos) string {
	b := []byte{byte(p.Place.Kind)}
	b = binary.BigEndian.AppendUint64(b, p.Place.N)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Seq))
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(s string) (core.PeekPos, error) {
	if s == "" {
		return core.PeekPos{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != cursorBytes {
		return core.PeekPos{}, fmt.Errorf("%w: after is not a cursor of an earlier answer", errBadRequest)
	}
	return core.PeekPos{
		Place: core.Place{Kind: core.PlaceKind(b[0]), N: binary.BigEndian.Uint64(b[1:])},
		Seq:   core.Seq(binary.BigEndian.Uint64(b[9:])),
	}, nil
}

// showMessage returns a message as the API shows it.
func showMessage(m *core.Stored, st core.MessageState) Message {
	out := Message{
		ID:            m.ID.String(),
		Sequence:      uint64(m.Seq),
		Topic:         text(m.Topic),
		Group:         text(m.Group),
		DedupID:       text(m.DedupID),
		ContentType:   text(m.ContentType),
		Priority:      m.Priority,
		EnqueuedAt:    when(m.EnqueuedAt),
		ExpiresAt:     when(m.ExpiresAt),
		Receives:      m.PriorReceives + st.Receives,
		FirstReceived: when(st.FirstReceived),
	}
	out.Body, out.BodyBase64 = textOrBytes(m.Body)
	m.Attributes(func(a core.Attribute) bool {
		if a.Kind == core.AttributeUser {
			x := Attribute{Name: a.Name, Type: a.Type}
			x.Value, x.ValueBase64 = textOrBytes(a.Value)
			out.Attributes = append(out.Attributes, x)
		}
		return true
	})
	if m.DeadLetter.Reason != core.DeadLetterNone {
		out.DeadLetter = &DeadLetter{
			Source: m.DeadLetter.Source,
			Reason: nameOf(m.DeadLetter.Reason, namesOfReason()),
			At:     when(m.DeadLetter.FirstAt),
		}
	}
	return out
}

// textOrBytes returns b as text if it is UTF-8, else as it is.
func textOrBytes(b []byte) (string, []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", b
}

// text returns b with what is not UTF-8 replaced: JSON has no other form.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}
