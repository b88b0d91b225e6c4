package core

import (
	"errors"
	"testing"
)

// sampleMoveTask has a value of its own in each field.
func sampleMoveTask() *moveTask {
	return &moveTask{
		source: 1<<40 + 1, incarnation: 1<<40 + 2,
		MoveTask: MoveTask{
			ID: 1<<40 + 3, Source: "dead letters", Destination: "örders", Rate: 500, State: MoveFailed, Failure: MoveFailureFull,
			StartedAt: 1_700_000_000_000, ToMove: 7, Moved: 5, Expired: 1,
		},
	}
}

func TestMoveTaskIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []*moveTask{sampleMoveTask(), {}, {MoveTask: MoveTask{ToMove: 1 << 62, Rate: 1}}} {
		b := want.append(nil)
		got, err := decodeMoveTask(b)
		if err != nil || got.MoveTask != want.MoveTask || got.source != want.source || got.incarnation != want.incarnation {
			t.Errorf("%+v reads as %+v, %v", want, got, err)
		}
		for n := range b {
			if _, err := decodeMoveTask(b[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v, want ErrCorrupt", n, len(b), err)
			}
		}
	}
}

func TestUnknownMoveTasksAreRefused(t *testing.T) {
	with := func(edit func(b []byte) []byte) []byte { return edit(sampleMoveTask().append(nil)) }
	tooFast := sampleMoveTask()
	tooFast.Rate = MoveRateMax + 1
	for name, b := range map[string][]byte{
		"a newer version": with(func(b []byte) []byte { b[0] = 2; return b }),
		"a newer state":   with(func(b []byte) []byte { b[1] = byte(MoveFailed) + 1; return b }),
		"a newer failure": with(func(b []byte) []byte { b[2] = byte(MoveFailureTime) + 1; return b }),
		"bytes too many":  with(func(b []byte) []byte { return append(b, 0) }),
		"a rate":          tooFast.append(nil),
	} {
		if _, err := decodeMoveTask(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

// TestMoveTaskKeysOrderByAge: storage walks the tasks of a source from the oldest
// to the newest, whatever the term.
func TestMoveTaskKeysOrderByAge(t *testing.T) {
	last := ""
	for _, c := range []struct {
		source QID
		id     Seq
	}{{1, 9}, {1, 10}, {1, MakeSeq(2)}, {2, 1}, {1 << 41, 1}, {1 << 63, 1}} {
		key := string((&moveTask{source: c.source, MoveTask: MoveTask{ID: c.id}}).key())
		if key <= last {
			t.Errorf("key %q of task %d of queue %d sorts before %q", key, c.id, c.source, last)
		}
		last = key
	}
}
