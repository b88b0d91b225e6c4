package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/leasemq/broker/core"
)

// Bounds of the API.
const (
	settingsBytesMax = 1 << 20  // body of a request about a queue
	publishBytesMax  = 24 << 20 // body of a publish: core.BodyBytesMax in base64, and room
	answerBytesMax   = 16 << 20 // bodies of messages in one answer; at least one is given
	queuesMax        = 1000     // queues in one answer
	messagesMax      = 100      // messages in one request or answer
)

// The largest body fits into a publish in base64: the constant would not
// compile otherwise.
const _ = uint(publishBytesMax - settingsBytesMax - (core.BodyBytesMax+2)/3*4)

// errNoRoute answers a path or a method that the API does not have.
var errNoRoute = errors.New("no such resource or method")

// errBadRequest wraps what is wrong with the form of a request.
var errBadRequest = errors.New("bad request")

// handler answers one API request with a status and a body, or an error. It is
// given the body of the request, if there is one to read.
type handler func(a *access, r *http.Request, body []byte) (status int, answer any, err error)

// api answers with h over the node's engine, or relays the request if the node has
// none. A body of up to bodyMax bytes is read first, so that the engine is not
// held while a slow peer sends; 0: there is none.
func (s *Server) api(bodyMax int64, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.access.Load() == nil {
			s.relay(w, r)
			return
		}
		var body []byte
		if bodyMax > 0 {
			var err error
			if body, err = readBody(r, bodyMax); err != nil {
				s.answer(w, r, 0, nil, err)
				return
			}
		}
		status, answer, err := s.call(h, r, body)
		s.answer(w, r, status, answer, err)
	})
}

// call asks h within the engine's time.
func (s *Server) call(h handler, r *http.Request, body []byte) (int, any, error) {
	a := s.enter()
	if a == nil {
		return 0, nil, fmt.Errorf("%w any more", core.ErrNotPrimary)
	}
	defer a.leave()
	status, answer, err := h(a, r, body)
	if isStop(err) && (s.clustered() || s.access.Load() != a) {
		// Whoever asks again is served by the next primary.
		err = fmt.Errorf("%w any more: whether the request was carried out is unknown", core.ErrNotPrimary)
	}
	return status, answer, err
}

// isStop tells whether an engine gave err because it ends.
func isStop(err error) bool {
	return errors.Is(err, core.ErrStopped) || errors.Is(err, core.ErrNotPrimary)
}

// clustered tells whether the node is a member of a cluster.
func (s *Server) clustered() bool { return s.options.Primary != nil || s.options.Cluster != nil }

// own answers with h, which needs no engine.
func (s *Server) own(h func(w http.ResponseWriter, r *http.Request) (int, any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, answer, err := h(w, r)
		s.answer(w, r, status, answer, err)
	})
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, status int, body any, err error) {
	if err == nil {
		writeJSON(w, status, body)
		return
	}
	status, e := explain(ofQueue(err, r.PathValue("queue")))
	if status == http.StatusInternalServerError {
		s.log.Error("admin request", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeError(w, status, e)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	b, err := json.Marshal(body, json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		panic(fmt.Sprintf("admin: an answer of type %T has no JSON form: %v", body, err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// A peer that is gone cannot be told.
	_, _ = w.Write(append(b, '\n'))
}

func writeError(w http.ResponseWriter, status int, e Error) {
	writeJSON(w, status, ErrorResponse{Error: e})
}

// readBody reads the body of a request, of at most limit bytes. The content
// type must be JSON, which a page of another site cannot send unasked.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, fmt.Errorf("%w: the Content-Type is not application/json", errBadRequest)
	}
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, fmt.Errorf("%w: a request of this kind has at most %d bytes", core.ErrTooLarge, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadRequest, err)
	}
	return b, nil
}

// decode reads JSON into v; what b does not name stays as it was.
func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return badJSON(err)
	}
	return nil
}

// badJSON tells what is wrong with a body, and where, without the Go types that
// it was meant for.
func badJSON(err error) error {
	semantic := (*json.SemanticError)(nil)
	if !errors.As(err, &semantic) {
		return fmt.Errorf("%w: the body is not JSON: %s", errBadRequest, strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	where := ""
	if p := string(semantic.JSONPointer); p != "" {
		where = " at " + p
	}
	if semantic.Err == nil {
		kind := strings.NewReplacer("{", "object", "[", "array").Replace(semantic.JSONKind.String())
		return fmt.Errorf("%w: a JSON %s is not expected%s", errBadRequest, kind, where)
	}
	return fmt.Errorf("%w: %w%s", errBadRequest, semantic.Err, where)
}

// number reads a query parameter from 1 to most; absent, it is standard.
func number(r *http.Request, name string, standard, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%w: %s is not a number from 1 to %d", errBadRequest, name, most)
	}
	return n, nil
}

// explained says how an error is told to a client.
type explained struct {
	err    error
	status int
	code   string
}

// errorTable maps each error of the core once.
func errorTable() []explained {
	return []explained{
		{core.ErrNoQueue, http.StatusNotFound, "no_queue"},
		{core.ErrQueueExists, http.StatusConflict, "queue_exists"},
		{core.ErrNoMessage, http.StatusNotFound, "no_message"},
		{core.ErrBadReceipt, http.StatusBadRequest, "bad_receipt"},
		{core.ErrReceiptExpired, http.StatusConflict, "receipt_expired"},
		{core.ErrNotInFlight, http.StatusConflict, "not_in_flight"},
		{core.ErrOverLimit, http.StatusTooManyRequests, "too_many_in_flight"},
		{core.ErrQueueFull, http.StatusInsufficientStorage, "queue_full"},
		{core.ErrMissingGroup, http.StatusBadRequest, "missing_group"},
		{core.ErrMissingDedupID, http.StatusBadRequest, "missing_dedup_id"},
		{core.ErrDiskFull, http.StatusServiceUnavailable, "disk_full"},
		// An engine stops with ErrStopped, also for the reason of the next.
		{core.ErrNotPrimary, http.StatusServiceUnavailable, "not_primary"},
		{core.ErrStopped, http.StatusServiceUnavailable, "stopped"},
		{core.ErrDraining, http.StatusServiceUnavailable, "draining"},
		{core.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
		{core.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
		{core.ErrInvalidName, http.StatusBadRequest, "invalid_name"},
		{core.ErrDeadLetterQueue, http.StatusBadRequest, "invalid_dead_letter_queue"},
		{core.ErrMoveActive, http.StatusConflict, "move_active"},
		{core.ErrTooManyMoves, http.StatusTooManyRequests, "too_many_moves"},
		{core.ErrNoMove, http.StatusNotFound, "no_move"},
		{core.ErrMoveTarget, http.StatusNotFound, "no_move_target"},
		{core.ErrInvalidTopic, http.StatusBadRequest, "invalid_topic"},
		{core.ErrRoute, http.StatusBadRequest, "no_route"},
		{core.ErrNoBinding, http.StatusNotFound, "no_binding"},
		{core.ErrTooManyBindings, http.StatusTooManyRequests, "too_many_bindings"},
		{core.ErrInvalidConfig, http.StatusBadRequest, "invalid_settings"},
		{core.ErrInvalidArgument, http.StatusBadRequest, "invalid_argument"},
		{errNoRoute, http.StatusNotFound, "no_route"},
		{errNoCluster, http.StatusNotFound, "no_cluster"},
		{ErrClusterState, http.StatusConflict, "cluster_state"},
		{errBadRequest, http.StatusBadRequest, "bad_request"},
		// The peer is gone: nobody reads this.
		{context.Canceled, http.StatusServiceUnavailable, "canceled"},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, "timed_out"},
	}
}

// explain returns the status and the body for err. What the table does not know
// is an internal error, whose text stays in the log.
func explain(err error) (int, Error) {
	for _, e := range errorTable() {
		if errors.Is(err, e.err) {
			return e.status, Error{Code: e.code, Message: err.Error()}
		}
	}
	return http.StatusInternalServerError, Error{Code: "internal", Message: "internal error; the broker's log has the reason"}
}
