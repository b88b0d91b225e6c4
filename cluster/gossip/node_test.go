package gossip

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLogMembers(t *testing.T) {
	logs := func(names ...string) (ms []Member) {
		for _, n := range names {
			ms = append(ms, Member{ID: "id-" + n, State: Alive, Node: Node{Name: n, Roles: []string{"broker", RoleLog}}})
		}
		return ms
	}
	edit := func(ms []Member, f func(m *Member)) []Member { f(&ms[len(ms)-1]); return ms }
	for name, c := range map[string]struct {
		members []Member
		n       int
		want    string // error, or "" for none
		found   int
	}{
		"all":                    {logs("a", "b", "c"), 3, "", 3},
		"too few":                {logs("a", "b"), 3, "", 0},
		"too many":               {logs("a", "b", "c", "d"), 3, "4 log members, want 3", 0},
		"one is dead":            {edit(logs("a", "b", "c"), func(m *Member) { m.State = Dead }), 3, "", 0},
		"one leaves":             {edit(logs("a", "b", "c"), func(m *Member) { m.Node.Leaving = true }), 3, "", 0},
		"one has another role":   {edit(logs("a", "b", "c"), func(m *Member) { m.Node.Roles = []string{"x"} }), 3, "", 0},
		"one expects another":    {edit(logs("a", "b"), func(m *Member) { m.Node.Expect = 2 }), 3, "node b expects 2 log members, this one 3", 0},
		"a dead one expects":     {edit(logs("a", "b", "c"), func(m *Member) { m.Node.Expect, m.State = 2, Dead }), 2, "", 2},
		"one name before all is": {logs("a", "a"), 3, "a is the name of", 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := logMembers(c.members, c.n)
			if len(found) != c.found || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d members, error %v; want %d, %q", len(found), err, c.found, c.want)
			}
		})
	}
}

func TestLogRoutes(t *testing.T) {
	now := time.Now()
	m := func(name, route string, s State, ago time.Duration, roles ...string) Member {
		return Member{ID: name + route, State: s, Since: now.Add(-ago), Node: Node{Name: name, Route: route, Roles: roles}}
	}
	got := LogRoutes([]Member{
		m("c", "10.0.0.3:6222", Dead, 0, RoleLog),
		m("b", "[::1]:6222", Left, time.Hour, "broker", RoleLog),
		m("b", "old:6222", Dead, 2*time.Hour, RoleLog),
		m("a", "gone:6222", Dead, 0, RoleLog),
		m("a", "host-a:6222", Alive, time.Hour, RoleLog),
		m("d", "10.0.0.4:6222", Alive, 0, "broker"),
		m("e", "", Alive, 0, RoleLog),
		m("f", "no-port", Alive, 0, RoleLog),
		m("g", ":6222", Alive, 0, RoleLog),
		m("h", "host:0", Alive, 0, RoleLog),
	})
	if want := []string{"host-a:6222", "[::1]:6222", "10.0.0.3:6222"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 16)
	for name, c := range map[string]struct {
		edit func(o *Options)
		want string // "" for none
	}{
		"loopback without a key":       {func(*Options) {}, ""},
		"IPv6 loopback without a key":  {func(o *Options) { o.Bind = netip.MustParseAddrPort("[::1]:0") }, ""},
		"another address with a key":   {func(o *Options) { o.Bind, o.Keys = netip.MustParseAddrPort("10.1.1.1:1"), [][]byte{key} }, ""},
		"another address, no key":      {func(o *Options) { o.Bind = netip.MustParseAddrPort("10.1.1.1:1") }, "needs a key"},
		"all addresses, no key":        {func(o *Options) { o.Bind, o.Advertise = netip.MustParseAddrPort("0.0.0.0:1"), o.Bind }, "needs a key"},
		"all addresses":                {func(o *Options) { o.Bind, o.Keys = netip.MustParseAddrPort("0.0.0.0:1"), [][]byte{key} }, "an address to advertise"},
		"all addresses are advertised": {func(o *Options) { o.Advertise = netip.MustParseAddrPort("[::]:1") }, "cannot advertise"},
		"nowhere":                      {func(o *Options) { o.Bind = netip.AddrPort{} }, "IP address to bind"},
		"no id":                        {func(o *Options) { o.ID = "" }, `id ""`},
		"no cluster":                   {func(o *Options) { o.Cluster = "" }, `name "" of the cluster`},
		"a cluster with spaces":        {func(o *Options) { o.Cluster = "a b" }, `name "a b" of the cluster`},
		"no name":                      {func(o *Options) { o.Node.Name = "" }, `name "" of the node`},
		"a long name":                  {func(o *Options) { o.Node.Name = strings.Repeat("a", 65) }, "1 to 64 letters"},
		"much to say":                  {func(o *Options) { o.Node.Version = strings.Repeat("a", NodeBytesMax) }, "over 512"},
		"a short key":                  {func(o *Options) { o.Keys = [][]byte{key, key[:5]} }, "key of 5 bytes"},
		"seeds":                        {func(o *Options) { o.Seeds = []string{"h", "h:1", "::1", "[::1]:7", "10.0.0.1"} }, ""},
		"a seed with a bad port":       {func(o *Options) { o.Seeds = []string{"h:0"} }, `port "0"`},
		"a seed with a big port":       {func(o *Options) { o.Seeds = []string{"h:65536"} }, `port "65536"`},
		"a seed that is a URL":         {func(o *Options) { o.Seeds = []string{"http://h:1"} }, `host "http://h:1"`},
		"an empty seed":                {func(o *Options) { o.Seeds = []string{""} }, `host ""`},
		"many seeds":                   {func(o *Options) { o.Seeds = slices.Repeat([]string{"h"}, seedsMax+1) }, "65 seeds"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options("a")
			c.edit(&o)
			_, encodeErr := o.Node.encode()
			err := errors.Join(o.check(), encodeErr)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if err == nil {
				return
			}
			if g, err := Start(o); err == nil {
				_ = g.Close()
				t.Error("a node starts with it")
			}
		})
	}
}

func TestAPortThatIsTakenIsTold(t *testing.T) {
	a := start(t, options("a"))
	o := options("b")
	o.Bind = a.Self().Address
	if g, err := Start(o); err == nil {
		_ = g.Close()
		t.Error("two nodes are at one address")
	} else if !strings.Contains(err.Error(), o.Bind.String()) {
		t.Errorf("the error %q does not name %v", err, o.Bind)
	}
}

func TestSplitSeed(t *testing.T) {
	for seed, want := range map[string]struct {
		host string
		port uint16
	}{
		"h.example":    {"h.example", PortDefault},
		"h:1":          {"h", 1},
		"::1":          {"::1", PortDefault},
		"[fe80::1]:70": {"fe80::1", 70},
		"10.0.0.1:80":  {"10.0.0.1", 80},
	} {
		if host, port, err := splitSeed(seed); host != want.host || port != want.port || err != nil {
			t.Errorf("seed %q: %q, %d, error %v; want %q, %d", seed, host, port, err, want.host, want.port)
		}
	}
}

// FuzzDecode reads what a peer may say: what is taken is encoded to the same.
func FuzzDecode(f *testing.F) {
	full := Node{
		Name: "a", Route: "h:1", Clients: map[string]string{"sqs": "h:2"}, Relay: "h:3", Roles: []string{RoleLog},
		Version: "1", Applied: 1, Expect: 3, Leaving: true,
	}
	b, err := full.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"n":"a","later":{}}`))
	f.Add([]byte(`{"n":"a b"}`))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decode(b)
		if err != nil {
			return
		}
		again, err := n.encode()
		if err != nil {
			return // longer in this form
		}
		if m, err := decode(again); err != nil || m.Name != n.Name || m.Applied != n.Applied {
			t.Errorf("%q is %+v, then %+v, error %v", b, n, m, err)
		}
	})
}

func TestLinesOfTheLibraryAreLogged(t *testing.T) {
	for line, want := range map[string]struct {
		level slog.Level
		text  string
	}{
		"[ERR] memberlist: no\n":    {slog.LevelWarn, "no"},
		"[WARN] memberlist: a] b":   {slog.LevelInfo, "a] b"},
		"[INFO] memberlist: up":     {slog.LevelDebug, "up"},
		"[DEBUG] memberlist: x":     {slog.LevelDebug, "x"},
		"[ERR] Failed to shut down": {slog.LevelWarn, "Failed to shut down"},
		"free [::1] text":           {slog.LevelInfo, "free [::1] text"},
		"":                          {slog.LevelInfo, ""},
	} {
		if level, text := parseLine(line); level != want.level || text != want.text {
			t.Errorf("%q is %v %q, want %v %q", line, level, text, want.level, want.text)
		}
	}
}

func TestManyLinesOfTheLibraryAreDropped(t *testing.T) {
	var out bytes.Buffer
	w := &logWriter{log: slog.New(slog.NewTextHandler(&out, nil))}
	w.since = time.Now().Add(time.Hour) // this second does not end
	for range 3 * linesMax {
		_, _ = w.Write([]byte("[ERR] memberlist: no\n"))
	}
	if n := strings.Count(out.String(), "\n"); n != linesMax {
		t.Errorf("%d lines in a second, want %d", n, linesMax)
	}
	w.since = time.Time{}
	_, _ = w.Write([]byte("[ERR] memberlist: yes\n"))
	if !strings.Contains(out.String(), "yes (20 lines before were dropped)") {
		t.Errorf("what was dropped is not told:\n%s", out.String())
	}
	out.Reset()
	_, _ = w.Write([]byte("[DEBUG] memberlist: x\n"))
	if out.Len() > 0 {
		t.Errorf("a line below the level is logged: %s", out.String())
	}
}
