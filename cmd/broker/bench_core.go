package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cmd/broker/bench"
)

const benchCoreLong = `Runs storage and core in this process, without any protocol.

Modes:
  cycle        send, receive and delete in a closed loop
  send         send, each waiting until it is durable
  pipelined    send with a window of unanswered ones
  backlog      load one queue with --count messages; memory, restarts, receive speed
  many-queues  --count queues with one message each; restart
  steady       send at --rate, delete when messages have lived for --live; what storage writes
  crash        kill -9 a loaded process after --duration; restart`

func newBenchCoreCommand() *cobra.Command {
	var o bench.CoreOptions
	var f benchFlags
	var data string
	var memory bool
	cmd := &cobra.Command{
		Use:   "core",
		Short: "Measure the core in this process",
		Long:  benchCoreLong,
		Args:  cobra.NoArgs,
	}
	f.add(cmd)
	addBenchCoreFlags(cmd, &o)
	cmd.Flags().StringVar(&data, "data", "", "`DIR` of the data; default: a new one under the temporary directory, removed at the end")
	cmd.Flags().BoolVar(&memory, "memory", false, "keep everything in memory")
	cmd.MarkFlagsMutuallyExclusive("data", "memory")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		o.Seed = f.seed
		fillBenchCore(cmd, &o)
		return f.measure(cmd, func(ctx context.Context) (res *bench.Result, err error) {
			o.Open, err = bench.Opener(o.Sync, memory)
			if err != nil {
				return nil, fail(exitUsage, err)
			}
			if !memory {
				var remove func() error
				if o.Dir, remove, err = benchDir(data); err != nil {
					return nil, err
				}
				defer func() { err = errors.Join(err, remove()) }()
			}
			if exe, err := os.Executable(); err == nil {
				o.Self = []string{exe, "bench", "core"}
			}
			progress, done := showProgress(cmd.ErrOrStderr(), o.Mode)
			defer done()
			o.Progress = progress
			return bench.RunCore(ctx, o)
		})
	})
	return cmd
}

func addBenchCoreFlags(cmd *cobra.Command, o *bench.CoreOptions) {
	flags := cmd.Flags()
	flags.StringVar(&o.Mode, "mode", bench.ModeCycle, "`MODE`: what to do, see above")
	flags.StringVar(&o.Sync, "sync", "commit", "commit, interval or never")
	flags.IntVar(&o.Producers, "producers", 32, "concurrent producers")
	flags.IntVar(&o.Consumers, "consumers", 32, "concurrent consumers")
	flags.IntVar(&o.Queues, "queues", 8, "queues")
	flags.IntVar(&o.Batch, "batch", 10, "messages of a request")
	flags.IntVar(&o.Size, "size", 200, "bytes of a body")
	flags.Int64Var(&o.Count, "count", 0, "messages (many-queues: queues); 0: as many as --duration takes")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "time before the measurement")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "time of the measurement")
	flags.IntVar(&o.Window, "window", 64, "pipelined, backlog: unanswered batches a producer")
	flags.IntVar(&o.Ahead, "ahead", 1000, "cycle: messages a queue that producers may run ahead; 0: no bound")
	flags.Float64Var(&o.Rate, "rate", 40_000, "steady: messages a second")
	flags.DurationVar(&o.Live, "live", 500*time.Millisecond, "steady: life of a message")
	flags.Int64Var(&o.Cold, "cold", 0, "steady: messages at rest in another queue")
	flags.Int64Var(&o.Probe, "probe", 200_000, "backlog: messages of each speed measurement")
	flags.IntVar(&o.InFlight, "in-flight", 100_000, "backlog: messages to leave in flight")
	flags.BoolVar(&o.FIFO, "fifo", false, "FIFO queues")
	flags.BoolVar(&o.SyncMarks, "sync-marks", false, "receives wait until their marks are durable")
}

// fillBenchCore sets the counts that a mode has when none is given.
func fillBenchCore(cmd *cobra.Command, o *bench.CoreOptions) {
	if cmd.Flags().Changed("count") {
		return
	}
	switch o.Mode {
	case bench.ModeBacklog:
		o.Count = 10_000_000
	case bench.ModeManyQueues:
		o.Count = 100_000
	}
}
