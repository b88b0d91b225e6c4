package mqtt

import (
	"errors"
	"math"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// aliasesMax bounds the topic aliases of each direction.
const aliasesMax = 64

// errRefused ends a connection whose CONNECT was refused.
var errRefused = errors.New("the client was refused")

// connect takes the first packet and answers it.
func (c *conn) connect(pk *wire.Packet) error {
	in, err := wire.ParseConnect(pk)
	c.version = in.Version
	if err != nil {
		var fault *wire.Error
		if errors.As(err, &fault) && (c.version >= wire.V5 || fault.Reason == wire.UnsupportedVersion) {
			return c.refuse(fault)
		}
		return err // before MQTT 5 there is no word for it
	}
	c.maxPacket = math.MaxInt
	if in.MaxPacket > 0 {
		c.maxPacket = int(in.MaxPacket)
	}
	if fault := c.admit(in); fault != nil {
		return c.refuse(fault)
	}
	ack := wire.Connack{}
	if fault := c.identify(in, &ack); fault != nil {
		return c.refuse(fault)
	}
	c.problemInfo = in.ProblemInfo
	c.window = min(int(in.ReceiveMax), c.server.options.ReceiveMax)
	c.aliasMax = min(int(in.AliasMax), aliasesMax)
	entry, err := c.server.registry.claim(c.id, c)
	if err != nil {
		var fault *wire.Error
		errors.As(err, &fault)
		return c.refuse(fault)
	}
	// From here on the session is ours to give back.
	c.owner = c.client.NewOwner()
	resumed, err := c.openSession(in, entry)
	if err != nil {
		var fault *wire.Error
		if !errors.As(err, &fault) {
			c.server.complain("open a session", err)
			fault = wire.Fail(reasonOf(err), "the session could not be opened")
		}
		c.server.registry.release(entry)
		c.server.timers.add(timer{at: c.server.now(), name: c.key}) // what came due meanwhile
		return c.refuse(fault)
	}
	c.mu.Lock()
	c.entry = entry // read by who takes over
	c.mu.Unlock()
	c.limit(in, &ack)
	c.reader.SetMax(c.server.options.PacketBytesMax)
	ack.Present = resumed != nil
	c.mu.Lock()
	c.putLocked(ack.Append(c.beginLocked(), c.version))
	c.mu.Unlock()
	c.server.counts.connects.Add(1)
	if resumed != nil {
		return c.resume(resumed)
	}
	return nil
}

// refuse answers a CONNECT that is refused.
func (c *conn) refuse(fault *wire.Error) error {
	c.server.options.Logger.Debug("mqtt: client refused", "peer", c.socket.RemoteAddr(), "error", fault)
	ack := wire.Connack{Reason: fault.Reason, Text: fault.Text}
	v := c.version
	if v > wire.V5 {
		v = wire.V5
	}
	if c.maxPacket > 0 && len(ack.Append(nil, v)) > c.maxPacket {
		ack.Text = ""
	}
	c.mu.Lock()
	c.putLocked(ack.Append(c.beginLocked(), v))
	c.mu.Unlock()
	return errRefused
}

// admit tells whether the client may log in.
func (c *conn) admit(in *wire.Connect) *wire.Error {
	if in.AuthMethod != "" {
		return wire.Fail(wire.BadAuthentication, "the authentication method is not known")
	}
	name, certified := frontends.PeerName(c.socket)
	if may := c.server.options.Authenticate; may != nil {
		switch {
		case in.HasUser && may(in.User, in.Password):
			c.principal = in.User
		case !in.HasUser && certified:
			c.principal = name
		default:
			c.server.refusals.Note(c.socket.RemoteAddr(), in.User)
			return wire.Fail(wire.BadUserOrPassword, "there is no such user with that password")
		}
	} else if certified {
		c.principal = name
	}
	if in.Will != nil && reservedTopic(in.Will.Topic) {
		return wire.Fail(wire.BadTopic, "the topic of the will is reserved")
	}
	return nil
}

// identify finds the client identifier, which is given to a client without.
func (c *conn) identify(in *wire.Connect, ack *wire.Connack) *wire.Error {
	c.id = in.ClientID
	if c.id == "" {
		if c.version == wire.V31 || c.version == wire.V311 && !in.Clean {
			return wire.Fail(wire.BadClientID, "there is no client identifier")
		}
		c.id = "auto-" + core.NewMessageID().String()
		ack.AssignedID = c.id
	}
	c.key = state.Key(c.id)
	c.from = "mqtt:" + c.id
	c.inName, c.outName = state.In(c.key), state.Out(c.key)
	return nil
}

// limit takes over what the client asks for, within bounds that it is told.
func (c *conn) limit(in *wire.Connect, ack *wire.Connack) {
	o := &c.server.options
	alive := time.Duration(in.KeepAlive) * time.Second
	if limit := o.KeepAliveMax; limit > 0 && (alive == 0 || alive > limit) && c.version == wire.V5 {
		alive = limit
		ack.HasKeepAlive, ack.KeepAlive = true, uint16(limit/time.Second)
	}
	c.silence = alive + alive/2
	ack.ReceiveMax = uint16(o.ReceiveMax)
	ack.MaxPacket = uint32(o.PacketBytesMax)
	ack.AliasMax = aliasesMax
	if c.record.Expiry != in.SessionExpiry {
		ack.HasExpiry, ack.SessionExpiry = true, c.record.Expiry
	}
}

// expiryOf returns how long the session outlives the connection, in seconds.
func (s *Server) expiryOf(in *wire.Connect) uint32 {
	most := uint32(min(s.options.SessionExpiryMax/time.Second, math.MaxUint32-1))
	switch {
	case in.Version == wire.V5:
		return min(in.SessionExpiry, most)
	case in.Clean:
		return 0
	}
	return most
}
