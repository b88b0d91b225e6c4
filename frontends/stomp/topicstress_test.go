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

// A crash between the creation of a durable subscription and its retained values
// leaves a mark: whoever subscribes again gets them, and UNSUBSCRIBE does away with
// the queue.
func TestDurableSubscriptionIsCompleted(t *testing.T) {
	address, client := listenAndServe(t, Options{})
	retained := core.TopicPublish{Topic: "t", Retain: true, Messages: []core.Message{{Body: []byte("kept"), Delay: -1}}}
	if _, err := client.PublishTopic(t.Context(), retained, nil); err != nil {
		t.Fatal(err)
	}
	for queue, pairs := range map[string][]string{
		"dsub/~/t/s": {"durable", "true"}, "named": {"x-queue-name", "named", "durable", "true"},
	} {
		b := core.Binding{Filter: "t", Origin: core.OriginSTOMP, Options: core.BindingOptions{Data: []byte(freshMark)}}
		if _, _, err := client.DeclareBound(t.Context(), queue, core.DefaultQueueConfig(core.KindStandard), b); err != nil {
			t.Fatal(err)
		}
		p, err := dialPeer(address)
		if err != nil {
			t.Fatal(err)
		}
		defer p.HangUp()
		p.subs["s"] = true // Receive is not to subscribe
		subscribe := &frame.Frame{Command: frame.Subscribe, Headers: headers(append([]string{"id", "s", "destination", "/topic/t", "ack", "auto"}, pairs...)...)}
		if err := p.do(subscribe); err != nil {
			t.Fatal(err)
		}
		if m, ok, err := p.Receive("s", 10*time.Second); !ok || err != nil || string(m.Body) != "kept" {
			t.Errorf("%s: got %q, %v, error %v", queue, m.Body, ok, err)
		}
		got, err := client.Bindings(t.Context(), queue, "", 10)
		if err != nil || len(got) != 1 || string(got[0].Options.Data) != createdMark {
			t.Errorf("%s: bindings %+v, error %v", queue, got, err)
		}
		if err := p.do(&frame.Frame{Command: frame.Unsubscribe, Headers: headers("id", "s", "durable", "true")}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Queue(t.Context(), queue); !isNoQueue(err) {
			t.Errorf("%s is still there: %v", queue, err)
		}
	}
}
