//go:build !linux

package e2e

import "testing"

// mountDisk skips: this system has no tmpfs to mount.
func mountDisk(t *testing.T, _, _ string) {
	t.Helper()
	t.Skip("needs Linux's tmpfs")
}
