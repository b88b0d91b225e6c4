package core_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
)

// startMove starts a move task: "move d", "move d to=q rate=10".
func startMove(c *call) string {
	o := core.MoveOptions{Source: c.arg(0), Rate: c.number("rate", 0)}
	o.Destination, _ = c.take("to")
	_, err := c.s.n.client.StartMove(c.ctx, o)
	return fault(err)
}

// moves lists the move tasks of a queue, newest first.
func moves(c *call) string {
	tasks, err := c.s.n.client.MoveTasks(c.ctx, c.arg(0), c.number("max", 10))
	if err != nil {
		return fault(err)
	}
	var out []string
	for i := range tasks {
		out = append(out, moveTask(&tasks[i]))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, "\n")
}

func moveTask(t *core.MoveTask) string {
	states := []string{"running", "completed", "cancelling", "cancelled", "failed"}
	failures := []string{"", " no-destination", " no-origin", " kind", " full", " unreadable", " time"}
	out := fmt.Sprintf("%s%s moved=%d/%d", states[t.State], failures[t.Failure], t.Moved, t.ToMove)
	if t.Expired != 0 {
		out += fmt.Sprintf(" expired=%d", t.Expired)
	}
	if t.Destination != "" {
		out += " to=" + t.Destination
	}
	if t.Rate != 0 {
		out += fmt.Sprintf(" rate=%d", t.Rate)
	}
	return out
}

// cancelMove cancels a task of a queue: the newest, or the n-th newest.
func cancelMove(c *call) string {
	tasks, err := c.s.n.client.MoveTasks(c.ctx, c.arg(0), 10)
	if err != nil {
		return fault(err)
	}
	id, n := core.Seq(0), c.number("nth", 1)
	if n <= len(tasks) {
		id = tasks[n-1].ID
	}
	moved, err := c.s.n.client.CancelMove(c.ctx, c.arg(0), id)
	if err != nil {
		return fault(err)
	}
	return fmt.Sprintf("moved=%d", moved)
}

// bury sends messages to a queue with dlq= set to d and max-receives=1, and has
// them dead-lettered: "bury q a b". They are at d when it ends.
func bury(c *call) string {
	q := c.arg(0)
	if res := send(c); res != "" {
		return res
	}
	for range c.args[1:] {
		got, err := c.s.n.client.Receive(c.ctx, q, core.ReceiveOptions{Max: 1, Visibility: time.Hour}, nil)
		if err != nil || len(got) == 0 {
			return "nothing to bury" + fault(err)
		}
		var batch []core.Settlement
		for i := range got {
			batch = append(batch, core.Settlement{Receipt: got[i].Receipt, Action: core.SettleDeadLetter})
		}
		if res := c.settle(batch, make([]string, len(batch))); res != "" {
			return res
		}
	}
	return ""
}
