package configs

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Bounds of the settings of a cluster.
const (
	LogSizeMin   = 64 << 20
	LogSizeMax   = 1 << 40
	LeaseMin     = 300 * time.Millisecond
	LeaseMax     = time.Minute
	TrimAfterMin = time.Second
	TrimAfterMax = 24 * time.Hour
)

// cluster checks what makes the node one of several.
func (k *checker) cluster(c Config) {
	s := c.Cluster
	if !s.On() {
		for _, f := range []struct {
			key string
			set bool
		}{{"cluster.join", len(s.Join) > 0}, {"cluster.witness", s.Witness}, {"cluster.nats", s.NATS != ""}} {
			if f.set {
				k.fail(f.key, "this node is in no cluster: cluster.node (--node) has no name")
			}
		}
		return
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`).MatchString(s.Node) {
		k.fail("cluster.node", "%q is not 1 to 64 letters, digits and . _ -, with a letter or digit at both ends", s.Node)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(s.Name) {
		k.fail("cluster.name", "%q is not 1 to 64 letters, digits, - and _", s.Name)
	}
	between(k, "cluster.log_size", s.LogSize, LogSizeMin, LogSizeMax)
	between(k, "cluster.lease", s.Lease, LeaseMin, LeaseMax)
	between(k, "cluster.trim_after", s.TrimAfter, TrimAfterMin, TrimAfterMax)
	if c.Node.Memory {
		k.fail("node.memory", "a node of a cluster keeps its state on disk")
	}
	if c.Storage.Sync != "commit" {
		k.fail("storage.sync", "in a cluster an answer waits for the log; %q is for nodes that stand alone", c.Storage.Sync)
	}
	if s.Advertise != "" && net.ParseIP(s.Advertise) == nil {
		k.fail("cluster.advertise", "%q is not an IP address", s.Advertise)
	}
	if s.Witness && s.NATS != "" {
		k.fail("cluster.witness", "a NATS cluster keeps the log: a witness has nothing to do")
	}
	if len(s.Join) == 0 {
		k.fail("cluster.join", "name the gossip addresses of the nodes, this one's too")
	}
	k.natsServers(s.NATS)
	for key, addr := range map[string]string{
		"cluster.listen": s.Listen, "cluster.relay_listen": s.RelayListen, "cluster.gossip_listen": s.GossipListen,
	} {
		k.clusterAddress(key, addr, c)
	}
}

func (k *checker) natsServers(urls string) {
	if urls == "" {
		return
	}
	for text := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		switch {
		case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
			k.fail("cluster.nats", "one of the servers is not a URL such as nats://a:4222")
		case u.User != nil:
			k.fail("cluster.nats", "users and passwords stand in the file of cluster.nats_user_file")
		}
	}
}

// clusterAddress checks a listener of a cluster. Without a secret only this machine
// may reach it.
func (k *checker) clusterAddress(key, given string, c Config) {
	addr, err := c.Resolve(given)
	if err != nil {
		k.fail(key, "%w", err)
		return
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		k.fail(key, "%w", err)
		return
	}
	ip := net.ParseIP(host)
	switch {
	case ip == nil && host != "localhost":
		k.fail(key, "%q is not an IP address", host)
	case ip != nil && ip.IsUnspecified() && c.Cluster.Advertise == "":
		k.fail(key, "%s is no address that others can reach: set cluster.advertise", fmt.Sprint(ip))
	case !loopback(host) && c.Cluster.SecretFile == "":
		k.fail(key, "%s can be reached from other machines: set cluster.secret_file", addr)
	}
}
