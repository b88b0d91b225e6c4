//go:build !race

package core_test

// raceEnabled tells whether the race detector watches, which costs tenfold.
const raceEnabled = false
