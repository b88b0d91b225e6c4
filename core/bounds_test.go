package core_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasemq/broker/core"
)

// TestConfigurationsAreBounded declares and configures queues at the bound of
// what is kept verbatim, and one byte beyond.
func TestConfigurationsAreBounded(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		cfg := core.DefaultQueueConfig(core.KindStandard)
		cfg.Tags = map[string]string{"t": ""}
		cfg.Attributes = map[string]string{"a": strings.Repeat("x", core.ConfigBytesMax-2)}
		if _, _, err := n.client.Declare(t.Context(), "r", cfg); err != nil {
			t.Errorf("declare with %d bytes: %v", core.ConfigBytesMax, err)
		}
		_, err := n.client.Configure(t.Context(), "r", func(c *core.QueueConfig) error { c.Tags["t"] = "y"; return nil })
		if !errors.Is(err, core.ErrInvalidConfig) {
			t.Errorf("configure with %d bytes: %v, want ErrInvalidConfig", core.ConfigBytesMax+1, err)
		}
		if q, err := n.client.Queue(t.Context(), "r"); err != nil || q.Config.Tags["t"] != "" {
			t.Errorf("after a refusal the tag is %q, %v", q.Config.Tags["t"], err)
		}
		cfg.Tags = map[string]string{"tt": ""}
		if _, _, err := n.client.Declare(t.Context(), "s", cfg); !errors.Is(err, core.ErrInvalidConfig) {
			t.Errorf("declare with %d bytes: %v, want ErrInvalidConfig", core.ConfigBytesMax+1, err)
		}
		cfg = core.DefaultQueueConfig(core.KindStandard)
		cfg.Redelivery = core.Redelivery{DeadLetterQueue: strings.Repeat("d", core.QueueNameBytesMax+1), MaxReceives: 1}
		if _, _, err := n.client.Declare(t.Context(), "s", cfg); !errors.Is(err, core.ErrInvalidConfig) {
			t.Errorf("declare with a dead-letter queue that no name can have: %v, want ErrInvalidConfig", err)
		}
	})
}

// TestGrantBoundsAReceive wants a receive to end where the caller has no room,
// with one message at least, and to leave the others ready.
func TestGrantBoundsAReceive(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		hundred := text(strings.Repeat("x", 100))
		publish(t, n, hundred, hundred, hundred, hundred, hundred, hundred)
		for _, c := range []struct {
			room int64
			want int
		}{{0, 1}, {250, 2}, {1000, 3}} {
			left := c.room
			got := take(t, n, core.ReceiveOptions{Max: 10, Visibility: -1, Grant: func(bytes int64) bool {
				left -= bytes
				return left >= 0
			}})
			if len(got) != c.want {
				t.Errorf("room for %d bytes: %d messages, want %d", c.room, len(got), c.want)
			}
		}
	})
}
