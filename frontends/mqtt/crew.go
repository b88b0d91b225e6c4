package mqtt

import "sync"

// crewIdleMax is how many goroutines of a crew wait for work at most.
const crewIdleMax = 64

// crew are goroutines for what connections have to do now and then, so that an
// idle connection has none but its reader. One that is done waits for more: the
// next needs no new one, whose stack would have to grow first.
type crew struct {
	tasks chan task

	mu   sync.Mutex
	idle int           // that wait, or are about to
	stop chan struct{} // closed by end; nil: none may wait
}

type task interface{ do() }

func newCrew() *crew { return &crew{tasks: make(chan task)} }

// begin lets goroutines wait for work, until end.
func (c *crew) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.stop = make(chan struct{})
	}
}

// end lets go those that wait. Those that are at work wait for no more.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		close(c.stop)
		c.stop = nil
	}
}

// do has t done without waiting for it.
func (c *crew) do(t task) {
	select {
	case c.tasks <- t:
	default:
		go c.work(t)
	}
}

func (c *crew) work(t task) {
	for t != nil {
		t.do()
		t = c.wait()
	}
}

// wait returns the next task, nil if there is none to wait for.
func (c *crew) wait() (t task) {
	c.mu.Lock()
	stop := c.stop
	if stop == nil || c.idle == crewIdleMax {
		c.mu.Unlock()
		return nil
	}
	c.idle++
	c.mu.Unlock()
	select {
	case t = <-c.tasks:
	case <-stop:
	}
	c.mu.Lock()
	c.idle--
	c.mu.Unlock()
	return t
}
