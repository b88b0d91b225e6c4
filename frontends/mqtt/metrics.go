package mqtt

// Stats is what a Server has done since it began, and what it has now.
type Stats struct {
	Connections int64 // open
	Sessions    int64 // of these, logged in

	Connects          int64 // logins
	PacketsIn         int64
	PublishIn         int64 // PUBLISH of clients
	PublishOut        int64 // and to clients
	Dropped           int64 // PUBLISH of clients with QoS 0 that could not be taken
	TooLarge          int64 // messages that were larger than their clients take
	BytesIn, BytesOut int64
}

// Stats returns the counts of now.
func (s *Server) Stats() Stats {
	n := &s.counts
	return Stats{
		Connections: n.sockets.Load(), Sessions: int64(s.registry.connected()), Connects: n.connects.Load(), PacketsIn: n.packets.Load(),
		PublishIn: n.received.Load(), PublishOut: n.sent.Load(), Dropped: n.dropped.Load(), TooLarge: n.tooLarge.Load(),
		BytesIn: n.bytesIn.Load(), BytesOut: n.bytesOut.Load(),
	}
}
