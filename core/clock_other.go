//go:build !linux

package core

import "time"

// Suspended is 0, since it is not known here: a suspended machine's clock is slewed.
func Suspended() time.Duration { return 0 }
