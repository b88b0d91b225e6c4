//go:build !unix

package bench

import "time"

// SelfCPU returns 0: this system does not tell.
func SelfCPU() time.Duration { return 0 }
