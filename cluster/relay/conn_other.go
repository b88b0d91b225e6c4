//go:build !linux

package relay

// established cannot be told here.
func established(int) bool { return true }
