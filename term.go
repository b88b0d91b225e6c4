package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
)

// term is a time in which this node serves clients: a core over the store of the
// node, and the frontends over that core. A node that stands alone has one, a node
// of a cluster one each time that it is the primary.
type term struct {
	node       *Node
	engine     *core.Engine
	frontends  []opened
	collectors []prometheus.Collector
	serving    sync.WaitGroup
	stopFront  context.CancelFunc
	broken     chan error // a listener that ended by itself
}

// opened is a frontend with the name of its kind.
type opened struct {
	Frontend
	name string
}

// openTerm opens the core, and the frontends over it. After an error nothing is
// left open.
func (n *Node) openTerm(ctx context.Context, o core.Options) (*term, error) {
	c := n.currentConfig()
	o.Store, o.Logger, o.AllowDeadLetter = n.db.Load(), n.settings.log, allowDeadLetter(c)
	engine, err := core.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open core: %w", err)
	}
	t := &term{node: n, engine: engine, broken: make(chan error, len(n.ports)), stopFront: func() {}}
	if err := t.open(ctx, c); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return t, nil
}

func (t *term) open(ctx context.Context, c configs.Config) error {
	n := t.node
	n.disk.guard(t.engine)
	client := t.engine.Client(core.Principal{Origin: core.OriginCore})
	if err := n.createQueues(ctx, client); err != nil {
		return err
	}
	if err := n.createBindings(ctx, client); err != nil {
		return err
	}
	h := Host{
		Engine:  t.engine,
		Config:  c,
		Logger:  n.settings.log,
		Version: n.settings.version,
		Collect: func(c prometheus.Collector) { t.collectors = append(t.collectors, c) },
	}
	if n.users != nil {
		h.Authenticate = n.users.verify
	}
	for _, name := range n.frontends() {
		f, err := n.settings.kind(name).Open(h)
		if err != nil {
			return fmt.Errorf("open frontend %s: %w", name, err)
		}
		t.frontends = append(t.frontends, opened{f, name})
	}
	for _, p := range n.ports {
		if t.server(p.Name) == nil {
			return fmt.Errorf("nobody serves the listener %s", p.Name)
		}
	}
	return nil
}

// server returns who serves the port of that name.
func (t *term) server(name string) func(context.Context, net.Listener) error {
	for _, f := range t.frontends {
		if serve := f.Serve[name]; serve != nil {
			return serve
		}
	}
	return nil
}

// start serves the ports. Connections that standbys relay come from relayed, by
// name of the port; nil: there are none.
func (t *term) start(relayed func(name string) (net.Listener, error)) error {
	n := t.node
	ctx, stop := context.WithCancel(context.Background())
	t.stopFront = stop
	for _, p := range n.ports {
		var more net.Listener
		if relayed != nil {
			var err error
			if more, err = relayed(p.Name); err != nil {
				return err
			}
		}
		ln, serve := n.secured(p, p.take(more)), t.server(p.Name)
		t.serving.Go(func() {
			if err := serve(ctx, ln); err != nil && ctx.Err() == nil {
				t.broken <- fmt.Errorf("listener %s: %w", p.Name, err)
			}
		})
	}
	n.term.Store(t)
	n.admin.SetEngine(t.engine)
	return nil
}

// watch returns when the term has to end: nil if it was asked to.
func (t *term) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-t.engine.Failed():
		return t.engine.Err()
	case <-t.node.db.Load().Failed():
		return t.node.db.Load().Err()
	case err := <-t.broken:
		return err
	}
}

// drain lets the frontends send the answers that are due. Those that take longer
// than the configuration allows are answered by the core that it stops; at once, if
// nothing may be answered any more.
func (t *term) drain(atOnce bool) {
	t.engine.Drain()
	t.stopFront()
	if t.node.draining.Load() {
		t.node.closePorts() // whoever connects now is better off elsewhere
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		t.serving.Wait()
	}()
	if !atOnce {
		select {
		case <-drained:
			return
		case <-time.After(t.node.settings.config.Drain.Timeout):
		case <-t.engine.Failed():
		}
	}
	_ = t.engine.Close() // close returns its error
	<-drained
}

// close closes the core, which nobody uses any more. It returns why it failed, if
// it did.
func (t *term) close() error {
	t.node.term.CompareAndSwap(t, nil)
	idle := t.node.admin.SetEngine(nil)
	t.node.disk.guard(nil)
	err := t.engine.Close()
	<-idle
	return err
}

// reload takes over what of c may change while the frontends run.
func (t *term) reload(c configs.Config) error {
	var errs []error
	for _, f := range t.frontends {
		if f.Reload == nil {
			continue
		}
		if err := f.Reload(c); err != nil {
			errs = append(errs, fmt.Errorf("reload %s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// termMetrics is what the frontends of the current term tell. What it has changes
// from term to term, so that it describes nothing.
type termMetrics struct{ term *atomic.Pointer[term] }

// Describe implements prometheus.Collector.
func (termMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m termMetrics) Collect(ch chan<- prometheus.Metric) {
	t := m.term.Load()
	if t == nil {
		return
	}
	for _, c := range t.collectors {
		c.Collect(ch)
	}
}
