// Package admin is the frontend for operators: health, metrics and the REST API
// under /api/v1 that the command line uses.
//
// It speaks plain HTTP by net/http. Nothing here is on the path of a message of
// another frontend. A [Server] is safe for concurrent use; [Server.Serve] may be
// called once per listener and returns when the context ends and the requests
// that were being answered are done.
//
// # Nodes of a cluster
//
// The listener is up for the whole life of a node, the engine only while the node
// is primary, and a new one each time: [Server.SetEngine]. A request keeps to the
// engine that was there when it came. Without one, what needs it is relayed to the
// primary's admin listener, once: a request that another node has relayed is
// answered here or refused. What /api/v1/cluster says is this node's own view.
//
// # What a peer can make it do
//
// Every request is bounded: headers in size and time, bodies in size, answers in
// number of messages, waits in time, connections in number. A slow peer does not
// hold an engine that is to end: bodies are read before it is asked, answers are
// sent after. Requests that a browser sends from a page of another site are
// refused, and a listener on loopback answers only to names of loopback, so that a
// page cannot reach it by way of a name of its own.
package admin
