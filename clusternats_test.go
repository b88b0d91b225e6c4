package broker_test

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/cluster/clustertest"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/frontends/admin"
)

// startNATS starts a NATS cluster of three, which is no part of any broker, and
// returns the URLs of its servers.
func startNATS(t *testing.T, synced bool) string {
	t.Helper()
	addr := clustertest.FreeAddresses(t, 6)
	clients, routes := addr[:3], addr[3:]
	var all []*url.URL
	for _, r := range routes {
		all = append(all, &url.URL{Scheme: "nats-route", Host: r})
	}
	for i := range clients {
		system := server.NewAccount("$SYS")
		at, cluster := mustURL(t, clients[i]), mustURL(t, routes[i])
		s, err := server.NewServer(&server.Options{
			ServerName: "n" + string(rune('1'+i)), Host: at.Hostname(), Port: portOf(t, at), NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), SyncAlways: synced, MaxPayload: 8 << 20, JetStreamMaxStore: 1 << 30,
			Cluster: server.ClusterOpts{Name: "nats", Host: cluster.Hostname(), Port: portOf(t, cluster)}, Routes: all,
			Accounts: []*server.Account{system}, SystemAccount: system.Name,
			Users: []*server.User{{Username: "broker", Password: "secret"}, {Username: "system", Password: "secret", Account: system}},
		})
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
	}
	return "nats://" + strings.Join(clients, ",nats://")
}

func mustURL(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func portOf(t *testing.T, u *url.URL) int {
	t.Helper()
	n := 0
	for _, c := range u.Port() {
		n = 10*n + int(c-'0')
	}
	return n
}

// userFile is a file for cluster.nats_user_file.
func userFile(t *testing.T, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "user")
	if err := os.WriteFile(path, []byte(user+":secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClusterOnOtherServers has two brokers keep their log in a NATS cluster, and
// one of them stop.
func TestClusterOnOtherServers(t *testing.T) {
	c := &clusterOf{
		t: t, dir: t.TempDir(), gossip: clustertest.FreeAddresses(t, 2), log: clustertest.FreeAddresses(t, 2), nodes: make([]*broker.Node, 2),
		nats: startNATS(t, true), natsUser: userFile(t, "broker"), natsSystem: userFile(t, "system"),
	}
	for i := range c.nodes {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.stop(i)
		}
	})
	first := c.primary()
	c.send(1-first, "one")
	c.asks = first
	c.await("a log that is verified", func(st admin.ClusterStatus) bool {
		return st.Log.Durability == "synced" && st.Log.Leader != "" && st.Nodes[1-first].Role == "standby"
	})
	c.stop(first)
	c.receives(1-first, "one")
}

// TestUnsyncedLogIsRefused has a broker meet servers that acknowledge what they have
// not fsynced.
func TestUnsyncedLogIsRefused(t *testing.T) {
	at, urls, user, system := clustertest.FreeAddresses(t, 2), startNATS(t, false), userFile(t, "broker"), userFile(t, "system")
	node, err := broker.Run(context.Background(), broker.Data(t.TempDir()), broker.WithLogger(slog.New(slog.DiscardHandler)),
		broker.Edit(func(s *configs.Config) {
			s.Cluster.Node, s.Cluster.GossipListen, s.Cluster.Join = "a", at[0], at
			s.Cluster.NATS, s.Cluster.NATSUserFile, s.Cluster.NATSSystemUserFile = urls, user, system
			s.Cluster.LogSize = configs.LogSizeMin
		}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "do not fsync each write") {
			t.Errorf("node ended with %v, want that the log is not fsynced", err)
		}
	case <-time.After(time.Minute):
		t.Error("a log that is not fsynced is used")
		_ = node.Close()
	}
}
