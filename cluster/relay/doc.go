// Package relay lets clients speak to any node: a standby's [Forwarder] passes the
// TCP connections of its protocol ports on to the primary, whose [Receiver] gives
// them to the frontends as if the clients had come there.
//
// # Contract
//
// A relayed connection is one connection between two nodes, TLS with certificates
// of both sides and the protocol "leasemq-relay/1" (ALPN). It opens with one header
// of PROXY protocol version 2, which carries the addresses of the client and of the
// standby's port, and in a TLV of type 0xE0 the name of the listener, such as
// "stomp". Bytes follow as they are: TLS of the client passes through to the
// frontend. Each connection has its own, so that one that is not read holds up no
// other.
//
// # Invariants
//
//   - PROXY headers are read only from peers that have shown a certificate of the
//     cluster. A header that is not exactly right ends its connection.
//   - Nothing is answered for a client: without a primary its connection waits, up
//     to a bound, and is then closed.
//   - A node that is not the primary has no listener for relayed connections, so
//     that it closes them. Nothing is relayed twice.
//   - A connection does not outlive the primary that it was made for: it is closed
//     when [Forwarder.SetPrimary] names another one, or another epoch.
//   - Each direction holds at most one buffer. What its receiver does not take is
//     not read from its sender.
//   - The end of either direction is passed on. After that of the client the
//     primary may answer for as long as it likes, after that of the primary the
//     client has a bounded time.
//
// # Who may call what
//
// Everything may be called from any goroutine. Each Serve owns the goroutines that
// it starts, two for a connection of a Forwarder and one for the handshake of a
// Receiver, and returns when they have ended. Connections of a Receiver's
// listeners belong to who accepts them.
//
// # Lock order
//
// Forwarder.mu and Receiver.mu are never held together, nor over IO.
package relay
