package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// stompStub is a small STOMP server: queues in memory, client-individual acks. It
// can be made to do wrong.
type stompStub struct {
	t       *testing.T
	ln      net.Listener
	version string
	wg      sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	queues map[string]*stubQueue
	faulty map[int]string // what to do to the n-th message sent: lose, repeat, damage, swap, error
	sent   int
	acks   int
}

type stubQueue struct {
	waiting [][]byte
	subs    []*stubSession
}

// stubSession is one connection.
type stubSession struct {
	mu     sync.Mutex
	w      *bufio.Writer
	unread int // delivered, not acknowledged
	most   int // prefetch
	ids    map[string]bool
	queue  string
	next   int
}

func startStub(t *testing.T, version string, faulty map[int]string) *stompStub {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stompStub{t: t, ln: ln, version: version, queues: make(map[string]*stubQueue), faulty: faulty}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// stubFrame reads a frame: its command, headers and body.
func stubFrame(r *bufio.Reader) (command string, headers map[string]string, body []byte, err error) {
	command, err = r.ReadString('\n')
	headers = make(map[string]string)
	for err == nil {
		var line string
		if line, err = r.ReadString('\n'); line == "\n" {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		headers[name] = value
	}
	if err != nil {
		return "", nil, nil, err
	}
	if n, ok := headers["content-length"]; ok {
		size, _ := strconv.Atoi(n)
		body = make([]byte, size)
		if _, err = io.ReadFull(r, body); err == nil {
			_, err = r.ReadByte()
		}
	} else if body, err = r.ReadBytes(0); err == nil {
		body = body[:len(body)-1]
	}
	return strings.TrimSuffix(command, "\n"), headers, body, err
}

func (s *stompStub) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	me := &stubSession{w: bufio.NewWriter(c), ids: make(map[string]bool)}
	for {
		command, h, body, err := stubFrame(r)
		if err != nil {
			return
		}
		switch command {
		case "CONNECT":
			if h["login"] != "guest" {
				me.put("ERROR\nmessage:Bad CONNECT\n\nAccess refused\x00")
				return
			}
			me.put("\n\nCONNECTED\nversion:" + s.version + "\r\nheart-beat:0,0\n\n\x00\n")
			continue
		case "SUBSCRIBE":
			me.most, _ = strconv.Atoi(h["prefetch-count"])
			me.queue = h["destination"]
			s.mu.Lock()
			s.queue(me.queue).subs = append(s.queue(me.queue).subs, me)
			s.mu.Unlock()
		case "SEND":
			if s.send(h["destination"], body) {
				me.put("ERROR\nmessage:out of order\ncontent-length:4\n\ndisk\x00")
				return
			}
		case "ACK":
			id := h["id"]
			if s.version == "1.1" {
				id = h["message-id"]
			}
			s.ack(me, id)
		}
		if id, ok := h["receipt"]; ok {
			me.put("RECEIPT\nreceipt-id:" + id + "\n\n\x00\n")
		}
		if command == "SEND" || command == "ACK" {
			s.mu.Lock()
			s.dispatch(map[bool]string{true: h["destination"], false: me.queue}[command == "SEND"])
			s.mu.Unlock()
		}
		if command == "DISCONNECT" {
			return
		}
	}
}

func (me *stubSession) put(frame string) {
	me.mu.Lock()
	defer me.mu.Unlock()
	_, _ = me.w.WriteString(frame)
	_ = me.w.Flush()
}

func (s *stompStub) queue(name string) *stubQueue {
	q := s.queues[name]
	if q == nil {
		q = new(stubQueue)
		s.queues[name] = q
	}
	return q
}

// send keeps a message, or does to it what it is told. It tells whether to refuse.
func (s *stompStub) send(name string, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	q := s.queue(name)
	switch s.faulty[s.sent] {
	case "lose":
		return false
	case "repeat":
		q.waiting = append(q.waiting, body)
	case "damage":
		body = bytes.ToUpper(body)
	case "swap":
		q.waiting = slices.Insert(q.waiting, 0, body)
		return false
	case "error":
		return true
	}
	q.waiting = append(q.waiting, body)
	return false
}

func (s *stompStub) ack(me *stubSession, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !me.ids[id] {
		s.t.Errorf("ACK of %q, which is not in flight", id)
	}
	delete(me.ids, id)
	me.unread--
	s.acks++
}

// dispatch gives what waits to subscribers that have room.
func (s *stompStub) dispatch(name string) {
	q := s.queue(name)
	for _, me := range q.subs {
		for len(q.waiting) > 0 && (me.most == 0 || me.unread < me.most) {
			body := q.waiting[0]
			q.waiting = q.waiting[1:]
			me.next++
			me.unread++
			id := fmt.Sprintf("T_%d\\c%d", me.next%7, me.next)
			me.ids[id] = true
			header := "ack:" + id + "\nmessage-id:other"
			if s.version == "1.1" {
				header = "message-id:" + id
			}
			length := fmt.Sprintf("\ncontent-length:%d", len(body))
			if me.next%3 == 0 {
				length = "" // the body ends with NUL
			}
			me.put("MESSAGE\nsubscription:0\n" + header + "\ndestination:" + name + length + "\n\n" + string(body) + "\x00\n")
		}
	}
}

func (s *stompStub) options() STOMPOptions {
	return STOMPOptions{
		Target: s.ln.Addr().String(), Host: "/", Login: "guest", Passcode: "guest", Producers: 4, Consumers: 4, Queues: 2,
		Window: 10, Prefetch: 20, Size: 100, Count: 1001, Ahead: 50, Prefix: "b", Drain: 500 * time.Millisecond, Persistent: true,
	}
}

func TestSTOMPCountsEveryMessage(t *testing.T) {
	for name, change := range map[string]func(o *STOMPOptions) (version string){
		"1.2":          func(o *STOMPOptions) string { return "1.2" },
		"1.1":          func(o *STOMPOptions) string { return "1.1" },
		"ack receipts": func(o *STOMPOptions) string { o.AckReceipts = true; return "1.2" },
		"large":        func(o *STOMPOptions) string { o.Size, o.Count = 100_000, 41; return "1.2" },
		"rate":         func(o *STOMPOptions) string { o.Rate, o.Count = 2000, 401; return "1.2" },
		"window of 1":  func(o *STOMPOptions) string { o.Window, o.Prefetch = 1, 1; return "1.2" },
		"one queue":    func(o *STOMPOptions) string { o.Queues, o.Ahead = 1, 0; return "1.2" },
	} {
		t.Run(name, func(t *testing.T) {
			s := startStub(t, "1.2", nil)
			o := s.options()
			s.version = change(&o)
			res, err := RunSTOMP(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			want := uint64(o.Count)
			if !res.Clean() || res.Check.Sent != want || res.Check.Received != want || res.Messages != o.Count {
				t.Errorf("%d messages, %+v, errors %v", res.Messages, res.Check, res.Errors)
			}
			if res.Steps[0].Latency.Count != o.Count || res.Passage.Count != o.Count {
				t.Errorf("steps %+v", res.Steps)
			}
			if s.acks != int(o.Count) {
				t.Errorf("%d messages were acknowledged", s.acks)
			}
		})
	}
}

func TestSTOMPFindsWhatIsWrong(t *testing.T) {
	for fault, want := range map[string]string{
		"lose": "1 messages lost", "repeat": "1 messages repeated", "damage": "1 messages lost, 1 messages foreign",
		"swap": "out of order", "error": "ERROR",
	} {
		t.Run(fault, func(t *testing.T) {
			s := startStub(t, "1.2", map[int]string{500: fault})
			o := s.options()
			if fault == "swap" {
				o.Prefetch, o.Consumers, o.Producers, o.Queues = 1, 1, 1, 1
			}
			res, err := RunSTOMP(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Trouble(); res.Clean() || !strings.Contains(got, want) {
				t.Errorf("clean %v: %q lacks %q", res.Clean(), got, want)
			}
		})
	}
}

func TestSTOMPRefusals(t *testing.T) {
	s := startStub(t, "1.2", nil)
	for name, change := range map[string]func(o *STOMPOptions){
		"target":    func(o *STOMPOptions) { o.Target = "localhost" },
		"producers": func(o *STOMPOptions) { o.Producers = 0 },
		"queues":    func(o *STOMPOptions) { o.Queues = 5 },
		"window":    func(o *STOMPOptions) { o.Window = 0 },
		"prefetch":  func(o *STOMPOptions) { o.Prefetch = -1 },
		"count":     func(o *STOMPOptions) { o.Count = 0 },
		"size":      func(o *STOMPOptions) { o.Size = 3 },
		"header":    func(o *STOMPOptions) { o.Login = "guest\nx:y" },
		"login":     func(o *STOMPOptions) { o.Login = "other" },
	} {
		o := s.options()
		change(&o)
		if res, err := RunSTOMP(t.Context(), o); err == nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunSTOMP(ctx, s.options()); err == nil {
		t.Error("a run that is broken off has a result")
	}
}

func TestSTOMPFramesAreChecked(t *testing.T) {
	for name, text := range map[string]string{
		"no colon":       "MESSAGE\nabc\n\n\x00",
		"bad length":     "MESSAGE\ncontent-length:-1\n\n\x00",
		"huge length":    "MESSAGE\ncontent-length:99999999999\n\n\x00",
		"no NUL":         "MESSAGE\ncontent-length:1\n\nab\x00",
		"no NUL, large":  "MESSAGE\ncontent-length:70000\n\n" + strings.Repeat("a", 70002),
		"long line":      "MESSAGE\n" + strings.Repeat("a", stompReadBytes+1),
		"many headers":   "MESSAGE\n" + strings.Repeat("a:b\n", stompHeadersMax+1),
		"long body":      "MESSAGE\n\n" + strings.Repeat("a", stompBodyMax+2*stompReadBytes),
		"error":          "ERROR\nmessage:no\n\nreason\x00",
		"short":          "MESSAGE\ncontent-length:5\n\nab",
		"short, no size": "MESSAGE\n\nab",
		"end":            "MESSAGE\n",
	} {
		c := &stompConn{r: bufio.NewReaderSize(strings.NewReader(text), stompReadBytes)}
		if f, err := c.read(); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
	c := &stompConn{r: bufio.NewReaderSize(strings.NewReader("\n\r\nRECEIPT\r\nreceipt-id:7\r\n\r\n\x00\nMESSAGE\nack:a\\cb\nredelivered:true\n\nx\x00"), stompReadBytes)}
	f, err := c.read()
	if err != nil || f.command != "RECEIPT" || string(f.receipt) != "7" {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err = c.read(); err != nil || string(f.ack) != `a\cb` || !f.again || string(f.body) != "x" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err = c.read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}
