package mqtt

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// seeds are streams of packets as clients send them.
func seeds(t testing.TB) (all [][]byte) {
	t.Helper()
	for _, text := range []string{
		"CONNECT v=5 id=a clean expiry=5 will=w:x willuser=a:b user=u pass=p; SUBSCRIBE 1 t/#:qos=2 $share/g/t:qos=1 sub=3; PUBLISH t/a qos=2 id=1 p=x alias=1 user=a:b expiry=3; PUBREL 1; DISCONNECT",
		"CONNECT v=4 id=b; SUBSCRIBE 1 #:qos=1; PUBLISH t qos=1 id=1 p=x retain; PUBACK 1; UNSUBSCRIBE 2 #; PINGREQ; DISCONNECT",
		"CONNECT v=3 id=c clean; PUBLISH t p=x; PUBREC 4; PUBCOMP 5; HEX f0 00",
	} {
		version := byte(5)
		b, err := encodePackets(text, &version)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// FuzzConnection feeds a server whatever a client may send. That nothing is left
// running is seen at the end, and by TestMain.
func FuzzConnection(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	_, s := listenAndServe(f, Options{}, (*Server).Serve)
	f.Fuzz(func(t *testing.T, stream []byte) { feed(t, s, stream) })
}

func feed(t *testing.T, s *Server, stream []byte) {
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serveConn(context.Background(), far)
	}()
	go func() { _, _ = io.Copy(io.Discard, near) }()
	_ = near.SetWriteDeadline(time.Now().Add(20 * time.Second))
	_, _ = near.Write(stream) // the server closes when it has seen enough
	_ = near.Close()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("a connection is never over that sent %x", stream)
	}
}

// TestMutatedStreams changes good streams at random places.
func TestMutatedStreams(t *testing.T) {
	_, s := listenAndServe(t, Options{}, (*Server).Serve)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	good := seeds(t)
	for range 300 {
		stream := append([]byte(nil), good[rng.IntN(len(good))]...)
		for range 1 + rng.IntN(3) {
			switch at := rng.IntN(len(stream)); rng.IntN(3) {
			case 0:
				stream[at] = byte(rng.Uint32())
			case 1:
				stream = append(stream[:at:at], stream[at+1:]...)
			default:
				stream = append(stream[:at:at], append([]byte{byte(rng.Uint32())}, stream[at:]...)...)
			}
			if len(stream) == 0 {
				break
			}
		}
		feed(t, s, stream)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	if n := s.registry.connected(); n != 0 {
		t.Errorf("%d client identifiers are still taken", n)
	}
}

// A client that says that it sends much, and does not, makes the server allocate
// little.
func TestPromisesAllocateLittle(t *testing.T) {
	_, s := listenAndServe(t, Options{PacketBytesMax: 16 << 20}, (*Server).Serve)
	version := byte(5)
	hello, err := encodePackets("CONNECT v=5 id=a clean", &version)
	if err != nil {
		t.Fatal(err)
	}
	stream := append(hello, "\x30\xff\xff\xff\x03"+strings.Repeat("x", 10)...)
	n := testing.AllocsPerRun(20, func() { feed(t, s, stream) })
	if n > 500 {
		t.Errorf("%v allocations", n)
	}
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			feed(t, s, stream)
		}
	})
	if got := result.AllocedBytesPerOp(); got > 256<<10 {
		t.Errorf("%d bytes are allocated for a client that has sent %d", got, len(stream))
	}
}
