package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/frontends/admin"
)

// movePoll is how often a command looks whether a task has ended.
const movePoll = 200 * time.Millisecond

// mover starts move tasks for redrive and move.
type mover struct {
	c    *client
	out  *output
	rate int
	wait bool
}

// addMover gives cmd the flags of a move.
func addMover(cmd *cobra.Command, std streams, c *client) *mover {
	m := &mover{c: c, out: addOutput(cmd, std.out, "table")}
	cmd.Flags().IntVar(&m.rate, "rate", 0, "messages a second, up to 500; 0: no limit")
	cmd.Flags().BoolVar(&m.wait, "wait", false, "wait until the task has ended; exit with 1 if it has failed")
	return m
}

func (m *mover) run(ctx context.Context, source, destination string) error {
	var move admin.Move
	req := admin.MoveRequest{Destination: destination, Rate: m.rate}
	if err := m.c.do(ctx, http.MethodPost, admin.QueuePath(source, "moves"), req, &move); err != nil {
		return err
	}
	for m.wait && isActive(move) {
		select {
		case <-time.After(movePoll):
		case <-ctx.Done():
			return ctx.Err()
		}
		moves, err := listMoves(ctx, m.c, source)
		if err != nil {
			return err
		}
		found := false
		for _, other := range moves {
			if other.ID == move.ID {
				move, found = other, true
			}
		}
		if !found {
			return failf(exitNotFound, "the task is gone")
		}
	}
	if err := showMoves(m.out, move); err != nil {
		return err
	}
	if move.State == "failed" {
		return failf(exitError, "the task has failed: %s", move.Failure)
	}
	return nil
}

func isActive(m admin.Move) bool { return m.State == "running" || m.State == "cancelling" }

func listMoves(ctx context.Context, c *client, source string) ([]admin.Move, error) {
	list := admin.MoveList{Moves: []admin.Move{}}
	err := c.do(ctx, http.MethodGet, admin.QueuePath(source, "moves"), nil, &list)
	return list.Moves, err
}

// showMoves writes tasks.
func showMoves(out *output, moves ...admin.Move) error {
	t := table{header: []string{"ID", "SOURCE", "DESTINATION", "STATE", "MOVED", "RATE", "STARTED"}}
	var ids []string
	for _, m := range moves {
		to, rate, state := m.Destination, "-", m.State
		if to == "" {
			to = "(where each came from)"
		}
		if m.Rate > 0 {
			rate = fmt.Sprint(m.Rate)
		}
		if m.Failure != "" {
			state += ": " + m.Failure
		}
		ids = append(ids, m.ID)
		t.add(m.ID, m.Source, to, state, fmt.Sprintf("%d/%d", m.Moved, m.ToMove), rate, age(m.StartedAt)+" ago")
	}
	return out.show(moves, t, ids...)
}

func newQueueRedriveCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive NAME",
		Short: "Send dead letters back",
		Long: "Starts a task that moves what is ready in a dead-letter queue back to the queues that each message\n" +
			"came from, or to one queue. The messages count as new there.",
		Args: cobra.ExactArgs(1),
	}
	m := addMover(cmd, std, c)
	var to string
	cmd.Flags().StringVar(&to, "to", "", "`QUEUE` to move all to")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error { return m.run(cmd.Context(), args[0], to) })
	return cmd
}

func newQueueMoveCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move NAME DESTINATION",
		Short: "Move the messages of a queue to another",
		Long: "Starts a task that moves what is ready in a queue to another one; both are FIFO queues or none is.\n" +
			"The messages count as new there.",
		Args: cobra.ExactArgs(2),
	}
	m := addMover(cmd, std, c)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if args[1] == "" {
			return failf(exitUsage, "the destination has no name")
		}
		return m.run(cmd.Context(), args[0], args[1])
	})
	return cmd
}

func newQueueMovesCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "moves NAME", Short: "List the last move tasks out of a queue, newest first", Args: cobra.ExactArgs(1)}
	out := addOutput(cmd, std.out, "table")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		moves, err := listMoves(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		return showMoves(out, moves...)
	})
	return cmd
}

func newQueueCancelMoveCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel-move NAME [ID]",
		Short: "Stop the move task out of a queue; what was moved stays moved",
		Args:  cobra.RangeArgs(1, 2),
	}
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		id := ""
		if len(args) == 2 {
			id = args[1]
		} else {
			moves, err := listMoves(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if len(moves) == 0 || !isActive(moves[0]) {
				return failf(exitNotFound, "no move task out of %s is running", args[0])
			}
			id = moves[0].ID
		}
		var res admin.MoveCancelled
		if err := c.do(cmd.Context(), http.MethodDelete, admin.QueuePath(args[0], "moves", id), nil, &res); err != nil {
			return err
		}
		fmt.Fprintf(std.err, "cancelled; messages moved before: %d\n", res.Moved)
		return nil
	})
	return cmd
}
