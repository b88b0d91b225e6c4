package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
)

// settingFlags are the flags of a command that takes a node's settings.
type settingFlags struct {
	file   string
	imp    string
	set    []string
	values []*settingValue
}

// settingValue is the text that a flag gives to a key. What it means, and
// whether it may, is for configs to say, as for every other source.
type settingValue struct {
	field configs.Field
	text  string
}

// String returns the text.
func (v *settingValue) String() string { return v.text }

// Set takes the text of the command line.
func (v *settingValue) Set(s string) error {
	v.text = s
	return nil
}

// Type is what the help calls the argument.
func (v *settingValue) Type() string {
	switch {
	case len(v.field.OneOf) > 0:
		return strings.Join(v.field.OneOf, "|")
	case v.field.Key == "node.data":
		return "DIR"
	}
	return v.field.Kind
}

// addSettingFlags gives cmd a flag for each key, --config and --set.
func addSettingFlags(cmd *cobra.Command) *settingFlags {
	s := &settingFlags{}
	flags := cmd.Flags()
	flags.StringVar(&s.file, "config", os.Getenv("BROKER_CONFIG"), "`FILE` with settings (environment: BROKER_CONFIG)")
	flags.StringVar(&s.imp, "import", os.Getenv("BROKER_IMPORT"), "`FILE` of ElasticMQ to take settings and queues from; other sources win over it (environment: BROKER_IMPORT)")
	flags.StringArrayVar(&s.set, "set", nil, "`KEY=VALUE` of one setting; may be repeated")
	for _, f := range configs.Fields() {
		if f.Flag == "" {
			continue
		}
		v := &settingValue{field: f, text: f.Default}
		s.values = append(s.values, v)
		flag := flags.VarPF(v, f.Flag, "", f.Doc)
		if f.Kind == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	return s
}

// load reads the settings from all sources.
func (s *settingFlags) load(cmd *cobra.Command) (*configs.Loaded, error) {
	flags := map[string]string{}
	for _, v := range s.values {
		if cmd.Flags().Changed(v.field.Flag) {
			flags[v.field.Key] = v.text
		}
	}
	return configs.Load(configs.Sources{Import: s.imp, File: s.file, Environ: os.Environ(), Set: s.set, Flags: flags})
}

// loadAndCheck reads the settings and holds them against their bounds, so that
// every mistake is told at once. Warnings are given to tell, with w.
func (s *settingFlags) loadAndCheck(cmd *cobra.Command, w io.Writer, tell func(io.Writer, *configs.Loaded)) (*configs.Loaded, error) {
	if cmd.Flags().Changed("data") && cmd.Flags().Changed("memory") {
		return nil, failf(exitUsage, "--data and --memory exclude each other: give one of them")
	}
	loaded, err := s.load(cmd)
	tell(w, loaded)
	if err := errors.Join(err, loaded.Check(kindNames()), broker.CheckQueues(loaded.Config)); err != nil {
		return nil, fail(exitUsage, err)
	}
	return loaded, nil
}

// logWarnings tells warnings as a node does: those who read JSON read nothing else.
func logWarnings(w io.Writer, loaded *configs.Loaded) {
	if loaded.Config.Log.Format != "json" {
		tellWarnings(w, loaded)
		return
	}
	log := newLogger(loaded.Config.Log, w)
	for _, warning := range loaded.Warnings {
		log.Warn(warning)
	}
}

func tellWarnings(w io.Writer, loaded *configs.Loaded) {
	for _, warning := range loaded.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

func kindNames() []string {
	var names []string
	for _, k := range standard() {
		names = append(names, k.Name)
	}
	return names
}
