package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
)

// newServeCommand returns the command that runs a node, under the given name.
func newServeCommand(std streams, name string) *cobra.Command {
	var portsFile string
	cmd := &cobra.Command{
		Use:   name,
		Short: "Run a node",
		Long: "It runs until it is interrupted (SIGINT or SIGTERM): then it takes no new work, sends the answers\n" +
			"that are due, and exits. A second signal ends it at once. SIGHUP has it read its settings again\n" +
			"and take over the access keys.",
		Args: cobra.NoArgs,
	}
	settings := addSettingFlags(cmd)
	cmd.Flags().StringVar(&portsFile, "ports-file", "", "`FILE` that gets the real addresses of the listeners as JSON, once all are up")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		load := func() (*configs.Loaded, error) { return settings.loadAndCheck(cmd, std.err, logWarnings) }
		loaded, err := load()
		if err != nil {
			return err
		}
		return serve(cmd.Context(), loaded.Config, load, portsFile, std.err)
	})
	return cmd
}

// spareThreads lets two more goroutines run than there are processors, unless
// GOMAXPROCS says how many. One that comes back from an fsync would else wait
// until a processor has run through what else can run, and all whom that fsync is
// to answer with it. It costs that Go no longer follows changes of a container's
// limit.
func spareThreads() {
	const spare = 2
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spare)
	}
}

// serve runs a node until ctx ends or the node fails. At each SIGHUP it takes the
// settings that again loads.
func serve(ctx context.Context, cfg configs.Config, again func() (*configs.Loaded, error), portsFile string, stderr io.Writer) error {
	log := newLogger(cfg.Log, stderr)
	spareThreads()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	if portsFile != "" {
		// One of an earlier run would send its readers to the wrong place.
		if err := os.Remove(portsFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old ports file: %w", err)
		}
	}
	b := thisBuild()
	node, err := broker.Run(ctx,
		broker.FromConfig(cfg),
		broker.WithKinds(standard()...),
		broker.WithLogger(log),
		broker.WithBuild(b.Version, b.Revision),
	)
	if err != nil {
		return err
	}
	if portsFile != "" {
		if err := writePorts(portsFile, node.Addrs()); err != nil {
			_ = node.Close() // the reason to end is err
			return err
		}
	}
	greet(stderr, cfg, node)
	log.Info("ready", append([]any{"version", b.Version, "kept", kept(cfg)}, listeners(node)...)...)
	context.AfterFunc(ctx, func() { log.Info("draining; a second signal ends the process at once") })
	stopped := make(chan struct{})
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		reload(node, cfg, hangups, stopped, again, log)
	}()
	err = node.Wait()
	close(stopped)
	select {
	case <-reloaded:
	case <-time.After(reloadWait):
		log.Warn("the settings are still being read; they are not waited for")
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// reloadWait is how long a node that has stopped waits for settings that are being
// read: a file may be on a mount that does not answer.
const reloadWait = time.Second

// reload takes over settings at each signal, until stopped is closed. What cannot
// be used leaves those in force. The node was started with cfg.
func reload(node *broker.Node, cfg configs.Config, signals <-chan os.Signal, stopped <-chan struct{}, again func() (*configs.Loaded, error), log *slog.Logger) {
	for {
		select {
		case <-signals:
		case <-stopped:
			return
		}
		loaded, err := again()
		if err == nil {
			err = node.Reload(loaded.Config)
		}
		if err != nil {
			log.Error("the settings are not taken over", "error", err)
			continue
		}
		log.Info("settings read again", "access_keys", len(loaded.Config.SQS.AccessKeys))
		if keys := needRestart(cfg, loaded.Config); len(keys) > 0 {
			log.Warn("changed settings that need a restart", "keys", strings.Join(keys, ", "))
		}
	}
}

// needRestart lists the keys that differ and are not taken over by a running node.
func needRestart(running, read configs.Config) []string {
	var keys []string
	for _, f := range configs.Fields() {
		if f.Key != "sqs.access_keys" && f.Text(running) != f.Text(read) {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

func newLogger(cfg configs.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	// The value was checked against the list of levels.
	_ = level.UnmarshalText([]byte(cfg.Level))
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// writePorts writes the file whole: a reader sees all addresses or no file.
func writePorts(path string, addrs any) error {
	b, err := json.Marshal(addrs, json.Deterministic(true))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write ports file: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write ports file: %w", err)
	}
	return nil
}

// greet prints lines to copy, for people; logs in JSON are for machines.
func greet(w io.Writer, cfg configs.Config, node *broker.Node) {
	if cfg.Log.Format == "json" {
		return
	}
	fmt.Fprintf(w, "\nLeaseMQ %s is ready; messages are kept %s.\n", thisBuild().Version, kept(cfg))
	if addr := reachable(node.Addr("sqs")); addr != "" {
		url := fmt.Sprintf("http://%s/%s/orders", addr, cfg.SQS.Account)
		id, secret, region := "x", "x", cfg.SQS.Region
		if keys := cfg.SQS.AccessKeys; len(keys) > 0 {
			id, secret = keys[0].ID, "..."
		}
		if cfg.SQS.SigningRegion != "" {
			region = cfg.SQS.SigningRegion
		}
		fmt.Fprintf(w, `
  SQS    export AWS_ACCESS_KEY_ID=%[4]s AWS_SECRET_ACCESS_KEY=%[5]s AWS_DEFAULT_REGION=%[1]s
         aws --endpoint-url http://%[2]s sqs create-queue --queue-name orders
         aws --endpoint-url http://%[2]s sqs send-message --queue-url %[3]s --message-body hello
         aws --endpoint-url http://%[2]s sqs receive-message --queue-url %[3]s
`, region, addr, url, id, secret)
	}
	for _, wire := range []struct{ title, name, path string }{{"STOMP", "stomp", "/ws"}, {"MQTT ", "mqtt", "/mqtt"}} {
		addr := reachable(node.Addr(wire.name))
		if addr == "" {
			continue
		}
		fmt.Fprintf(w, "  %s  %s", wire.title, addr)
		for _, more := range []struct{ name, before, after string }{
			{"_ws", "ws://", wire.path}, {"_tls", "tls ", ""}, {"_ws_tls", "wss://", wire.path},
		} {
			if at := reachable(node.Addr(wire.name + more.name)); at != "" {
				fmt.Fprintf(w, "  %s%s%s", more.before, at, more.after)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  Admin  http://%[1]s/metrics  http://%[1]s/readyz?verbose  http://%[1]s/api/v1/queues\n\n", reachable(node.Addr("admin")))
}

// listeners returns the name and the address of each listener, as a log has them.
func listeners(node *broker.Node) []any {
	var args []any
	addrs := node.Addrs()
	for _, name := range slices.Sorted(maps.Keys(addrs)) {
		args = append(args, name, addrs[name])
	}
	return args
}

// kept says where messages are, and whether an answer means that they are there.
func kept(cfg configs.Config) string {
	switch {
	case cfg.Node.Memory:
		return "in memory"
	case cfg.Storage.Sync != "commit":
		return fmt.Sprintf("in %s; answers do not wait for fsync (storage.sync is %s)", cfg.Node.Data, cfg.Storage.Sync)
	}
	return "in " + cfg.Node.Data
}

// reachable returns addr as a client on this machine can use it.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}
