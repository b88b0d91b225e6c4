package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	db       atomic.Pointer[storage.DB] // nil until it is open
	disk     diskGuard
	fsync    prometheus.Histogram
	certs    *certificates // nil: none are configured
	users    *users        // nil: none are configured
	ports    []*port       // of the frontends
	admins   []*port
	admin    *admin.Server
	addrs    map[string]string    // by listener
	term     atomic.Pointer[term] // nil: this node serves nobody
	cluster  *clusterNode         // nil: it stands alone
	draining atomic.Bool

	mu     sync.Mutex
	config configs.Config // as it was read last

	ended context.Context // ends when the node has to
	stop  context.CancelFunc
	done  chan struct{}
	err   error // set before done is closed
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
	n := &Node{settings: s, config: s.config, addrs: map[string]string{}, fsync: newFsyncHistogram(), done: make(chan struct{})}
	run, stop := context.WithCancel(ctx)
	n.ended, n.stop = run, stop
	err := n.open(ctx)
	var lead func() error
	if err == nil {
		lead, err = n.begin(run)
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, n.close())
	}
	n.start(lead)
	return n, nil
}

// Addr returns the address of a listener, such as "sqs" or "admin"; "" if the
// node has no such listener.
func (n *Node) Addr(listener string) string { return n.addrs[listener] }

// Addrs returns the address of every listener.
func (n *Node) Addrs() map[string]string { return maps.Clone(n.addrs) }

// Client returns a way to the queues that needs no network. In a cluster it is of
// use for as long as the node is the primary; nil: the node is not.
func (n *Node) Client() *core.Client {
	t := n.term.Load()
	if t == nil {
		return nil
	}
	return t.engine.Client(core.Principal{Origin: core.OriginCore})
}

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
	n.mu.Lock()
	n.config.SQS.AccessKeys = c.SQS.AccessKeys // for terms to come
	n.mu.Unlock()
	if t := n.term.Load(); t != nil {
		errs = append(errs, t.reload(c))
	}
	return errors.Join(errs...)
}

func (n *Node) currentConfig() configs.Config {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.config
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

// open binds the listeners, and opens what serves admins. After an error, close
// frees what was opened.
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
	for _, name := range n.frontends() {
		for _, p := range n.settings.kind(name).Ports(n.settings.config) {
			bound, err := n.bindPort(ctx, p)
			if err != nil {
				return err
			}
			n.ports = append(n.ports, bound)
		}
	}
	return n.openAdmin(ctx)
}

// frontends lists what is served here, by kind. A witness serves no clients.
func (n *Node) frontends() []string {
	if n.settings.config.Cluster.Witness {
		return nil
	}
	return n.settings.config.Enabled(n.settings.kindNames())
}

func (n *Node) openAdmin(ctx context.Context) error {
	c := n.settings.config
	server, err := admin.New(nil, admin.Options{
		Logger:       n.settings.log,
		MetricQueues: cmp.Or(c.Admin.MetricQueues, -1),
		Collectors: []prometheus.Collector{
			n.fsync,
			storeMetrics{&n.db},
			newBuildInfo(n.settings.version, n.settings.revision),
			termMetrics{&n.term},
			clusterMetrics{n},
		},
		Profiles: c.Dev,
		Primary:  n.primaryAdmin(),
		Cluster:  n.clusterAdmin(),

		SetAttributes: sqs.SetAttributes,
		Checks: []admin.Check{
			{Name: "disk", Run: n.disk.remark},
			{Name: "listeners", Run: n.listening},
			{Name: "cluster", Run: n.inCluster},
		},
	})
	if err != nil {
		return fmt.Errorf("open admin: %w", err)
	}
	n.admin = server
	for _, p := range withTLS(Port{Name: adminName, Address: c.Admin.Listen}, c.Admin.TLSListen) {
		bound, err := n.bindPort(ctx, p)
		if err != nil {
			return err
		}
		n.admins = append(n.admins, bound)
	}
	return nil
}

// begin returns who leads the node until ctx ends: it returns when the node has
// nothing more to serve, with the reason, nil if it was asked to end.
func (n *Node) begin(ctx context.Context) (lead func() error, err error) {
	if n.settings.config.Cluster.On() {
		return n.beginCluster(ctx)
	}
	if c := n.settings.config.Node; !c.Memory {
		if err := checkAlone(c.Data); err != nil {
			return nil, err
		}
	}
	boot, err := n.openStorage(n.settings.config.Node.Data, false)
	if err != nil {
		return nil, err
	}
	t, err := n.openTerm(ctx, core.Options{Committer: n.db.Load(), Boot: boot})
	if err != nil {
		return nil, err
	}
	if err := t.start(nil); err != nil {
		return nil, err
	}
	return func() error {
		reason := t.watch(ctx)
		n.draining.Store(true)
		t.drain(false)
		return reason
	}, nil
}

// stopping tells whether the node has to end.
func (n *Node) stopping() bool { return n.ended.Err() != nil }

// openStorage opens the store in dir. That of a node of a cluster is replicated.
func (n *Node) openStorage(dir string, replicated bool) (core.Boot, error) {
	c := n.settings.config
	o := storage.Options{
		Dir:          dir,
		Memory:       c.Node.Memory,
		SyncInterval: c.Storage.SyncInterval,
		Profile:      storage.ProfileDefault(),
		Logger:       n.settings.log,
		OnDisk:       n.disk.report,
		OnSync:       func(took time.Duration) { n.fsync.Observe(took.Seconds()) },
		Replicated:   replicated,
	}
	if replicated {
		o.SyncInterval = 0 // the log is what an answer waits for
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
	n.db.Store(db)
	return boot, nil
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

// inCluster is a check of readiness.
func (n *Node) inCluster() (string, error) {
	if n.cluster == nil {
		return "none: this node stands alone", nil
	}
	return n.cluster.ready()
}

// start serves admins for as long as lead runs, and then closes the node.
func (n *Node) start(lead func() error) {
	// Frontends and admin end one after the other.
	top, stopTop := context.WithCancel(context.Background())
	var admins sync.WaitGroup
	broken := make(chan error, len(n.admins))
	for _, p := range n.admins {
		ln := n.secured(p, p.take(nil))
		admins.Go(func() {
			if err := n.admin.Serve(top, ln); err != nil && top.Err() == nil {
				broken <- fmt.Errorf("listener %s: %w", p.Name, err)
				n.stop()
			}
		})
	}
	go func() {
		defer close(n.done)
		reason := lead()
		stopTop()
		admins.Wait()
		n.stop()
		select {
		case err := <-broken:
			reason = errors.Join(reason, err)
		default:
		}
		n.err = because(reason, n.close())
	}()
}

// close closes the node from the core downwards. It returns why the engine
// failed, if it did.
func (n *Node) close() error {
	var errs []error
	n.closePorts()
	for _, p := range n.admins {
		p.close()
	}
	if t := n.term.Load(); t != nil {
		errs = append(errs, t.close())
	}
	if db := n.db.Load(); db != nil {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

func (n *Node) closePorts() {
	for _, p := range n.ports {
		p.close()
	}
}

// because returns why the node ended. When it stopped by itself, closing its
// parts repeats the reason; that is said once.
func because(reason, closing error) error {
	if reason == nil || !errors.Is(closing, core.ErrStopped) {
		return errors.Join(reason, closing)
	}
	return reason
}
