package admin_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
)

// fakeCluster answers what it holds and keeps what it was asked for.
type fakeCluster struct {
	status  admin.ClusterStatus
	verify  admin.ClusterVerify
	err     error
	asked   []string
	bounded bool
}

func (f *fakeCluster) ask(ctx context.Context, what string) error {
	f.asked = append(f.asked, what)
	_, f.bounded = ctx.Deadline()
	return f.err
}

func (f *fakeCluster) Status(ctx context.Context) (admin.ClusterStatus, error) {
	return f.status, f.ask(ctx, "status")
}

func (f *fakeCluster) Handover(ctx context.Context, to string) error {
	return f.ask(ctx, "handover "+to)
}

func (f *fakeCluster) Verify(ctx context.Context) (admin.ClusterVerify, error) {
	return f.verify, f.ask(ctx, "verify")
}

func (f *fakeCluster) Reseed(ctx context.Context, confirm string) error {
	return f.ask(ctx, "reseed "+confirm)
}

func (f *fakeCluster) option(o *admin.Options) { o.Cluster = f }

func exampleStatus() admin.ClusterStatus {
	return admin.ClusterStatus{
		Node: "b", Role: "standby", Epoch: 3, Generation: 1, Primary: "a",
		Log: admin.ClusterLog{Leader: "w", Durability: "synced", First: 1, Last: 90, Bytes: 4096, MaxBytes: 1 << 30},
		Nodes: []admin.ClusterNode{
			{
				Node: "a", Role: "primary", Epoch: 3, Applied: 90, Durable: 88, Reachable: true, Version: "1.0",
				Addresses: map[string]string{"admin": "10.0.0.1:9325"}, Clients: map[string]int{"sqs": 2},
			},
			{Node: "b", Role: "standby", Epoch: 3, Applied: 80, Durable: 70, Lag: 10, Warning: "behind"},
		},
	}
}

func TestClusterStatusIsToldByTheNodeItself(t *testing.T) {
	primary := start(t)
	c := &fakeCluster{status: exampleStatus()}
	n := serve(t, nil, follows(primary.base), c.option)
	var got admin.ClusterStatus
	if n.want(200, "GET", "/api/v1/cluster", "", &got); !reflect.DeepEqual(got, c.status) {
		t.Errorf("the status is %+v, want %+v", got, c.status)
	}
	if !c.bounded {
		t.Error("the cluster may take for ever")
	}
	_, body := n.call("GET", "/api/v1/cluster", "")
	for _, want := range []string{
		`"node":"b"`, `"role":"standby"`, `"epoch":3`, `"generation":1`, `"primary":"a"`,
		`"log":{"leader":"w","durability":"synced","first":1,"last":90,"bytes":4096,"max_bytes":1073741824}`,
		`"applied":80`, `"durable":70`, `"lag":10`, `"reachable":false`, `"warning":"behind"`,
		`"addresses":{"admin":"10.0.0.1:9325"}`, `"clients":{"sqs":2}`, `"version":"1.0"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
}

func TestClusterDoesWhatItIsAsked(t *testing.T) {
	c := &fakeCluster{verify: admin.ClusterVerify{Sequence: 7, Nodes: []admin.ClusterDigest{
		{Node: "a", Sequence: 7, SHA256: "ab"}, {Node: "b", Sequence: 7, Error: "gone"},
	}}}
	n := serve(t, nil, leaderless, c.option)
	n.want(204, "POST", "/api/v1/cluster/handover", `{"to":"b"}`, nil)
	n.want(204, "POST", "/api/v1/cluster/handover", `{}`, nil)
	n.want(204, "POST", "/api/v1/cluster/reseed", `{"confirm":"a"}`, nil)
	var got admin.ClusterVerify
	if n.want(200, "POST", "/api/v1/cluster/verify", "", &got); !reflect.DeepEqual(got, c.verify) {
		t.Errorf("the comparison is %+v, want %+v", got, c.verify)
	}
	if want := []string{"handover b", "handover ", "reseed a", "verify"}; !reflect.DeepEqual(c.asked, want) {
		t.Errorf("the cluster was asked for %q, want %q", c.asked, want)
	}
	if !c.bounded {
		t.Error("the cluster may take for ever")
	}
}

func TestClusterRequestsThatAreRefused(t *testing.T) {
	c := &fakeCluster{}
	n := serve(t, nil, leaderless, c.option)
	n.refuse(400, "bad_request", "POST", "/api/v1/cluster/handover", "")
	n.refuse(400, "bad_request", "POST", "/api/v1/cluster/handover", `{"two":"b"}`)
	n.refuse(400, "invalid_argument", "POST", "/api/v1/cluster/reseed", `{}`)
	n.refuse(404, "no_route", "GET", "/api/v1/cluster/handover", "")
	if len(c.asked) > 0 {
		t.Errorf("the cluster was asked for %q", c.asked)
	}
	for _, e := range []struct {
		err    error
		status int
		code   string
	}{
		{core.ErrNotPrimary, 503, "not_primary"},
		{fmt.Errorf("there is no node x: %w", core.ErrInvalidArgument), 400, "invalid_argument"},
		{fmt.Errorf("b is 9000 records behind: %w", admin.ErrClusterState), 409, "cluster_state"},
		{context.DeadlineExceeded, 503, "timed_out"},
		{errors.New("broken"), 500, "internal"},
	} {
		c.err = e.err
		n.refuse(e.status, e.code, "POST", "/api/v1/cluster/handover", `{"to":"x"}`)
		n.refuse(e.status, e.code, "GET", "/api/v1/cluster", "")
	}
}

func TestWithoutAClusterThereIsNoStatus(t *testing.T) {
	n := start(t)
	n.refuse(404, "no_cluster", "GET", "/api/v1/cluster", "")
	n.refuse(404, "no_cluster", "POST", "/api/v1/cluster/handover", `{}`)
	n.refuse(404, "no_cluster", "POST", "/api/v1/cluster/verify", "")
	n.refuse(404, "no_cluster", "POST", "/api/v1/cluster/reseed", `{"confirm":"a"}`)
	if _, body := n.call("GET", "/api/v1/cluster", ""); !strings.Contains(body, "not a member of a cluster") {
		t.Errorf("the answer does not say why: %s", body)
	}
}
