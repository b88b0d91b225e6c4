package bench

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestIdleFindsWhoIsLost: a server that refuses is an error of the run, and one that
// drops connections later, or never sends a heart-beat, makes it unclean.
func TestIdleFindsWhoIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		keeps  bool
		want   string
	}{
		"refused": {"ERROR\nmessage:no\n\n\x00", false, "answered by"},
		"dropped": {"CONNECTED\nversion:1.2\n\n\x00\n", false, "idle: EOF"},
		"silent":  {"CONNECTED\nversion:1.2\n\n\x00\n", true, "idle: read: i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						r := bufio.NewReader(conn)
						_, _ = r.ReadBytes(0)
						_, _ = io.WriteString(conn, c.answer)
						for c.keeps {
							if _, err := r.ReadByte(); err != nil {
								return
							}
						}
					}()
				}
			}()
			res, err := RunIdle(t.Context(), IdleOptions{
				Wire: "stomp", Target: ln.Addr().String(), Connections: 3, Beat: time.Second, Duration: 3 * time.Second,
			})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = res.Trouble()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("the run says %q, want %q", got, c.want)
			}
		})
	}
}
