package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// benchMQTTFlags are the flags of "bench mqtt".
type benchMQTTFlags struct {
	benchFlags
	options bench.MQTTOptions
	server  benchServerFlags
	idle    idleFlags
}

func newBenchMQTTCommand() *cobra.Command {
	f := benchMQTTFlags{server: benchServerFlags{wire: "mqtt"}}
	cmd := &cobra.Command{
		Use:   "mqtt",
		Short: "Measure an MQTT server: this broker, or any other",
		Long: "Publishers have up to --window messages unacknowledged; subscribers acknowledge each message.\n" +
			"Publishers and subscribers are spread over the topics, and each subscriber gets all of its topic.\n" +
			"Every publisher counts its messages: what is lost, repeated or out of order is found.\n" +
			"With --spawn a broker is started for the run, as a process of its own, whose CPU time is shown apart.\n" +
			"With --idle there are no messages: what connections with a keep alive cost the server is measured.",
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		f.options.Seed = f.seed
		if err := f.server.checkSpawn(cmd); err != nil {
			return err
		}
		if err := f.idle.check(cmd, "publishers", "subscribers", "topics", "qos", "window", "size", "rate", "count"); err != nil {
			return err
		}
		return f.measure(cmd, func(ctx context.Context) (*bench.Result, error) {
			progress, done := showProgress(cmd.ErrOrStderr(), "mqtt")
			defer done()
			f.options.Progress = progress
			o := &f.options
			if idle := f.idle.options(cmd, "mqtt"); idle != nil {
				idle.Target, idle.ServerPID, idle.Login, idle.Passcode = o.Target, o.ServerPID, o.Username, o.Password
				idle.Duration, idle.Prefix = o.Duration, o.Prefix
				return f.server.against(ctx, &idle.Target, &idle.ServerPID, func() (*bench.Result, error) { return bench.RunIdle(ctx, *idle) })
			}
			return f.server.against(ctx, &o.Target, &o.ServerPID, func() (*bench.Result, error) { return bench.RunMQTT(ctx, *o) })
		})
	})
	return cmd
}

func (f *benchMQTTFlags) add(cmd *cobra.Command) {
	f.benchFlags.add(cmd)
	flags, o := cmd.Flags(), &f.options
	flags.StringVar(&o.Target, "target", "127.0.0.1:1883", "`ADDRESS` of a running MQTT server, host:port")
	flags.StringVar(&o.Version, "mqtt-version", "5", "3.1.1 or 5")
	flags.StringVar(&o.Username, "username", "", "`NAME` to log in with; default: none")
	flags.StringVar(&o.Password, "password", "", "`PASSWORD` to log in with")
	flags.IntVar(&o.ServerPID, "pid", 0, "process whose CPU time and memory are the server's")
	flags.IntVar(&o.Publishers, "publishers", 4, "publishers, a connection each")
	flags.IntVar(&o.Subscribers, "subscribers", 4, "subscribers, a connection each; 0: only publish")
	flags.IntVar(&o.Topics, "topics", 4, "topics; publishers and subscribers are a multiple of it")
	flags.IntVar(&o.QoS, "qos", 1, "quality of service of publishers and subscribers: 0, 1 or 2")
	flags.BoolVar(&o.Persistent, "persistent", true, "sessions of subscribers outlive their connections; they are ended with the run")
	flags.BoolVar(&o.Share, "share", false, "the subscribers of a topic share its messages ($share)")
	flags.IntVar(&o.Window, "window", 100, "publishes of a publisher that are not acknowledged; fewer if the server says so")
	flags.IntVar(&o.ReceiveMax, "receive-max", 100, "messages that a subscriber may have unacknowledged (version 5)")
	flags.IntVar(&o.Size, "size", 200, "bytes of a payload")
	flags.Float64Var(&o.Rate, "rate", 0, "messages a second over all publishers, sent when they are due; 0: as fast as acknowledgements come")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "time before the measurement")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "time of the measurement")
	flags.Int64Var(&o.Count, "count", 0, "messages over all publishers; 0: as many as --duration takes")
	flags.IntVar(&o.Ahead, "ahead", 1000, "messages a topic that publishers may run ahead; 0: no bound")
	flags.StringVar(&o.Prefix, "prefix", newRunPrefix(), "`NAME` that topics and client ids begin with")
	f.server.addSpawn(cmd)
	f.idle.add(cmd)
	flags.DurationVar(&o.Drain, "drain", time.Minute, "how long to wait at the end for messages that have not arrived")
}
