package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strconv"

	"github.com/go-json-experiment/json"
)

// demoSecretVariable names the file of what the nodes know each other by.
const demoSecretVariable = "BROKER_CLUSTER_SECRET_FILE"

// demoWitness is the node without messages.
const demoWitness = "w"

// Ports of a demo are taken from here: below those that systems give to outgoing
// connections, which would else take the port of a node that is down.
const (
	demoPortMin   = 20000
	demoPortMax   = 32000
	demoPortTries = 1000
)

func demoNames() []string { return []string{"a", "b", demoWitness} }

// demoListeners are the listeners of a node, by the beginning of their flags.
func demoListeners(witness bool) []string {
	own := []string{"admin", "cluster", "gossip"}
	if witness {
		return own
	}
	return append(own, "sqs", "stomp", "stomp-ws", "mqtt", "mqtt-ws")
}

func loopbackAt(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// makeDemoSecret writes a secret to path, unless there is one.
func makeDemoSecret(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b := make([]byte, 32)
	_, err = rand.Read(b)
	if err == nil {
		_, err = fmt.Fprintln(f, hex.EncodeToString(b))
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write secret: %w", err), os.Remove(path))
	}
	return nil
}

// demoPorts returns a free port for each listener of each node, those of the file
// as far as they are free still, and writes them there.
func demoPorts(path string) (map[string]map[string]int, error) {
	before := map[string]map[string]int{}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &before)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("ports of the run before: %w", err)
	}
	// Held until all are found, so that none is found twice.
	var held []io.Closer
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	ports := map[string]map[string]int{}
	for _, node := range demoNames() {
		ports[node] = map[string]int{}
		for _, l := range demoListeners(node == demoWitness) {
			port, hold, err := freePort(before[node][l], l == "gossip")
			if err != nil {
				return nil, err
			}
			ports[node][l] = port
			held = append(held, hold...)
		}
	}
	return ports, writePorts(path, ports)
}

// freePort returns want if it is free on loopback, or else another port, and what
// holds it. With udp it is free for that as well.
func freePort(want int, udp bool) (int, []io.Closer, error) {
	var last error
	for range demoPortTries {
		if want == 0 {
			want = demoPortMin + mathrand.IntN(demoPortMax-demoPortMin)
		}
		hold, err := holdPort(want, udp)
		if err == nil {
			return want, hold, nil
		}
		want, last = 0, err
	}
	return 0, nil, fmt.Errorf("no port is free: %w", last)
}

func holdPort(port int, udp bool) ([]io.Closer, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", loopbackAt(port))
	if err != nil || !udp {
		return []io.Closer{ln}, err
	}
	packets, err := lc.ListenPacket(context.Background(), "udp", loopbackAt(port))
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return []io.Closer{ln, packets}, nil
}
