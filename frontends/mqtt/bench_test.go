package mqtt

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
)

// BenchmarkRoundTrip publishes with QoS 1 and window 100, and has each message
// delivered with QoS 1, over loopback on a store in memory.
func BenchmarkRoundTrip(b *testing.B) {
	for _, qos := range []string{"1", "2"} {
		b.Run("qos="+qos, func(b *testing.B) { roundTrip(b, qos) })
	}
}

func roundTrip(b *testing.B, qos string) {
	address, _ := listenAndServe(b, Options{}, (*Server).Serve)
	sub, pub := dialPeer(b, address), dialPeer(b, address)
	for _, p := range []*peer{sub, pub} {
		if err := p.connect("v=5 clean expiry=60"); err != nil {
			b.Fatal(err)
		}
	}
	if err := sub.write("SUBSCRIBE 1 t:qos=" + qos); err != nil {
		b.Fatal(err)
	}
	if _, err := sub.await(packets.Suback, patience); err != nil {
		b.Fatal(err)
	}
	const window = 100
	slots := make(chan uint16, window)
	for id := range uint16(window) {
		slots <- id + 1
	}
	go answerAcks(pub, slots)
	version := byte(5)
	one, err := encodePackets("PUBLISH t qos="+qos+" id=1 big=200", &version)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			id := <-slots
			at := bytes.IndexByte(one, 't') + 1
			one[at], one[at+1] = byte(id>>8), byte(id)
			if _, err := pub.conn.Write(one); err != nil {
				return
			}
		}
	}()
	for n := 0; n < b.N; {
		pk, err := sub.read(patience)
		if err != nil {
			b.Fatal(err)
		}
		reply := []byte{0, 2, byte(pk.PacketID >> 8), byte(pk.PacketID)}
		switch pk.FixedHeader.Type {
		case packets.Publish:
			n++
			switch qos {
			case "1":
				reply[0] = packets.Puback << 4
			case "2":
				reply[0] = packets.Pubrec << 4
			}
		case packets.Pubrel:
			reply[0] = packets.Pubcomp << 4
		}
		if reply[0] != 0 {
			if _, err := sub.conn.Write(reply); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// answerAcks gives slots back when what was published with them is done with.
func answerAcks(p *peer, slots chan<- uint16) {
	for {
		pk, err := p.read(patience)
		if err != nil {
			return
		}
		switch pk.FixedHeader.Type {
		case packets.Puback, packets.Pubcomp:
			slots <- pk.PacketID
		case packets.Pubrec:
			_, _ = p.conn.Write([]byte{packets.Pubrel<<4 | 2, 2, byte(pk.PacketID >> 8), byte(pk.PacketID)})
		}
	}
}

// BenchmarkConnect connects and disconnects.
func BenchmarkConnect(b *testing.B) {
	_, s := listenAndServe(b, Options{}, (*Server).Serve)
	version := byte(5)
	stream, err := encodePackets("CONNECT v=5 id=a clean; DISCONNECT", &version)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		go func() {
			_, _ = near.Write(stream)
		}()
		s.serveConn(b.Context(), far)
		_ = near.Close()
	}
}
