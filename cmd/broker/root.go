package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasemq/broker/configs"
)

// helpWidth is where the lines of a help end.
const helpWidth = 100

// newRootCommand returns the command tree. The root is serve under a shorter
// name.
func newRootCommand(std streams) *cobra.Command {
	root := newServeCommand(std, "broker")
	root.Short = "One durable queue that speaks SQS, STOMP and MQTT"
	root.Long = "Without a command, broker runs a node: see 'broker serve --help'."
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.Args = onlyCommands
	root.Version = thisBuild().Version
	root.SetHelpTemplate("{{.Short}}.{{with .Long}}\n\n{{. | trimTrailingWhitespaces}}{{end}}\n\n{{.UsageString}}")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)))
	root.SetFlagErrorFunc(suggestFlag)
	root.AddCommand(
		newServeCommand(std, "serve"),
		newQueueCommand(std),
		newPubCommand(std),
		newSubCommand(std),
		newTopicCommand(std),
		newClusterCommand(std),
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
	names := commandNames(cmd)
	word := fmt.Sprintf("unknown command %q", args[0])
	if near := configs.Nearest(args[0], names); near != "" {
		return fmt.Errorf("%s; did you mean %s?", word, near)
	}
	return fmt.Errorf("%s; there are %s", word, strings.Join(names, ", "))
}

// needSubcommand is the work of a command that only groups others.
func needSubcommand(cmd *cobra.Command, _ []string) error {
	return failf(exitUsage, "needs one of the commands %s", strings.Join(commandNames(cmd), ", "))
}

// commandNames lists the commands below cmd that are not hidden.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
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
