package stomp

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// subscribeTo returns a connection with a subscription of these headers.
func subscribeTo(address string, heads ...string) (*peer, error) {
	p, err := dialPeer(address)
	if err != nil {
		return nil, err
	}
	if err := p.write(&frame.Frame{Command: frame.Subscribe, Headers: headers(append(heads, "receipt", "subscribed")...)}); err != nil {
		return nil, err
	}
	_, err = p.read()
	return p, err
}

// While subscribers come and go, durable subscriptions get each message once and
// in order, and what is temporary goes with its connection.
func TestTopicsWhileSubscribersComeAndGo(t *testing.T) {
	address, client := listenAndServe(t, Options{TopicMessages: 100})
	const count, durable, churners = 300, 3, 4
	var all sync.WaitGroup
	for i := range durable {
		p, err := subscribeTo(address, "id", strconv.Itoa(i), "destination", "/topic/t.*", "durable", "true")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer p.HangUp()
			for n := range count {
				f, err := p.read()
				if err != nil || string(f.Body) != strconv.Itoa(n) {
					t.Errorf("subscription %d, message %d: %v, error %v", i, n, f, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	var churn sync.WaitGroup
	for i := range churners {
		churn.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				p, err := subscribeTo(address, "id", "s", "destination", "/topic/t.>", "ack", "client")
				if err != nil {
					t.Error(err)
					return
				}
				if n%2 == i%2 {
					_ = p.write(&frame.Frame{Command: frame.Unsubscribe, Headers: headers("id", "s")})
				}
				p.HangUp()
			}
		})
	}
	p, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	defer p.HangUp()
	for n := range count {
		err := p.write(&frame.Frame{Command: frame.Send, Headers: headers("destination", "/topic/t.x", "receipt", strconv.Itoa(n)), Body: []byte(strconv.Itoa(n))})
		if err != nil {
			t.Fatal(err)
		}
		if f, err := p.read(); err != nil || f.Get("receipt-id") != strconv.Itoa(n) {
			t.Fatalf("receipt %d: %v, error %v", n, f, err)
		}
	}
	all.Wait()
	close(done)
	churn.Wait()
	// The last who left are found out, and nobody is bound any more but the durable.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		matched, err := client.PublishTopic(t.Context(), core.TopicPublish{Topic: "t/x", Messages: []core.Message{{Body: []byte("x"), Delay: -1}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if matched[0].Matched == durable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d queues are bound, want %d", matched[0].Matched, durable)
		}
	}
}
