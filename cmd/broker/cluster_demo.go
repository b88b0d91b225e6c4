package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cluster/peers"
	"github.com/leasemq/broker/frontends/admin"
)

// Bounds of what a demo waits for.
const (
	demoStartMax = time.Minute
	demoStopMax  = 10 * time.Second
	demoPoll     = 50 * time.Millisecond
	demoAskMax   = 2 * time.Second
)

// demoLogSize is the size of the log that each node keeps.
const demoLogSize = "256MiB"

// demoNode is one process of a demo.
type demoNode struct {
	name    string
	witness bool
	ports   map[string]int
	child   *demoChild
	addrs   map[string]string // of its ports file
}

// demoEntry is a node in the ports file of a demo.
type demoEntry struct {
	Node  string `json:"node"`
	Role  string `json:"role"` // when the file was written
	PID   int    `json:"pid"`
	SQS   string `json:"sqs,omitempty"`
	STOMP string `json:"stomp,omitempty"`
	MQTT  string `json:"mqtt,omitempty"`
	Admin string `json:"admin,omitempty"`
}

// demo is a cluster of processes of this program.
type demo struct {
	dir       string
	portsFile string
	self      string   // this program
	env       []string // of the nodes
	out       io.Writer
	nodes     []*demoNode
}

func newClusterDemoCommand(std streams) *cobra.Command {
	d := &demo{out: std.err}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run two brokers and a witness on this machine",
		Long: "Starts the three as processes of their own, on free ports of loopback, and says what to try. Nothing is\n" +
			"started again: kill one and see. It runs until it is interrupted; with the same directory it goes on\n" +
			"where it ended.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&d.dir, "data", "cluster-demo", "`DIR` of data, logs and ports of the nodes; created if absent")
	cmd.Flags().StringVar(&d.portsFile, "ports-file", "", "`FILE` that gets node, role, pid and addresses of each as JSON, once all are up")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) })
	return cmd
}

// run starts the nodes and watches them until ctx ends or none is left.
func (d *demo) run(ctx context.Context) error {
	// Nodes are killed when the thread ends that has started them, so that they do
	// not outlive the demo. This one ends with the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.prepare(); err != nil {
		return err
	}
	ended := make(chan *demoNode, len(d.nodes))
	for _, n := range d.nodes {
		if err := removeOld(d.portsFileOf(n)); err != nil {
			return errors.Join(err, d.stop())
		}
		child, err := startDemoChild(d.self, d.args(n), d.env, filepath.Join(d.dir, n.name+".log"))
		if err != nil {
			return errors.Join(fmt.Errorf("start node %s: %w", n.name, err), d.stop())
		}
		n.child = child
		go func() {
			<-child.exited
			ended <- n
		}()
	}
	st, err := d.awaitPrimary(ctx, ended)
	if err == nil {
		err = d.announce(st)
	}
	if err != nil {
		return errors.Join(err, d.stop())
	}
	for left := len(d.nodes); left > 0; left-- {
		select {
		case n := <-ended:
			d.tellEnd(n)
		case <-ctx.Done():
			fmt.Fprintln(d.out, "stopping the nodes")
			return d.stop()
		}
	}
	return errors.New("no node is left")
}

// prepare makes what the nodes are started with.
func (d *demo) prepare() error {
	var err error
	if d.self, err = os.Executable(); err != nil {
		return err
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	if d.portsFile != "" {
		if err := removeOld(d.portsFile); err != nil {
			return err
		}
	}
	secret := filepath.Join(d.dir, "secret")
	if err := makeDemoSecret(secret); err != nil {
		return err
	}
	// What this process is set to is for one node, not for three.
	d.env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BROKER_") })
	d.env = append(d.env, demoSecretVariable+"="+secret)
	ports, err := demoPorts(filepath.Join(d.dir, "ports.json"))
	if err != nil {
		return err
	}
	d.nodes = nil
	for _, name := range demoNames() {
		d.nodes = append(d.nodes, &demoNode{name: name, witness: name == demoWitness, ports: ports[name]})
	}
	return nil
}

// removeOld removes a ports file of an earlier run, which would send its readers
// to the wrong place.
func removeOld(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old ports file: %w", err)
	}
	return nil
}

// args is the command line of a node, without the program.
func (d *demo) args(n *demoNode) []string {
	var join []string
	for _, other := range d.nodes {
		join = append(join, loopbackAt(other.ports["gossip"]))
	}
	args := []string{
		"serve", "--node", n.name, "--data", filepath.Join(d.dir, n.name), "--ports-file", d.portsFileOf(n),
		"--join", strings.Join(join, ","), "--set", "cluster.log_size=" + demoLogSize,
	}
	for _, l := range demoListeners(n.witness) {
		args = append(args, "--"+l+"-listen", loopbackAt(n.ports[l]))
	}
	if n.witness {
		args = append(args, "--witness")
	}
	return args
}

func (d *demo) portsFileOf(n *demoNode) string {
	return filepath.Join(d.dir, n.name+".ports.json")
}

// awaitPrimary returns when all nodes are up, reach each other and have a primary.
func (d *demo) awaitPrimary(ctx context.Context, ended <-chan *demoNode) (admin.ClusterStatus, error) {
	late := time.NewTimer(demoStartMax)
	defer late.Stop()
	tick := time.NewTicker(demoPoll)
	defer tick.Stop()
	for {
		st, missing := d.look(ctx)
		if missing == "" {
			return st, nil
		}
		select {
		case <-tick.C:
		case n := <-ended:
			d.tellEnd(n)
			return st, fmt.Errorf("node %s did not come up", n.name)
		case <-late.C:
			return st, failf(exitTimeout, "the cluster did not come up within %v: %s; the logs are %s", demoStartMax, missing, filepath.Join(d.dir, "*.log"))
		case <-ctx.Done():
			return st, ctx.Err()
		}
	}
}

// look returns the status of the cluster, and what is missing for it to be up.
func (d *demo) look(ctx context.Context) (admin.ClusterStatus, string) {
	for _, n := range d.nodes {
		if n.addrs != nil {
			continue
		}
		b, err := os.ReadFile(d.portsFileOf(n))
		if err != nil {
			return admin.ClusterStatus{}, "node " + n.name + " has not opened its listeners"
		}
		if err := json.Unmarshal(b, &n.addrs); err != nil {
			return admin.ClusterStatus{}, fmt.Sprintf("the ports file of node %s: %v", n.name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, demoAskMax)
	defer cancel()
	st, err := clusterStatus(ctx, &client{base: "http://" + d.nodes[0].addrs["admin"]})
	if err != nil {
		return st, err.Error()
	}
	if len(st.Nodes) < len(d.nodes) {
		return st, fmt.Sprintf("node %s has found %d of %d nodes", st.Node, len(st.Nodes), len(d.nodes))
	}
	if wrong := troubles(st); len(wrong) > 0 {
		return st, strings.Join(wrong, "; ")
	}
	for _, n := range st.Nodes {
		if n.Role == string(peers.RoleStarting) {
			return st, "node " + n.Node + " does not follow the log yet"
		}
	}
	// A primary opens its queues after it has become that.
	for _, n := range d.nodes {
		if n.name == st.Primary {
			err = (&client{base: "http://" + n.addrs["admin"]}).do(ctx, http.MethodGet, "/api/v1/queues?limit=1", nil, nil)
		}
	}
	if err != nil {
		return st, err.Error()
	}
	return st, ""
}

// announce writes the ports file and says what there is and what to try.
func (d *demo) announce(st admin.ClusterStatus) error {
	entries := d.entries(st)
	if d.portsFile != "" {
		if err := writePorts(d.portsFile, entries); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "\nTwo brokers and a witness are one cluster; data and logs are in %s.\n\n", d.dir)
	tw := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  NODE\tROLE\tPID\tSQS\tSTOMP\tMQTT\tADMIN")
	var primary, standby demoEntry
	for _, e := range entries {
		fmt.Fprintf(tw, "  %s\t%s\t%d\t%s\t%s\t%s\t%s\n", e.Node, e.Role, e.PID, dash(e.SQS), dash(e.STOMP), dash(e.MQTT), dash(e.Admin))
		switch {
		case e.Node == st.Primary:
			primary = e
		case e.SQS != "":
			standby = e
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(d.out, `
Send to one node, receive from the other:
  %[1]s queue create orders --admin %[2]s
  %[1]s pub orders hello --admin %[2]s
  %[1]s sub orders --count 1 --admin %[3]s

See the cluster, and have the standby become primary:
  %[1]s cluster status --admin %[3]s
  %[1]s cluster handover --admin %[3]s

Kill the primary while a message lies in the queue. Within about two seconds the other node has taken over,
and has it:
  %[1]s pub orders kept --admin %[2]s
  kill -9 %[4]d
  %[1]s sub orders --count 1 --admin %[3]s

Ctrl-C stops the nodes; the same --data goes on with them.

`, os.Args[0], primary.Admin, standby.Admin, primary.PID)
	return nil
}

func (d *demo) entries(st admin.ClusterStatus) []demoEntry {
	roles := map[string]string{}
	for _, n := range st.Nodes {
		roles[n.Node] = n.Role
	}
	var entries []demoEntry
	for _, n := range d.nodes {
		entries = append(entries, demoEntry{
			Node: n.name, Role: roles[n.name], PID: n.child.pid(),
			SQS: n.addrs["sqs"], STOMP: n.addrs["stomp"], MQTT: n.addrs["mqtt"], Admin: n.addrs["admin"],
		})
	}
	return entries
}

// tellEnd says why a node has ended, and how to start it again.
func (d *demo) tellEnd(n *demoNode) {
	fmt.Fprintf(d.out, "\nnode %s has ended: %s; its log is %s, and ends with\n", n.name, n.child.outcome(), n.child.log)
	for _, line := range lastLines(n.child.log) {
		fmt.Fprintln(d.out, "  "+line)
	}
	fmt.Fprintf(d.out, "start it again, in another window, with\n  %s=%s %s\n", demoSecretVariable,
		shellWord(filepath.Join(d.dir, "secret")), shellWords(append([]string{d.self}, d.args(n)...)))
}

// stop ends the brokers and then the witness, so that what the brokers have
// accepted finds a majority.
func (d *demo) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), demoStopMax)
	defer cancel()
	var errs []error
	for _, witness := range []bool{false, true} {
		var stopping []*demoNode
		for _, n := range d.nodes {
			if n.witness == witness && n.child.running() {
				n.child.terminate()
				stopping = append(stopping, n)
			}
		}
		for _, n := range stopping {
			if err := n.child.await(ctx); err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w; its log is %s", n.name, err, n.child.log))
			}
		}
	}
	return errors.Join(errs...)
}
