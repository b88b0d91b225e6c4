//go:build unix

package bench

import (
	"syscall"
	"time"
)

// SelfCPU returns the CPU time that this process has used, user and system.
func SelfCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
