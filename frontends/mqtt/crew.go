package mqtt

// crewIdleMax is how many goroutines of a crew wait for work at most.
const crewIdleMax = 64

// crew are goroutines for what connections have to do now and then, so that an
// idle connection has none but its reader. One that is done waits for more: the
// next needs no new one, whose stack would have to grow first.
type crew struct {
	tasks chan task
	idle  chan struct{} // a token for each that waits, or is about to
}

type task interface{ do() }

func newCrew() *crew {
	return &crew{tasks: make(chan task), idle: make(chan struct{}, crewIdleMax)}
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
		select {
		case c.idle <- struct{}{}:
		default:
			return
		}
		if t = <-c.tasks; t != nil {
			<-c.idle
		}
	}
}

// end lets those go that wait, while nothing is given to them.
func (c *crew) end() {
	for {
		select {
		case <-c.idle:
			c.tasks <- nil
		default:
			return
		}
	}
}
