package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"
	_ "unsafe" // for the fast profile

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/clustertest"
)

// The fast profile: elections of NATS, which take 4 to 9 s, have no option. It is
// for tests alone.
//
//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

func TestMain(m *testing.M) {
	minElectionTimeout, maxElectionTimeout, hbInterval = 500*time.Millisecond, 1000*time.Millisecond, 100*time.Millisecond
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1}))
}

// servers are three in this process, with clients listening on loopback.
type servers struct {
	t         *testing.T
	options   [replicas]ServerOptions
	running   [replicas]*Server
	addresses [replicas]string // for clients
}

func startServers(t *testing.T, tune func(i int, o *ServerOptions)) *servers {
	ports := clustertest.FreeAddresses(t, 2*replicas)
	s := &servers{t: t}
	for i := range s.options {
		s.options[i] = ServerOptions{
			Name: fmt.Sprint("s", i), Cluster: "test", Dir: t.TempDir(), Listen: ports[i], Routes: ports[:replicas],
			Secret: "secret", MaxBytes: 256 << 20, Logger: quiet(), listen: ports[replicas+i],
		}
		s.addresses[i] = ports[replicas+i]
		if tune != nil {
			tune(i, &s.options[i])
		}
		s.start(i)
	}
	t.Cleanup(func() {
		for i := range s.running {
			s.stop(i)
		}
	})
	return s
}

func (s *servers) start(i int) {
	s.t.Helper()
	var err error
	if s.running[i], err = StartServer(s.options[i]); err != nil {
		s.t.Fatal(err)
	}
}

func (s *servers) stop(i int) {
	if s.running[i] != nil {
		s.running[i].Close()
		s.running[i] = nil
	}
}

// connect connects to a server from this process.
func (s *servers) connect(i int) (nc, system *nats.Conn) {
	s.t.Helper()
	nc, err := s.running[i].Connect()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	if system, err = s.running[i].System(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(system.Close)
	return nc, system
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// open opens the log by way of a server.
func (s *servers) open(i int) *Log {
	s.t.Helper()
	nc, system := s.connect(i)
	l, err := Open(patient(s.t), Options{
		Conn: nc, System: system, Name: "test", MaxBytes: 64 << 20, Server: s.options[i].Name, AckTimeout: time.Second, Logger: quiet(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() }) // the connection may be gone
	return l
}

func TestLogConforms(t *testing.T) {
	s := startServers(t, nil)
	i := 0
	clustertest.Conform(t, func() cluster.Log {
		i++
		l := s.open(i % replicas)
		if l.Durability() != Synced {
			t.Errorf("durability is %v", l.Durability())
		}
		return l
	})
}

// TestAMovedLeaderTakesRecords moves the leader of the log from server to server, and
// has each take a record at once.
func TestAMovedLeaderTakesRecords(t *testing.T) {
	s := startServers(t, nil)
	var logs []*Log
	for i := range replicas {
		logs = append(logs, s.open(i))
	}
	ctx := patient(t)
	for n := uint64(0); n < 12; {
		for i, l := range logs {
			here, err := l.LeaderHere(ctx)
			if ctx.Err() != nil {
				t.Fatalf("%d moves, then: %v", n, err)
			}
			if err != nil || !here || l.MoveLeader(ctx) != nil {
				continue // the others may not be up to date
			}
			got := make(chan error, 1)
			l.Append(n, []byte("record"), func(_ uint64, err error) { got <- err })
			if err := <-got; err != nil {
				t.Fatalf("record %d, after a move away from s%d: %v", n+1, i, err)
			}
			n++
		}
	}
}

func natsUser(s *Server) nats.Option { return nats.UserInfo(userLog, s.secret) }

func natsInProcess(s *server.Server) nats.Option { return nats.InProcessServer(s) }
