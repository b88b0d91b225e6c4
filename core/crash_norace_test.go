//go:build !race

package core_test

// raceDetector tells whether the test runs under the race detector, which
// makes it several times slower.
const raceDetector = false
