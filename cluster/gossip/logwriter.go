package gossip

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// linesMax is how many lines of memberlist are logged in a second: packets that are
// garbage cost one each.
const linesMax = 10

// logWriter logs the lines of memberlist.
type logWriter struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time
	lines   int
	dropped int
}

// Write logs one line, unless there were too many.
func (w *logWriter) Write(b []byte) (int, error) {
	level, text := parseLine(string(b))
	if !w.log.Enabled(context.Background(), level) {
		return len(b), nil
	}
	if dropped, ok := w.admit(time.Now()); !ok {
		return len(b), nil
	} else if dropped > 0 {
		text += " (" + strconv.Itoa(dropped) + " lines before were dropped)"
	}
	w.log.Log(context.Background(), level, text)
	return len(b), nil
}

// admit reports whether a line may be logged now, and how many were dropped before it.
func (w *logWriter) admit(now time.Time) (dropped int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) >= time.Second {
		w.since, w.lines = now, 0
	}
	if w.lines++; w.lines > linesMax {
		w.dropped++
		return 0, false
	}
	dropped, w.dropped = w.dropped, 0
	return dropped, true
}

// parseLine splits "[LEVEL] memberlist: text". What is an error there comes from the
// network: none of this node.
func parseLine(line string) (slog.Level, string) {
	line = strings.TrimSpace(line)
	level, text, ok := strings.Cut(line, "] ")
	if !ok {
		return slog.LevelInfo, line
	}
	text = strings.TrimPrefix(text, "memberlist: ")
	switch level {
	case "[ERR":
		return slog.LevelWarn, text
	case "[WARN":
		return slog.LevelInfo, text
	case "[INFO", "[DEBUG":
		return slog.LevelDebug, text
	}
	return slog.LevelInfo, line
}
