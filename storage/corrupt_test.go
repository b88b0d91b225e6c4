package storage

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// TestUnreadableTableIsCorrupt flips a bit in the middle of a table: what lies
// in that block is lost, what lies elsewhere is not.
func TestUnreadableTableIsCorrupt(t *testing.T) {
	dir := t.TempDir()
	d, _ := mustOpen(t, Options{Dir: dir, Sync: SyncNever})
	const n = 500
	noise := rand.NewChaCha8([32]byte{})
	for i := range core.Seq(n) {
		record := make([]byte, 1000)
		_, _ = noise.Read(record)
		mustCommit(t, d, put(ref(1, i+1), record))
	}
	flush(t, d)
	compactAll(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		if info, err := os.Stat(name); err == nil && info.Size() > n*500 {
			flipByte(t, name, int(info.Size()/2))
		}
	}

	d, _ = mustOpen(t, Options{Dir: dir})
	defer d.Close()
	before := d.Metrics().Corruptions
	walked := 0
	err = d.Messages(1, core.Place{}, 0, core.SeqMax, func(core.Seq, []byte) bool { walked++; return true })
	if !errors.Is(err, core.ErrCorrupt) || walked == 0 {
		t.Errorf("walk of %d: %v, want ErrCorrupt", walked, err)
	}
	lost := 0
	// Not each message: Pebble takes its time to tell what is wrong with a block.
	for i := core.Seq(1); i <= n; i += 20 {
		v, err := d.Message(ref(1, i))
		switch {
		case errors.Is(err, core.ErrCorrupt):
			lost++
		case err != nil || len(v) != 1000:
			t.Errorf("message %d: %d bytes, %v", i, len(v), err)
		}
	}
	if lost == 0 || lost > 3 {
		t.Errorf("%d of %d messages are lost, want those of one block", lost, n/20)
	}
	if got := d.Metrics().Corruptions; got <= before {
		t.Errorf("%d corruptions counted", got-before)
	}
	if d.Err() != nil {
		t.Errorf("a read stopped the node: %v", d.Err())
	}
	mustCommit(t, d, put(ref(2, n+1), body(1)))
}

func flipByte(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestUnreadableRecordsAreCorrupt puts values and keys that nobody makes.
func TestUnreadableRecordsAreCorrupt(t *testing.T) {
	d := openForTest(t, onMem())
	for key, value := range map[string]string{
		string(appendStateKey(nil, ref(1, 1))):   "\x02",
		string(appendQID(nil, spaceReap, 1))[:5]: "\x01",
		"nname":                                  "\x01short",
		"x\x00":                                  "\x01",
		"g\x00\x00\x00\x00\x00\x00\x00\x01\x07":  "\x01",
		"d\x00\x00\x00\x00\x00\x00\x00\x01\x07":  "\x01",
	} {
		if err := d.pebble.Set([]byte(key), []byte(value), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	_, _, stateErr := d.State(ref(1, 1))
	_, nameErr := d.QueueID("name")
	_, _, dedupErr := d.DedupFrom()
	for what, err := range map[string]error{
		"State":     stateErr,
		"States":    d.States(core.Ref{QID: 1}, func(core.Ref, core.MessageState) bool { return true }),
		"QueueID":   nameErr,
		"Names":     d.Names("", "", func(string, core.QID) bool { return true }),
		"Reaps":     d.Reaps(func(core.QID) bool { return true }),
		"DedupFrom": dedupErr,
		"Lanes":     d.Lanes(1, core.Place{}, func(core.Place, []byte) bool { return true }),
		"Delayed":   d.Delayed(1, 0, 0, dueMax, func(uint64, core.Seq, []byte) bool { return true }),
	} {
		if !errors.Is(err, core.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", what, err)
		}
	}
	if got := d.Metrics().Corruptions; got != 8 {
		t.Errorf("%d corruptions counted, want 8", got)
	}
}

// TestDamagedLogIsRefused: damage before data that was synced is not a torn
// tail.
func TestDamagedLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	d, _ := mustOpen(t, Options{Dir: dir})
	for i := range core.Seq(20) {
		mustCommit(t, d, put(ref(1, i+1), make([]byte, 25_000)))
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(copied, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	flipByte(t, logs[0], 100_000)
	if _, _, err := Open(Options{Dir: copied, Logger: quiet()}); !errors.Is(err, core.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}
