// Package wire reads and writes packets of MQTT 3.1, 3.1.1 and 5.
//
// PUBLISH and the acknowledgements, of which there are many, are read in place and
// written by hand. CONNECT, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT and AUTH are decoded
// by package packets of mochi-mqtt, after a strict look at their properties, and
// under a recover. What comes from a peer is bounded before it is decoded, and no
// more is allocated than has arrived, plus a bound.
//
// A Reader and the packets that it returns belong to one goroutine: a packet is a
// view of the Reader's buffer, good until the next Fill.
package wire
