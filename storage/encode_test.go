package storage

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// TestEncode prints what each kind of edit does to the database.
func TestEncode(t *testing.T) {
	datadriven.RunTest(t, "testdata/encode", func(t *testing.T, td *datadriven.TestData) string {
		if td.Cmd != "encode" {
			td.Fatalf(t, "unknown command %s", td.Cmd)
		}
		c := &core.Change{}
		for line := range strings.Lines(td.Input) {
			c.Edits = append(c.Edits, parseEdit(t, td, line))
		}
		b := new(pebble.Batch)
		if err := Encode(c, b); err != nil {
			return fmt.Sprintf("error: %v\n", err)
		}
		return formatBatch(t, b)
	})
}

// parseEdit reads a line such as
//
//	put-message q=1 place=2.ff seq=1.5 value=body
func parseEdit(t *testing.T, td *datadriven.TestData, line string) core.Edit {
	t.Helper()
	cmd, args, err := datadriven.ParseLine(line)
	if err != nil {
		td.Fatalf(t, "%v", err)
	}
	e := core.Edit{Kind: editKind(t, td, cmd)}
	for _, a := range args {
		v := ""
		if len(a.Vals) > 0 {
			v = a.Vals[0]
		}
		head, tail, _ := strings.Cut(v, ".")
		switch a.Key {
		case "q":
			e.QID = core.QID(number(t, td, v, 10))
		case "place":
			e.Place = core.Place{Kind: core.PlaceKind(number(t, td, head, 10)), N: number(t, td, tail, 16)}
		case "seq":
			e.Seq = core.MakeSeq(uint32(number(t, td, head, 10))) + core.Seq(number(t, td, tail, 10))
		case "minute":
			e.Minute = uint32(number(t, td, v, 10))
		case "single":
			e.Single = true
		case "key":
			e.Key = []byte(v)
		case "value":
			e.Value = []byte(v)
		case "visible":
			e.State.VisibleAt = int64(number(t, td, v, 10))
		case "first":
			e.State.FirstReceived = int64(number(t, td, v, 10))
		case "receives":
			e.State.Receives = uint32(number(t, td, v, 10))
		case "failures":
			e.State.Failures = uint32(number(t, td, v, 10))
		case "nonce":
			e.State.Nonce = uint32(number(t, td, v, 16))
		case "session":
			e.State.Flags |= core.StateSession
		default:
			td.Fatalf(t, "unknown argument %s", a.Key)
		}
	}
	return e
}

func editKind(t *testing.T, td *datadriven.TestData, name string) core.EditKind {
	t.Helper()
	kinds := map[string]core.EditKind{
		"put-message": core.EditPutMessage, "drop-message": core.EditDropMessage,
		"put-state": core.EditPutState, "drop-state": core.EditDropState,
		"put-queue": core.EditPutQueue, "drop-queue": core.EditDropQueue,
		"put-name": core.EditPutName, "drop-name": core.EditDropName,
		"put-queue-state": core.EditPutQueueState,
		"put-lane":        core.EditPutLane, "drop-lane": core.EditDropLane,
		"put-dedup": core.EditPutDedup, "drop-dedup": core.EditDropDedup,
		"put-reap": core.EditPutReap, "drop-reap": core.EditDropReap, "reap-queue": core.EditReapQueue,
		"put-record": core.EditPutRecord, "drop-record": core.EditDropRecord,
		"put-body": core.EditPutBody, "put-epoch": core.EditPutEpoch, "reap-epochs": core.EditReapEpochs,
		"unknown": 200,
	}
	k, ok := kinds[name]
	if !ok {
		td.Fatalf(t, "unknown edit %s", name)
	}
	return k
}

func number(t *testing.T, td *datadriven.TestData, s string, base int) uint64 {
	t.Helper()
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		td.Fatalf(t, "%v", err)
	}
	return n
}

// formatBatch prints operations: the space of a key, then hexadecimal.
func formatBatch(t *testing.T, b *pebble.Batch) string {
	t.Helper()
	var out strings.Builder
	for r := b.Reader(); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out.String()
		}
		fmt.Fprintf(&out, "%s %c %x", kind, key[0], key[1:])
		switch kind {
		case pebble.InternalKeyKindSet:
			fmt.Fprintf(&out, " = %x", value)
		case pebble.InternalKeyKindRangeDelete:
			fmt.Fprintf(&out, " to %c %x", value[0], value[1:])
		}
		out.WriteByte('\n')
	}
}

func TestEveryKnownKindOfEditIsEncoded(t *testing.T) {
	for kind := core.EditPutMessage; kind <= core.EditReapEpochs; kind++ {
		c := &core.Change{Edits: []core.Edit{{Kind: kind, Minute: 1, Key: make([]byte, 16), Value: []byte{1}}}}
		b := new(pebble.Batch)
		if err := Encode(c, b); err != nil {
			t.Errorf("kind %d: %v", kind, err)
		}
		if b.Empty() {
			t.Errorf("kind %d writes nothing", kind)
		}
	}
}

func TestEncodeIsDeterministicAndLeavesTheChangeAlone(t *testing.T) {
	c := &core.Change{Time: 5, Edits: []core.Edit{
		{Kind: core.EditPutMessage, Ref: core.Ref{QID: 1, Seq: 1}, Value: []byte("a")},
		{Kind: core.EditPutName, Ref: core.Ref{QID: 1}, Key: []byte("orders")},
		{Kind: core.EditReapQueue, Ref: core.Ref{QID: 1<<64 - 1}},
	}}
	var a, b pebble.Batch
	for _, batch := range []*pebble.Batch{&a, &b} {
		if err := Encode(c, batch); err != nil {
			t.Fatal(err)
		}
	}
	if string(a.Repr()) != string(b.Repr()) {
		t.Errorf("two encodings differ:\n%x\n%x", a.Repr(), b.Repr())
	}
	if string(c.Edits[1].Key) != "orders" || string(c.Edits[0].Value) != "a" {
		t.Error("the Change was written to")
	}
}
