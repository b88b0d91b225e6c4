package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasemq/broker/cluster"
)

// Headers of JetStream.
const (
	headerExpectedLast = "Nats-Expected-Last-Sequence"
	headerBatch        = "Nats-Batch-Id"
	headerBatchSeq     = "Nats-Batch-Sequence"
	headerBatchCommit  = "Nats-Batch-Commit"
	headerSeq          = "Nats-Sequence"
	headerStatus       = "Status"
)

// Log is the replicated log. It implements cluster.Log.
type Log struct {
	o       Options
	nc      *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	name    string // of the stream
	subject string // of its records
	tail    string // of those that are republished
	synced  Durability
	inbox   string // of answers; a number follows
	sub     *nats.Subscription

	mu      sync.Mutex
	waiting map[uint64]*waiting // by the number in the inbox
	last    uint64              // such number
	closed  bool
}

var (
	_ cluster.Log         = (*Log)(nil)
	_ cluster.LeaderMover = (*Log)(nil)
)

// waiting is a record without an answer yet.
type waiting struct {
	done  func(ack *ack, err error)
	timer *time.Timer
}

// ack is what the leader of a stream answers to a record.
type ack struct {
	Stream    string `json:"stream"`
	Seq       uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
	Batch     string `json:"batch"`
	Count     uint64 `json:"count"`
	Error     *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// Close ends what the Log has running. Appends without an answer get none.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	for n, w := range l.waiting {
		w.timer.Stop()
		delete(l.waiting, n)
	}
	l.mu.Unlock()
	return l.sub.Unsubscribe()
}

// Generation implements cluster.Log.
func (l *Log) Generation() uint32 { return l.o.Generation }

// Durability tells what is known about the servers' fsyncs.
func (l *Log) Durability() Durability { return l.synced }

// Append implements cluster.Log.
func (l *Log) Append(prev uint64, data []byte, done func(seq uint64, err error)) {
	m := &nats.Msg{Subject: l.subject, Data: data, Header: nats.Header{headerExpectedLast: {strconv.FormatUint(prev, 10)}}}
	l.publish(m, func(a *ack, err error) {
		if err != nil {
			done(0, err)
			return
		}
		done(a.Seq, nil)
	})
}

// AppendAtomic implements cluster.Log.
func (l *Log) AppendAtomic(ctx context.Context, prev uint64, records [][]byte) (uint64, error) {
	type answer struct {
		ack *ack
		err error
	}
	got := make(chan answer, 1)
	batch := rand.Text()
	for i, data := range records {
		m := &nats.Msg{Subject: l.subject, Data: data, Header: nats.Header{
			headerBatch: {batch}, headerBatchSeq: {strconv.Itoa(i + 1)},
		}}
		if i == 0 {
			m.Header[headerExpectedLast] = []string{strconv.FormatUint(prev, 10)}
		}
		if i < len(records)-1 {
			if err := l.nc.PublishMsg(m); err != nil {
				return 0, fmt.Errorf("%w: %w", cluster.ErrRefused, err) // a batch without its end is void
			}
			continue
		}
		m.Header[headerBatchCommit] = []string{"1"}
		l.publish(m, func(a *ack, err error) { got <- answer{a, err} })
	}
	select {
	case a := <-got:
		switch {
		case a.err != nil:
			return 0, a.err
		case a.ack.Batch != batch || a.ack.Count != uint64(len(records)) || a.ack.Seq < a.ack.Count:
			return 0, fmt.Errorf("%w: %d records of batch %q were stored, want %d of %q",
				cluster.ErrUnknown, a.ack.Count, a.ack.Batch, len(records), batch)
		}
		return a.ack.Seq - a.ack.Count + 1, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", cluster.ErrUnknown, ctx.Err())
	}
}

// publish sends m and calls done once: with the answer, or when it is late.
func (l *Log) publish(m *nats.Msg, done func(a *ack, err error)) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		done(nil, fmt.Errorf("%w: log is closed", cluster.ErrRefused))
		return
	}
	l.last++
	n := l.last
	l.waiting[n] = &waiting{done: done, timer: time.AfterFunc(l.o.AckTimeout, func() { l.answer(n, nil, cluster.ErrUnknown) })}
	l.mu.Unlock()
	m.Reply = l.inbox + strconv.FormatUint(n, 36)
	if err := l.nc.PublishMsg(m); err != nil {
		kind := cluster.ErrUnknown
		if errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) {
			kind = cluster.ErrRefused // it has not left
		}
		l.answer(n, nil, fmt.Errorf("%w: %w", kind, err))
	}
}

// answered takes what comes to the inbox.
func (l *Log) answered(m *nats.Msg) {
	n, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, l.inbox), 36, 64)
	if err != nil {
		return
	}
	a, err := decodeAck(m, l.name)
	l.answer(n, a, err)
}

func (l *Log) answer(n uint64, a *ack, err error) {
	l.mu.Lock()
	w := l.waiting[n]
	delete(l.waiting, n)
	l.mu.Unlock()
	if w != nil {
		w.timer.Stop()
		w.done(a, err)
	}
}

// Codes of errors of JetStream.
const (
	codeWrongLast   = 10071
	wrongLastPrefix = "wrong last sequence: "
)

// decodeAck reads an answer. What is not surely refused, or surely appended by
// this very message, is unknown.
func decodeAck(m *nats.Msg, stream string) (*ack, error) {
	if len(m.Data) == 0 && m.Header.Get(headerStatus) == "503" {
		return nil, fmt.Errorf("%w: nobody leads it", cluster.ErrRefused)
	}
	var a ack
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return nil, fmt.Errorf("%w: answer %.100q", cluster.ErrUnknown, m.Data)
	}
	if e := a.Error; e != nil {
		if e.ErrCode == codeWrongLast {
			last, err := strconv.ParseUint(strings.TrimPrefix(e.Description, wrongLastPrefix), 10, 64)
			if err == nil {
				return nil, &cluster.WrongLastError{Last: last}
			}
		}
		kind := cluster.ErrUnknown
		if e.Code == 400 { // a check before anything was proposed
			kind = cluster.ErrRefused
		}
		return nil, fmt.Errorf("%w: %s (%d)", kind, e.Description, e.ErrCode)
	}
	if a.Stream != stream || a.Seq == 0 || a.Duplicate {
		return nil, fmt.Errorf("%w: answer %.100q", cluster.ErrUnknown, m.Data)
	}
	return &a, nil
}

// Info implements cluster.Log.
func (l *Log) Info(ctx context.Context) (cluster.LogInfo, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return cluster.LogInfo{}, err
	}
	return cluster.LogInfo{First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq}, nil
}

// State is what the servers say of the log.
type State struct {
	Leader          string // name of the server that leads it; "": none just now
	First, Last     uint64
	Bytes, MaxBytes int64
}

// State asks for it. It may be of a moment ago.
func (l *Log) State(ctx context.Context) (State, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return State{}, err
	}
	s := State{First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: int64(info.State.Bytes), MaxBytes: info.Config.MaxBytes}
	if info.Cluster != nil {
		s.Leader = info.Cluster.Leader
	}
	return s, nil
}

// Trim implements cluster.Log.
func (l *Log) Trim(ctx context.Context, seq uint64) error {
	return l.stream.Purge(ctx, jetstream.WithPurgeSequence(seq+1))
}
