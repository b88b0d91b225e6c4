//go:build unix && !linux

package main

import "syscall"

// childAttributes keeps the signals of a terminal from a child: its parent passes
// on what is to be passed on.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
