package broker

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/mqtt"
	"github.com/leasemq/broker/frontends/sqs"
	"github.com/leasemq/broker/frontends/stomp"
)

// Kind is a kind of frontend that a node can run.
type Kind struct {
	// Name is what --frontends calls it.
	Name string
	// Ports lists the listeners that the frontend has on a node of that
	// configuration. They are bound for as long as the node runs.
	Ports func(c configs.Config) []Port
	// Open makes the frontend over the engine of h. A node of a cluster does so
	// each time that it becomes the primary.
	Open func(h Host) (Frontend, error)
}

// Port is an address at which a node listens.
type Port struct {
	Name    string // in Node.Addr and the ports file
	Address string // host:port; the host of the configuration if it has none
	// TLS has the frontend get connections that speak TLS, with the certificates of
	// the configuration. If clients need one too, the port is guarded.
	TLS bool
	// Guarded says that clients have to prove who they are, so that other
	// machines may reach the port.
	Guarded bool
}

// Frontend is an open frontend.
type Frontend struct {
	// Serve has who serves each of the ports, by name. It returns when ctx has
	// ended and the frontend has drained, and closes ln.
	Serve map[string]func(ctx context.Context, ln net.Listener) error
	// Reload takes over what of c may change while the frontend runs; nil: nothing
	// may.
	Reload func(c configs.Config) error
}

// Host is what a node gives its frontends.
type Host struct {
	Engine *core.Engine
	Config configs.Config
	Logger *slog.Logger
	// Version is the broker's.
	Version string
	// Authenticate tells whether a user has this password; nil: there are no users.
	Authenticate func(name, password string) bool
	// Collect adds to /metrics.
	Collect func(prometheus.Collector)
}

// SQS is the frontend that speaks Amazon SQS.
func SQS() Kind {
	return Kind{Name: "sqs", Open: openSQS, Ports: func(c configs.Config) []Port {
		return withTLS(Port{Name: "sqs", Address: c.SQS.Listen, Guarded: len(c.SQS.AccessKeys) > 0}, c.SQS.TLSListen)
	}}
}

func openSQS(h Host) (Frontend, error) {
	c := h.Config.SQS
	requests := newRequestMetrics()
	h.Collect(requests)
	server, err := sqs.New(h.Engine, sqs.Options{
		Region:        c.Region,
		Account:       c.Account,
		URLBase:       c.URLBase,
		RelaxedLimits: c.Limits == "relaxed",
		AutoCreate:    c.AutoCreate || h.Config.Dev,
		NewQueue:      newQueue(h.Config, sqs.DefaultNewQueue),
		Logger:        h.Logger,
		Observe:       requests.observe,

		AccessKeys:          accessKeys(c),
		SigningRegion:       c.SigningRegion,
		RefuseSessionTokens: c.SessionTokens == "refuse",
		EncodePayloads:      c.MQTTPayload == "base64",
	})
	if err != nil {
		return Frontend{}, err
	}
	return Frontend{
		Serve:  serving("sqs", server.Serve),
		Reload: func(c configs.Config) error { return server.SetAccessKeys(accessKeys(c.SQS)) },
	}, nil
}

// withTLS adds a port of the same frontend that speaks TLS, at address, and leaves
// out those without an address.
func withTLS(plain Port, address string) []Port {
	secure := plain
	secure.Name, secure.Address, secure.TLS = plain.Name+tlsSuffix, address, true
	return slices.DeleteFunc([]Port{plain, secure}, func(p Port) bool { return p.Address == "" })
}

// serving has serve serve the port of that name, and the one that speaks TLS.
func serving(name string, serve func(ctx context.Context, ln net.Listener) error) map[string]func(context.Context, net.Listener) error {
	return map[string]func(context.Context, net.Listener) error{name: serve, name + tlsSuffix: serve}
}

// tlsSuffix ends the name of a listener that speaks TLS.
const tlsSuffix = "_tls"

// STOMP is the frontend that speaks STOMP, over TCP and over WebSocket.
func STOMP() Kind {
	return Kind{Name: "stomp", Open: openSTOMP, Ports: func(c configs.Config) []Port {
		return ofUsers(c, "stomp", c.STOMP.Listen, c.STOMP.TLSListen, c.STOMP.WSListen, c.STOMP.WSTLSListen)
	}}
}

func openSTOMP(h Host) (Frontend, error) {
	c := h.Config.STOMP
	o := stomp.Options{
		NoAutoCreate:     !c.AutoCreate && !h.Config.Dev,
		NewQueue:         newQueue(h.Config, stomp.DefaultNewQueue),
		Origins:          c.WSOrigins,
		BodyBytesMax:     int(c.MaxBody),
		MaxConnections:   c.MaxConnections,
		HeartBeatMin:     c.HeartBeatMin,
		Hold:             c.Hold,
		Prefetch:         c.Prefetch,
		PrefetchBytes:    c.PrefetchSize,
		TopicMessages:    c.TopicMessages,
		TopicBytes:       c.TopicSize,
		CloseSlow:        c.SlowSubscriber == "close",
		NackToDeadLetter: c.Nack == "dead-letter",
		LooseGroups:      !c.StickyGroups,
		Authenticate:     h.Authenticate,
		Logger:           h.Logger,
	}
	if o.Hold == 0 {
		o.Hold = -1 // for ever
	}
	server, err := stomp.New(h.Engine, o)
	if err != nil {
		return Frontend{}, err
	}
	h.Collect(newSTOMPMetrics(server))
	return overWeb(server), nil
}

// webServer is a frontend that is spoken over WebSocket, too.
type webServer interface {
	frontends.Frontend
	ServeWebSocket(ctx context.Context, ln net.Listener) error
}

// ofUsers lists the ports of a frontend that users log in to.
func ofUsers(c configs.Config, name, plain, tls, ws, wsTLS string) []Port {
	guarded := c.UsersFile != ""
	return append(withTLS(Port{Name: name, Address: plain, Guarded: guarded}, tls),
		withTLS(Port{Name: name + webSuffix, Address: ws, Guarded: guarded}, wsTLS)...)
}

// webSuffix ends the name of a port of WebSocket.
const webSuffix = "_ws"

func overWeb(s webServer) Frontend {
	serve := serving(s.Name(), s.Serve)
	maps.Copy(serve, serving(s.Name()+webSuffix, s.ServeWebSocket))
	return Frontend{Serve: serve}
}

// MQTT is the frontend that speaks MQTT, over TCP and over WebSocket.
func MQTT() Kind {
	return Kind{Name: "mqtt", Open: openMQTT, Ports: func(c configs.Config) []Port {
		return ofUsers(c, "mqtt", c.MQTT.Listen, c.MQTT.TLSListen, c.MQTT.WSListen, c.MQTT.WSTLSListen)
	}}
}

func openMQTT(h Host) (Frontend, error) {
	c := h.Config.MQTT
	server, err := mqtt.New(h.Engine, mqtt.Options{
		PacketBytesMax:   int(c.MaxPacket),
		ReceiveMax:       c.ReceiveMaximum,
		MaxConnections:   c.MaxConnections,
		SessionExpiryMax: c.SessionExpiry,
		KeepAliveMax:     c.KeepAliveMax,
		DenyFilters:      c.DenySubscribe,
		Version:          h.Version,
		LooseMessages:    c.QueueMessages,
		LooseBytes:       c.QueueSize,
		SessionMessages:  c.SessionMessages,
		SessionBytes:     c.SessionSize,
		Origins:          c.WSOrigins,
		Authenticate:     h.Authenticate,
		Logger:           h.Logger,
	})
	if err != nil {
		return Frontend{}, err
	}
	h.Collect(mqttMetrics{server})
	return overWeb(server), nil
}

func accessKeys(c configs.SQS) []sqs.AccessKey {
	var keys []sqs.AccessKey
	for _, k := range c.AccessKeys {
		keys = append(keys, sqs.AccessKey{ID: k.ID, Secret: string(k.Secret)})
	}
	return keys
}
