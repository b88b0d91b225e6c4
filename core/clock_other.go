//go:build !linux

package core

import "time"

// sleptSinceBoot is not known here: a suspended machine's clock is slewed.
func sleptSinceBoot() time.Duration { return 0 }
