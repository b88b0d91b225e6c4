package clustertest

import (
	"errors"
	"sync"
)

// errKilled is what a process sees of the world after its end.
var errKilled = errors.New("process was killed")

// Gate is a process that can be paused and killed. Whatever the process does to
// the world, and the world to it, passes through it.
type Gate struct {
	mu     sync.Mutex
	paused chan struct{} // closed when it goes on; nil: it runs
	dead   bool
}

// Pass waits while the process is paused, and returns an error once it is killed.
func (g *Gate) Pass() error {
	for {
		g.mu.Lock()
		paused, dead := g.paused, g.dead
		g.mu.Unlock()
		switch {
		case dead:
			return errKilled
		case paused == nil:
			return nil
		}
		<-paused
	}
}

// Pause stops the process, Resume lets it go on.
func (g *Gate) Pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused == nil && !g.dead {
		g.paused = make(chan struct{})
	}
}

// Resume lets a paused process go on.
func (g *Gate) Resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused != nil {
		close(g.paused)
		g.paused = nil
	}
}

// Kill ends the process.
func (g *Gate) Kill() {
	g.mu.Lock()
	g.dead = true
	g.mu.Unlock()
	g.Resume()
}
