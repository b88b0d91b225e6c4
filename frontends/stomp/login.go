package stomp

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// versions is what accept-version may have, and what ERROR tells.
const versions = "1.0,1.1,1.2"

// login takes the first frame, which must be CONNECT or STOMP, and answers it.
func (c *conn) login(f *frame.Frame) error {
	if f.Command != frame.Connect && f.Command != frame.Stomp {
		return fail("Not connected", "The first frame must be CONNECT or STOMP.")
	}
	if len(f.Body) > 0 {
		return fail("Malformed frame", "%s has no body.", f.Command)
	}
	version, ok := negotiate(f)
	if !ok {
		return &fault{message: "Version mismatch", detail: "Supported versions are " + versions, version: true}
	}
	// A client of 1.0 may pad its headers.
	get := func(name string) string { return f.Get(name) }
	if version == frame.V10 {
		get = func(name string) string {
			for _, h := range f.Headers {
				if strings.TrimSpace(h.Name) == name {
					return strings.TrimSpace(h.Value)
				}
			}
			return ""
		}
	}
	if may := c.server.options.Authenticate; may != nil && !may(get("login"), get("passcode")) {
		c.server.refusals.Note(c.socket.RemoteAddr(), get("login"))
		return fail("Access refused", "There is no such login with that passcode.")
	}
	sends, wants, err := parseHeartBeat(get("heart-beat"))
	if err != nil {
		return err
	}
	least := c.server.options.HeartBeatMin
	ours, theirs := beats(wants, least), beats(sends, least)

	c.session = core.NewMessageID().String()
	if err := c.claim(get("client-id")); err != nil {
		return err
	}
	c.reader.SetVersion(version)
	o := &c.server.options
	c.reader.SetLimits(frame.Limits{
		CommandBytes: commandBytesMax, HeaderBytes: o.HeaderBytesMax, Headers: o.HeadersMax, BodyBytes: o.BodyBytesMax,
	})
	if theirs > 0 {
		c.silence = 2*theirs + time.Second
	}
	c.owner = c.client.NewOwner()
	c.loggedIn = true

	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.in = version, true
	c.server.counters.connected.Add(1)
	// A heart-beat of ours is late by what it takes to arrive.
	c.beatEvery = ours * 6 / 10
	b := frame.AppendCommand(c.out.begin(), frame.Connected)
	b = append(b, "version:"+version.String()+"\nheart-beat:"...)
	b = strconv.AppendInt(b, ours.Milliseconds(), 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, theirs.Milliseconds(), 10)
	b = append(b, "\nserver:LeaseMQ\nsession:"+c.session+"\n"...)
	if id := get("request-id"); id != "" && !strings.ContainsAny(id, ":\\") {
		b = append(b, "response-id:"+id+"\n"...)
	}
	c.out.put(frame.AppendEnd(b))
	c.out.poke()
	return nil
}

// negotiate returns the highest version that the client and we speak.
func negotiate(f *frame.Frame) (frame.Version, bool) {
	accepted, ok := f.Lookup("accept-version")
	if !ok {
		return frame.V10, true
	}
	var best frame.Version
	found := false
	for one := range strings.SplitSeq(accepted, ",") {
		for _, v := range []frame.Version{frame.V10, frame.V11, frame.V12} {
			if strings.TrimSpace(one) == v.String() {
				best, found = max(best, v), true
			}
		}
	}
	return best, found
}

// heartBeatMax is the longest heart-beat that can be asked for.
const heartBeatMax = 24 * time.Hour

// parseHeartBeat reads what a client can send, and what it wants.
func parseHeartBeat(s string) (sends, wants time.Duration, err error) {
	first, second, ok := strings.Cut(cmp.Or(s, "0,0"), ",")
	a, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 63)
	b, err2 := strconv.ParseUint(strings.TrimSpace(second), 10, 63)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, invalidHeader("heart-beat", s, "two numbers of milliseconds, such as 10000,10000")
	}
	most := uint64(heartBeatMax.Milliseconds())
	return time.Duration(min(a, most)) * time.Millisecond, time.Duration(min(b, most)) * time.Millisecond, nil
}

// beats returns the interval that is agreed to for a wish: never shorter than
// what was asked for, and none if none was.
func beats(wish, least time.Duration) time.Duration {
	if wish == 0 {
		return 0
	}
	return max(wish, least)
}
