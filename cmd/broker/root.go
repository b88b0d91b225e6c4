package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasemq/broker/configs"
)

// newRootCommand returns the command tree. The root is serve under a shorter
// name.
func newRootCommand(std streams) *cobra.Command {
	root := newServeCommand(std, "broker")
	root.Short = "One durable queue that speaks SQS"
	root.Long = "Without a command, broker runs a node: see 'broker serve --help'."
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.Args = onlyCommands
	root.Version = thisBuild().Version
	root.SetFlagErrorFunc(suggestFlag)
	root.AddCommand(
		newServeCommand(std, "serve"),
		newQueueCommand(std),
		newPubCommand(std),
		newSubCommand(std),
		newConfigCommand(std),
		newVersionCommand(std),
		newBenchCommand(),
	)
	return root
}

// onlyCommands refuses an argument of a command that has others below it: it
// was meant to be one of them.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	word := fmt.Sprintf("unknown command %q", args[0])
	if near := configs.Nearest(args[0], names); near != "" {
		return fmt.Errorf("%s; did you mean %s?", word, near)
	}
	return fmt.Errorf("%s; there are %s", word, strings.Join(names, ", "))
}

// needSubcommand is the work of a command that only groups others.
func needSubcommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return failf(exitUsage, "needs one of the commands %s", strings.Join(names, ", "))
}

// suggestFlag adds the nearest flag to cobra's word about an unknown one.
func suggestFlag(cmd *cobra.Command, err error) error {
	found := regexp.MustCompile(`^unknown flag: --([^\s=]+)`).FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := configs.Nearest(found[1], names); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return fmt.Errorf("%w; there are --%s", err, strings.Join(names, ", --"))
}
