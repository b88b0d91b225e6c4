package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// idleFlags are the flags of a measurement of idle connections.
type idleFlags struct {
	connections int
	beat        time.Duration
	subscribed  bool
}

func (f *idleFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.connections, "idle", 0, "measure so many connections that do nothing but stay alive, instead of messages")
	flags.DurationVar(&f.beat, "heart-beat", 10*time.Second, "with --idle: how often each connection is heard of, both ways")
	flags.BoolVar(&f.subscribed, "subscribed", false, "with --idle: each connection has a subscription")
}

// check refuses flags that are of no use without --idle, and those that are of none
// with it.
func (f *idleFlags) check(cmd *cobra.Command, loads ...string) error {
	changed := cmd.Flags().Changed
	for _, name := range []string{"heart-beat", "subscribed"} {
		if changed(name) && !changed("idle") {
			return failf(exitUsage, "--%s is for --idle", name)
		}
	}
	for _, name := range loads {
		if changed(name) && changed("idle") {
			return failf(exitUsage, "--%s is not for --idle, which sends no messages", name)
		}
	}
	return nil
}

// options returns what to measure, nil if messages are.
func (f *idleFlags) options(cmd *cobra.Command, wire string) *bench.IdleOptions {
	if !cmd.Flags().Changed("idle") {
		return nil
	}
	return &bench.IdleOptions{Wire: wire, Connections: f.connections, Beat: f.beat, Subscribed: f.subscribed}
}
