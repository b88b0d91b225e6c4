package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// declareAll creates standard queues.
func declareAll(t *testing.T, n *node, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, _, err := n.client.Declare(t.Context(), name, core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(from, n int) []core.Message {
	msgs := make([]core.Message, n)
	for i := range msgs {
		msgs[i] = text(strconv.Itoa(from + i))
	}
	return msgs
}

func startMoveOf(t *testing.T, n *node, o core.MoveOptions) core.MoveTask {
	t.Helper()
	task, err := n.client.StartMove(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func newestMove(t *testing.T, n *node, source string) core.MoveTask {
	t.Helper()
	tasks, err := n.client.MoveTasks(t.Context(), source, 1)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("tasks of %s: %v, %v", source, tasks, err)
	}
	return tasks[0]
}

// count adds the messages that a queue holds to seen.
func count(t *testing.T, n *node, queue string, seen map[string]int) (messages int) {
	t.Helper()
	var pos core.PeekPos
	for {
		got, next, err := n.client.Peek(t.Context(), queue, pos, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return messages
		}
		for i := range got {
			seen[string(got[i].Body)]++
		}
		messages, pos = messages+len(got), next
	}
}

// TestMoveSurvivesACrashAfterEachChange: wherever a move is cut off, and however
// much of what was not synced is kept, each message is in one place, as often as
// the task says, and the next process ends the task.
func TestMoveSurvivesACrashAfterEachChange(t *testing.T) {
	const total = 300
	for _, rate := range []int{0, core.MoveRateMax} {
		for changes := range 10 {
			for _, kept := range []int{0, 50, 100} {
				t.Run(fmt.Sprintf("rate=%d/changes=%d/kept=%d", rate, changes, kept), func(t *testing.T) {
					onNode(t, new(node), func(t *testing.T, n *node) {
						declareAll(t, n, "to")
						publish(t, n, numbered(0, total)...)
						startMoveCutOff(t, n, core.MoveOptions{Source: "q", Destination: "to", Rate: rate}, changes)
						crashKeeping(t, n, kept)
						checkMoved(t, n, total, changes > 0)
					})
				})
			}
		}
	}
}

// startMoveCutOff starts a move of which so many Changes get through.
func startMoveCutOff(t *testing.T, n *node, o core.MoveOptions, changes int) {
	t.Helper()
	synctest.Wait()
	n.gate.hold()
	n.gate.let(changes)
	client := n.client
	go func() { _, _ = client.StartMove(context.Background(), o) }()
	time.Sleep(time.Second)
	synctest.Wait()
}

// crashKeeping is node.crash with some of what was not synced.
func crashKeeping(t *testing.T, n *node, percent int) {
	t.Helper()
	after := n.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, uint64(percent)))})
	n.gate.fail()
	n.close()
	n.fs, n.gate = after, n.gate.again()
	n.open()
}

// checkMoved checks what a crash left, and how the task ends. durable says that
// the task must be there.
func checkMoved(t *testing.T, n *node, total int, durable bool) {
	t.Helper()
	time.Sleep(time.Minute)
	seen := map[string]int{}
	source, moved := count(t, n, "q", seen), count(t, n, "to", seen)
	if source+moved != total || len(seen) != total {
		t.Errorf("%d messages in the source and %d moved, %d different ones, want %d", source, moved, len(seen), total)
	}
	tasks, err := n.client.MoveTasks(t.Context(), "q", 10)
	if err != nil || durable && len(tasks) != 1 {
		t.Fatalf("tasks %+v, %v", tasks, err)
	}
	for _, task := range tasks {
		if task.State != core.MoveCompleted || task.Moved != int64(total) || moved != total {
			t.Errorf("the task ends as %+v with %d messages moved", task, moved)
		}
	}
}

// TestMoveBesideProducersAndConsumers: every message is consumed once, from the
// source or from where it was moved to.
func TestMoveBesideProducersAndConsumers(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "to")
		const total = 4000
		publish(t, n, numbered(0, total/2)...)
		var mu sync.Mutex
		seen := map[string]int{}
		var work sync.WaitGroup
		work.Go(func() {
			for i := total / 2; i < total; i += 100 {
				if _, err := n.client.Publish(context.Background(), "q", numbered(i, 100), nil); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
		work.Go(func() { // one move after the other, until all is consumed
			for {
				mu.Lock()
				over := len(seen) == total
				mu.Unlock()
				if over {
					return
				}
				if _, err := n.client.StartMove(context.Background(), core.MoveOptions{Source: "q", Destination: "to"}); err != nil && !errors.Is(err, core.ErrMoveActive) {
					t.Error(err)
				}
				time.Sleep(3 * time.Millisecond)
			}
		})
		for _, queue := range []string{"q", "to", "to"} {
			work.Go(func() {
				for {
					ds, err := n.client.Receive(context.Background(), queue, core.ReceiveOptions{Max: 7, Visibility: time.Minute, Wait: 10 * time.Second}, nil)
					if err != nil {
						t.Error(err)
					}
					if len(ds) == 0 {
						return
					}
					var done []core.Settlement
					mu.Lock()
					for i := range ds {
						seen[string(ds[i].Body)]++
						done = append(done, core.Settlement{Receipt: ds[i].Receipt})
					}
					mu.Unlock()
					if errs, err := n.client.Settle(context.Background(), queue, done, nil); err != nil || errors.Join(errs...) != nil {
						t.Error(err, errs)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		work.Wait()
		for body, times := range seen {
			if times != 1 {
				t.Errorf("message %s was consumed %d times", body, times)
			}
		}
		if len(seen) != total {
			t.Errorf("%d messages were consumed, want %d", len(seen), total)
		}
	})
}

// TestACancellationHoldsThroughACrash: what is stored of a task that was cancelled
// and had not ended says so.
func TestACancellationHoldsThroughACrash(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "to")
		publish(t, n, numbered(0, 100)...)
		startMoveOf(t, n, core.MoveOptions{Source: "q", Destination: "to", Rate: 1})
		time.Sleep(1500 * time.Millisecond)
		if err := n.engine.Close(); err != nil {
			t.Fatal(err)
		}
		change := core.Change{Time: n.engine.Now()}
		err := n.db.Records("move/", "", func(name string, value []byte) bool {
			value = bytes.Clone(value)
			value[1] = byte(core.MoveCancelling)
			change.Edits = append(change.Edits, core.Edit{Kind: core.EditPutRecord, Key: []byte(name), Value: value})
			return true
		})
		if err != nil || len(change.Edits) != 1 {
			t.Fatalf("%d tasks are stored, %v", len(change.Edits), err)
		}
		stored := make(chan error, 1)
		n.db.Submit(&change, func(_ core.Pos, err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
		n.close()
		n.open()
		time.Sleep(time.Minute)
		if got := newestMove(t, n, "q"); got.State != core.MoveCancelled || got.Moved != 2 {
			t.Errorf("the task ends as %+v", got)
		}
	})
}

// TestATaskEndsAfterItsTime: it counts from the start of the task, whatever
// processes have worked on it.
func TestATaskEndsAfterItsTime(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "to")
		publish(t, n, numbered(0, 10)...)
		startMoveOf(t, n, core.MoveOptions{Source: "q", Destination: "to", Rate: 1})
		time.Sleep(1500 * time.Millisecond)
		n.engine.HoldProducers(core.ErrDiskFull) // moves wait for room
		time.Sleep(core.MoveTimeMax / 2)
		n.close()
		n.open()
		n.engine.HoldProducers(core.ErrDiskFull)
		time.Sleep(core.MoveTimeMax/2 - 10*time.Second)
		if got := newestMove(t, n, "q"); got.State != core.MoveRunning {
			t.Errorf("before its time is over the task is %+v", got)
		}
		time.Sleep(20 * time.Second)
		n.engine.HoldProducers(nil)
		time.Sleep(time.Minute)
		got := newestMove(t, n, "q")
		if got.State != core.MoveFailed || got.Failure != core.MoveFailureTime {
			t.Errorf("the task ends as %+v", got)
		}
		seen := map[string]int{}
		if left, moved := count(t, n, "q", seen), count(t, n, "to", seen); left == 0 || int64(moved) != got.Moved || len(seen) != 10 {
			t.Errorf("%d messages are left and %d moved, the task says %d", left, moved, got.Moved)
		}
	})
}

// TestActiveMoveTasksAreLimited: tasks that have ended make room, those of a
// deleted source too, and a restart counts the same.
func TestActiveMoveTasksAreLimited(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "to")
		start := func(i int) error {
			name := fmt.Sprint("d", i)
			declareAll(t, n, name)
			if _, err := n.client.Publish(t.Context(), name, numbered(0, 3), nil); err != nil {
				t.Fatal(err)
			}
			_, err := n.client.StartMove(t.Context(), core.MoveOptions{Source: name, Destination: "to", Rate: 1})
			return err
		}
		for i := range core.MoveTasksMax {
			if err := start(i); err != nil {
				t.Fatalf("task %d: %v", i, err)
			}
		}
		synctest.Wait()
		if err := start(1000); !errors.Is(err, core.ErrTooManyMoves) {
			t.Errorf("one more: %v, want ErrTooManyMoves", err)
		}
		n.close()
		n.open()
		synctest.Wait()
		if err := start(1000); !errors.Is(err, core.ErrTooManyMoves) {
			t.Errorf("one more after a restart: %v, want ErrTooManyMoves", err)
		}
		if err := n.client.Delete(t.Context(), "d0"); err != nil {
			t.Fatal(err)
		}
		if err := start(1000); err != nil {
			t.Errorf("one less: %v", err)
		}
		time.Sleep(time.Minute)
		if err := start(1001); err != nil {
			t.Errorf("all have ended: %v", err)
		}
	})
}

// TestAnIdleMoveTaskDoesNothing: between the moves of a slow task nothing is
// committed.
func TestAnIdleMoveTaskDoesNothing(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "to")
		publish(t, n, numbered(0, 100)...)
		startMoveOf(t, n, core.MoveOptions{Source: "q", Destination: "to", Rate: 1})
		synctest.Wait()
		var mu sync.Mutex
		commits := 0
		n.gate.mu.Lock()
		n.gate.seen = func(*core.Change) { mu.Lock(); commits++; mu.Unlock() }
		n.gate.mu.Unlock()
		time.Sleep(10*time.Second + 500*time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if commits != 10 {
			t.Errorf("%d commits in 10 seconds at 1 message a second", commits)
		}
	})
}

// TestAMovedMessageIsNew: its id, times and counts are; body, attributes, group
// and expiry are kept.
func TestAMovedMessageIsNew(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "to")
		m := core.Message{
			Body: []byte("body"), Group: "g", Priority: 7, TTL: time.Hour, ContentType: "text/plain", TraceParent: "trace", Origin: core.OriginSTOMP,
			Attributes: []core.Attribute{{Name: "a", Type: "String", Value: []byte("v")}},
		}
		pub, err := n.client.Publish(t.Context(), "q", []core.Message{m}, nil)
		if err != nil {
			t.Fatal(err)
		}
		before, _, err := n.client.Peek(t.Context(), "q", core.PeekPos{}, 1)
		if err != nil || len(before) != 1 {
			t.Fatal(before, err)
		}
		time.Sleep(time.Minute)
		startMoveOf(t, n, core.MoveOptions{Source: "q", Destination: "to"})
		synctest.Wait()
		got, err := n.client.Receive(t.Context(), "to", core.ReceiveOptions{Max: 1, Visibility: -1}, nil)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		d, b := &got[0], &before[0].Stored
		if d.ID == pub[0].ID || d.Seq == pub[0].Seq || d.EnqueuedAt != b.EnqueuedAt+60_000 || d.State.Receives != 1 || d.PriorReceives != 0 || d.Redelivered {
			t.Errorf("it is not new: %+v", d)
		}
		if string(d.Body) != "body" || string(d.Group) != "g" || d.Priority != 7 || d.ExpiresAt != b.ExpiresAt || string(d.ContentType) != "text/plain" ||
			string(d.TraceParent) != "trace" || d.Origin != core.OriginSTOMP || d.AttributeCount() != 1 {
			t.Errorf("it is %+v, was %+v", d.Stored, b)
		}
	})
}
