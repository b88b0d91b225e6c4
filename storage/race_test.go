//go:build race

package storage

// slowdown divides the amount of random testing: under the race detector Pebble
// also checks its invariants.
const slowdown = 5
