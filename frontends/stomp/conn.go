package stomp

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// Bounds of what is read before a client has logged in.
const (
	loginBytesMax = 64 << 10
	loginBodyMax  = 1 << 10 // to tell those who send another frame what is wrong
)

// Linger times: how long a connection that we end is read from, so that its peer
// gets to see the last frame.
const (
	lingerTime     = 2 * time.Second
	lingerDraining = 500 * time.Millisecond
)

// conn is one connection.
type conn struct {
	server *Server
	client *core.Client
	owner  *core.Owner
	socket net.Conn
	reader *frame.Reader
	chunk  int // most bytes of one write
	ctx    context.Context
	cancel context.CancelFunc
	pumps  sync.WaitGroup
	wrote  chan struct{} // closed when the writer has ended
	gone   chan struct{} // closed when nothing is left of the session

	// The reader's own.
	version  frame.Version // written before any other goroutine reads it
	loggedIn bool
	greeting []byte // the first bytes
	clientID string
	session  string        // tells connections apart
	silence  time.Duration // longest without a byte of the client; 0: any
	places   map[string]destination
	temps    map[string]string // tokens of temporary destinations
	attrs    []core.Attribute

	beating bool // the writer's own

	mu        sync.Mutex
	room      sync.Cond // an answer was told, or the connection has ended
	out       outbox
	answers   answers
	beatEvery time.Duration // between heart-beats of ours; 0: none
	in        bool          // the client has logged in
	ended     bool          // nothing more is written
	clean     bool          // the client said DISCONNECT, or we are shutting down
	subs      map[string]*subscription
	byNumber  map[uint64]*subscription // with those that have ended and hold deliveries
	subCount  uint64
	autoOpen  int // deliveries in auto mode that are not written yet
	txs       map[string]*transaction
}

func (s *Server) newConn(ctx context.Context, socket net.Conn) *conn {
	c := &conn{
		server: s, client: s.client, socket: socket, wrote: make(chan struct{}), gone: make(chan struct{}), chunk: outChunk,
		subs: make(map[string]*subscription), byNumber: make(map[uint64]*subscription), txs: make(map[string]*transaction),
	}
	if _, ok := socket.(*frontends.WebSocket); ok {
		c.chunk = wholeBatches
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.room.L = &c.mu
	c.out.wake = make(chan struct{}, 1)
	c.reader = frame.NewReader(c, frame.Limits{
		CommandBytes: commandBytesMax, HeaderBytes: min(loginBytesMax, s.options.HeaderBytesMax),
		Headers: s.options.HeadersMax, BodyBytes: loginBodyMax,
	})
	return c
}

// serve reads frames until the connection is over, and cleans up.
func (c *conn) serve(draining context.Context) {
	go c.writeLoop()
	stop := context.AfterFunc(draining, c.drain)
	err := c.readFrames()
	stop()
	if text := noTLS(err); text != nil {
		c.tellInClear(text)
	}
	if f := readFault(err); f != nil {
		c.answerNow(answer{fault: f})
	}
	// What was read before the peer went is done and answered, as far as it can be.
	c.waitForAnswers()
	c.end(nil)
	<-c.wrote
	c.pumps.Wait()
	c.release()
	c.server.disclaim(c)
	close(c.gone)
	c.closeSocket(draining)
}

// readFrames handles frames until one ends the connection.
func (c *conn) readFrames() error {
	if err := c.socket.SetReadDeadline(time.Now().Add(c.server.options.LoginTimeout)); err != nil {
		return err
	}
	for c.waitForRoom() {
		f, err := c.reader.Read()
		if err != nil {
			if !c.loggedIn && isTimeout(err) {
				return fail("Login timeout", "No CONNECT came in time.")
			}
			return err
		}
		c.server.counters.read(f.Command)
		if !c.loggedIn {
			if err := c.login(f); err != nil {
				return err
			}
			continue
		}
		if err := c.handle(f); err != nil {
			c.answerNow(answer{fault: err, receipt: f.Get("receipt")})
			return nil
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// Read reads from the socket. Once a client has logged in, each read has its own
// deadline: while we do not read, silence is not the client's.
func (c *conn) Read(p []byte) (int, error) {
	if c.loggedIn {
		var deadline time.Time
		if c.silence > 0 {
			deadline = time.Now().Add(c.silence)
		}
		if err := c.socket.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
		if c.ctx.Err() != nil {
			// The deadline may have replaced the one that was to end this read.
			return 0, c.ctx.Err()
		}
	}
	n, err := c.socket.Read(p)
	if !c.loggedIn && n > 0 {
		if bad := c.greet(p[:n]); bad != nil {
			return 0, bad
		}
	}
	return n, err
}

// tellInClear writes below TLS, which was never spoken.
func (c *conn) tellInClear(text []byte) {
	below := frontends.Unwrap(c.socket)
	if below.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = below.Write(text) // the connection is of no use either way
	}
}

// hangUp ends a connection whose socket has failed.
func (c *conn) hangUp(err error) {
	if isTimeout(err) {
		c.server.counters.stalled.Add(1)
	}
	c.server.options.Logger.Debug("stomp: connection lost", "peer", c.socket.RemoteAddr(), "error", err)
	c.end(nil)
	abort(c.socket)
}

// drain ends a connection because the node stops: what is owed is still answered.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.clean = true
	c.answers.push(answer{done: true, fault: shuttingDown()})
	c.tellLocked()
	c.stopLocked()
}

// closeSocket closes the socket such that the peer gets to see what was written.
func (c *conn) closeSocket(draining context.Context) {
	if s, ok := c.socket.(interface{ SetLinger(time.Duration) }); ok && !c.out.broken {
		s.SetLinger(lingerTime)
		if draining.Err() != nil {
			s.SetLinger(lingerDraining)
		}
	}
	if err := c.socket.Close(); err != nil {
		c.server.options.Logger.Debug("stomp: close", "peer", c.socket.RemoteAddr(), "error", err)
	}
}

// release gives back what the session holds, at its old places. It counts as a
// failure of what the client was sent and never answered, if it went without a
// word.
func (c *conn) release() {
	c.mu.Lock()
	abnormal := !c.clean
	queues := c.leaveAllLocked()
	for _, tx := range c.txs {
		c.dropTx(tx)
	}
	c.txs = nil
	var unwritten []*subscription
	var consumers []*core.Consumer
	batches := make(map[*subscription][]core.Settlement)
	for _, s := range c.byNumber {
		if s.consumer != nil {
			consumers = append(consumers, s.consumer)
		}
		s.ledger.each(func(d *delivery) bool {
			if abnormal && d.end > c.out.written {
				batches[s] = append(batches[s], core.Settlement{Receipt: d.receipt, Action: core.SettleRelease})
			}
			return true
		})
		if len(batches[s]) > 0 {
			unwritten = append(unwritten, s)
		}
	}
	c.mu.Unlock()
	for _, s := range unwritten {
		c.settle(s.queue, batches[s])
	}
	if c.owner != nil {
		if err := c.client.ReleaseOwner(c.owner, abnormal); err != nil {
			c.server.complain("release a session", err)
		}
	}
	// What they held is at its old place again: who gets a group, or the queue of an
	// exclusive consumer, now has all of it.
	c.server.left(queues)
	for _, consumer := range consumers {
		consumer.Close()
	}
}

// settle settles without anybody waiting for it.
func (c *conn) settle(queue string, batch []core.Settlement) {
	err := c.client.SettleAsync(queue, batch, func([]error, error) {})
	if err != nil && !errors.Is(err, core.ErrNoQueue) {
		c.server.complain("settle deliveries", err)
	}
}
