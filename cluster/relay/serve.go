package relay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the pause between two tries after one that failed.
const (
	pauseMin = 5 * time.Millisecond
	pauseMax = time.Second
)

// serve accepts until ctx is done, or ln fails, and handles each connection on a
// goroutine of its own. It closes ln and waits for what it has started.
func serve(ctx context.Context, ln net.Listener, log *slog.Logger, handle func(context.Context, net.Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	closing := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closing)
		_ = ln.Close()
	})
	defer func() {
		if stop() {
			_ = ln.Close()
			return
		}
		<-closing
	}()
	var pause time.Duration
	for {
		c, err := ln.Accept()
		if err == nil {
			pause = 0
			running.Go(func() { handle(ctx, c) })
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		// As in the listeners of frontends: what passes, such as a lack of file
		// descriptors, must not end a node.
		var t interface{ Temporary() bool }
		if !errors.As(err, &t) || !t.Temporary() {
			return err
		}
		pause = min(max(2*pause, pauseMin), pauseMax)
		log.Warn("accept", "address", ln.Addr().String(), "error", err, "retry_in", pause)
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

// sleep returns false if ctx ended before d was over.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// addrPort is the zero AddrPort where a is not of TCP.
func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort()
	}
	return netip.AddrPort{}
}

// occasional lets one log line a second through, of what a peer can cause often.
type occasional struct {
	next atomic.Int64 // nanoseconds since 1970
}

func (o *occasional) now() bool {
	now, next := time.Now().UnixNano(), o.next.Load()
	return now >= next && o.next.CompareAndSwap(next, now+int64(time.Second))
}
