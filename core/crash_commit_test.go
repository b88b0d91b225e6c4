package core

import (
	"errors"
	"io"
	"log/slog"
	"testing"
)

// failing is a committer that commits nothing.
type failing struct{ err error }

func (f failing) Submit(_ *Change, done func(Pos, error)) { go done(0, f.err) }

// TestCommitOfAFailedGroupIsNoSuccess: an operation that waits for what an
// earlier one has decided, such as a duplicate send, may ask for it only after it
// has failed.
func TestCommitOfAFailedGroupIsNoSuccess(t *testing.T) {
	e := &Engine{
		log:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		failed: make(chan struct{}), closing: make(chan struct{}),
	}
	e.clock = newClock(0, e.log)
	e.seq = newSequencer(e, MakeSeq(1))
	e.background(func() { e.seq.run(failing{errors.New("no disk")}) })
	g, err := e.seq.begin()
	if err != nil {
		t.Fatal(err)
	}
	g.put(Edit{Kind: EditDropRecord, Key: []byte("a")})
	n, done := g.n, g.done
	e.seq.end()
	if err := done.wait(); !errors.Is(err, ErrStopped) {
		t.Errorf("the group ended with %v, want ErrStopped", err)
	}
	e.work.Wait()
	late := e.seq.commitOf(n)
	if late == nil {
		t.Fatal("the group counts as durable")
	}
	if err := late.wait(); !errors.Is(err, ErrStopped) {
		t.Errorf("asked for later it ended with %v, want ErrStopped", err)
	}
}
