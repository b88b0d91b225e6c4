package frontends

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Of many refused logins a few are logged, and how many they were.
func TestRefusalsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := NewRefusals("stomp", slog.New(slog.NewTextHandler(&out, nil)))
		peer := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711}
		time.Sleep(time.Second)
		for range 1000 {
			r.Note(peer, "root\xff"+strings.Repeat("x", 1000))
		}
		if n := strings.Count(out.String(), "\n"); n != refusalsMax {
			t.Errorf("%d lines for 1000 refusals, want %d", n, refusalsMax)
		}
		if line, _, _ := strings.Cut(out.String(), "\n"); !strings.Contains(line, "peer=192.0.2.7:4711") || len(line) > 250 {
			t.Errorf("logged %q", line)
		}
		out.Reset()
		time.Sleep(refusalsEvery)
		r.Note(peer, "guest")
		if got := out.String(); !strings.Contains(got, "more_before=990") || !strings.Contains(got, "user=guest") {
			t.Errorf("logged later: %q", got)
		}
	})
}
