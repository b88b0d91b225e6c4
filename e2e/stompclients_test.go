package e2e

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSTOMPClientPython drives the broker with stomp.py in each version of STOMP.
func TestSTOMPClientPython(t *testing.T) {
	t.Parallel() // they wait most of the time
	python := program(t, "LEASEMQ_PYTHON_STOMP", "/usr/bin/python3")
	needModule(t, python, "stomp")
	for _, version := range []string{"1.0", "1.1", "1.2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			runSTOMPScript(t, python, filepath.Join("testdata", "python", "stomp_client.py"), version)
		})
	}
}

// TestSTOMPClientRuby drives it with the gem stomp.
func TestSTOMPClientRuby(t *testing.T) {
	t.Parallel()
	ruby := program(t, "LEASEMQ_RUBY", "/usr/bin/ruby")
	if out, err := exec.CommandContext(t.Context(), ruby, "-e", "require 'stomp'").CombinedOutput(); err != nil {
		missing(t, "%s has no gem stomp: %v\n%s", ruby, err, out)
	}
	for _, version := range []string{"1.0", "1.1", "1.2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			runSTOMPScript(t, ruby, filepath.Join("testdata", "ruby", "stomp_client.rb"), version)
		})
	}
}

// TestSTOMPClientStompJS drives it with @stomp/stompjs over WebSocket, with frames
// in text and in binary.
func TestSTOMPClientStompJS(t *testing.T) {
	t.Parallel()
	node := program(t, "LEASEMQ_NODE", "node")
	needPackage(t, "@stomp/stompjs")
	needPackage(t, "ws")
	for _, kind := range []string{"text", "binary"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			runSTOMPScript(t, node, filepath.Join("testdata", "js", "stompjs.mjs"), kind)
		})
	}
}

// TestSTOMPClientStompit drives it with stompit over TCP.
func TestSTOMPClientStompit(t *testing.T) {
	t.Parallel()
	node := program(t, "LEASEMQ_NODE", "node")
	needPackage(t, "stompit")
	runSTOMPScript(t, node, filepath.Join("testdata", "js", "stompit.mjs"))
}

// wire is a protocol as a client sees it: where it is spoken over TCP and over
// WebSocket.
type wire struct {
	name                string // that variables begin with
	tcp, ws             func(n *node) string
	directPath, relayed string // of WebSocket
}

func stompWire() wire {
	return wire{"STOMP", func(n *node) string { return n.stomp }, func(n *node) string { return n.ws }, "/ws", "/stomp"}
}

func runSTOMPScript(t *testing.T, name string, args ...string) {
	t.Helper()
	runAcrossRestart(t, stompWire(), name, args...)
}

// runAcrossRestart runs a client to its end and wants success. When it prints
// RESTART, the broker is killed and started again, and a line is written back to
// the client. NAME_PORT and NAME_WS are the broker of the beginning;
// NAME_RELAY_PORT and NAME_RELAY_WS lead to the one of the moment.
func runAcrossRestart(t *testing.T, w wire, name string, args ...string) {
	t.Helper()
	data := t.TempDir()
	n := startNode(t, "--data", data)
	tcp, ws := newRelay(t, w.tcp(n)), newRelay(t, w.ws(n))
	_, port, _ := net.SplitHostPort(w.tcp(n))
	_, relayPort, _ := net.SplitHostPort(tcp.address())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(clientEnv(n), w.name+"_PORT="+port, w.name+"_RELAY_PORT="+relayPort,
		w.name+"_WS=ws://"+w.ws(n)+w.directPath, w.name+"_RELAY_WS=ws://"+ws.address()+w.relayed)
	cmd.WaitDelay = time.Second
	var errors bytes.Buffer
	cmd.Stderr = &errors
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if lines.Text() == "RESTART" {
			n.kill()
			n = startNode(t, "--data", data)
			tcp.target.Store(w.tcp(n))
			ws.target.Store(w.ws(n))
			_, _ = io.WriteString(stdin, "\n") // it may have ended
		}
	}
	err := cmd.Wait()
	t.Logf("%s %s\n%s", name, strings.Join(args, " "), out.String())
	if err != nil {
		t.Errorf("%s: %v\n%s\nbroker: %s", name, err, errors.Bytes(), n.log)
	}
	n.alive()
}

// relay takes connections at an address that stays, to one that changes.
type relay struct {
	ln     net.Listener
	target atomic.Value // string
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln}
	r.target.Store(target)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.pass(t.Context(), client) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	return r
}

func (r *relay) address() string { return r.ln.Addr().String() }

// pass passes bytes on until one side has ended, then ends the other.
func (r *relay) pass(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", r.target.Load().(string))
	if err != nil {
		return // it is down
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer stop()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
	_ = client.Close()
	_ = server.Close()
	<-done
}
