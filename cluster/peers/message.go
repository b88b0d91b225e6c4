package peers

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/leasemq/broker/core"
)

// What a request may fail with, besides errors of core.
var (
	ErrNoNode    = errors.New("node does not answer")
	ErrBusy      = errors.New("node has too much of the kind under way")
	ErrGone      = errors.New("checkpoint is gone")
	ErrMalformed = errors.New("answer is malformed")

	errRequest  = errors.New("request is malformed")
	errField    = errors.New("value is not valid")
	errInternal = errors.New("node has met an error")
)

// What can be asked for.
const (
	opStatus     = "status"
	opHandover   = "handover"
	opDigest     = "digest"
	opCheckpoint = "checkpoint"
	opFiles      = "files"   // of a checkpoint: names and sizes
	opChunk      = "chunk"   // of one of its files
	opSum        = "sum"     // SHA-256 of one of its files
	opRelease    = "release" // the checkpoint is not needed any more
)

// Bounds of messages. Those that are answers fit any server of the log.
const (
	requestBytesMax = 4 << 10
	answerBytesMax  = 768 << 10
	errorBytesMax   = 1 << 10
	waitMax         = 30 * time.Minute // of one request
)

// request is what is asked. Unknown fields are of later versions.
type request struct {
	Op         string `json:"op"`
	WaitMS     int64  `json:"wait_ms,omitempty"` // how long who asks waits
	To         string `json:"to,omitempty"`
	At         uint64 `json:"at,omitempty"`
	SettleMS   int64  `json:"settle_ms,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	From       int    `json:"from,omitempty"`
	File       string `json:"file,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	Bytes      int    `json:"bytes,omitempty"`
}

func decodeRequest(b []byte) (*request, error) {
	if len(b) > requestBytesMax {
		return nil, fmt.Errorf("%w: it has %d bytes", errRequest, len(b))
	}
	r := &request{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	return r, nil
}

// wait is how long the request may take.
func (r *request) wait() time.Duration { return cmp.Or(milliseconds(r.WaitMS), waitDefault) }

func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), waitMax.Milliseconds())) * time.Millisecond
}

// position is a core.LogPosition as it is sent.
type position struct {
	Generation uint32 `json:"generation"`
	Epoch      uint32 `json:"epoch"`
	Seq        uint64 `json:"seq"`
	Hash       string `json:"hash"`
	TimeMS     int64  `json:"time_ms"`
}

func newPosition(at core.LogPosition) position {
	return position{at.Generation, at.Epoch, at.Seq, hex.EncodeToString(at.Hash[:]), at.Time}
}

func (p *position) decode() (core.LogPosition, error) {
	at := core.LogPosition{Generation: p.Generation, Epoch: p.Epoch, Seq: p.Seq, Time: p.TimeMS}
	if !isHash(p.Hash, 2*len(at.Hash)) || p.TimeMS < 0 {
		return core.LogPosition{}, fmt.Errorf("position: %w", ErrMalformed)
	}
	b, err := hex.DecodeString(p.Hash)
	copy(at.Hash[:], b)
	return at, err
}

// headerError holds the kind of an error, a blank and its text.
const headerError = "Lease-Error"

// errorKind is an error that who asked can tell from others.
type errorKind struct {
	name string
	err  error
}

// errorKinds are all of them. Of several in an error the first counts.
func errorKinds() []errorKind {
	return []errorKind{
		{"busy", ErrBusy},
		{"gone", ErrGone},
		{"request", errRequest},
		{"unsupported", errors.ErrUnsupported},
		{"invalid-argument", core.ErrInvalidArgument},
		{"disk-full", core.ErrDiskFull},
		{"corrupt", core.ErrCorrupt},
		{"stopped", core.ErrStopped},
		{"not-primary", core.ErrNotPrimary},
		{"timeout", context.DeadlineExceeded},
		{"internal", errInternal},
	}
}

// encodeError makes the header of err.
func encodeError(err error) string {
	kind := "internal"
	for _, k := range errorKinds() {
		if errors.Is(err, k.err) {
			kind = k.name
			break
		}
	}
	return kind + " " + printable(err.Error(), errorBytesMax)
}

// printable makes of s what isText takes.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// remoteError is the error of another node.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// decodeAnswer returns the bytes of an answer, or the error that it is.
func decodeAnswer(m *nats.Msg) ([]byte, error) {
	if m.Header.Get("Status") == "503" && len(m.Data) == 0 {
		return nil, ErrNoNode
	}
	if len(m.Data) > answerBytesMax {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrMalformed, len(m.Data))
	}
	header := m.Header.Get(headerError)
	if header == "" {
		return m.Data, nil
	}
	name, text, _ := strings.Cut(header, " ")
	kind := errInternal
	for _, k := range errorKinds() {
		if k.name == name {
			kind = k.err
		}
	}
	if !isText(text, errorBytesMax) {
		return nil, fmt.Errorf("%w: text of an error", ErrMalformed)
	}
	return nil, &remoteError{text: text, kind: kind}
}
