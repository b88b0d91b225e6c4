package broker

import (
	"context"
	"log/slog"
	"net"

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
	// Open makes the frontend over the engine of h and names its listeners. The
	// node binds them and serves.
	Open func(h Host) ([]Listener, error)
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

// Listener is one address that a frontend serves.
type Listener struct {
	Name    string // in Node.Addr and the ports file
	Address string // host:port; the host of the configuration if it has none
	Serve   func(ctx context.Context, ln net.Listener) error
	// TLS has Serve get connections that speak TLS, with the certificates of the
	// configuration. If clients need one too, the listener is guarded.
	TLS bool
	// Guarded says that clients have to prove who they are, so that other
	// machines may reach the listener.
	Guarded bool
	// Reload takes over what of c may change while the frontend runs; nil:
	// nothing may.
	Reload func(c configs.Config) error
}

// SQS is the frontend that speaks Amazon SQS.
func SQS() Kind {
	return Kind{Name: "sqs", Open: openSQS}
}

func openSQS(h Host) ([]Listener, error) {
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
	})
	if err != nil {
		return nil, err
	}
	plain := Listener{
		Name: server.Name(), Address: c.Listen, Serve: server.Serve, Guarded: len(c.AccessKeys) > 0,
		Reload: func(c configs.Config) error { return server.SetAccessKeys(accessKeys(c.SQS)) },
	}
	return withTLS(plain, c.TLSListen), nil
}

// withTLS adds a listener of the same frontend that speaks TLS, at address unless
// that is empty.
func withTLS(plain Listener, address string) []Listener {
	if address == "" {
		return []Listener{plain}
	}
	return []Listener{plain, {Name: plain.Name + tlsSuffix, Address: address, Serve: plain.Serve, Guarded: plain.Guarded, TLS: true}}
}

// tlsSuffix ends the name of a listener that speaks TLS.
const tlsSuffix = "_tls"

// STOMP is the frontend that speaks STOMP, over TCP and over WebSocket.
func STOMP() Kind {
	return Kind{Name: "stomp", Open: openSTOMP}
}

func openSTOMP(h Host) ([]Listener, error) {
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
		Authenticate:     h.Authenticate,
		Logger:           h.Logger,
	}
	if o.Hold == 0 {
		o.Hold = -1 // for ever
	}
	server, err := stomp.New(h.Engine, o)
	if err != nil {
		return nil, err
	}
	h.Collect(newSTOMPMetrics(server))
	return h.withWeb(server, c.Listen, c.TLSListen, c.WSListen, c.WSTLSListen), nil
}

// webServer is a frontend that is spoken over WebSocket, too.
type webServer interface {
	frontends.Frontend
	ServeWebSocket(ctx context.Context, ln net.Listener) error
}

// withWeb returns the listeners of a frontend that users log in to.
func (h Host) withWeb(s webServer, plain, tls, ws, wsTLS string) []Listener {
	guarded := h.Authenticate != nil
	listeners := withTLS(Listener{Name: s.Name(), Address: plain, Serve: s.Serve, Guarded: guarded}, tls)
	web := withTLS(Listener{Name: s.Name() + "_ws", Address: ws, Serve: s.ServeWebSocket, Guarded: guarded}, wsTLS)
	if ws == "" {
		web = web[1:]
	}
	return append(listeners, web...)
}

// MQTT is the frontend that speaks MQTT, over TCP and over WebSocket.
func MQTT() Kind {
	return Kind{Name: "mqtt", Open: openMQTT}
}

func openMQTT(h Host) ([]Listener, error) {
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
		Origins:          c.WSOrigins,
		Authenticate:     h.Authenticate,
		Logger:           h.Logger,
	})
	if err != nil {
		return nil, err
	}
	h.Collect(mqttMetrics{server})
	return h.withWeb(server, c.Listen, c.TLSListen, c.WSListen, c.WSTLSListen), nil
}

func accessKeys(c configs.SQS) []sqs.AccessKey {
	var keys []sqs.AccessKey
	for _, k := range c.AccessKeys {
		keys = append(keys, sqs.AccessKey{ID: k.ID, Secret: string(k.Secret)})
	}
	return keys
}
