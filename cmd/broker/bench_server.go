package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cmd/broker/bench"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/frontends/sqs"
)

// Bounds of a server that is started for a run.
const (
	spawnStartMax = 30 * time.Second
	spawnStopMax  = 10 * time.Second
	spawnPoll     = time.Millisecond
)

// benchServerFlags say what server to start for a run.
type benchServerFlags struct {
	wire   string // stomp or mqtt, instead of SQS; with spawn alone
	spawn  bool
	data   string
	memory bool
	sync   string
	key    configs.AccessKey // that requests must be signed with; no id: none
}

func (f *benchServerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.spawn, "spawn", false, "start the broker as a process of its own, and measure its CPU time apart")
	flags.StringVar(&f.data, "data", "", "`DIR` of the broker's data; default: a new one under the temporary directory, removed at the end")
	flags.BoolVar(&f.memory, "memory", false, "the broker keeps everything in memory")
	flags.StringVar(&f.sync, "sync", "commit", "commit, interval or never")
	cmd.MarkFlagsMutuallyExclusive("data", "memory")
}

// addSpawn adds the flags of a command that has a target, or with --spawn a broker
// of its own.
func (f *benchServerFlags) addSpawn(cmd *cobra.Command) {
	f.add(cmd)
	for _, name := range []string{"target", "pid"} {
		cmd.MarkFlagsMutuallyExclusive(name, "spawn")
	}
}

// checkSpawn refuses flags that are of no use with a target.
func (f *benchServerFlags) checkSpawn(cmd *cobra.Command) error {
	for _, name := range []string{"data", "memory", "sync"} {
		if cmd.Flags().Changed(name) && !f.spawn {
			return failf(exitUsage, "--%s is for the broker that --spawn starts", name)
		}
	}
	return nil
}

// against runs against the target, or against the broker that it starts.
func (f *benchServerFlags) against(ctx context.Context, target *string, pid *int, run func() (*bench.Result, error)) (*bench.Result, error) {
	if !f.spawn {
		return run()
	}
	server, err := f.start(ctx)
	if err != nil {
		return nil, err
	}
	*target, *pid = server.address, server.pid
	res, err := run()
	if err := errors.Join(err, server.stop()); err != nil {
		return nil, err
	}
	return res, nil
}

// benchServer is a server that a run drives.
type benchServer struct {
	address string // host:port
	pid     int    // 0: this process, or unknown
	start   *bench.StartReport
	stop    func() error
}

// start starts the broker that the flags ask for.
func (f *benchServerFlags) start(ctx context.Context) (*benchServer, error) {
	dir, remove := "", func() error { return nil }
	if !f.memory {
		var err error
		if dir, remove, err = benchDir(f.data); err != nil {
			return nil, err
		}
	}
	var s *benchServer
	var err error
	if f.spawn {
		s, err = f.startChild(ctx, dir)
	} else {
		s, err = f.startHere(ctx, dir)
	}
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	stop := s.stop
	s.stop = func() error { return errors.Join(stop(), remove()) }
	return s, nil
}

// startHere runs storage, core and the SQS frontend in this process.
func (f *benchServerFlags) startHere(ctx context.Context, dir string) (*benchServer, error) {
	open, err := bench.Opener(f.sync, f.memory)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	node, err := open(dir)
	if err != nil {
		return nil, err
	}
	o := sqs.Options{Logger: slog.New(slog.DiscardHandler)}
	if f.key.ID != "" {
		o.AccessKeys = []sqs.AccessKey{{ID: f.key.ID, Secret: string(f.key.Secret)}}
	}
	frontend, err := sqs.New(node.Engine, o)
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	s, err := serveHere(ctx, frontend, node.Engine.Drain)
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	stop := s.stop
	s.stop = func() error { return errors.Join(stop(), node.Close()) }
	return s, nil
}

// httpFrontend is what both the real frontend and the canned one are.
type httpFrontend interface {
	Serve(ctx context.Context, ln net.Listener) error
}

// serveHere serves f on a free port of loopback. drain is called before it ends.
func serveHere(ctx context.Context, f httpFrontend, drain func()) (*benchServer, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	// The run ends the server after its own clean-up, also when it was broken off.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- f.Serve(ctx, ln) }()
	return &benchServer{
		address: ln.Addr().String(),
		stop: func() error {
			drain()
			cancel()
			return <-served
		},
	}, nil
}

// startCanned starts the target with canned answers.
func startCanned(ctx context.Context, spawn bool) (*benchServer, error) {
	if spawn {
		return spawnServer(ctx, []string{"bench", "canned"}, nil, "")
	}
	return serveCanned(ctx)
}

// serveCanned serves canned answers in this process.
func serveCanned(ctx context.Context) (*benchServer, error) {
	frontend, err := sqs.NewNoop(sqs.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return serveHere(ctx, frontend, func() {})
}

// startChild starts this program as a broker.
func (f *benchServerFlags) startChild(ctx context.Context, dir string) (*benchServer, error) {
	args := []string{"serve", "--admin-listen", "127.0.0.1:0", "--sync", f.sync, "--log-level", "warn"}
	health := "/health"
	if f.wire != "" {
		args = append(args, "--frontends", f.wire, "--"+f.wire+"-listen", "127.0.0.1:0", "--"+f.wire+"-ws-listen", "127.0.0.1:0")
		health = ""
	} else {
		args = append(args, "--frontends", "sqs", "--sqs-listen", "127.0.0.1:0")
	}
	if f.memory {
		args = append(args, "--memory")
	} else {
		args = append(args, "--data", dir)
	}
	var env []string
	if f.key.ID != "" {
		// JSON is YAML in one line; the command line is for everyone to see.
		text, err := json.Marshal([]map[string]string{{"id": f.key.ID, "secret": string(f.key.Secret)}})
		if err != nil {
			return nil, err
		}
		env = []string{"BROKER_SQS_ACCESS_KEYS=" + string(text)}
	}
	return spawnServer(ctx, args, env, health)
}

// spawnServer starts this program with args, --ports-file and env besides its
// own environment, and waits until health, if given, is answered.
func spawnServer(ctx context.Context, args, env []string, health string) (*benchServer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "broker-ports-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	ports := filepath.Join(tmp, "ports.json")
	var stderr bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(ctx), exe, append(args, "--ports-file", ports)...)
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), env...)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	s := &benchServer{pid: cmd.Process.Pid, stop: func() error { return stopChild(cmd.Process, exited, &stderr) }}
	ctx, cancel := context.WithTimeout(ctx, spawnStartMax)
	defer cancel()
	if s.address, err = awaitPorts(ctx, ports, exited, &stderr); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	if health != "" {
		if err := askOnce(ctx, s.address, health); err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.start = &bench.StartReport{FirstAnswer: float64(time.Since(began).Microseconds()) / 1e3}
		s.start.Memory, _ = bench.ProcessMemory(s.pid)
	}
	return s, nil
}

// awaitPorts waits for the ports file, which is written whole.
func awaitPorts(ctx context.Context, file string, exited <-chan error, stderr *bytes.Buffer) (address string, err error) {
	tick := time.NewTicker(spawnPoll)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(file); err == nil {
			var ports struct{ SQS, STOMP, MQTT string }
			if err = json.Unmarshal(b, &ports); err == nil {
				address = cmp.Or(ports.SQS, ports.STOMP, ports.MQTT)
			}
			if address == "" {
				err = fmt.Errorf("ports file %q names no listener", b)
			}
			return address, err
		}
		select {
		case <-tick.C:
		case err := <-exited:
			return "", fmt.Errorf("the server ended by itself: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		case <-ctx.Done():
			return "", fmt.Errorf("the server did not start: %w", ctx.Err())
		}
	}
}

// askOnce makes one request and wants status 200.
func askOnce(ctx context.Context, addr, path string) error {
	conn, err := bench.Dial(ctx, addr, spawnStartMax)
	if err != nil {
		return err
	}
	defer conn.Close()
	a, err := conn.Do(fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr))
	if err == nil && a.Status != 200 {
		err = fmt.Errorf("status %d", a.Status)
	}
	if err != nil {
		return fmt.Errorf("GET %s%s: %w", addr, path, err)
	}
	return nil
}

// stopChild asks for an orderly end, and kills the process if that takes too
// long.
func stopChild(p *os.Process, exited <-chan error, stderr *bytes.Buffer) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, p.Kill())
	}
	select {
	case err := <-exited:
		if err != nil {
			return fmt.Errorf("the server ended with %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		return nil
	case <-time.After(spawnStopMax):
		return errors.Join(fmt.Errorf("the server did not end within %v of SIGTERM", spawnStopMax), p.Kill())
	}
}

// newBenchCannedCommand returns the hidden command that serves canned answers as
// a process of its own.
func newBenchCannedCommand() *cobra.Command {
	var ports string
	cmd := &cobra.Command{
		Use:    "canned",
		Short:  "Serve canned SQS answers",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	cmd.Flags().StringVar(&ports, "ports-file", "", "`FILE` to write the address to")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		s, err := serveCanned(cmd.Context())
		if err != nil {
			return err
		}
		text, err := json.Marshal(map[string]string{"sqs": s.address})
		if err == nil {
			// Renamed into place: whoever waits for the file sees it whole.
			if err = os.WriteFile(ports+".new", text, 0o600); err == nil {
				err = os.Rename(ports+".new", ports)
			}
		}
		if err != nil {
			return errors.Join(err, s.stop())
		}
		<-cmd.Context().Done()
		return s.stop()
	})
	return cmd
}
