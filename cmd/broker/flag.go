package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/configs"
)

// durationFlag is a flag that takes a duration as settings spell it: 30s, 4d.
type durationFlag time.Duration

// addDuration gives cmd a flag that sets d.
func addDuration(cmd *cobra.Command, d *time.Duration, name, usage string) {
	cmd.Flags().VarPF((*durationFlag)(d), name, "", usage).DefValue = "" // the usage tells
}

// String returns what the API reads.
func (d *durationFlag) String() string { return time.Duration(*d).String() }

// Set takes the text of the command line.
func (d *durationFlag) Set(s string) error {
	v, err := configs.ParseDuration(s)
	if err != nil {
		return errors.New("not a duration such as 100ms, 30s or 4d")
	}
	*d = durationFlag(v)
	return nil
}

// Type is what the help calls the argument.
func (d *durationFlag) Type() string { return "duration" }

// sizeFlag is a flag that takes bytes as settings spell them: 65536, 64KiB.
type sizeFlag int64

// addSize gives cmd a flag for bytes.
func addSize(cmd *cobra.Command, name, usage string) {
	cmd.Flags().VarPF(new(sizeFlag), name, "", usage).DefValue = ""
}

// String returns the number of bytes.
func (n *sizeFlag) String() string { return strconv.FormatInt(int64(*n), 10) }

// Set takes the text of the command line.
func (n *sizeFlag) Set(s string) error {
	v, err := configs.ParseSize(s)
	if err != nil {
		return errors.New("not a size such as 65536 or 64KiB")
	}
	*n = sizeFlag(v)
	return nil
}

// Type is what the help calls the argument.
func (n *sizeFlag) Type() string { return "size" }
