//go:build !race

package cluster_test

// raceEnabled tells whether the race detector watches, which costs tenfold.
const raceEnabled = false
