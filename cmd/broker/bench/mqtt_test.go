package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// mqttStub is a small MQTT server: it hands each message to all subscribers of
// its topic, or, of a group, to one. It can be made to do wrong.
type mqttStub struct {
	t      *testing.T
	ln     net.Listener
	wg     sync.WaitGroup
	faulty map[int]string // what to do to the n-th message: lose, repeat, damage, swap, refuse, disconnect

	mu    sync.Mutex
	conns []net.Conn
	subs  map[string][]*mqttStubConn // by filter
	held  []byte                     // by swap, to be delivered behind the next
	count int
	acks  int
	kept  int // sessions that were to outlive their connections, less those that were ended
}

type mqttStubConn struct {
	*mqttConn
	mu   sync.Mutex
	next uint16
}

func startMQTTStub(t *testing.T, faulty map[int]string) *mqttStub {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mqttStub{t: t, ln: ln, faulty: faulty, subs: make(map[string][]*mqttStubConn)}
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

func (c *mqttStubConn) put(packet []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.conn.Write(packet)
}

func (s *mqttStub) serve(nc net.Conn) {
	defer nc.Close()
	c := &mqttStubConn{mqttConn: &mqttConn{conn: nc, r: bufio.NewReaderSize(nc, mqttReadBytes)}}
	for {
		head, err := c.r.ReadByte()
		if err != nil {
			return
		}
		size, err := c.length()
		if err != nil {
			s.t.Error(err)
			return
		}
		b, err := c.rest(size)
		if err != nil || !s.packet(c, head, b) {
			return
		}
	}
}

// packet does what a packet asks for, and tells whether to go on.
func (s *mqttStub) packet(c *mqttStubConn, head byte, b []byte) bool {
	ack := func(kind byte) { c.put(appendMQTTAck(nil, kind, binary.BigEndian.Uint16(b))) }
	switch head >> 4 {
	case mqttConnect:
		return s.connect(c, b)
	case mqttSubscribe:
		rest := b[2:]
		if c.version == mqttV5 {
			rest = rest[1:]
		}
		filter := string(rest[2 : len(rest)-1])
		if strings.HasPrefix(filter, "$share/") {
			filter = strings.SplitN(filter, "/", 3)[2] + " shared"
		}
		s.mu.Lock()
		s.subs[filter] = append(s.subs[filter], c)
		s.mu.Unlock()
		answer := []byte{mqttSuback << 4, 3, b[0], b[1]}
		if c.version == mqttV5 {
			answer = append(answer, 0)
			answer[1]++
		}
		c.put(append(answer, rest[len(rest)-1]))
	case mqttPublish:
		return s.publish(c, head, b)
	case mqttPubrec:
		ack(mqttPubrel)
	case mqttPubrel:
		ack(mqttPubcomp)
	case mqttPuback, mqttPubcomp:
		s.mu.Lock()
		s.acks++
		s.mu.Unlock()
	case mqttPingreq:
		c.put([]byte{mqttPingresp << 4, 0})
	case mqttDisconnect:
		return false
	}
	return true
}

func (s *mqttStub) connect(c *mqttStubConn, b []byte) bool {
	c.version = b[6]
	clean := b[7]&2 != 0
	s.mu.Lock()
	switch {
	case c.version == mqttV5 && bytes.Contains(b[10:20], []byte{0x11}), !clean:
		s.kept++
	case bytes.Contains(b, []byte("-sub-")):
		s.kept--
	}
	s.mu.Unlock()
	answer := []byte{mqttConnack << 4, 2, 0, 0}
	if !bytes.Contains(b, []byte("guest")) {
		answer[3] = 0x87
	}
	if c.version == mqttV5 {
		props := append(appendMQTTText(appendMQTTText([]byte{0x26}, "k"), "v"), 0x21, 0, 10, 0x25, 1, 0x11, 0, 0, 0, 1)
		props = append(appendMQTTText(append(props, 0x12), "id"), 0x13, 0, 9)
		answer = append(append(answer, byte(len(props))), props...)
		answer[1] += byte(1 + len(props))
	}
	c.put(answer)
	return answer[3] == 0
}

func (s *mqttStub) publish(c *mqttStubConn, head byte, b []byte) bool {
	qos := head >> 1 & 3
	at := 2 + int(binary.BigEndian.Uint16(b))
	topic, rest := string(b[2:at]), b[at:]
	var id uint16
	if qos > 0 {
		id, rest = binary.BigEndian.Uint16(rest), rest[2:]
	}
	if c.version == mqttV5 {
		rest = rest[1:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	kind := byte(mqttPuback)
	if qos == 2 {
		kind = mqttPubrec
	}
	fault := s.faulty[s.count]
	switch fault {
	case "refuse":
		c.put([]byte{kind << 4, 3, byte(id >> 8), byte(id), 0x97})
		return true
	case "disconnect":
		c.put([]byte{mqttDisconnect << 4, 1, 0x8B})
		return false
	case "damage":
		rest = bytes.ToUpper(rest)
	case "swap":
		s.held = slices.Clone(rest)
	}
	if fault != "lose" && fault != "swap" {
		s.deliver(topic, qos, rest)
		if fault == "repeat" {
			s.deliver(topic, qos, rest)
		}
		if s.held != nil {
			s.deliver(topic, qos, s.held)
			s.held = nil
		}
	}
	if qos > 0 {
		c.put(appendMQTTAck(nil, kind, id))
	}
	return true
}

func (s *mqttStub) deliver(topic string, qos byte, body []byte) {
	to := s.subs[topic]
	if group := s.subs[topic+" shared"]; len(group) > 0 {
		to = append(slices.Clone(to), group[s.count%len(group)])
	}
	for _, c := range to {
		packet, at := publishHead(c.version, topic, qos, len(body))
		if c.next++; c.next == 0 {
			c.next = 1
		}
		if qos > 0 {
			binary.BigEndian.PutUint16(packet[at:], c.next)
		}
		c.put(append(packet, body...))
	}
}

// acknowledged waits until the subscribers have acknowledged all. With QoS 2 the
// last of them may be gone before they are asked to.
func (s *mqttStub) acknowledged(o MQTTOptions) (got int, ok bool) {
	want := 0
	switch {
	case o.QoS == 1 && o.Share:
		want = int(o.Count)
	case o.QoS == 1:
		want = int(o.Count) * o.Subscribers / o.Topics
	case o.QoS == 2:
		want = int(o.Count)*o.Subscribers/o.Topics - o.Subscribers*o.ReceiveMax
	}
	for range 500 {
		s.mu.Lock()
		got = s.acks
		s.mu.Unlock()
		if got >= want {
			return got, true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return got, false
}

func (s *mqttStub) options() MQTTOptions {
	return MQTTOptions{
		Target: s.ln.Addr().String(), Version: "5", Username: "guest", Password: "guest", Publishers: 4, Subscribers: 4, Topics: 2,
		QoS: 1, Window: 20, ReceiveMax: 20, Size: 100, Count: 1001, Ahead: 50, Prefix: "b/c", Drain: 500 * time.Millisecond,
	}
}

func TestMQTTCountsEveryMessage(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *MQTTOptions)
		copies int64
	}{
		"QoS 0":      {func(o *MQTTOptions) { o.QoS = 0 }, 2},
		"QoS 1":      {func(*MQTTOptions) {}, 2},
		"QoS 2":      {func(o *MQTTOptions) { o.QoS = 2 }, 2},
		"3.1.1":      {func(o *MQTTOptions) { o.Version = "3.1.1" }, 2},
		"3.1.1, two": {func(o *MQTTOptions) { o.Version, o.QoS, o.Persistent = "3.1.1", 2, true }, 2},
		"persistent": {func(o *MQTTOptions) { o.Persistent = true }, 2},
		"shared":     {func(o *MQTTOptions) { o.Share = true }, 1},
		"fan-out":    {func(o *MQTTOptions) { o.Topics, o.Publishers, o.Subscribers, o.Count = 1, 1, 7, 301 }, 7},
		"large":      {func(o *MQTTOptions) { o.Size, o.Count, o.Topics = 100_000, 41, 4 }, 1},
		"rate":       {func(o *MQTTOptions) { o.Rate, o.Count = 2000, 401 }, 2},
		"one by one": {func(o *MQTTOptions) { o.Window, o.Ahead = 1, 1 }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := startMQTTStub(t, nil)
			o := s.options()
			o.Drain = 10 * time.Second // on a busy machine
			c.change(&o)
			res, err := RunMQTT(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			want := o.Count * c.copies
			if !res.Clean() || res.Check.Sent != uint64(want) || res.Check.Received != uint64(want) || res.Messages != want {
				t.Errorf("%d messages, %+v, errors %v", res.Messages, res.Check, res.Errors)
			}
			if res.Steps[0].Messages != o.Count || res.Passage.Count != want || o.QoS > 0 && res.Steps[0].Latency.Count != o.Count {
				t.Errorf("steps %+v", res.Steps)
			}
			if got, ok := s.acknowledged(o); !ok {
				t.Errorf("%d messages were acknowledged, want %d", got, want)
			}
			if o.Persistent && s.kept != 0 {
				t.Errorf("%d sessions are left", s.kept)
			}
		})
	}
}

func TestMQTTFindsWhatIsWrong(t *testing.T) {
	for fault, want := range map[string]string{
		"lose": "2 messages lost", "repeat": "2 messages repeated", "damage": "2 messages lost, 2 messages foreign",
		"swap": "out of order", "refuse": "refused with 0x97", "disconnect": "DISCONNECT with 0x8b",
	} {
		t.Run(fault, func(t *testing.T) {
			s := startMQTTStub(t, map[int]string{500: fault})
			o := s.options()
			if fault == "swap" {
				o.Publishers, o.Topics, o.Subscribers = 1, 1, 1
			}
			res, err := RunMQTT(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Trouble(); res.Clean() || !strings.Contains(got, want) {
				t.Errorf("clean %v: %q lacks %q", res.Clean(), got, want)
			}
		})
	}
}

func TestMQTTRefusals(t *testing.T) {
	s := startMQTTStub(t, nil)
	for name, change := range map[string]func(o *MQTTOptions){
		"target":      func(o *MQTTOptions) { o.Target = "localhost" },
		"version":     func(o *MQTTOptions) { o.Version = "4" },
		"publishers":  func(o *MQTTOptions) { o.Publishers = 0 },
		"topics":      func(o *MQTTOptions) { o.Topics = 3 },
		"subscribers": func(o *MQTTOptions) { o.Subscribers = 3 },
		"QoS":         func(o *MQTTOptions) { o.QoS = 3 },
		"window":      func(o *MQTTOptions) { o.Window = windowMax },
		"receive max": func(o *MQTTOptions) { o.ReceiveMax = 0 },
		"count":       func(o *MQTTOptions) { o.Count = 0 },
		"size":        func(o *MQTTOptions) { o.Size = 3 },
		"prefix":      func(o *MQTTOptions) { o.Prefix = "a/#" },
		"password":    func(o *MQTTOptions) { o.Password = strings.Repeat("x", 70_000) },
		"login":       func(o *MQTTOptions) { o.Username, o.Password = "other", "other" },
	} {
		o := s.options()
		change(&o)
		if res, err := RunMQTT(t.Context(), o); err == nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunMQTT(ctx, s.options()); err == nil {
		t.Error("a run that is broken off has a result")
	}
}

func TestMQTTPacketsAreChecked(t *testing.T) {
	for name, b := range map[string]string{
		"no length":       "\x30",
		"long length":     "\x30\xff\xff\xff\xff\x01",
		"over the bound":  "\x30\xff\xff\xff\x7f",
		"short":           "\x40\x02\x00",
		"short, large":    "\x30\x80\x80\x40abc",
		"CONNACK":         "\x20\x01\x00",
		"topic":           "\x30\x03\x00\x05a",
		"QoS 3":           "\x36\x05\x00\x01a\x00\x01",
		"no id":           "\x32\x03\x00\x01a",
		"id of 0":         "\x40\x02\x00\x00",
		"properties":      "\x30\x04\x00\x01a\x05",
		"no properties":   "\x30\x03\x00\x01a",
		"SUBACK":          "\x90\x02\x00\x01",
		"kind":            "\x10\x00",
		"DISCONNECT":      "\xe0\x01\x8b",
		"DISCONNECT of 3": "\xe0\x00",
	} {
		c := &mqttConn{r: bufio.NewReaderSize(strings.NewReader(b), mqttReadBytes), version: mqttV5}
		if p, err := c.read(); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	c := &mqttConn{r: bufio.NewReaderSize(strings.NewReader("\x3c\x09\x00\x01a\x01\x02\x02\x01\x01x\x50\x03\x00\x07\x92\xd0\x00"), mqttReadBytes), version: mqttV5}
	if p, err := c.read(); err != nil || p.kind != mqttPublish || p.qos != 2 || !p.again || p.id != 0x102 || string(p.body) != "x" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.read(); err != nil || p.kind != mqttPubrec || p.id != 7 || p.reason != 0x92 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.read(); err != nil || p.kind != mqttPingresp {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for name, props := range map[string]string{"no property": "\x01\x01", "cut": "\x02\x21\x00", "cut text": "\x03\x1f\x00\x09", "over the end": "\x09\x21"} {
		if err := c.connack([]byte(props)); err == nil {
			t.Errorf("CONNACK with %s is taken", name)
		}
	}
}
