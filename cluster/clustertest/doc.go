// Package clustertest tries out members of a cluster: a log in memory with the
// faults of a real one, and a simulation of three nodes that checks, after each
// history, what must never happen.
//
// [Server] is the log, [Conn] the way of one node to it. A [Gate] is a process:
// what passes through it stops while the process is paused, and for good when it
// is killed. [Simulate] runs one history from a seed. It belongs in a bubble of
// testing/synctest: its hours take milliseconds.
//
// All delays are drawn in nanoseconds, so that nearly nothing happens at the same
// time, and a seed gives nearly always the same history.
package clustertest
