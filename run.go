package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
	"github.com/leasemq/broker/frontends/sqs"
	"github.com/leasemq/broker/storage"
)

// adminName is the listener of the admin frontend, which every node has.
const adminName = "admin"

// Node is a running node.
type Node struct {
	settings *settings
	db       *storage.DB
	engine   *core.Engine
	disk     diskGuard
	certs    *certificates     // nil: none are configured
	users    *users            // nil: none are configured
	addrs    map[string]string // by listener
	draining atomic.Bool

	services []service
	serving  sync.WaitGroup // the frontends, without admin
	broken   chan error     // a listener that ended by itself

	stop context.CancelFunc
	done chan struct{}
	err  error // set before done is closed
}

// service is a bound listener and who serves it.
type service struct {
	name  string
	ln    net.Listener
	serve func(ctx context.Context, ln net.Listener) error
	// reload is Listener.Reload.
	reload func(c configs.Config) error
}

// Run starts a node and returns once every listener is up. The node runs until
// ctx ends, Close is called, or it fails: then it drains and closes, and Wait
// returns.
func Run(ctx context.Context, options ...Option) (*Node, error) {
	s := newSettings(options)
	if err := s.config.Check(s.kindNames()); err != nil {
		return nil, err
	}
	if err := CheckQueues(s.config); err != nil {
		return nil, err
	}
	n := &Node{settings: s, addrs: map[string]string{}, done: make(chan struct{})}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	run, stop := context.WithCancel(ctx)
	n.stop = stop
	n.start(run)
	return n, nil
}

// Addr returns the address of a listener, such as "sqs" or "admin"; "" if the
// node has no such listener.
func (n *Node) Addr(listener string) string { return n.addrs[listener] }

// Addrs returns the address of every listener.
func (n *Node) Addrs() map[string]string { return maps.Clone(n.addrs) }

// Client returns a way to the queues that needs no network.
func (n *Node) Client() *core.Client { return n.engine.Client(core.Principal{Origin: core.OriginCore}) }

// Reload takes over what may change while the node runs: the access keys of SQS,
// and what the files of users and of TLS hold, whose names stay.
// The rest of c is checked and otherwise not looked at. After an error that the
// checks find nothing has changed.
func (n *Node) Reload(c configs.Config) error {
	if err := errors.Join(c.Check(n.settings.kindNames()), CheckQueues(c)); err != nil {
		return err
	}
	var errs []error
	if n.certs != nil {
		if err := n.certs.reload(); err != nil {
			errs = append(errs, fmt.Errorf("reload %w", err))
		}
	}
	if n.users != nil {
		if err := n.users.reload(); err != nil {
			errs = append(errs, fmt.Errorf("reload %w", err))
		}
	}
	for _, s := range n.services {
		if s.reload == nil {
			continue
		}
		if err := s.reload(c); err != nil {
			errs = append(errs, fmt.Errorf("reload %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// Wait returns when the node has stopped: nil if it was asked to, else why.
func (n *Node) Wait() error {
	<-n.done
	return n.err
}

// Close stops the node and waits until it has. It may be called more than once.
func (n *Node) Close() error {
	n.stop()
	return n.Wait()
}

// open builds the node from the bottom to the top. After an error, close frees
// what was opened.
func (n *Node) open(ctx context.Context) error {
	if files := n.settings.config.TLS; files.CertFile != "" {
		certs, err := openCertificates(files, n.settings.log)
		if err != nil {
			return err
		}
		n.certs = certs
	}
	if file := n.settings.config.UsersFile; file != "" {
		var err error
		if n.users, err = openUsers(file); err != nil {
			return err
		}
	}
	fsync := newFsyncHistogram()
	boot, err := n.openStorage(fsync)
	if err != nil {
		return err
	}
	n.engine, err = core.Open(core.Options{
		Store: n.db, Committer: n.db, Boot: boot, Logger: n.settings.log,
		AllowDeadLetter: allowDeadLetter(n.settings.config),
	})
	if err != nil {
		return fmt.Errorf("open core: %w", err)
	}
	n.disk.guard(n.engine)
	if err := n.createQueues(ctx); err != nil {
		return err
	}
	if err := n.createBindings(ctx); err != nil {
		return err
	}

	collectors := []prometheus.Collector{fsync, storeMetrics{n.db}, newBuildInfo(n.settings.version, n.settings.revision)}
	for _, name := range n.settings.config.Enabled(n.settings.kindNames()) {
		if err := n.openFrontend(ctx, name, &collectors); err != nil {
			return err
		}
	}
	return n.openAdmin(ctx, collectors)
}

func (n *Node) openStorage(fsync prometheus.Histogram) (core.Boot, error) {
	c := n.settings.config
	o := storage.Options{
		Dir:          c.Node.Data,
		Memory:       c.Node.Memory,
		SyncInterval: c.Storage.SyncInterval,
		Profile:      storage.ProfileDefault(),
		Logger:       n.settings.log,
		OnDisk:       n.disk.report,
		OnSync:       func(took time.Duration) { fsync.Observe(took.Seconds()) },
	}
	if c.Node.Memory {
		o.Dir = ""
	}
	switch c.Storage.Sync {
	case "interval":
		o.Sync = storage.SyncInterval
	case "never":
		o.Sync = storage.SyncNever
	}
	if c.Storage.Profile == "large" {
		o.Profile = storage.ProfileLarge()
	}
	if n.settings.store != nil {
		n.settings.store(&o)
	}
	db, boot, err := storage.Open(o)
	if err != nil {
		return core.Boot{}, err
	}
	n.db = db
	return boot, nil
}

func (n *Node) openFrontend(ctx context.Context, name string, collectors *[]prometheus.Collector) error {
	at := slices.IndexFunc(n.settings.kinds, func(k Kind) bool { return k.Name == name })
	h := Host{
		Engine:  n.engine,
		Config:  n.settings.config,
		Logger:  n.settings.log,
		Version: n.settings.version,
		Collect: func(c prometheus.Collector) { *collectors = append(*collectors, c) },
	}
	if n.users != nil {
		h.Authenticate = n.users.verify
	}
	listeners, err := n.settings.kinds[at].Open(h)
	if err != nil {
		return fmt.Errorf("open frontend %s: %w", name, err)
	}
	for _, l := range listeners {
		if err := n.bind(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) openAdmin(ctx context.Context, collectors []prometheus.Collector) error {
	c := n.settings.config
	server, err := admin.New(n.engine, admin.Options{
		Logger:       n.settings.log,
		MetricQueues: cmp.Or(c.Admin.MetricQueues, -1),
		Collectors:   collectors,
		Profiles:     c.Dev,

		SetAttributes: sqs.SetAttributes,
		Checks: []admin.Check{
			{Name: "disk", Run: n.disk.remark},
			{Name: "listeners", Run: n.listening},
		},
	})
	if err != nil {
		return fmt.Errorf("open admin: %w", err)
	}
	for _, l := range withTLS(Listener{Name: adminName, Address: c.Admin.Listen, Serve: server.Serve}, c.Admin.TLSListen) {
		if err := n.bind(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// bind opens the socket of l.
func (n *Node) bind(ctx context.Context, l Listener) error {
	if _, taken := n.addrs[l.Name]; taken {
		return fmt.Errorf("listen for %s: another listener has that name", l.Name)
	}
	addr, err := n.settings.config.Resolve(l.Address)
	guarded := l.Guarded || l.TLS && n.settings.config.TLS.ClientCAFile != ""
	switch {
	case err != nil:
	case l.TLS && n.certs == nil:
		err = errors.New("there is no certificate")
	case !guarded:
		err = n.settings.config.CheckExposure(addr)
	}
	if err != nil {
		return fmt.Errorf("listen for %s: %w", l.Name, err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", l.Name, err)
	}
	if l.TLS {
		ln = tls.NewListener(ln, n.certs.server())
	}
	n.addrs[l.Name] = ln.Addr().String()
	n.services = append(n.services, service{name: l.Name, ln: ln, serve: l.Serve, reload: l.Reload})
	return nil
}

// listening is a check of readiness.
func (n *Node) listening() (string, error) {
	if n.draining.Load() {
		return "", core.ErrDraining
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(n.addrs)) {
		all = append(all, name+" "+n.addrs[name])
	}
	return strings.Join(all, ", "), nil
}

// start serves every listener and waits for the end in the background.
func (n *Node) start(ctx context.Context) {
	n.broken = make(chan error, len(n.services))
	// Frontends and admin end one after the other, hence not with ctx itself.
	front, stopFront := context.WithCancel(context.WithoutCancel(ctx))
	top, stopTop := context.WithCancel(context.WithoutCancel(ctx))
	var admins sync.WaitGroup
	for _, s := range n.services {
		if strings.TrimSuffix(s.name, tlsSuffix) == adminName {
			admins.Go(func() { n.serve(top, s) })
			continue
		}
		n.serving.Go(func() { n.serve(front, s) })
	}
	go func() {
		defer close(n.done)
		reason := n.watch(ctx)
		n.drain(stopFront)
		stopTop()
		admins.Wait()
		n.stop()
		n.err = because(reason, n.close())
	}()
}

func (n *Node) serve(ctx context.Context, s service) {
	if err := s.serve(ctx, s.ln); err != nil && ctx.Err() == nil {
		n.broken <- fmt.Errorf("listener %s: %w", s.name, err)
	}
}

// watch returns when the node has to end: nil if it was asked to.
func (n *Node) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.engine.Failed():
		return n.engine.Err()
	case <-n.db.Failed():
		return n.db.Err()
	case err := <-n.broken:
		return err
	}
}

// drain lets the frontends send the answers that are due. Those that take
// longer than the configuration allows are answered by the core that it stops.
func (n *Node) drain(stopFront context.CancelFunc) {
	n.draining.Store(true)
	n.engine.Drain()
	stopFront()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		n.serving.Wait()
	}()
	select {
	case <-drained:
		return
	case <-time.After(n.settings.config.Drain.Timeout):
	case <-n.engine.Failed():
	}
	_ = n.engine.Close() // close returns its error
	<-drained
}

// close closes the node from the core downwards. It returns why the engine
// failed, if it did.
func (n *Node) close() error {
	var errs []error
	for _, s := range n.services {
		if err := s.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close listener %s: %w", s.name, err))
		}
	}
	if n.engine != nil {
		errs = append(errs, n.engine.Close())
	}
	if n.db != nil {
		errs = append(errs, n.db.Close())
	}
	return errors.Join(errs...)
}

// because returns why the node ended. When it stopped by itself, closing its
// parts repeats the reason; that is said once.
func because(reason, closing error) error {
	if reason == nil || !errors.Is(closing, core.ErrStopped) {
		return errors.Join(reason, closing)
	}
	return reason
}
