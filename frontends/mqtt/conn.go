package mqtt

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// loginBytesMax bounds the CONNECT of a client.
const loginBytesMax = 64 << 10

// Linger times: how long a connection that we end is read from, so that its peer
// gets to see the last packet.
const (
	lingerTime     = 2 * time.Second
	lingerDraining = 500 * time.Millisecond
)

// ending says how a connection came to its end.
type ending uint8

const (
	endNot     ending = iota
	endClient         // the client said DISCONNECT
	endLost           // without a word of either side, or with one of ours
	endTaken          // another connection has the client identifier
	endDrained        // the node stops
)

// conn is one connection.
type conn struct {
	server *Server
	client *core.Client
	owner  *core.Owner
	socket net.Conn
	reader *wire.Reader
	ctx    context.Context
	cancel context.CancelFunc
	pumps  sync.WaitGroup

	// Set by CONNECT, before anybody else reads them.
	version     wire.Version
	entry       *entry // nil: not logged in
	id          string // the client identifier
	key         string // the same in names
	inName      string // prefix of the records of packet identifiers that were received
	outName     string // and of those that await PUBCOMP
	from        string // who publishes, for the core
	principal   string
	stored      bool          // the session outlives the connection
	silence     time.Duration // longest without a packet of the client; 0: any
	window      int           // messages with QoS above 0 that the client takes
	maxPacket   int           // bytes of a packet that the client takes
	aliasMax    int
	problemInfo bool

	// The reader's own.
	record  state.Session
	in      wire.Publish
	attrs   []core.Attribute
	msgs    [1]core.Message
	topics  map[string]string
	aliases []string         // those that the client has given
	settles []*source        // those with something in acked
	steps   []step           // of QoS 2, to be stored
	noWill  bool             // the client has left in peace
	final   *wire.Disconnect // what it said

	subs subscriptions

	mu       sync.Mutex
	room     sync.Cond // something was told or is done, or the connection has ended
	waiting  bool      // somebody waits for room
	out      outbox
	answers  answers
	unacked  int // messages of the client with QoS above 0 that are not done with
	pending  int // calls of the core that are yet to come
	ended    ending
	flights  map[uint16]flight
	moved    int             // messages of groups on their way through the session's own queue
	received map[uint16]bool // of QoS 2: not released yet; true: counted in unacked
	sources  []*source
	firm     *source
	loose    *source
	outAlias map[string]uint16
	nextID   uint16 // of shared deliveries
	props    []byte // scratch
}

func (s *Server) newConn(ctx context.Context, socket net.Conn) *conn {
	c := &conn{server: s, client: s.client, socket: socket}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.room.L = &c.mu
	c.reader = wire.NewReader(c, loginBytesMax)
	c.subs.byFilter = make(map[string]*state.Sub)
	return c
}

// serve reads packets until the connection is over, and cleans up.
func (c *conn) serve(draining context.Context) {
	c.server.counts.sockets.Add(1)
	stop := context.AfterFunc(draining, c.drain)
	err := c.readPackets()
	stop()
	// What was read before the peer went is done and answered, as far as it can be.
	c.waitForAnswers()
	c.endBecause(err, draining)
	c.waitForCore()
	c.leaveSources()
	c.leave()
	c.waitForWriter()
	c.closeSocket(draining)
	c.server.counts.sockets.Add(-1)
}

// readPackets handles packets until one ends the connection.
func (c *conn) readPackets() error {
	if err := c.socket.SetReadDeadline(time.Now().Add(c.server.options.LoginTimeout)); err != nil {
		return err
	}
	defer c.flush()
	for {
		pk, ok, err := c.reader.Next()
		if err != nil {
			return err
		}
		if !ok {
			c.flush()
			if !c.waitForRoom() {
				return nil
			}
			if err := c.reader.Fill(); err != nil {
				return err
			}
			continue
		}
		c.server.counts.packets.Add(1)
		if c.entry == nil {
			err = c.connect(&pk)
		} else {
			err = c.handle(&pk)
		}
		if err != nil {
			return err
		}
	}
}

// errLeft ends a connection whose client has said DISCONNECT.
var errLeft = errors.New("the client has left")

// handle carries out one packet. An error ends the connection.
func (c *conn) handle(pk *wire.Packet) error {
	switch pk.Type {
	case wire.PUBLISH:
		return c.publish(pk)
	case wire.PUBACK, wire.PUBREC, wire.PUBREL, wire.PUBCOMP:
		a, err := wire.ParseAck(pk, c.version)
		if err != nil {
			return err
		}
		return c.acknowledged(pk.Type, a)
	case wire.SUBSCRIBE:
		return c.subscribe(pk)
	case wire.UNSUBSCRIBE:
		return c.unsubscribe(pk)
	case wire.PINGREQ:
		if len(pk.Body) > 0 {
			return wire.Fail(wire.MalformedPacket, "a PINGREQ has a body")
		}
		c.mu.Lock()
		c.putLocked(wire.AppendPingresp(c.beginLocked()))
		c.mu.Unlock()
		return nil
	case wire.DISCONNECT:
		return c.disconnect(pk)
	case wire.AUTH:
		return wire.Fail(wire.ProtocolError, "no authentication is under way")
	}
	return wire.Fail(wire.ProtocolError, "a second CONNECT")
}

func (c *conn) disconnect(pk *wire.Packet) error {
	d, err := wire.ParseDisconnect(pk, c.version)
	if err != nil {
		return err
	}
	if d.HasExpiry && d.SessionExpiry > 0 && !c.stored {
		return wire.Fail(wire.ProtocolError, "a session that was to end with its connection is to outlive it")
	}
	c.final = d
	c.noWill = d.Reason != wire.DisconnectWithWill
	return errLeft
}

// Read reads from the socket. Once a client has logged in, each read has its own
// deadline: while we do not read, silence is not the client's.
func (c *conn) Read(p []byte) (int, error) {
	if c.entry != nil {
		var deadline time.Time
		if c.silence > 0 {
			deadline = time.Now().Add(c.silence)
		}
		if err := c.socket.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
	}
	if c.ctx.Err() != nil {
		// The deadline may have replaced the one that was to end this read.
		return 0, c.ctx.Err()
	}
	n, err := c.socket.Read(p)
	c.server.counts.bytesIn.Add(int64(n))
	return n, err
}

// waitForRoom waits until more may be read. It tells whether the connection goes
// on.
func (c *conn) waitForRoom() bool {
	return c.wait(func() bool { return c.answers.len() < answersMax && c.out.pending() < 2*outHigh })
}

// waitForAnswers waits until all that is owed is told, but for what will never be,
// or the connection has ended.
func (c *conn) waitForAnswers() {
	c.wait(func() bool { return c.answers.len() == 0 || c.pending == 0 })
}

// waitForCore waits for the calls of the core that are yet to come.
func (c *conn) waitForCore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending > 0 {
		c.waiting = true
		c.room.Wait()
	}
}

func (c *conn) wait(until func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.ended == endNot && !until() {
		c.waiting = true
		c.room.Wait()
	}
	c.waiting = false
	return c.ended == endNot
}

// expectCall notes that the core will call.
func (c *conn) expectCall() {
	c.mu.Lock()
	c.pending++
	c.mu.Unlock()
}

// calledLocked notes that it has, or will not.
func (c *conn) calledLocked() {
	if c.pending--; c.pending == 0 && c.waiting {
		c.room.Broadcast()
	}
}

func (c *conn) called() {
	c.mu.Lock()
	c.calledLocked()
	c.mu.Unlock()
}

// endBecause ends the connection with what its reading came to.
func (c *conn) endBecause(err error, draining context.Context) {
	var fault *wire.Error
	switch {
	case errors.Is(err, errLeft):
		c.end(endClient, 0, "")
	case draining.Err() != nil:
		c.end(endDrained, wire.ServerShuttingDown, "")
	case errors.As(err, &fault):
		c.server.options.Logger.Debug("mqtt: client refused", "peer", c.socket.RemoteAddr(), "client", c.id, "error", err)
		c.end(endLost, fault.Reason, fault.Text)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.end(endLost, wire.KeepAliveTimeout, "nothing was heard for too long")
	case err == nil, err == io.EOF:
		c.end(endLost, 0, "")
	default:
		c.end(endLost, 0, "")
	}
}

// end ends the connection, once. A reason that is not 0 is told to the client.
func (c *conn) end(how ending, r wire.Reason, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(how, r, text)
}

func (c *conn) endLocked(how ending, r wire.Reason, text string) {
	if c.ended != endNot {
		return
	}
	if r >= wire.Unspecified && c.entry != nil {
		if !c.problemInfo || len(wire.AppendDisconnect(nil, c.version, r, text)) > c.maxPacket {
			text = ""
		}
		c.putLocked(wire.AppendDisconnect(c.beginLocked(), c.version, r, text))
	}
	c.ended = how
	c.out.closed = true
	c.room.Broadcast()
	c.cancel()
	_ = c.socket.SetReadDeadline(time.Unix(1, 0)) // fails if the socket has
}

// takeOver ends the connection because another has its client identifier. Nobody
// waits for its socket.
func (c *conn) takeOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.hurry = true
	_ = c.socket.SetWriteDeadline(time.Now().Add(hurryTime)) // fails if the socket has
	c.endLocked(endTaken, wire.SessionTakenOver, "")
}

// drain ends the connection because the node stops: what is owed is still answered.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	_ = c.socket.SetReadDeadline(time.Unix(1, 0)) // fails if the socket has
}

// closeSocket closes the socket such that the peer gets to see what was written.
func (c *conn) closeSocket(draining context.Context) {
	if s, ok := c.socket.(interface{ SetLinger(time.Duration) }); ok && !c.out.broken && c.ended != endTaken {
		s.SetLinger(lingerTime)
		if draining.Err() != nil {
			s.SetLinger(lingerDraining)
		}
	}
	if err := c.socket.Close(); err != nil {
		c.server.options.Logger.Debug("mqtt: close", "peer", c.socket.RemoteAddr(), "error", err)
	}
}
