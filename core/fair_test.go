package core_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// floodTenant sends n messages of one tenant, "" for none.
func floodTenant(t testing.TB, c *core.Client, tenant string, n int, delay time.Duration) {
	t.Helper()
	batch := make([]core.Message, 0, 1000)
	for i := range n {
		batch = append(batch, core.Message{Body: fmt.Appendf(nil, "%s-%d", tenant, i), Group: tenant, Delay: delay})
		if len(batch) == cap(batch) || i == n-1 {
			if _, err := c.Publish(t.Context(), "q", batch, nil); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

// receivesUntil receives until a message of that body comes, and returns how many
// receives came before it.
func receivesUntil(t testing.TB, c *core.Client, body string, batch int) int {
	t.Helper()
	for n := range 100 {
		got, err := c.Receive(t.Context(), "q", core.ReceiveOptions{Max: batch, Visibility: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if string(got[i].Body) == body {
				return n
			}
		}
	}
	return 100
}

// TestAQuietTenantIsNotDelayed: whatever a noisy tenant has on a standard queue,
// the next message of a quiet one waits for one receive at most. Messages that
// were delayed take every other turn, so that a tenant with both has three.
func TestAQuietTenantIsNotDelayed(t *testing.T) {
	noisy := 100_000
	if raceEnabled {
		noisy /= 10
	}
	for _, c := range []struct {
		name  string
		setup func(t *testing.T, n *node)
		most  int // receives that the quiet tenant waits for
	}{
		{name: "backlog", setup: func(t *testing.T, n *node) { floodTenant(t, n.client, "noisy", noisy, -1) }},
		{name: "without groups", setup: func(t *testing.T, n *node) { floodTenant(t, n.client, "", noisy/10, -1) }},
		{name: "after a restart", setup: func(t *testing.T, n *node) {
			floodTenant(t, n.client, "noisy", noisy, -1)
			n.close()
			n.open()
		}},
		{name: "in flight and back", setup: func(t *testing.T, n *node) {
			floodTenant(t, n.client, "noisy", noisy/10, -1)
			for range noisy / 10 / 100 {
				take(t, n, core.ReceiveOptions{Max: 100, Visibility: 10 * time.Second})
			}
			time.Sleep(11 * time.Second)
		}},
		{name: "delayed", setup: func(t *testing.T, n *node) {
			floodTenant(t, n.client, "noisy", noisy/10, time.Second)
			time.Sleep(2 * time.Second)
		}},
		{name: "delayed and not", most: 3, setup: func(t *testing.T, n *node) {
			floodTenant(t, n.client, "noisy", noisy/10, time.Second)
			floodTenant(t, n.client, "noisy", noisy/10, -1)
			time.Sleep(2 * time.Second)
		}},
	} {
		for _, batch := range []int{1, 10} {
			t.Run(fmt.Sprintf("%s/max=%d", c.name, batch), func(t *testing.T) {
				onNode(t, new(node), func(t *testing.T, n *node) {
					c.setup(t, n)
					for i := range 20 {
						body := fmt.Sprint("quiet-", i)
						m := text(body)
						m.Group = "quiet"
						publish(t, n, m)
						synctest.Wait()
						if waited := receivesUntil(t, n.client, body, batch); waited > max(c.most, 1) {
							t.Fatalf("message %d waited for %d receives", i, waited)
						}
					}
				})
			})
		}
	}
}

// BenchmarkFairQueue is a quiet tenant's send and receive beside a noisy one's
// backlog, with fsync.
func BenchmarkFairQueue(b *testing.B) {
	for _, noisy := range []int{0, 100_000} {
		b.Run(fmt.Sprint("noisy=", noisy), func(b *testing.B) {
			c := openBench(b, storage.Options{})
			if _, _, err := c.Declare(b.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
				b.Fatal(err)
			}
			floodTenant(b, c, "noisy", noisy, -1)
			waited := 0
			for b.Loop() {
				m := text("quiet")
				m.Group = "quiet"
				if _, err := c.Publish(b.Context(), "q", []core.Message{m}, nil); err != nil {
					b.Fatal(err)
				}
				waited += receivesUntil(b, c, "quiet", 1)
			}
			b.ReportMetric(float64(waited)/float64(b.N), "receives-waited/op")
		})
	}
}
