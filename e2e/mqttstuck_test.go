package e2e

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// The shape of the load beside a client that is stuck.
const (
	mqttLiveClients  = 100
	mqttLiveMessages = 50
	mqttStuckBytes   = 24 << 20 // more than the buffers of a connection hold
	mqttLateMax      = 2 * time.Second
	mqttTakeoverMax  = time.Second // 100 ms on a machine that has nothing else to do
)

// TestMQTTStuckClientHoldsUpNobody has one client that does not read any more
// beside many that do: they get what is published in time, and the next who
// connects by its name is answered at once.
func TestMQTTStuckClientHoldsUpNobody(t *testing.T) {
	n := startNode(t, "--memory")
	stuck := dialMQTT(t, n.mqtt, mqttSession{id: "stuck", expiry: 60})
	if err := stuck.conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	stuck.subscribe(t, "live", 1)
	stuck.subscribe(t, "bulk", 1)
	publisher := dialMQTT(t, n.mqtt, mqttSession{id: "publisher"})
	bulk := strings.Repeat("x", 256<<10)
	for range mqttStuckBytes / len(bulk) {
		publisher.must(t, publication{topic: "bulk", body: bulk})
	}

	began := time.Now()
	late := make([][]time.Duration, mqttLiveClients)
	var live sync.WaitGroup
	for i := range mqttLiveClients {
		p := dialMQTT(t, n.mqtt, mqttSession{id: "live-" + strconv.Itoa(i)})
		p.subscribe(t, "live", 1)
		live.Go(func() {
			for range mqttLiveMessages {
				c, err := p.read()
				if err != nil {
					t.Errorf("live client: %v", err)
					return
				}
				m := c.Content.(*packets.Publish)
				at, _ := strconv.ParseInt(string(m.Payload), 10, 64)
				late[i] = append(late[i], time.Since(began)-time.Duration(at))
				if err := p.write(mqttAck(packets.PUBACK, m.PacketID)); err != nil {
					t.Errorf("live client: %v", err)
					return
				}
			}
		})
	}
	for range mqttLiveMessages {
		publisher.must(t, publication{topic: "live", body: strconv.FormatInt(int64(time.Since(began)), 10)})
	}
	live.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(late...)))
	if len(all) == mqttLiveClients*mqttLiveMessages {
		t.Logf("half of the messages came within %v, 99 %% within %v, all within %v", all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
		if p99 := all[len(all)*99/100]; p99 > mqttLateMax {
			t.Errorf("99 %% of the messages took up to %v, over %v", p99, mqttLateMax)
		}
	}

	asked := time.Now()
	next := dialMQTT(t, n.mqtt, mqttSession{id: "stuck", expiry: 60})
	if took := time.Since(asked); took > mqttTakeoverMax || !next.present {
		t.Errorf("CONNACK of a takeover came after %v, session present: %v", took, next.present)
	} else {
		t.Logf("CONNACK of a takeover came after %v", took)
	}
	bodies := 0
	for bodies < mqttLiveMessages {
		if m := next.next(t); m.Topic == "live" {
			bodies++
		}
	}
	n.alive()
}
