package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// state is a database with what was applied to it.
type state struct {
	t    *testing.T
	db   *storage.DB
	last uint64
}

func storageOptions(dir string) storage.Options {
	return storage.Options{
		Dir: dir, Replicated: true, Logger: quiet(),
		Profile: storage.Profile{MemTableBytes: 256 << 10, CacheBytes: 1 << 20},
	}
}

func openState(t *testing.T, dir string) *state {
	t.Helper()
	db, _, err := storage.Open(storageOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &state{t: t, db: db, last: db.Applied().Seq}
}

// record is the record of the log at seq: where it stands, and its Change.
func record(seq uint64) (core.LogPosition, *core.Change) {
	body := make([]byte, seq%5000)
	_, _ = rand.NewChaCha8([32]byte{byte(seq), byte(seq >> 8), byte(seq >> 16)}).Read(body) // tables are compressed
	return core.LogPosition{Generation: 1, Epoch: 3, Seq: seq, Hash: [16]byte{byte(seq), byte(seq >> 8)}, Time: int64(seq)},
		&core.Change{Time: int64(seq), Edits: []core.Edit{{
			Kind: core.EditPutMessage, Ref: core.Ref{QID: 1, Seq: core.Seq(seq)}, Value: body,
		}}}
}

// applyTo applies the records up to one.
func (s *state) applyTo(seq uint64) {
	s.t.Helper()
	for s.last < seq {
		s.last++
		at, c := record(s.last)
		if err := s.db.Apply(at, []*core.Change{c}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *state) digest() Digest {
	s.t.Helper()
	at, sum, err := s.db.Digest(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return Digest{At: at, Sum: sum}
}

// serve serves the state as that of node i.
func (s *state) serve(w *world, i int, o Options) *Server {
	o.Checkpoint, o.Digest = s.db.Checkpoint, s.db.DigestAt
	if o.Dir == "" {
		o.Dir = filepath.Join(w.t.TempDir(), "checkpoints")
	}
	o.Status = func() Status {
		st := Status{Role: RoleStandby, Durable: s.db.Durable().Seq}
		st.SetApplied(s.db.Applied())
		return st
	}
	return w.serve(i, o)
}

// isEmpty tells whether a folder has nothing in it, or is not there.
func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries) == 0
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 1000 {
		if cond() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%s: it does not happen", what)
}

// TestFetchedCopyGoesOn copies a state while it is written, and has the copy go on
// from the position that it is said to have.
func TestFetchedCopyGoesOn(t *testing.T) {
	w := newWorld(t)
	origin := openState(t, t.TempDir())
	origin.applyTo(2000) // about 2 MB, in several tables
	served := filepath.Join(t.TempDir(), "checkpoints")
	origin.serve(w, 1, Options{Dir: served})

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				origin.applyTo(origin.last + 1)
			}
		}
	}()
	dir := filepath.Join(t.TempDir(), "new", "store")
	var done, total int64
	at, err := w.peers.Fetch(patient(t), "n1", dir, func(d, of int64) {
		if d <= done || d > of {
			t.Errorf("progress %d of %d after %d", d, of, done)
		}
		done, total = d, of
	})
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	if done != total || total < 1<<20 || at.Seq < 2000 || at.Seq > origin.last {
		t.Errorf("fetched %d of %d bytes, at %+v; the origin is at %d", done, total, at, origin.last)
	}
	copied := openState(t, dir)
	if got := copied.db.Applied(); got != at {
		t.Errorf("the copy is at %+v, want %+v", got, at)
	}
	origin.applyTo(origin.last + 100)
	copied.applyTo(origin.last)
	if a, b := origin.digest(), copied.digest(); a != b {
		t.Errorf("in the end the digests are %+v and %+v", a, b)
	}
	eventually(t, "the checkpoint is released", func() bool { return isEmpty(t, served) })
	if !isEmpty(t, dir+partSuffix) {
		t.Error("parts are left")
	}
	s, err := w.peers.Status(patient(t), "n1")
	if err != nil || s.Held == nil || *s.Held != at.Seq {
		t.Errorf("held %v, %v, want %d for a while", s.Held, err, at.Seq)
	}
	if _, err := w.peers.Fetch(patient(t), "n1", dir, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("into a folder that is there: %v", err)
	}
}

// TestAbortedFetchLeavesNothing ends it after each number of bytes.
func TestAbortedFetchLeavesNothing(t *testing.T) {
	w := newWorld(t)
	origin := openState(t, t.TempDir())
	origin.applyTo(400)
	served := filepath.Join(t.TempDir(), "checkpoints")
	s := origin.serve(w, 1, Options{Dir: served})
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	for _, n := range []int{0, 1, 4} {
		ctx, cancel := context.WithCancel(patient(t))
		pieces := 0
		_, err := w.peers.Fetch(ctx, "n1", dir, func(done, total int64) {
			if pieces++; pieces == n || done == total {
				cancel()
			}
		})
		cancel()
		if err == nil { // the last file has ended
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrGone) || !isEmpty(t, parent) {
			t.Errorf("aborted after %d pieces: %v", n, err)
		}
		eventually(t, "the checkpoint is released", func() bool { return isEmpty(t, served) })
	}
	// The node ends while it is read.
	var once sync.Once
	_, err := w.peers.Fetch(patient(t), "n1", dir, func(int64, int64) {
		once.Do(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	})
	if !errors.Is(err, ErrNoNode) && !errors.Is(err, ErrGone) || !isEmpty(t, parent) || !isEmpty(t, served) {
		t.Errorf("of a node that ends: %v", err)
	}
	// What a crash has left is in nobody's way.
	if err := os.MkdirAll(filepath.Join(dir+partSuffix, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(served, "y"), 0o700); err != nil {
		t.Fatal(err)
	}
	origin.serve(w, 1, Options{Dir: served})
	if !isEmpty(t, served) {
		t.Error("what was left of the server is still there")
	}
	if _, err := w.peers.Fetch(patient(t), "n1", dir, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("what was left is in the copy")
	}
}

// TestCheckpointsAreBounded makes two that nobody reads.
func TestCheckpointsAreBounded(t *testing.T) {
	w := newWorld(t)
	origin := openState(t, t.TempDir())
	origin.applyTo(10)
	served := filepath.Join(t.TempDir(), "checkpoints")
	const idle = 500 * time.Millisecond
	origin.serve(w, 1, Options{Dir: served, IdleMax: idle})
	for range checkpointsMax {
		if _, err := w.peers.ask(patient(t), "n1", &request{Op: opCheckpoint}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := w.peers.Fetch(patient(t), "n1", dir, nil); !errors.Is(err, ErrBusy) || !isEmpty(t, filepath.Dir(dir)) {
		t.Errorf("a third one: %v", err)
	}
	if s, err := w.peers.Status(patient(t), "n1"); err != nil || s.Held == nil || *s.Held != 10 {
		t.Errorf("held %v, %v", s.Held, err)
	}
	eventually(t, "idle ones are removed", func() bool { return isEmpty(t, served) })
	if _, err := w.peers.Fetch(patient(t), "n1", dir, nil); err != nil {
		t.Errorf("when they are: %v", err)
	}
}

// TestCheckpointRequestsAreChecked asks for what is not in a checkpoint.
func TestCheckpointRequestsAreChecked(t *testing.T) {
	w := newWorld(t)
	origin := openState(t, t.TempDir())
	origin.applyTo(10)
	served := filepath.Join(t.TempDir(), "checkpoints")
	origin.serve(w, 1, Options{Dir: served})
	data, err := w.peers.ask(patient(t), "n1", &request{Op: opCheckpoint}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var a checkpointAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(filepath.Dir(served), "secret")
	if err := os.WriteFile(secret, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	var list []fileInfo
	if data, err = w.peers.ask(patient(t), "n1", &request{Op: opFiles, Checkpoint: a.ID}, time.Minute); err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil || len(list) != a.Files {
		t.Fatalf("%d files, want %d: %v", len(list), a.Files, err)
	}
	big := list[0]
	for _, file := range list {
		if file.Bytes > big.Bytes {
			big = file
		}
	}
	for _, r := range []request{
		{Op: opFiles, From: a.Files},
		{Op: opFiles, From: -1},
		{Op: opChunk, File: "../../secret", Bytes: 10},
		{Op: opChunk, File: secret, Bytes: 10},
		{Op: opChunk, File: "", Bytes: 10},
		{Op: opChunk, File: big.Name, Bytes: 0},
		{Op: opChunk, File: big.Name, Bytes: -1},
		{Op: opChunk, File: big.Name, Bytes: chunkBytesMax + 1},
		{Op: opChunk, File: big.Name, Bytes: 10, Offset: -1},
		{Op: opChunk, File: big.Name, Bytes: 10, Offset: big.Bytes - 9},
		{Op: opChunk, File: big.Name, Bytes: 10, Offset: 1<<63 - 5},
		{Op: opSum, File: "../../secret"},
		{Op: opSum, File: "."},
	} {
		r.Checkpoint = a.ID
		if _, err := w.peers.ask(patient(t), "n1", &r, time.Minute); !errors.Is(err, errRequest) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, id := range []string{"", "..", "../" + a.ID, strings.ToLower(a.ID)} {
		if _, err := w.peers.ask(patient(t), "n1", &request{Op: opChunk, Checkpoint: id, File: big.Name, Bytes: 1}, time.Minute); !errors.Is(err, ErrGone) {
			t.Errorf("checkpoint %q: %v", id, err)
		}
	}
}

// TestUnfitCheckpointsAreNotServed has the store fail, or write what cannot be sent.
func TestUnfitCheckpointsAreNotServed(t *testing.T) {
	w := newWorld(t)
	served := filepath.Join(t.TempDir(), "checkpoints")
	var made atomic.Value
	w.serve(1, Options{Dir: served, Checkpoint: func(dir string) (core.LogPosition, error) {
		return core.LogPosition{}, made.Load().(func(string) error)(dir)
	}})
	dir := filepath.Join(t.TempDir(), "store")
	for name, c := range map[string]struct {
		make func(dir string) error
		want error
	}{
		"disk full": {func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), core.ErrDiskFull) }, core.ErrDiskFull},
		"panic":     {func(dir string) error { _ = os.Mkdir(dir, 0o700); panic("a bug") }, errInternal},
		"no folder": {func(string) error { return nil }, errInternal},
		"a folder in it": {func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "sub"), 0o700)
		}, errInternal},
		"a link in it": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
		}, errInternal},
		"nothing in it": {func(dir string) error { return os.Mkdir(dir, 0o700) }, errInternal},
	} {
		made.Store(c.make)
		if _, err := w.peers.Fetch(patient(t), "n1", dir, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		eventually(t, name, func() bool { return isEmpty(t, served) })
	}
	if !isEmpty(t, filepath.Dir(dir)) {
		t.Error("something is left")
	}
}

// liar answers a fetch with what it is told, a file "f" of 3 bytes if nothing.
type liar struct {
	mu      sync.Mutex
	answers map[string]string // by op
	errors  map[string]string
}

func (l *liar) answer(m *nats.Msg) {
	var r request
	_ = json.Unmarshal(m.Data, &r)
	l.mu.Lock()
	defer l.mu.Unlock()
	a := nats.NewMsg(m.Reply)
	a.Data = []byte(l.answers[r.Op])
	if e := l.errors[r.Op]; e != "" {
		a.Header.Set(headerError, e)
	}
	_ = m.RespondMsg(a)
}

// fail has one kind of request answered with an error.
func (l *liar) fail(op, header string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = map[string]string{op: header}
}

// TestFetchDoesNotBelieve fetches from a node that lies.
func TestFetchDoesNotBelieve(t *testing.T) {
	w := newWorld(t)
	l := &liar{}
	if _, err := w.conns[0].Subscribe("lease.peer.test.node.n9", l.answer); err != nil {
		t.Fatal(err)
	}
	checkpoint := func(files, bytes int) string {
		return fmt.Sprintf(`{"id":"ABC","at":{"generation":1,"seq":5,"hash":"%s"},"files":%d,"bytes":%d}`, strings.Repeat("0", 32), files, bytes)
	}
	const sum = `{"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}` // of abc
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	try := func(name string, change map[string]string, want error) {
		t.Helper()
		l.mu.Lock()
		l.answers = map[string]string{opCheckpoint: checkpoint(1, 3), opFiles: `[{"name":"f","bytes":3}]`, opChunk: "abc", opSum: sum}
		for op, a := range change {
			l.answers[op] = a
		}
		l.mu.Unlock()
		at, err := w.peers.Fetch(patient(t), "n9", dir, nil)
		switch {
		case want == nil && (err != nil || at.Seq != 5):
			t.Errorf("%s: %+v, %v", name, at, err)
		case want != nil && (!errors.Is(err, want) || !isEmpty(t, parent) || at != core.LogPosition{}):
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for name, files := range map[string]string{
		"path":      `[{"name":"../f","bytes":3}]`,
		"absolute":  `[{"name":"/tmp/f","bytes":3}]`,
		"parent":    `[{"name":"..","bytes":3}]`,
		"hidden":    `[{"name":".f","bytes":3}]`,
		"other":     `[{"name":"a\\f","bytes":3}]`,
		"zero":      `[{"name":"f\u0000","bytes":3}]`,
		"empty":     `[{"name":"","bytes":3}]`,
		"long":      `[{"name":"` + strings.Repeat("f", 256) + `","bytes":3}]`,
		"negative":  `[{"name":"f","bytes":-3}]`,
		"larger":    `[{"name":"f","bytes":4}]`,
		"smaller":   `[{"name":"f","bytes":2}]`,
		"more":      `[{"name":"f","bytes":3},{"name":"g","bytes":0}]`,
		"none":      `[]`,
		"no list":   `{}`,
		"not JSON":  `x`,
		"huge page": `[` + strings.Repeat(`{"name":"f","bytes":0},`, filesPageMax) + `{"name":"g","bytes":3}]`,
	} {
		try("files: "+name, map[string]string{opFiles: files}, ErrMalformed)
	}
	try("files: twice", map[string]string{opCheckpoint: checkpoint(2, 6)}, ErrMalformed)
	for name, c := range map[string]string{
		"no files": checkpoint(0, 0), "negative": checkpoint(1, -3), "too many": checkpoint(filesMax+1, 3),
		"no id": strings.Replace(checkpoint(1, 3), "ABC", "", 1), "bad id": strings.Replace(checkpoint(1, 3), "ABC", "../x", 1),
		"no position": `{"id":"ABC","files":1,"bytes":3}`, "not JSON": "x",
	} {
		try("checkpoint: "+name, map[string]string{opCheckpoint: c}, ErrMalformed)
	}
	try("chunk: short", map[string]string{opChunk: "ab"}, ErrMalformed)
	try("chunk: long", map[string]string{opChunk: "abcd"}, ErrMalformed)
	try("chunk: huge", map[string]string{opChunk: strings.Repeat("x", answerBytesMax+1)}, ErrMalformed)
	try("chunk: other bytes", map[string]string{opChunk: "abd"}, core.ErrCorrupt)
	try("sum: malformed", map[string]string{opSum: `{"sha256":"12"}`}, ErrMalformed)
	try("sum: not JSON", map[string]string{opSum: `x`}, ErrMalformed)
	for _, op := range []string{opCheckpoint, opFiles, opChunk, opSum} {
		l.fail(op, "corrupt it is damaged")
		try("error of "+op, nil, core.ErrCorrupt)
	}
	l.fail(opRelease, "internal no")
	try("nothing", nil, nil)
	if b, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(b) != "abc" {
		t.Errorf("fetched %q, %v", b, err)
	}
	blocked := filepath.Join(dir, "f", "store")
	if _, err := w.peers.Fetch(patient(t), "n9", blocked, nil); err == nil {
		t.Error("fetched into a file")
	}
}
