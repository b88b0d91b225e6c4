package jetstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startWait is how long a server may take until it accepts connections.
const startWait = 10 * time.Second

// ServerOptions configures a server in this process.
type ServerOptions struct {
	Name    string // of the server: for good, since it names its replica
	Cluster string // name of the servers' cluster
	Dir     string
	Listen  string   // address for the other servers; port 0: any
	Routes  []string // their addresses, with this one's own: all three at the first start
	// Secret is what the servers know each other by. With TLS as well, nobody
	// else gets in or reads what they say.
	Secret string
	TLS    *tls.Config // with client certificates required; nil: none
	// MaxBytes bounds the disk that the log may use; 0: MaxBytesDefault.
	MaxBytes int64
	Logger   *slog.Logger // nil: slog.Default

	listen   string // tests: address for clients; else any of loopback
	unsynced bool   // tests
}

// Server is a NATS server in this process, for the log alone, which fsyncs each
// write. It has a listener for clients, without which it would have none for other
// servers: at a port of loopback, with a password that only this process knows.
type Server struct {
	server  *server.Server
	options *server.Options
	secret  string // of the connections from this process
	routes  string // what the servers know each other by
}

const (
	userLog    = "log"
	userSystem = "system"
)

// StartServer starts a server. It is part of the cluster when enough others are
// up.
func StartServer(o ServerOptions) (*Server, error) {
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address of the log: %w", err)
	}
	if o.Name == "" || o.Cluster == "" || o.Dir == "" || o.Secret == "" {
		return nil, errors.New("server of the log needs Name, Cluster, Dir and Secret")
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = MaxBytesDefault
	}
	s := &Server{secret: rand.Text(), routes: o.Secret}
	system := server.NewAccount("$SYS")
	so := &server.Options{
		ServerName: o.Name, NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
		JetStream: true, StoreDir: o.Dir, JetStreamMaxMemory: 1 << 20, JetStreamMaxStore: o.MaxBytes + o.MaxBytes/4, SyncAlways: !o.unsynced,
		Cluster: server.ClusterOpts{
			Name: o.Cluster, Host: host, Port: port, Username: userLog, Password: o.Secret, TLSConfig: o.TLS,
			PingInterval: 2 * time.Second, ConnectRetries: 1 << 30,
		},
		Accounts: []*server.Account{system}, SystemAccount: system.Name,
		Users: []*server.User{
			{Username: userLog, Password: s.secret},
			{Username: userSystem, Password: s.secret, Account: system},
		},
	}
	if o.TLS != nil {
		so.Cluster.TLSTimeout = startWait.Seconds()
	}
	if so.Host, so.Port, err = splitAddress(cmp.Or(o.listen, "127.0.0.1:0")); err != nil {
		return nil, err
	}
	s.options, so.Routes = so, s.routeURLs(o.Routes)
	if s.server, err = server.NewServer(so); err != nil {
		return nil, fmt.Errorf("server of the log: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s.server.SetLoggerV2(serverLog{o.Logger}, false, false, false)
	go s.server.Start() // returns when it has started
	if !s.server.ReadyForConnections(startWait) {
		s.Close()
		return nil, fmt.Errorf("server of the log did not start within %v", startWait)
	}
	return s, nil
}

func (s *Server) routeURLs(addresses []string) []*url.URL {
	var urls []*url.URL
	for _, address := range addresses {
		urls = append(urls, &url.URL{Scheme: "nats-route", Host: address, User: url.UserPassword(userLog, s.routes)})
	}
	return urls
}

// SetRoutes says where the other servers are now. Who belongs to the log does not
// change by it. It takes one caller at a time.
func (s *Server) SetRoutes(addresses []string) error {
	o := s.options.Clone()
	o.Routes = s.routeURLs(addresses)
	if err := s.server.ReloadOptions(o); err != nil {
		return fmt.Errorf("routes of the log's server: %w", err)
	}
	s.options = o
	return nil
}

// RouteAddress is where the server listens for other servers.
func (s *Server) RouteAddress() string { return s.server.ClusterAddr().String() }

func splitAddress(address string) (host string, port int, err error) {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", 0, err
	}
	if port = tcp.Port; port == 0 {
		port = server.RANDOM_PORT
	}
	return tcp.IP.String(), port, nil
}

// Connect connects this process to the server, as a Log needs it.
func (s *Server) Connect() (*nats.Conn, error) {
	return Connect("", nats.InProcessServer(s.server), nats.UserInfo(userLog, s.secret))
}

// System connects this process to the system account.
func (s *Server) System() (*nats.Conn, error) {
	return Connect("", nats.InProcessServer(s.server), nats.UserInfo(userSystem, s.secret))
}

// Close stops the server and waits until it has.
func (s *Server) Close() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// serverLog takes what the server logs.
type serverLog struct{ log *slog.Logger }

func (s serverLog) write(level slog.Level, format string, v []any) {
	if s.log.Enabled(context.Background(), level) {
		s.log.Log(context.Background(), level, "log server: "+fmt.Sprintf(format, v...))
	}
}

// Noticef implements server.Logger. Much of it is of no interest here.
func (s serverLog) Noticef(format string, v ...any) { s.write(slog.LevelDebug, format, v) }

// Warnf implements server.Logger.
func (s serverLog) Warnf(format string, v ...any) {
	switch text := fmt.Sprintf(format, v...); {
	case strings.HasPrefix(text, "Plaintext passwords"): // they are made by each process, and stand in no file
	case strings.HasPrefix(text, "TLS certificate chain and hostname of solicited routes"): // our own check is not seen
	default:
		s.write(slog.LevelWarn, format, v)
	}
}

// Fatalf implements server.Logger. The server ends by itself, not the process.
func (s serverLog) Fatalf(format string, v ...any) { s.write(slog.LevelError, format, v) }

// Errorf implements server.Logger. It is no error that a node is not there, which
// the other nodes find out by themselves.
func (s serverLog) Errorf(format string, v ...any) {
	level := slog.LevelError
	if strings.HasPrefix(format, "Error trying to connect to route") {
		level = slog.LevelDebug // of which there are several a second
	}
	s.write(level, format, v)
}

// Debugf implements server.Logger.
func (s serverLog) Debugf(format string, v ...any) { s.write(slog.LevelDebug, format, v) }

// Tracef implements server.Logger.
func (s serverLog) Tracef(string, ...any) {}
