package stomp

import (
	"time"

	"github.com/leasemq/broker/frontends/stomp/frame"
)

// Bounds of what a connection has been asked for and has not answered yet. The
// reader waits beyond them.
const (
	answersMax     = 1024
	answerBytesMax = 8 << 20
)

// answer is what one frame is owed. Frames that ask for no receipt and cannot
// fail later are owed nothing.
type answer struct {
	receipt string
	fault   *fault
	size    int           // bytes of the frame's body
	done    bool          // it can be told
	starts  *subscription // which begins when this has been told
	ends    bool          // the connection ends in order when this has been told
}

// answers are owed in the order of frames. conn.mu guards them.
type answers struct {
	list  []answer
	head  int
	first uint64 // number of list[head]
	bytes int
}

func (a *answers) len() int { return len(a.list) - a.head }

// full tells whether the reader has to wait.
func (a *answers) full() bool { return a.len() >= answersMax || a.bytes > answerBytesMax }

// push adds an answer and returns its number.
func (a *answers) push(x answer) uint64 {
	if a.head == len(a.list) {
		a.list, a.head = a.list[:0], 0
	} else if a.head > answersMax {
		a.list = append(a.list[:0], a.list[a.head:]...)
		a.head = 0
	}
	a.list = append(a.list, x)
	a.bytes += x.size
	return a.first + uint64(a.len()) - 1
}

// at returns the answer of a number.
func (a *answers) at(n uint64) *answer { return &a.list[a.head+int(n-a.first)] }

// pop takes the first answer, if it can be told.
func (a *answers) pop() (answer, bool) {
	if a.len() == 0 || !a.list[a.head].done {
		return answer{}, false
	}
	x := a.list[a.head]
	a.list[a.head] = answer{}
	a.head++
	a.first++
	a.bytes -= x.size
	return x, true
}

// owe notes that the frame in hand is to be answered, and returns the number for
// settleAnswer.
func (c *conn) owe(x answer) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers.push(x)
}

// answerNow answers the frame in hand: behind all that are still to be answered.
func (c *conn) answerNow(x answer) {
	c.mu.Lock()
	x.done = true
	c.answers.push(x)
	c.tellLocked()
	c.mu.Unlock()
}

// settleAnswer says what became of a frame. It is called by callbacks of the core,
// too.
func (c *conn) settleAnswer(n uint64, f *fault) {
	c.mu.Lock()
	x := c.answers.at(n)
	x.done, x.fault = true, f
	c.tellLocked()
	c.mu.Unlock()
}

// tellLocked writes the answers that are due.
func (c *conn) tellLocked() {
	told := false
	for !c.ended {
		x, ok := c.answers.pop()
		if !ok {
			break
		}
		told = true
		if x.fault != nil {
			c.endLocked(x.fault, x.receipt)
			break
		}
		if x.receipt != "" {
			b := frame.AppendCommand(c.out.begin(), frame.Receipt)
			b = frame.AppendHeader(b, c.version, "receipt-id", x.receipt)
			c.out.put(frame.AppendEnd(b))
			c.out.poke()
			c.server.counters.receipts.Add(1)
		}
		if x.starts != nil {
			c.startLocked(x.starts)
		}
		if x.ends {
			c.clean = true
			c.endLocked(nil, "")
		}
	}
	if told {
		c.room.Signal()
	}
}

// endLocked makes f, if there is one, the last frame of the connection. Nothing
// is written behind it.
func (c *conn) endLocked(f *fault, receipt string) {
	if c.ended {
		return
	}
	c.ended = true
	if f != nil {
		c.server.counters.faults.Add(1)
		c.out.put(appendError(c.out.begin(), c.version, f, receipt))
	}
	c.out.closed = true
	c.out.poke()
	c.room.Signal()
	c.stopLocked()
}

// stopLocked ends the read in hand and all receives.
func (c *conn) stopLocked() {
	c.cancel() // before the deadline; see Read
	_ = c.socket.SetReadDeadline(time.Unix(1, 0))
	c.wakePumpsLocked()
}

// end is endLocked.
func (c *conn) end(f *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(f, "")
}

// waitForRoom waits until another frame may be taken on. It fails when the
// connection has ended.
func (c *conn) waitForRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.answers.full() && !c.ended {
		c.room.Wait()
	}
	return !c.ended
}

// waitForAnswers waits until all that is owed has been told.
func (c *conn) waitForAnswers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.answers.len() > 0 && !c.ended {
		c.room.Wait()
	}
}

// appendError appends an ERROR frame.
func appendError(b []byte, v frame.Version, f *fault, receipt string) []byte {
	if f.http {
		return f.appendHTTP(b)
	}
	b = frame.AppendCommand(b, frame.Error)
	b = frame.AppendHeader(b, v, "message", f.message)
	b = frame.AppendHeader(b, v, "content-type", "text/plain")
	if f.version {
		b = append(b, "version:"+versions+"\n"...)
	}
	if receipt != "" {
		b = frame.AppendHeader(b, v, "receipt-id", receipt)
	}
	return frame.AppendBody(b, append([]byte(f.detail), '\n'))
}
