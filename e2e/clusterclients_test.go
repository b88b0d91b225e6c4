package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// outliveMax is how long clients may take in all when their primary is killed.
const outliveMax = 90 * time.Second

// settled waits until one broker is the primary, the other one follows, and the
// log's leader is elsewhere, as it is kept, and returns both.
func (f *fleet) settled() (primary, standby *member) {
	f.t.Helper()
	f.awaitBoth()
	err := eventually(clusterMax, func() (bool, error) {
		primary, standby = f.awaitPrimary("")
		if f.logLeader() != primary {
			return true, nil
		}
		time.Sleep(watchPause)
		return false, nil
	})
	if err != nil {
		f.t.Fatalf("the log's leader stays on the primary: %v", err)
	}
	return primary, standby
}

// TestStompJSOutlivesThePrimary has @stomp/stompjs connect again by itself: what has
// a RECEIPT is there, and what was acknowledged does not come again.
func TestStompJSOutlivesThePrimary(t *testing.T) {
	t.Parallel()
	node := program(t, "LEASEMQ_NODE", "node")
	needPackage(t, "@stomp/stompjs")
	needPackage(t, "ws")
	f := startFleet(t)
	primary, standby := f.settled()
	ctx, cancel := context.WithTimeout(t.Context(), outliveMax)
	defer cancel()
	ws := func(m *member) string { return "ws://" + m.process.ws + "/ws" }
	cmd := exec.CommandContext(ctx, node, filepath.Join("testdata", "js", "stompjs_failover.mjs"), ws(standby), ws(primary))
	var failures strings.Builder
	cmd.Stderr, cmd.WaitDelay = &failures, time.Second
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if killed = killed || lines.Text() == "KILL"; lines.Text() == "KILL" {
			primary.kill()
			f.did("killed the primary, " + primary.name)
			continue
		}
		t.Log(lines.Text())
	}
	if err := cmd.Wait(); err != nil || !killed {
		t.Errorf("stompjs, killed %v: %v\n%s", killed, err, &failures)
	}
}

// TestPahoOutlivesThePrimary has autopaho publish and receive with QoS 2, in sessions
// that go on: on each topic all messages come once, in order.
func TestPahoOutlivesThePrimary(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	primary, standby := f.settled()
	ctx, cancel := context.WithTimeout(t.Context(), outliveMax)
	defer cancel()
	// Of each two one client begins at the standby, and knows that alone.
	both, one := []string{primary.process.mqtt, standby.process.mqtt}, []string{standby.process.mqtt}
	var got arrivals
	var topics []string
	var publishers []*autopaho.ConnectionManager
	for i, known := range [][]string{both, one} {
		sub := dialPaho(ctx, t, fmt.Sprint("sub", i), known, got.add)
		filter := fmt.Sprintf("t%d/+", i)
		if _, err := sub.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 2}}}); err != nil {
			t.Fatalf("subscribe: %v", err)
		}
		publishers = append(publishers, dialPaho(ctx, t, fmt.Sprint("pub", i), known, func(string, string) {}))
	}
	const messages = 300
	for i := range messages {
		for p, pub := range publishers {
			for to := range publishers { // a 2 at the end is the QoS, to arrivals.check
				topic := fmt.Sprintf("t%d/%d-qos2", to, p)
				if i == 0 {
					topics = append(topics, topic)
				}
				if err := pub.PublishViaQueue(ctx, &autopaho.QueuePublish{Publish: &paho.Publish{
					Topic: topic, QoS: 2, Payload: []byte(strconv.Itoa(i)),
				}}); err != nil {
					t.Fatalf("publish: %v", err)
				}
			}
		}
		if i == messages/2 {
			primary.kill()
			f.did("killed the primary, " + primary.name)
		}
		time.Sleep(5 * time.Millisecond)
	}
	got.check(t, topics, messages)
	all := got.await(t, topics, messages)
	for _, topic := range topics {
		if n := len(all[topic]); n != messages {
			t.Errorf("%s: %d messages came, want %d", topic, n, messages)
		}
	}
}

// TestAWSSDKOutlivesThePrimary has aws-sdk-go-v2 with the retries that it has by
// itself: by way of the standby no call fails, at the address of the primary that is
// gone calls do, and the other one is asked. On a FIFO queue each message comes once,
// in order.
func TestAWSSDKOutlivesThePrimary(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	primary, standby := f.settled()
	ctx, cancel := context.WithTimeout(t.Context(), outliveMax)
	defer cancel()
	first := &retryingSDK{t: t, ctx: ctx, clients: []*sqs.Client{defaultSDK(standby)}}
	queue, err := first.clients[0].CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String("orders.fifo"), Attributes: map[string]string{"FifoQueue": "true", "VisibilityTimeout": "30"},
	})
	if err != nil {
		t.Fatal(err)
	}
	first.queue = queue.QueueUrl
	second := &retryingSDK{t: t, ctx: ctx, queue: first.queue, clients: []*sqs.Client{defaultSDK(primary), defaultSDK(standby)}}

	const messages, groups = 150, 4
	var load sync.WaitGroup
	half := make(chan struct{}, groups)
	for g := range groups {
		load.Go(func() {
			for i := range messages {
				[]*retryingSDK{first, second}[g%2].send(fmt.Sprint("g", g), i)
				if i == messages/2 {
					half <- struct{}{}
				}
			}
		})
	}
	var taken orderedTaken
	for c := range 2 {
		load.Go(func() {
			for taken.count() < groups*messages && ctx.Err() == nil {
				[]*retryingSDK{first, second}[c].take(&taken)
			}
		})
	}
	for range groups {
		select {
		case <-half:
		case <-ctx.Done():
			t.Fatal("the clients do not get on")
		}
	}
	primary.kill()
	f.did("killed the primary, " + primary.name)
	load.Wait()
	taken.check(t, groups, messages)
	if first.failed > 0 {
		t.Errorf("%d calls by way of the standby failed in spite of retries", first.failed)
	}
	t.Logf("%d calls at the primary failed", second.failed)
}

// defaultSDK is a client of the AWS SDK with nothing changed but the endpoint.
func defaultSDK(m *member) *sqs.Client {
	return sqs.New(sqs.Options{
		BaseEndpoint: aws.String("http://" + m.sqs), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// retryingSDK is an application with clients for one or more addresses: a call that
// fails is made by the next one.
type retryingSDK struct {
	t       *testing.T
	ctx     context.Context
	queue   *string
	clients []*sqs.Client

	mu     sync.Mutex
	at     int
	failed int
}

// call makes a call until it works.
func (s *retryingSDK) call(what string, f func(c *sqs.Client) error) {
	for s.ctx.Err() == nil {
		s.mu.Lock()
		at := s.at
		s.mu.Unlock()
		err := f(s.clients[at%len(s.clients)])
		if err == nil {
			return
		}
		if s.ctx.Err() == nil {
			s.t.Logf("%s: %v", what, err)
		}
		s.mu.Lock()
		s.failed++
		if s.at == at {
			s.at++ // and not another caller already
		}
		s.mu.Unlock()
	}
}

func (s *retryingSDK) send(group string, i int) {
	s.call("send", func(c *sqs.Client) error {
		_, err := c.SendMessage(s.ctx, &sqs.SendMessageInput{
			QueueUrl: s.queue, MessageBody: aws.String(strconv.Itoa(i)), MessageGroupId: &group,
			MessageDeduplicationId: aws.String(group + "-" + strconv.Itoa(i)),
		})
		return err
	})
}

// take receives once and deletes what came.
func (s *retryingSDK) take(taken *orderedTaken) {
	var got []types.Message
	s.call("receive", func(c *sqs.Client) error {
		out, err := c.ReceiveMessage(s.ctx, &sqs.ReceiveMessageInput{
			QueueUrl: s.queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, VisibilityTimeout: 5,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
		})
		if err == nil {
			got = out.Messages
		}
		return err
	})
	for _, m := range got {
		s.call("delete", func(c *sqs.Client) error {
			_, err := c.DeleteMessage(s.ctx, &sqs.DeleteMessageInput{QueueUrl: s.queue, ReceiptHandle: m.ReceiptHandle})
			return err
		})
		taken.add(m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)], *m.Body)
	}
}

// orderedTaken is what was received and deleted, by group.
type orderedTaken struct {
	mu     sync.Mutex
	bodies map[string][]string
	total  int
}

func (o *orderedTaken) add(group, body string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bodies == nil {
		o.bodies = make(map[string][]string)
	}
	o.bodies[group] = append(o.bodies[group], body)
	o.total++
}

func (o *orderedTaken) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// check wants the numbers from 0 on of each group, once and in order.
func (o *orderedTaken) check(t *testing.T, groups, messages int) {
	t.Helper()
	for g := range groups {
		bodies := o.bodies[fmt.Sprint("g", g)]
		if len(bodies) != messages {
			t.Errorf("group %d: %d messages came, want %d", g, len(bodies), messages)
		}
		for i, body := range bodies {
			if body != strconv.Itoa(i) {
				t.Errorf("group %d: message %s came where %d is due", g, body, i)
				break
			}
		}
	}
}
