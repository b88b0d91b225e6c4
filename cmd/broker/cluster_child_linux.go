package main

import "syscall"

// childAttributes has a child die with the thread that started it, and keeps the
// signals of a terminal from it: its parent passes on what is to be passed on.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
