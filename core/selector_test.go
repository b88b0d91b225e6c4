package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/selector"
	"github.com/leasemq/broker/storage"
)

func parse(t testing.TB, text string) *selector.Selector {
	t.Helper()
	s, err := selector.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readsCounted counts the messages that a store is asked for.
type readsCounted struct {
	core.Store
	walked, read atomic.Int64
}

func (s *readsCounted) Messages(q core.QID, lane core.Place, from, to core.Seq, visit func(core.Seq, []byte) bool) error {
	return s.Store.Messages(q, lane, from, to, func(seq core.Seq, rec []byte) bool {
		s.walked.Add(1)
		return visit(seq, rec)
	})
}

func (s *readsCounted) Message(r core.Ref) ([]byte, error) {
	s.read.Add(1)
	return s.Store.Message(r)
}

// colored returns n messages of a colour.
func colored(n int, color string) []core.Message {
	msgs := make([]core.Message, n)
	for i := range msgs {
		msgs[i] = core.Message{
			Body: fmt.Appendf(nil, "%s%d", color, i), Delay: -1,
			Attributes: []core.Attribute{{Name: "color", Value: []byte(color)}},
		}
	}
	return msgs
}

func sendAll(t testing.TB, c *core.Client, queue string, msgs ...core.Message) {
	t.Helper()
	for batch := range slices.Chunk(msgs, 500) {
		if _, err := c.Publish(t.Context(), queue, batch, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// openCounted opens a node whose reads of storage are counted, with one queue "q".
func openCounted(t *testing.T) (*node, *readsCounted) {
	t.Helper()
	s := new(readsCounted)
	n := &node{t: t, fs: vfs.NewMem(), tune: func(o *core.Options) { s.Store, o.Store = o.Store, s }}
	n.open()
	t.Cleanup(n.close)
	if _, _, err := n.client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	return n, s
}

func receiveOne(t testing.TB, c *core.Client, o core.ReceiveOptions) string {
	t.Helper()
	o.Max, o.Visibility = 1, time.Hour
	got, err := c.Receive(t.Context(), "q", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 {
		return ""
	}
	return string(got[0].Body)
}

// TestSelectorLooksAtNothingTwice has a thousand times more messages that do not
// match than such that do.
func TestSelectorLooksAtNothingTwice(t *testing.T) {
	const backlog = 20_000
	n, s := openCounted(t)
	sendAll(t, n.client, "q", colored(backlog, "red")...)
	sendAll(t, n.client, "q", colored(10, "blue")...)
	blue := core.ReceiveOptions{Selector: parse(t, "color = 'blue'")}
	for i := range 10 {
		if got, want := receiveOne(t, n.client, blue), fmt.Sprint("blue", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	sendAll(t, n.client, "q", colored(5, "red")...)
	sendAll(t, n.client, "q", colored(1, "blue")...)
	if got := receiveOne(t, n.client, blue); got != "blue0" {
		t.Fatalf("got %q, want the new one", got)
	}
	if got := receiveOne(t, n.client, blue); got != "" {
		t.Fatalf("got %q, want none", got)
	}
	// Others start at the front, and do not meet what has been taken.
	for i := range 100 {
		if got, want := receiveOne(t, n.client, core.ReceiveOptions{}), fmt.Sprint("red", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	// Once by the selector, and the pages of the window.
	if walked := s.walked.Load(); walked > backlog+5000 {
		t.Errorf("%d messages were walked, there are %d", walked, backlog)
	}
	if read := s.read.Load(); read > 20 {
		t.Errorf("%d messages were read one by one", read)
	}
}

// TestSelectorIsWokenByMatchesAlone asks Alive, which every wake-up does.
func TestSelectorIsWokenByMatchesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, fs: vfs.NewMem()}
		n.open()
		defer n.close()
		if _, _, err := n.client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
		woken := 0
		got := make(chan string, 1)
		go func() {
			got <- receiveOne(t, n.client, core.ReceiveOptions{
				Selector: parse(t, "color = 'blue'"), Wait: time.Hour,
				Alive: func() bool { woken++; return true },
			})
		}()
		synctest.Wait()
		sendAll(t, n.client, "q", colored(1000, "red")...)
		d, err := n.client.Receive(t.Context(), "q", core.ReceiveOptions{Max: 10, Visibility: time.Second}, nil)
		if err != nil || len(d) != 10 {
			t.Fatalf("%d messages, %v", len(d), err)
		}
		time.Sleep(time.Minute) // they come back
		if woken != 0 || len(got) != 0 {
			t.Errorf("woken %d times for nothing", woken)
		}
		sendAll(t, n.client, "q", colored(1, "blue")...)
		if body := <-got; body != "blue0" || woken != 1 {
			t.Errorf("got %q after %d wake-ups", body, woken)
		}
	})
}

// TestSelectorsInUseAreBounded parks a receive for each of as many selectors as one
// queue knows.
func TestSelectorsInUseAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, fs: vfs.NewMem()}
		n.open()
		defer n.close()
		if _, _, err := n.client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		receive := func(i int, wait time.Duration) error {
			o := core.ReceiveOptions{Max: 1, Wait: wait, Visibility: time.Hour, Selector: parse(t, fmt.Sprint("n = ", i))}
			got, err := n.client.Receive(ctx, "q", o, nil)
			if err == nil && len(got) == 1 && string(got[0].Body) != fmt.Sprint(i) {
				t.Errorf("selector %d got %s", i, got[0].Body)
			}
			return err
		}
		// Those that nobody waits for make room.
		for i := range 3000 {
			if err := receive(i, 0); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1024)
		for i := range cap(ended) {
			go func() { ended <- receive(i, time.Hour) }()
		}
		synctest.Wait()
		if err := receive(5000, 0); !errors.Is(err, core.ErrOverLimit) {
			t.Errorf("one more: %v", err)
		}
		if err := receive(7, 0); err != nil {
			t.Errorf("one that is in use: %v", err)
		}
		for i := range 100 {
			sendAll(t, n.client, "q", core.Message{Body: fmt.Append(nil, i), Delay: -1, Attributes: []core.Attribute{{Name: "n", Type: "Number", Value: fmt.Append(nil, i)}}})
		}
		for range 100 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		cancel()
		synctest.Wait()
		if err := core.Audit(n.engine); err != nil {
			t.Error(err)
		}
		// What nobody uses is forgotten.
		time.Sleep(10 * time.Minute)
		if got := core.Views(n.engine); got != 0 {
			t.Errorf("%d selectors are kept", got)
		}
	})
}

func TestSelectorsSeeHeaders(t *testing.T) {
	n, _ := openCounted(t)
	attribute := func(name, typ, value string) core.Attribute {
		return core.Attribute{Name: name, Type: typ, Value: []byte(value)}
	}
	id := core.NewMessageID()
	sendAll(t, n.client, "q", core.Message{
		ID: id, Body: []byte("m"), Delay: -1, Priority: 7, Group: "g1", ContentType: "text/plain",
		Attributes: []core.Attribute{
			attribute("n", "Number.int", "12"), attribute("s", "String", "12"), attribute("b", "Binary", "12"),
			attribute("type", "", "order"), attribute("correlation-id", "", "c1"), attribute("persistent", "", "false"),
			attribute("twice", "", "first"), attribute("twice", "", "second"),
			{Kind: core.AttributeSystem, Name: "hidden", Value: []byte("x")},
			{Kind: core.AttributeProperty, Name: "shown", Value: []byte("x")},
		},
	})
	for text, want := range map[string]bool{
		"JMSPriority = 7 AND priority = 7":                       true,
		"JMSTimestamp > 1000000000000":                           true,
		"JMSMessageID = '" + id.String() + "'":                   true,
		"JMSXGroupID = 'g1'":                                     true,
		"JMSType = 'order' AND JMSCorrelationID = 'c1'":          true,
		"JMSDeliveryMode = 'NON_PERSISTENT'":                     true,
		"\"content-type\" LIKE 'text/%'":                         true,
		"hyphenated_props:correlation-id = 'c1'":                 true,
		"n = 12 AND s = 12 AND s = '12' AND n BETWEEN 11 AND 13": true,
		"s LIKE '1_'":         true,
		"n LIKE '1_'":         false, // a number is no string
		"b IS NULL":           true,
		"hidden IS NOT NULL":  false,
		"shown = 'x'":         true,
		"twice = 'first'":     true,
		"missing IS NOT NULL": false,
	} {
		got, err := n.client.Receive(t.Context(), "q", core.ReceiveOptions{Max: 1, Selector: parse(t, text)}, nil)
		if err != nil || (len(got) == 1) != want {
			t.Errorf("%s: %d messages, %v", text, len(got), err)
		}
	}
}

// TestEachSelectorGetsItsValue parks receives with many selectors, and sends what
// one of them waits for, and some who demand no value.
func TestEachSelectorGetsItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := openCounted(t)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan string, 10)
		for _, text := range []string{
			"color = 'red'", "color = 'blue' AND JMSPriority > 5", "color = 'blue' AND JMSPriority < 5", "shape = 'round'",
			"color LIKE 'gr%'", "'7' = color",
		} {
			sel := parse(t, text)
			go func() {
				d, err := n.client.Receive(ctx, "q", core.ReceiveOptions{Max: 10, Wait: time.Hour, Selector: sel}, nil)
				for i := range d {
					got <- fmt.Sprintf("%s by %s", d[i].Body, text)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		for _, c := range []struct{ color, kind, want string }{
			{"blue", "", "blue0 by color = 'blue' AND JMSPriority < 5"},
			{"green", "", "green0 by color LIKE 'gr%'"},
			{"7.0", "Number", "7.00 by '7' = color"},
			{"black", "", ""},
			{"red", "", "red0 by color = 'red'"},
		} {
			m := colored(1, c.color)
			m[0].Attributes[0].Type = c.kind
			sendAll(t, n.client, "q", m...)
			synctest.Wait()
			select {
			case g := <-got:
				if g != c.want {
					t.Errorf("%s: %q, want %q", c.color, g, c.want)
				}
			default:
				if c.want != "" {
					t.Errorf("%s: nobody got it", c.color)
				}
			}
		}
		cancel()
		synctest.Wait()
	})
}

// BenchmarkManySelectors sends to a queue on which 500 receives wait, each for a
// value that does not come.
func BenchmarkManySelectors(b *testing.B) {
	c := openBench(b, storage.Options{Memory: true})
	if _, _, err := c.Declare(b.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var waiting sync.WaitGroup
	for i := range 500 {
		sel := parse(b, fmt.Sprintf("color = 'c%d'", i))
		waiting.Go(func() {
			if _, err := c.Receive(ctx, "q", core.ReceiveOptions{Max: 1, Wait: time.Hour, Selector: sel}, nil); !errors.Is(err, context.Canceled) {
				b.Error(err)
			}
		})
	}
	for {
		if st, err := c.Stats(b.Context(), "q"); err != nil || st.Waiters == 500 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	msgs := colored(100, "red")
	b.ResetTimer()
	for range b.N {
		if _, err := c.Publish(b.Context(), "q", msgs, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "msgs/s")
	cancel()
	waiting.Wait()
}

// BenchmarkSelectiveReceive receives and deletes what a selector selects behind
// 100,000 messages that it does not, and what others receive at the front.
func BenchmarkSelectiveReceive(b *testing.B) {
	for name, text := range map[string]string{"selective": "color = 'blue'", "plain": ""} {
		b.Run(name, func(b *testing.B) {
			c := openBench(b, storage.Options{Memory: true})
			cfg := core.DefaultQueueConfig(core.KindStandard)
			if _, _, err := c.Declare(b.Context(), "q", cfg); err != nil {
				b.Fatal(err)
			}
			sendAll(b, c, "q", colored(100_000, "red")...)
			o := core.ReceiveOptions{Max: 1, Visibility: time.Hour, Selector: parse(b, text)}
			blue := colored(1, "blue")
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, err := c.Publish(b.Context(), "q", blue, nil); err != nil {
					b.Fatal(err)
				}
				got, err := c.Receive(b.Context(), "q", o, nil)
				if err != nil || len(got) != 1 {
					b.Fatalf("%d messages, %v", len(got), err)
				}
				if _, err := c.Settle(b.Context(), "q", []core.Settlement{{Receipt: got[0].Receipt}}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
