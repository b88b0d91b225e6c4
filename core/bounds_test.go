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

// TestRecordsAreBounded puts records at the bounds of names and values, and beyond.
func TestRecordsAreBounded(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		long, large := strings.Repeat("n", core.RecordNameBytesMax), make([]byte, core.RecordValueBytesMax)
		tx := n.client.Begin()
		for _, bad := range []error{
			tx.PutRecord("", nil), tx.DropRecord(""), tx.PutRecord(long+"n", nil), tx.DropRecord(long + "n"),
			tx.PutRecord("a", append(large, 0)),
		} {
			if !errors.Is(bad, core.ErrInvalidArgument) {
				t.Errorf("a record out of bounds: %v, want ErrInvalidArgument", bad)
			}
		}
		if err := errors.Join(tx.PutRecord(long, large), tx.PutRecord("empty", nil)); err != nil {
			t.Fatalf("records at the bounds: %v", err)
		}
		for range core.TxOpsMax - 2 {
			if err := tx.DropRecord("none"); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.DropRecord("none"); !errors.Is(err, core.ErrInvalidArgument) {
			t.Errorf("operation %d: %v, want ErrInvalidArgument", core.TxOpsMax+1, err)
		}
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := n.client.Record(t.Context(), long); err != nil || len(v) != len(large) {
			t.Errorf("a record at the bounds: %d bytes, %v", len(v), err)
		}
		if v, err := n.client.Record(t.Context(), "empty"); err != nil || v == nil || len(v) != 0 {
			t.Errorf("an empty record: %v, %v", v, err)
		}
	})
}
