package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/leasemq/broker/core"
)

func (a *access) startMove(r *http.Request, b []byte) (int, any, error) {
	var req MoveRequest
	if err := decode(b, &req); err != nil {
		return 0, nil, err
	}
	if req.Rate < 0 || req.Rate > core.MoveRateMax {
		return 0, nil, fmt.Errorf("%w: rate is %d, not 0 to %d", core.ErrInvalidArgument, req.Rate, core.MoveRateMax)
	}
	t, err := a.client.StartMove(r.Context(), core.MoveOptions{Source: r.PathValue("queue"), Destination: req.Destination, Rate: req.Rate})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, showMove(&t), nil
}

func (a *access) listMoves(r *http.Request) (int, any, error) {
	limit, err := number(r, "limit", core.MoveTasksKept, core.MoveTasksKept)
	if err != nil {
		return 0, nil, err
	}
	tasks, err := a.client.MoveTasks(r.Context(), r.PathValue("queue"), limit)
	if err != nil {
		return 0, nil, err
	}
	list := MoveList{Moves: make([]Move, len(tasks))}
	for i := range tasks {
		list.Moves[i] = showMove(&tasks[i])
	}
	return http.StatusOK, list, nil
}

func (a *access) cancelMove(r *http.Request) (int, any, error) {
	id, err := strconv.ParseUint(r.PathValue("move"), 16, 64)
	if err != nil {
		return 0, nil, core.ErrNoMove
	}
	moved, err := a.client.CancelMove(r.Context(), r.PathValue("queue"), core.Seq(id))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, MoveCancelled{Moved: moved}, nil
}

// showMove returns t as the API shows it.
func showMove(t *core.MoveTask) Move {
	return Move{
		ID:          strconv.FormatUint(uint64(t.ID), 16),
		Source:      t.Source,
		Destination: t.Destination,
		Rate:        t.Rate,
		State:       nameOf(t.State, namesOfMoveState()),
		Failure:     nameOf(t.Failure, namesOfMoveFailure()),
		StartedAt:   when(t.StartedAt),
		ToMove:      t.ToMove,
		Moved:       t.Moved,
		Expired:     t.Expired,
	}
}

// namesOfMoveState are the spellings of core.MoveState, by number.
func namesOfMoveState() []string {
	return []string{"running", "completed", "cancelling", "cancelled", "failed"}
}

// namesOfMoveFailure are the spellings of core.MoveFailure, by number.
func namesOfMoveFailure() []string {
	return []string{"", "no_destination", "no_origin", "other_kind", "destination_full", "unreadable", "time_over"}
}
