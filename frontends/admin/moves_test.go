package admin_test

import (
	"fmt"
	"testing"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
)

func TestMovesAreStartedListedAndCancelled(t *testing.T) {
	n := start(t)
	n.create("from", "")
	n.create("to", "")
	n.want(200, "POST", admin.QueuePath("from", "messages"), `{"messages":[{"body":"a"},{"body":"b"},{"body":"c"}]}`, nil)
	moves := admin.QueuePath("from", "moves")
	var list admin.MoveList
	if n.want(200, "GET", moves, "", &list); len(list.Moves) != 0 {
		t.Errorf("moves are %+v before the first", list.Moves)
	}
	var started admin.Move
	n.want(201, "POST", moves, `{"destination":"to","rate":1}`, &started)
	if started.ID == "" || started.Source != "from" || started.Destination != "to" || started.Rate != 1 || started.State != "running" || started.ToMove != 3 || started.StartedAt.IsZero() {
		t.Errorf("the move is %+v", started)
	}
	n.refuse(409, "move_active", "POST", moves, `{"destination":"to"}`)
	var cancelled admin.MoveCancelled
	n.want(200, "DELETE", moves+"/"+started.ID, "", &cancelled)
	if cancelled.Moved > 1 {
		t.Errorf("%d messages were moved at 1 a second", cancelled.Moved)
	}
	n.want(200, "GET", moves+"?limit=1", "", &list)
	if len(list.Moves) != 1 || list.Moves[0].ID != started.ID || list.Moves[0].State != "cancelled" && list.Moves[0].State != "cancelling" {
		t.Errorf("moves are %+v after the first was cancelled", list.Moves)
	}
}

func TestMovesThatAreRefused(t *testing.T) {
	n := start(t)
	n.create("from", "")
	n.create("to.fifo", "")
	moves := admin.QueuePath("from", "moves")
	for _, c := range []struct {
		status             int
		code, method, path string
		body               string
	}{
		{404, "no_queue", "POST", admin.QueuePath("none", "moves"), `{}`},
		{404, "no_queue", "GET", admin.QueuePath("none", "moves"), ""},
		{404, "no_queue", "DELETE", admin.QueuePath("none", "moves", "1"), ""},
		{404, "no_move_target", "POST", moves, `{"destination":"none"}`},
		{400, "invalid_argument", "POST", moves, `{"destination":"from"}`},
		{400, "invalid_argument", "POST", moves, `{"destination":"to.fifo"}`},
		{400, "invalid_argument", "POST", moves, fmt.Sprintf(`{"rate":%d}`, core.MoveRateMax+1)},
		{400, "invalid_argument", "POST", moves, `{"rate":-1}`},
		{400, "bad_request", "POST", moves, `{"to":"x"}`},
		{400, "bad_request", "GET", moves + "?limit=11", ""},
		{404, "no_move", "DELETE", moves + "/1", ""},
		{404, "no_move", "DELETE", moves + "/nothing", ""},
		{404, "no_route", "PUT", moves, `{}`},
	} {
		n.refuse(c.status, c.code, c.method, c.path, c.body)
	}
}
