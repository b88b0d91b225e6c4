package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// benchSTOMPFlags are the flags of "bench stomp".
type benchSTOMPFlags struct {
	benchFlags
	options bench.STOMPOptions
	server  benchServerFlags
	idle    idleFlags
}

func newBenchSTOMPCommand() *cobra.Command {
	f := benchSTOMPFlags{server: benchServerFlags{wire: "stomp"}}
	cmd := &cobra.Command{
		Use:   "stomp",
		Short: "Measure a STOMP server: this broker, or any other",
		Long: "Producers ask for a receipt on each SEND, and have up to --window of them under way.\n" +
			"Consumers subscribe with ack:client-individual and acknowledge each message by itself.\n" +
			"With --spawn a broker is started for the run, as a process of its own, whose CPU time is shown apart.\n" +
			"The queues of the run stay on the server, empty: STOMP has no frame that deletes one.\n" +
			"With --idle there are no messages: what connections with heart-beats cost the server is measured.",
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		f.options.Seed = f.seed
		if err := f.server.checkSpawn(cmd); err != nil {
			return err
		}
		if err := f.idle.check(cmd, "producers", "consumers", "queues", "window", "prefetch", "size", "rate", "count"); err != nil {
			return err
		}
		return f.measure(cmd, func(ctx context.Context) (*bench.Result, error) {
			progress, done := showProgress(cmd.ErrOrStderr(), "stomp")
			defer done()
			f.options.Progress = progress
			o := &f.options
			if idle := f.idle.options(cmd, "stomp"); idle != nil {
				idle.Target, idle.ServerPID, idle.Login, idle.Passcode = o.Target, o.ServerPID, o.Login, o.Passcode
				idle.Duration, idle.Prefix = o.Duration, o.Prefix
				return f.server.against(ctx, &idle.Target, &idle.ServerPID, func() (*bench.Result, error) { return bench.RunIdle(ctx, *idle) })
			}
			return f.server.against(ctx, &o.Target, &o.ServerPID, func() (*bench.Result, error) { return bench.RunSTOMP(ctx, *o) })
		})
	})
	return cmd
}

func (f *benchSTOMPFlags) add(cmd *cobra.Command) {
	f.benchFlags.add(cmd)
	flags, o := cmd.Flags(), &f.options
	flags.StringVar(&o.Target, "target", "127.0.0.1:61613", "`ADDRESS` of a running STOMP server, host:port")
	flags.StringVar(&o.Host, "host", "/", "virtual `HOST` that CONNECT names")
	flags.StringVar(&o.Login, "login", "", "`NAME` to log in with; default: none")
	flags.StringVar(&o.Passcode, "passcode", "", "`PASSCODE` to log in with")
	flags.IntVar(&o.ServerPID, "pid", 0, "process whose CPU time and memory are the server's")
	flags.IntVar(&o.Producers, "producers", 4, "producers, a connection each")
	flags.IntVar(&o.Consumers, "consumers", 4, "consumers, a connection each; 0: only send")
	flags.IntVar(&o.Queues, "queues", 4, "queues")
	flags.IntVar(&o.Window, "window", 100, "sends of a producer whose receipts are awaited")
	flags.IntVar(&o.Prefetch, "prefetch", 1000, "messages that a consumer may hold; 0: as the server likes")
	flags.BoolVar(&o.AckReceipts, "ack-receipts", false, "ask for a receipt on each ACK")
	flags.BoolVar(&o.Persistent, "persistent", true, "send with persistent:true, which other servers need to store a message")
	flags.IntVar(&o.Size, "size", 200, "bytes of a body")
	flags.Float64Var(&o.Rate, "rate", 0, "messages a second over all producers, sent when they are due; 0: as fast as receipts come")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "time before the measurement")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "time of the measurement")
	flags.Int64Var(&o.Count, "count", 0, "messages over all producers; 0: as many as --duration takes")
	flags.IntVar(&o.Ahead, "ahead", 1000, "messages a queue that producers may run ahead; 0: no bound")
	flags.StringVar(&o.Prefix, "prefix", newRunPrefix(), "`NAME` that the queues begin with, below /queue/")
	f.server.addSpawn(cmd)
	f.idle.add(cmd)
	flags.DurationVar(&o.Drain, "drain", time.Minute, "how long to wait at the end for messages that have not arrived")
}
