package mqtt

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// An idle connection with subscriptions has one goroutine: its reader.
func TestIdleConnectionsHaveOneGoroutine(t *testing.T) {
	const connections, slack = 200, crewIdleMax + 10
	address, _ := listenAndServe(t, Options{}, (*Server).Serve)
	before := runtime.NumGoroutine()
	for i := range connections {
		p := dialPeer(t, address)
		if err := p.connect("v=5 expiry=60 id=idle" + strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		if err := p.write("SUBSCRIBE 1 t" + strconv.Itoa(i) + ":qos=1 u:qos=0"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.await(packets.Suback, patience); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(patience)
	for n := 0; ; runtime.Gosched() {
		if n = runtime.NumGoroutine() - before; n <= connections+slack {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections have %d goroutines", connections, n)
		}
	}
}
