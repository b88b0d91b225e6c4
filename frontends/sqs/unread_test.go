package sqs

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/frontends/frontendtest"
)

// unreadEnds waits until no large answer is counted.
func unreadEnds(t *testing.T, s *Server) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); s.unread.bytes.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are counted, and nothing is left to read", s.unread.bytes.Load())
		}
	}
}

// largeMessages serves a queue q with n messages of size bytes, and returns a
// function that does one request on a connection of its own.
func largeMessages(t *testing.T, n, size int) (s *Server, ask func(action, body string) string, address string) {
	s = newTestServer(t, frontendtest.NewEngine(t), Options{})
	address = listen(t, s)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	br := bufio.NewReader(conn)
	ask = func(action, body string) string {
		t.Helper()
		if _, err := conn.Write([]byte(jsonRequest(action, body))); err != nil {
			t.Fatal(err)
		}
		a, got := readAnswer(t, br)
		if a.StatusCode != 200 {
			t.Fatalf("%s: %d %s", action, a.StatusCode, got)
		}
		return got
	}
	ask("CreateQueue", `{"QueueName":"q"}`)
	for range n {
		ask("SendMessage", fmt.Sprintf(`{"QueueUrl":"q","MessageBody":"%s"}`, strings.Repeat("x", size)))
	}
	return s, ask, address
}

const receiveTen = `{"QueueUrl":"q","MaxNumberOfMessages":10,"VisibilityTimeout":0}`

func messagesOf(answer string) int { return strings.Count(answer, `"MessageId"`) }

func TestUnreadAnswersBoundReceives(t *testing.T) {
	s, ask, _ := largeMessages(t, 10, 100_000)
	if n := messagesOf(ask("ReceiveMessage", receiveTen)); n != 10 {
		t.Errorf("a receive gave %d messages, want 10", n)
	}
	unreadEnds(t, s)
	s.unread.bytes.Add(unreadBytesMax)
	if n := messagesOf(ask("ReceiveMessage", receiveTen)); n != 1 {
		t.Errorf("without room a receive gave %d messages, want 1", n)
	}
	s.unread.bytes.Add(-unreadBytesMax)
	unreadEnds(t, s)
	if n := messagesOf(ask("ReceiveMessage", receiveTen)); n != 10 {
		t.Errorf("with room again a receive gave %d messages, want 10", n)
	}
	unreadEnds(t, s)
}

// TestSmallAnswersAreNotBounded wants the usual receive to go on whatever large
// answers there are.
func TestSmallAnswersAreNotBounded(t *testing.T) {
	s, ask, _ := largeMessages(t, 10, 1000)
	s.unread.bytes.Add(unreadBytesMax)
	if n := messagesOf(ask("ReceiveMessage", receiveTen)); n != 10 {
		t.Errorf("a receive of small messages gave %d, want 10", n)
	}
	s.unread.bytes.Add(-unreadBytesMax)
	unreadEnds(t, s)
}

// TestAnswersThatNobodyReadsAreLetGo closes connections over large answers.
func TestAnswersThatNobodyReadsAreLetGo(t *testing.T) {
	s, ask, address := largeMessages(t, 10, 800_000)
	// The tail is read in pages of fewer bytes; what has come back is not.
	for tries := 0; messagesOf(ask("ReceiveMessage", receiveTen)) < 10; tries++ {
		if tries == 100 {
			t.Fatal("no receive gives all messages")
		}
	}
	var conns []net.Conn
	for range 4 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		// The system must not take the whole answer.
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(jsonRequest("ReceiveMessage", receiveTen))); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for end := time.Now().Add(10 * time.Second); s.unread.bytes.Load() < 4*4_000_000; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are counted while four answers wait", s.unread.bytes.Load())
		}
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	unreadEnds(t, s)
}
