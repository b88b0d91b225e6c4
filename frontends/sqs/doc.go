// Package sqs is the frontend that speaks Amazon SQS: AWS JSON 1.0 and
// Query/XML on one port, chosen per request.
//
// # The way of a request
//
// fasthttp reads the header; [Server] reads the body into the request's call,
// chooses the protocol, finds the action, and decodes the parameters with
// json.go or query.go into one params value, whatever the protocol. The
// action's function validates, asks the core, and writes the answer through
// answer, which knows both protocols. An error of any kind becomes a *failure
// and is written once, in errors.go.
//
// Where there are access keys, sigv4 looks at the signature first: at what it
// says before the body is read, at the rest once it is there. Each key has its
// own client of the core.
//
// # Memory
//
// A call and all that hangs on it is pooled. A text is a view of the call's
// buffers: it dies with the request. What outlives the request is copied: by
// core.Publish (bodies, attributes, group, deduplication id), or here (queue
// names, attempt ids). No decoder stores more than a bound for what a peer
// sent, and no buffer is reserved for what a peer only announced.
//
// # Goroutines
//
// A connection is served by one goroutine. A parked long poll holds no lock and
// no memory but its call.
package sqs
