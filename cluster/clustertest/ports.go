package clustertest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports of FreeAddresses lie below those that the system gives to whoever asks for
// any: so a node that is started again finds its own.
const (
	portMin = 10000
	portMax = 30000
)

// FreeAddresses returns addresses on loopback that are free for TCP and UDP.
func FreeAddresses(t testing.TB, n int) []string {
	t.Helper()
	var found []string
	for range 100 * n {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(portMin+rand.IntN(portMax-portMin)))
		ln, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer ln.Close() // held until all are found, so that they differ
		packets, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		defer packets.Close()
		if found = append(found, address); len(found) == n {
			return found
		}
	}
	t.Fatalf("no %d addresses are free", n)
	return nil
}
