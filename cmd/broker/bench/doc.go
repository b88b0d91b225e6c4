// Package bench is the load generator behind "broker bench": it drives the core
// in process, any SQS server over HTTP and any STOMP or MQTT server over TCP, and
// says how fast it went, what it cost, and whether every message came through.
//
// # What it measures
//
// Messages a second for each step, latency as HDR percentiles, CPU time a
// message, heap allocations a message, resident memory, and what storage wrote.
// The generator shares its cores with the server that it measures, so it is
// built to cost little: requests are bytes made ahead, of which only fixed-width
// stamps change ([Writer]), and answers are searched, not decoded ([Reader]).
//
// # What it checks
//
// Each body carries the number of its sender, a strictly increasing counter, and
// a filling that is known ahead ([Stamp]). A [Tracker] notes what was
// acknowledged and what arrived; after a run it tells the gaps, the duplicates,
// the foreign and the damaged bodies, and, for FIFO, what came out of order. A
// run with any of these is a failed run, however fast it was.
//
// # Who may call what
//
// A [Conn], a [Writer], a [Reader] and a [Meter] belong to one goroutine each.
// A STOMP or MQTT connection is written by one goroutine and read by one other.
// [Tracker] and [Flow] are shared by all workers of a run.
package bench
