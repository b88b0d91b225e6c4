package configs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of settings.
const (
	SyncIntervalMin = time.Millisecond
	SyncIntervalMax = 10 * time.Second
	DrainTimeoutMax = 4 * time.Second // frontends take no longer
	MetricQueuesMax = 10_000

	HeartBeatMinMin      = 100 * time.Millisecond
	HeartBeatMinMax      = time.Hour
	StompBodyMin         = 1 << 10
	StompBodyMax         = 16 << 20
	StompConnectionsMax  = 1_000_000
	StompPrefetchMax     = 120_000
	StompPrefetchSizeMax = 1 << 40
	StompHoldMax         = 30 * 24 * time.Hour
	StompTopicMax        = 1_000_000 // messages
	StompTopicSizeMin    = 1 << 10
	StompTopicSizeMax    = 1 << 30

	MQTTPacketMin        = 1 << 10
	MQTTPacketMax        = 16 << 20
	MQTTReceiveMax       = 32767
	MQTTSessionExpiryMax = 366 * 24 * time.Hour
	MQTTKeepAliveMax     = 65535 * time.Second
	MQTTConnectionsMax   = 1_000_000
	MQTTSessionMin       = 1000
	MQTTSessionMax       = 1_000_000_000
	MQTTSessionSizeMin   = 1 << 20
	MQTTSessionSizeMax   = 1 << 40

	accountDigits    = 12
	regionBytesMax   = 64
	hostnameBytesMax = 253
)

// Check says everything that is wrong with c on a node that has the given kinds
// of frontend.
func (c Config) Check(kinds []string) error {
	return c.check(kinds, nil)
}

// Check is Config.Check, whose errors say where a value comes from, too.
func (l *Loaded) Check(kinds []string) error {
	return l.Config.check(kinds, l.origins)
}

func (c Config) check(kinds []string, origins map[string]string) error {
	k := checker{origins: origins}
	k.frontends(c, kinds)
	k.tls(c.TLS)
	k.listeners(c, kinds)
	k.sqs(c.SQS)
	k.stomp(c.STOMP)
	k.mqtt(c.MQTT)
	k.limits(c)
	k.queues(c)
	k.bindings(c)
	k.cluster(c)
	return errors.Join(k.errs...)
}

// Enabled lists the frontends that c asks for: all of kinds if it names none.
func (c Config) Enabled(kinds []string) []string {
	if len(c.Frontends) == 0 {
		return kinds
	}
	return c.Frontends
}

// Resolve returns the address of a listener: addr with the host of c.Listen if
// it names none. A port alone is accepted too.
func (c Config) Resolve(addr string) (string, error) {
	given := addr
	if _, err := strconv.Atoi(addr); err == nil {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%q is not an address such as 127.0.0.1:9324 or :9324", given)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("%q: the port is not a number from 0 to 65535", given)
	}
	if host == "" {
		host = strings.Trim(c.Listen, "[]")
	}
	if err := checkHost(host); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// CheckExposure fails if other machines could reach addr, which Resolve
// returned. It is for listeners that do not tell users apart.
func (c Config) CheckExposure(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if c.Dev || loopback(host) {
		return nil
	}
	return fmt.Errorf("%s can be reached from other machines, and there are no users to tell apart; listen on 127.0.0.1, or ask for open access with dev (--dev)", addr)
}

type checker struct {
	origins map[string]string // of keys that are not the default
	errs    []error
}

func (k *checker) fail(key, format string, args ...any) {
	err := fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...))
	// What a key lacks belongs to the section above it.
	for at := key; at != ""; at = at[:max(0, strings.LastIndexByte(at, '.'))] {
		if origin, ok := k.origins[at]; ok {
			err = fmt.Errorf("%s: %w", place(origin), err)
			break
		}
	}
	k.errs = append(k.errs, err)
}

// place is an origin as other mistakes in a file have it.
func place(origin string) string { return strings.TrimPrefix(origin, "file ") }

func (k *checker) frontends(c Config, kinds []string) {
	seen := map[string]bool{}
	for _, name := range c.Frontends {
		switch {
		case !slices.Contains(kinds, name):
			k.fail("frontends", "%q is not one of %s%s", name, strings.Join(kinds, ", "), didYouMean(name, kinds))
		case seen[name]:
			k.fail("frontends", "%s is named twice", name)
		}
		seen[name] = true
	}
}

// listeners checks the addresses that will be bound.
func (k *checker) listeners(c Config, kinds []string) {
	if err := checkHost(strings.Trim(c.Listen, "[]")); err != nil {
		k.fail("listen", "%w", err)
		return
	}
	bound := map[string]string{}
	for _, l := range c.listeners(kinds) {
		if l.tls && c.TLS.CertFile == "" {
			k.fail(l.key, "there is no certificate; set tls.cert_file and tls.key_file")
		}
		addr, err := c.Resolve(l.addr)
		if err != nil {
			k.fail(l.key, "%w", err)
			continue
		}
		if !l.guarded {
			if err := c.CheckExposure(addr); err != nil {
				k.fail(l.key, "%w%s", err, l.remedy)
			}
		}
		if other, ok := bound[addr]; ok && !strings.HasSuffix(addr, ":0") {
			k.fail(l.key, "%s is the address of %s too", addr, other)
		}
		bound[addr] = l.key
	}
}

// listener is an address that will be bound.
type listener struct {
	key, addr string
	tls       bool
	optional  bool   // as those that speak TLS are
	guarded   bool   // its clients prove who they are
	remedy    string // what else would guard it
}

func (c Config) listeners(kinds []string) []listener {
	list := []listener{
		{key: "admin.listen", addr: c.Admin.Listen},
		{key: "admin.tls_listen", addr: c.Admin.TLSListen, tls: true, guarded: c.TLS.ClientCAFile != "", remedy: "; or set tls.client_ca_file"},
	}
	if slices.Contains(c.Enabled(kinds), "sqs") {
		keys := len(c.SQS.AccessKeys) > 0
		list = append(list,
			listener{key: "sqs.listen", addr: c.SQS.Listen, guarded: keys, remedy: "; or set sqs.access_keys"},
			listener{key: "sqs.tls_listen", addr: c.SQS.TLSListen, tls: true, guarded: keys || c.TLS.ClientCAFile != "", remedy: "; or set sqs.access_keys or tls.client_ca_file"},
		)
	}
	if slices.Contains(c.Enabled(kinds), "stomp") {
		list = append(list, c.ofUsers("stomp", c.STOMP.Listen, c.STOMP.TLSListen, c.STOMP.WSListen, c.STOMP.WSTLSListen)...)
	}
	if slices.Contains(c.Enabled(kinds), "mqtt") {
		list = append(list, c.ofUsers("mqtt", c.MQTT.Listen, c.MQTT.TLSListen, c.MQTT.WSListen, c.MQTT.WSTLSListen)...)
	}
	return slices.DeleteFunc(list, func(l listener) bool { return (l.tls || l.optional) && l.addr == "" })
}

// ofUsers returns the listeners of a frontend that users log in to.
func (c Config) ofUsers(kind, plain, tls, ws, wsTLS string) []listener {
	leave := "; or set users_file, or leave " + kind + " out of frontends"
	const remedy = "; or set users_file or tls.client_ca_file"
	users := c.UsersFile != ""
	certs := users || c.TLS.ClientCAFile != ""
	return []listener{
		{key: kind + ".listen", addr: plain, guarded: users, remedy: leave},
		{key: kind + ".tls_listen", addr: tls, tls: true, guarded: certs, remedy: remedy},
		{key: kind + ".ws_listen", addr: ws, optional: true, guarded: users, remedy: leave},
		{key: kind + ".ws_tls_listen", addr: wsTLS, tls: true, guarded: certs, remedy: remedy},
	}
}

func (k *checker) tls(t TLS) {
	switch {
	case t.CertFile == "" && t.KeyFile != "":
		k.fail("tls.key_file", "there is no tls.cert_file that it is the key of")
	case t.CertFile != "" && t.KeyFile == "":
		k.fail("tls.cert_file", "there is no tls.key_file")
	case t.CertFile == "" && t.ClientCAFile != "":
		k.fail("tls.client_ca_file", "there is no tls.cert_file, and so no listener that asks for certificates")
	}
}

func (k *checker) sqs(s SQS) {
	if len(s.Account) != accountDigits || strings.Trim(s.Account, "0123456789") != "" {
		k.fail("sqs.account", "%q is not %d digits", s.Account, accountDigits)
	}
	const region = "abcdefghijklmnopqrstuvwxyz0123456789-"
	if s.Region == "" || len(s.Region) > regionBytesMax || strings.Trim(s.Region, region) != "" {
		k.fail("sqs.region", "%q is not a region such as us-east-1", s.Region)
	}
	if len(s.SigningRegion) > regionBytesMax || strings.Trim(s.SigningRegion, region) != "" {
		k.fail("sqs.signing_region", "%q is not a region such as us-east-1", s.SigningRegion)
	}
	k.accessKeys(s.AccessKeys)
	if s.URLBase == "" {
		return
	}
	u, err := url.Parse(s.URLBase)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		k.fail("sqs.url_base", "%q is not a URL such as http://broker:9324", s.URLBase)
	}
}

func (k *checker) stomp(s STOMP) {
	between(k, "stomp.heart_beat_min", s.HeartBeatMin, HeartBeatMinMin, HeartBeatMinMax)
	between(k, "stomp.max_body", s.MaxBody, StompBodyMin, StompBodyMax)
	between(k, "stomp.max_connections", s.MaxConnections, 1, StompConnectionsMax)
	between(k, "stomp.prefetch", s.Prefetch, 1, StompPrefetchMax)
	between(k, "stomp.prefetch_size", s.PrefetchSize, 1, StompPrefetchSizeMax)
	between(k, "stomp.topic_messages", s.TopicMessages, 1, StompTopicMax)
	between(k, "stomp.topic_size", s.TopicSize, StompTopicSizeMin, StompTopicSizeMax)
	between(k, "stomp.hold", s.Hold, 0, StompHoldMax)
	k.hosts("stomp.ws_origins", s.WSOrigins)
}

func (k *checker) mqtt(m MQTT) {
	between(k, "mqtt.max_packet", m.MaxPacket, MQTTPacketMin, MQTTPacketMax)
	between(k, "mqtt.receive_maximum", m.ReceiveMaximum, 1, MQTTReceiveMax)
	between(k, "mqtt.session_expiry", m.SessionExpiry, time.Second, MQTTSessionExpiryMax)
	between(k, "mqtt.keep_alive_max", m.KeepAliveMax, 0, MQTTKeepAliveMax)
	between(k, "mqtt.max_connections", m.MaxConnections, 1, MQTTConnectionsMax)
	between(k, "mqtt.queue_messages", m.QueueMessages, 1, StompTopicMax)
	between(k, "mqtt.queue_size", m.QueueSize, StompTopicSizeMin, StompTopicSizeMax)
	between(k, "mqtt.session_messages", m.SessionMessages, MQTTSessionMin, MQTTSessionMax)
	between(k, "mqtt.session_size", m.SessionSize, MQTTSessionSizeMin, MQTTSessionSizeMax)
	k.hosts("mqtt.ws_origins", m.WSOrigins)
}

func (k *checker) hosts(key string, hosts []string) {
	for _, o := range hosts {
		if _, err := path.Match(o, ""); err != nil || strings.Contains(o, "/") {
			k.fail(key, "%q is not a host such as *.example.org or localhost:8080", o)
		}
	}
}

func (k *checker) limits(c Config) {
	if c.Node.Data == "" && !c.Node.Memory {
		k.fail("node.data", "no directory; name one, or set node.memory")
	}
	between(k, "storage.sync_interval", c.Storage.SyncInterval, SyncIntervalMin, SyncIntervalMax)
	between(k, "drain.timeout", c.Drain.Timeout, 0, DrainTimeoutMax)
	between(k, "admin.metric_queues", c.Admin.MetricQueues, 0, MetricQueuesMax)
	// Values from a source were held against the list when they were read; a
	// Config made in code was not.
	for _, f := range Fields() {
		if v := f.Text(c); len(f.OneOf) > 0 && !slices.Contains(f.OneOf, v) {
			k.fail(f.Key, "%q is not one of %s", v, strings.Join(f.OneOf, ", "))
		}
	}
}

func between[T int | int64 | time.Duration](k *checker, key string, v, lowest, highest T) {
	if v < lowest || v > highest {
		k.fail(key, "%s is not between %s and %s", spell(v), spell(lowest), spell(highest))
	}
}

// spell writes a value as it is written in a file.
func spell(v any) string {
	if d, ok := v.(time.Duration); ok {
		return DurationText(d)
	}
	return fmt.Sprint(v)
}

// checkHost accepts IP addresses and host names.
func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	const name = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
	if host == "" || len(host) > hostnameBytesMax || strings.Trim(host, name) != "" {
		return fmt.Errorf("%q is not a host name or an IP address", host)
	}
	return nil
}

// loopback tells whether host can be reached from this machine only. A name
// other than localhost is taken to be reachable: what it stands for may change.
func loopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
