package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/frontends/admin"
)

const clusterPath = "/api/v1/cluster"

// Waits for the primary after a handover.
const (
	takeOverMax  = 30 * time.Second
	takeOverPoll = 20 * time.Millisecond
)

func newClusterCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show and steer a cluster",
		Long:  "A node of the cluster is asked by --admin, whichever it is.",
		Args:  onlyCommands,
		RunE:  action(needSubcommand),
	}
	c := addClient(cmd)
	cmd.AddCommand(
		newClusterStatusCommand(std, c),
		newClusterHandoverCommand(std, c),
		newClusterVerifyCommand(std, c),
		newClusterReseedCommand(std, c),
		newClusterDemoCommand(std),
	)
	return cmd
}

func newClusterStatusCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of the cluster and its log",
		Long: "Shows what the node that is asked knows. Exits with 1, and says what is wrong, if there is no primary\n" +
			"or a node cannot be reached.",
		Args: cobra.NoArgs,
	}
	out := addOutput(cmd, std.out, "table")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		st, err := clusterStatus(cmd.Context(), c)
		if err != nil {
			return err
		}
		t := table{header: []string{"NODE", "ROLE", "EPOCH", "APPLIED", "DURABLE", "LAG", "REACHABLE", "VERSION", "CLIENTS", "ADMIN", "WARNING"}}
		var names []string
		for _, n := range st.Nodes {
			names = append(names, n.Node)
			t.add(n.Node, n.Role, decimal(n.Epoch), decimal(n.Applied), decimal(n.Durable), decimal(n.Lag), yesNo(n.Reachable),
				dash(n.Version), dash(clientsText(n.Clients)), dash(n.Addresses["admin"]), dash(n.Warning))
		}
		if out.form == "table" {
			l := st.Log
			fmt.Fprintf(std.out, "%s is %s; primary %s, epoch %d; log generation %d, led by %s, %s, records %d to %d, %s of %s\n\n", st.Node, st.Role,
				dash(st.Primary), st.Epoch, st.Generation, dash(l.Leader), dash(l.Durability), l.First, l.Last, bytesText(l.Bytes), bytesText(l.MaxBytes))
		}
		if err := out.show(st, t, names...); err != nil {
			return err
		}
		if wrong := troubles(st); len(wrong) > 0 {
			return failf(exitError, "degraded: %s", strings.Join(wrong, "; "))
		}
		return nil
	})
	return cmd
}

func clusterStatus(ctx context.Context, c *client) (admin.ClusterStatus, error) {
	st := admin.ClusterStatus{Nodes: []admin.ClusterNode{}}
	err := c.do(ctx, http.MethodGet, clusterPath, nil, &st)
	return st, err
}

// troubles says what keeps a cluster from being sound.
func troubles(st admin.ClusterStatus) []string {
	var wrong []string
	if st.Primary == "" {
		wrong = append(wrong, "no node is primary")
	}
	for _, n := range st.Nodes {
		if !n.Reachable {
			wrong = append(wrong, n.Node+" cannot be reached")
		}
	}
	return wrong
}

// handedOver tells how a handover went.
type handedOver struct {
	Primary string         `json:"primary"`
	Before  string         `json:"before"`
	Epoch   uint64         `json:"epoch"`
	Took    admin.Duration `json:"took"` // from the request until the next primary was seen
}

func newClusterHandoverCommand(std streams, c *client) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "handover",
		Short: "Have another node become primary",
		Long: "The primary commits what it has accepted and hands over. Clients are served again within moments;\n" +
			"nothing that was acknowledged is lost. It may be asked of any node: the primary is found.",
		Args: cobra.NoArgs,
	}
	out := addOutput(cmd, std.out, "table")
	cmd.Flags().StringVar(&to, "to", "", "`NODE` that becomes primary; default: any standby")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		st, err := clusterStatus(ctx, c)
		if err != nil {
			return err
		}
		res := handedOver{Primary: st.Primary, Before: st.Primary, Epoch: st.Epoch}
		if to != "" && to == st.Primary {
			fmt.Fprintf(std.err, "%s is primary already\n", to)
		} else if res, err = handOver(ctx, std, c, st, to); err != nil {
			return err
		}
		t := table{header: []string{"PRIMARY", "BEFORE", "EPOCH", "TOOK"}}
		t.add(res.Primary, res.Before, decimal(res.Epoch), time.Duration(res.Took).String())
		if err := out.show(res, t, res.Primary); err != nil {
			return err
		}
		switch {
		case res.Epoch != st.Epoch && res.Primary == st.Primary:
			return failf(exitError, "%s is primary again: no other node has taken over", res.Primary)
		case to != "" && res.Primary != to:
			return failf(exitError, "%s is primary, and not %s", res.Primary, to)
		}
		return nil
	})
	return cmd
}

// handOver asks the primary of st to hand over and waits for the next one.
func handOver(ctx context.Context, std streams, c *client, st admin.ClusterStatus, to string) (handedOver, error) {
	none := handedOver{}
	primary, err := primaryOf(c, st)
	if err != nil {
		return none, err
	}
	if primary != c {
		fmt.Fprintf(std.err, "%s is primary: asking it, at %s\n", st.Primary, primary.base)
	}
	start := time.Now()
	if err := primary.do(ctx, http.MethodPost, clusterPath+"/handover", admin.HandoverRequest{To: to}, nil); err != nil {
		return none, err
	}
	late := time.NewTimer(takeOverMax)
	defer late.Stop()
	for {
		now, err := clusterStatus(ctx, c)
		if err != nil {
			return none, err
		}
		// A node that has not heard of it yet shows what was.
		if now.Primary != "" && (now.Primary != st.Primary || now.Epoch != st.Epoch) {
			took := time.Since(start).Round(time.Millisecond)
			return handedOver{Primary: now.Primary, Before: st.Primary, Epoch: now.Epoch, Took: admin.Duration(took)}, nil
		}
		select {
		case <-time.After(takeOverPoll):
		case <-late.C:
			return none, failf(exitTimeout, "%s has handed over, and no node has become primary within %v", st.Primary, takeOverMax)
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// primaryOf returns a client of the primary: c itself if that is the node it asks.
func primaryOf(c *client, st admin.ClusterStatus) (*client, error) {
	if st.Primary == "" {
		return nil, failf(exitNotPrimary, "no node is primary: there is nothing to hand over")
	}
	if st.Primary == st.Node {
		return c, nil
	}
	for _, n := range st.Nodes {
		if n.Node != st.Primary {
			continue
		}
		if addr := n.Addresses["admin"]; addr != "" {
			return &client{base: "http://" + addr}, nil
		}
	}
	return nil, failf(exitNotPrimary, "%s is not primary; ask %s, by --admin", st.Node, st.Primary)
}

func newClusterVerifyCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare what the nodes store",
		Long: "Each node hashes all that it stores at one position of the log, while it goes on. Exits with 1 if\n" +
			"they differ or a node has no hash.",
		Args: cobra.NoArgs,
	}
	out := addOutput(cmd, std.out, "table")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		v := admin.ClusterVerify{Nodes: []admin.ClusterDigest{}}
		if err := c.do(cmd.Context(), http.MethodPost, clusterPath+"/verify", nil, &v); err != nil {
			return err
		}
		t := table{header: []string{"NODE", "SEQUENCE", "SHA256", "ERROR"}}
		var names, without []string
		for _, n := range v.Nodes {
			names = append(names, n.Node)
			t.add(n.Node, decimal(n.Sequence), dash(n.SHA256), dash(n.Error))
			if n.Error != "" {
				without = append(without, n.Node)
			}
		}
		if err := out.show(v, t, names...); err != nil {
			return err
		}
		switch {
		case len(without) > 0:
			return failf(exitError, "not compared: %s", strings.Join(without, ", "))
		case !v.Equal:
			return failf(exitError, "the nodes differ at sequence %d of the log", v.Sequence)
		}
		return nil
	})
	return cmd
}

func newClusterReseedCommand(std streams, c *client) *cobra.Command {
	var confirm string
	cmd := &cobra.Command{
		Use:   "reseed",
		Short: "Begin the log anew from what a node stores, after it was lost",
		Long: "For a log that has lost what it had acknowledged, or is gone. The node that --admin asks begins a new\n" +
			"generation of it from its own state, which the others then take over. What only they had is lost:\n" +
			"choose the node that has applied most, by 'broker cluster status' on each.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&confirm, "confirm", "", "`NAME` of the node whose state is to be kept")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if confirm == "" {
			return failf(exitUsage, "needs --confirm, with the name of the node whose state is to be kept")
		}
		if err := c.do(cmd.Context(), http.MethodPost, clusterPath+"/reseed", admin.ReseedRequest{Confirm: confirm}, nil); err != nil {
			return err
		}
		fmt.Fprintf(std.err, "the log begins anew from what %s stores\n", confirm)
		return nil
	})
	return cmd
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// dash stands for nothing in a table.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// clientsText lists the listeners that have connections.
func clientsText(clients map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		if clients[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", name, clients[name]))
		}
	}
	return strings.Join(parts, ",")
}
