//go:build !unix

package main

import "syscall"

// childAttributes are those of every process.
func childAttributes() *syscall.SysProcAttr { return nil }
