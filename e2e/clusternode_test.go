package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasemq/broker/cluster/clustertest"
)

// Bounds of what a test of a cluster waits for, and how often it asks.
const (
	clusterMax   = 90 * time.Second // until it serves; it ends a hang
	statusMax    = 10 * time.Second // one answer of a status: a node asks the others
	watchPause   = 50 * time.Millisecond
	clusterLease = 2 * time.Second // that of the primary, as it is by default
)

// member is a node of a cluster over all its processes, which have one directory and
// one set of addresses.
type member struct {
	t       *testing.T
	name    string
	args    []string
	ports   string // its file
	sqs     string
	admin   string
	process *node
}

// start starts the process and waits for its listeners.
func (m *member) start() {
	m.t.Helper()
	m.launch()
	m.await()
}

func (m *member) launch() {
	m.t.Helper()
	_ = os.Remove(m.ports)
	m.process = spawn(m.t, m.args...)
}

func (m *member) await() {
	m.t.Helper()
	m.process.awaitListeners(m.ports)
}

// kill ends the process with SIGKILL.
func (m *member) kill() { m.process.kill() }

// stop ends the process with SIGTERM, and wants it to end well.
func (m *member) stop() {
	m.t.Helper()
	if code := m.process.stop(); code != 0 {
		m.t.Errorf("node %s: exit code %d after SIGTERM\n%s", m.name, code, m.process.log)
	}
}

// freeze stops the process where it is, until thaw.
func (m *member) freeze() { m.signal(syscall.SIGSTOP) }

func (m *member) thaw() { m.signal(syscall.SIGCONT) }

func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.process.cmd.Process.Signal(s); err != nil {
		m.t.Fatalf("signal %v to node %s: %v", s, m.name, err)
	}
}

// memberStatus is what a node says of its cluster.
type memberStatus struct {
	Node    string `json:"node"`
	Role    string `json:"role"`
	Epoch   uint64 `json:"epoch"`
	Primary string `json:"primary"`
	Log     struct {
		Leader     string `json:"leader"`
		Durability string `json:"durability"`
	} `json:"log"`
	Nodes []struct {
		Node      string `json:"node"`
		Role      string `json:"role"`
		Applied   uint64 `json:"applied"`
		Lag       uint64 `json:"lag"`
		Reachable bool   `json:"reachable"`
	} `json:"nodes"`
}

// status asks the node for what it knows of its cluster.
func (m *member) status() (memberStatus, error) {
	var s memberStatus
	return s, m.ask(http.MethodGet, "/api/v1/cluster", statusMax, &s)
}

// ask makes a request to the admin listener.
func (m *member) ask(method, path string, most time.Duration, out any) error {
	req, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+m.admin+path, http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: most, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, body)
	}
	return json.Unmarshal(body, out)
}

// fleet is a cluster of two brokers and a witness.
type fleet struct {
	t       *testing.T
	a, b, w *member
	journal *journal

	mu     sync.Mutex
	epoch  uint64 // the highest that a node claimed
	leader string // who claimed it
	seen   int64  // when that node was last asked, by the journal
}

// startFleet starts a cluster and waits until it has a primary.
func startFleet(t *testing.T, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, journal: newJournal()}
	var join []string
	members := []**member{&f.a, &f.b, &f.w}
	gossip := freePorts(t, len(members))
	for _, p := range gossip {
		join = append(join, "127.0.0.1:"+p)
	}
	for i, name := range []string{"a", "b", "w"} {
		free := freePorts(t, 7)
		dir := t.TempDir()
		m := &member{t: t, name: name, ports: filepath.Join(dir, "ports.json"), sqs: "127.0.0.1:" + free[0], admin: "127.0.0.1:" + free[1]}
		m.args = append([]string{
			"--node", name, "--data", filepath.Join(dir, "data"), "--ports-file", m.ports, "--log-level", "info",
			"--cluster-listen", "127.0.0.1:" + free[2], "--gossip-listen", join[i], "--join", strings.Join(join, ","),
			"--admin-listen", m.admin,
		}, args...)
		if name == "w" {
			m.args = append(m.args, "--witness")
		} else {
			m.args = append(m.args, "--frontends", "sqs,stomp,mqtt", "--sqs-listen", m.sqs,
				"--stomp-listen", "127.0.0.1:"+free[3], "--stomp-ws-listen", "127.0.0.1:"+free[4],
				"--mqtt-listen", "127.0.0.1:"+free[5], "--mqtt-ws-listen", "127.0.0.1:"+free[6])
		}
		*members[i] = m
		m.launch()
	}
	t.Cleanup(f.keepLogs)
	for _, m := range f.members() {
		m.await()
	}
	f.watch()
	f.awaitPrimary("")
	return f
}

func (f *fleet) members() []*member { return []*member{f.a, f.b, f.w} }

// portsTaken has the ports that a test of this process has been given.
var portsTaken sync.Map

// freePorts returns ports that are free on loopback, and that no node has which is
// down just now.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for len(ports) < n {
		for _, address := range clustertest.FreeAddresses(t, n-len(ports)) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				t.Fatal(err)
			}
			if _, taken := portsTaken.LoadOrStore(port, true); !taken {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// keepLogs writes what the nodes wrote to the artifacts of a test that failed.
func (f *fleet) keepLogs() {
	if !f.t.Failed() {
		return
	}
	for _, m := range f.members() {
		if m == nil || m.process == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(f.t.ArtifactDir(), m.name+".log"), []byte(m.process.log.String()), 0o600); err != nil {
			f.t.Log(err)
		}
	}
}

// watch asks both brokers again and again until the test ends, and takes down who
// claims to be the primary. Each new epoch is booked as a fault, from when the last
// one was seen to last.
func (f *fleet) watch() {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, m := range []*member{f.a, f.b} {
		wg.Go(func() {
			for {
				_, _ = f.status(m)
				select {
				case <-time.After(watchPause):
				case <-stop:
					return
				}
			}
		})
	}
	f.t.Cleanup(func() { close(stop); wg.Wait() })
}

// status asks m, and books what it claims.
func (f *fleet) status(m *member) (memberStatus, error) {
	called := f.journal.now()
	s, err := m.status()
	if err == nil && s.Role == "primary" {
		f.claimed(m.name, s.Epoch, called)
	}
	return s, err
}

// claimed books that a node, when asked, said that it is the primary.
func (f *fleet) claimed(name string, epoch uint64, called int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if epoch == f.epoch && name == f.leader {
		f.seen = called
		return
	}
	f.journal.add(op{Kind: opClaim, Outcome: outcomeOK, Node: name, Epoch: epoch, Call: called})
	if epoch <= f.epoch {
		return
	}
	if f.epoch > 0 {
		f.journal.add(op{Kind: opFault, Outcome: outcomeOK, Node: fmt.Sprintf("epoch %d of %s", epoch, name), Call: f.seen})
	}
	f.epoch, f.leader, f.seen = epoch, name, called
}

// did books what the test did to the cluster.
func (f *fleet) did(what string) {
	f.t.Helper()
	f.t.Logf("%.1f s: %s", time.Duration(f.journal.now()).Seconds(), what)
}

// awaitPrimary waits until a broker other than the one of that name is the primary,
// and returns it and the other one.
func (f *fleet) awaitPrimary(not string) (primary, standby *member) {
	f.t.Helper()
	var last error
	err := eventually(clusterMax, func() (bool, error) {
		for _, m := range []*member{f.a, f.b} {
			if m.name == not {
				continue
			}
			s, err := f.status(m)
			if err == nil && s.Role == "primary" {
				primary = m
				return true, nil
			}
			last = errors.Join(err, fmt.Errorf("node %s: %+v", m.name, s))
		}
		time.Sleep(watchPause)
		return false, nil
	})
	if err != nil {
		f.t.Fatalf("no primary: %v\nlast: %v", err, last)
	}
	if standby = f.a; primary == f.a {
		standby = f.b
	}
	f.did("the primary is " + primary.name)
	return primary, standby
}

// awaitBoth waits until one broker is the primary, whichever, and sees the other one
// follow.
func (f *fleet) awaitBoth() {
	f.t.Helper()
	var last memberStatus
	err := eventually(clusterMax, func() (bool, error) {
		time.Sleep(watchPause)
		for _, m := range []*member{f.a, f.b} {
			s, err := f.status(m)
			if err != nil || s.Role != "primary" {
				continue
			}
			last = s
			for _, n := range s.Nodes {
				if n.Node != m.name && n.Role == "standby" && n.Reachable && n.Applied > 0 {
					f.did(m.name + " is the primary, " + n.Node + " follows")
					return true, nil
				}
			}
		}
		return false, nil
	})
	if err != nil {
		f.t.Fatalf("no primary that is followed: %v\nlast: %+v", err, last)
	}
}

// logLeader returns the node that orders the records of the log.
func (f *fleet) logLeader() *member {
	f.t.Helper()
	var found *member
	err := eventually(clusterMax, func() (bool, error) {
		for _, m := range f.members() {
			s, err := f.status(m)
			if err != nil {
				continue
			}
			for _, other := range f.members() {
				if other.name == s.Log.Leader {
					found = other
					return true, nil
				}
			}
		}
		time.Sleep(watchPause)
		return false, nil
	})
	if err != nil {
		f.t.Fatalf("nobody names the leader of the log: %v", err)
	}
	return found
}

// wantEqual wants the states of both brokers to be the same.
func (f *fleet) wantEqual(m *member) {
	f.t.Helper()
	var v struct {
		Equal bool `json:"equal"`
		Nodes []struct {
			Node     string `json:"node"`
			Sequence uint64 `json:"sequence"`
			SHA256   string `json:"sha256"`
			Error    string `json:"error"`
		} `json:"nodes"`
	}
	if err := m.ask(http.MethodPost, "/api/v1/cluster/verify", clusterMax, &v); err != nil {
		f.t.Errorf("compare the states of the nodes: %v", err)
	} else if !v.Equal || len(v.Nodes) < 2 {
		f.t.Errorf("the states of the nodes differ: %+v", v)
	}
}
