// Package configs loads and checks the settings of one node.
//
// A setting has one key, such as storage.sync, and four ways to it, the later
// one winning: the YAML file, the environment (BROKER_STORAGE_SYNC, or
// BROKER_STORAGE_SYNC_FILE to read the value from a file), --set
// storage.sync=interval, and a flag. All four go through the same setter, so a
// value is written the same way everywhere. The fields of [Config] and their
// tags are the only list of keys: flags, the environment, the reference in
// docs/configuration.md and "config show" derive from it.
//
// Every mistake of a load is reported, not only the first, each with the place
// it comes from. Nothing here opens a file but the configuration itself and those
// that *_FILE variables and secret_file name. Values are plain data and safe to
// copy; the package has no state.
//
// No secret is shown: not in an error, not by "config show", not by a Config that
// is printed. A list of access keys has no flag, and --set takes none with a
// secret in it, since everyone on a machine sees the command lines.
package configs

import "time"

// Config is what may be set on a node. The zero value is not useful: start from
// Default.
type Config struct {
	Listen    string   `yaml:"listen" flag:"listen" doc:"Host of the listeners that do not name one."`
	Frontends []string `yaml:"frontends" flag:"frontends" doc:"Protocols to serve. Empty: all that are compiled in."`
	Dev       bool     `yaml:"dev" flag:"dev" doc:"For tests and CI: listeners other than loopback are allowed without users, a missing SQS queue is created when it is first used, and the admin listener serves profiles under /debug/pprof."`
	Node      Node     `yaml:"node"`
	Storage   Storage  `yaml:"storage"`
	UsersFile string   `yaml:"users_file" doc:"File of those who may use STOMP and MQTT, a line of NAME:HASH each, as htpasswd -nB prints it; bcrypt and argon2id. Read again at a SIGHUP. Empty: anyone may, and other machines may not connect."`
	TLS       TLS      `yaml:"tls"`
	SQS       SQS      `yaml:"sqs"`
	STOMP     STOMP    `yaml:"stomp"`
	MQTT      MQTT     `yaml:"mqtt"`
	Admin     Admin    `yaml:"admin"`
	Cluster   Cluster  `yaml:"cluster"`
	Log       Log      `yaml:"log"`
	Drain     Drain    `yaml:"drain"`

	Queues          []Queue `yaml:"queues" doc:"Queues that are created at the start unless they are there, by name; see below."`
	AutoCreateQueue *Queue  `yaml:"auto_create_queue" doc:"What a queue has that is created when it is first used: keys as of queues.NAME, but for fifo and priority."`
	Topics          Topics  `yaml:"topics"`
}

// Topics says where messages go that are published to topics.
type Topics struct {
	Bindings []Binding `yaml:"bindings" doc:"Queues that get copies of what is published to topics, from the start on: a list of filter, queue, one of queues, and maybe selector, as in JMS; see below."`
}

// Node says where a node keeps its state.
type Node struct {
	Data   string `yaml:"data" flag:"data" doc:"Directory of the store; created if absent."`
	Memory bool   `yaml:"memory" flag:"memory" doc:"Keep everything in memory; node.data is not touched, and nothing survives the process."`
}

// Storage says how the store makes changes durable.
type Storage struct {
	Sync         string        `yaml:"sync" flag:"sync" oneof:"commit|interval|never" doc:"When a change is durable: commit answers after fsync; interval and never answer before it."`
	SyncInterval time.Duration `yaml:"sync_interval" doc:"Longest time between fsyncs with storage.sync interval; 1ms to 10s."`
	Profile      string        `yaml:"profile" oneof:"small|large" doc:"Memory that the store may use: small for up to about 300 MiB, large for machines of their own."`
}

// TLS names the files of the listeners that speak TLS. They are read again when
// they change.
type TLS struct {
	CertFile     string `yaml:"cert_file" flag:"tls-cert" doc:"Certificate of the TLS listeners, with those that lead to its authority, in PEM. Read again when it changes."`
	KeyFile      string `yaml:"key_file" flag:"tls-key" doc:"Private key of tls.cert_file, in PEM."`
	ClientCAFile string `yaml:"client_ca_file" doc:"Authorities, in PEM, that a client of a TLS listener must have a certificate of. Empty: clients need none."`
}

// SQS configures the SQS frontend.
type SQS struct {
	Listen     string `yaml:"listen" doc:"Address of the SQS listener: HOST:PORT, or :PORT at the host of listen. Port 0 takes a free one."`
	TLSListen  string `yaml:"tls_listen" doc:"Address of an SQS listener that speaks TLS, written like sqs.listen; needs tls.cert_file. Empty: none."`
	Region     string `yaml:"region" doc:"Region in queue ARNs."`
	Account    string `yaml:"account" doc:"Account in queue URLs and ARNs: twelve digits."`
	URLBase    string `yaml:"url_base" doc:"Start of queue URLs, such as http://broker:9324. Empty: the host that the client asked."`
	Limits     string `yaml:"limits" oneof:"strict|relaxed" doc:"strict keeps the 60 seconds that AWS demands between two purges of a queue, and between its deletion and its creation; relaxed does not."`
	AutoCreate bool   `yaml:"auto_create" doc:"Create a missing queue when it is first used."`

	AccessKeys    []AccessKey `yaml:"access_keys" doc:"Access keys that requests must be signed with: id, and secret or secret_file. Empty: anyone may do anything, signed or not."`
	SessionTokens string      `yaml:"session_tokens" oneof:"accept|refuse" doc:"What to do with a session token that is sent beside an access key: ignore it, or refuse the request."`
	SigningRegion string      `yaml:"signing_region" doc:"Region that requests must be signed for. Empty: any."`

	MQTTPayload string `yaml:"mqtt_payload" oneof:"auto|base64" doc:"How the payload of a message from MQTT is shown: as it is if it is text and else in base64, or always in base64."`
}

// STOMP configures the STOMP frontend.
type STOMP struct {
	Listen      string   `yaml:"listen" doc:"Address of the STOMP listener, written like sqs.listen."`
	WSListen    string   `yaml:"ws_listen" doc:"Address of the listener for STOMP over WebSocket, at /ws and /stomp. Empty: none."`
	TLSListen   string   `yaml:"tls_listen" doc:"Address of a STOMP listener that speaks TLS, such as :61614, written like sqs.listen; needs tls.cert_file. Empty: none."`
	WSTLSListen string   `yaml:"ws_tls_listen" doc:"The same for WebSocket. Empty: none."`
	WSOrigins   []string `yaml:"ws_origins" doc:"Hosts whose pages may connect over WebSocket besides the broker's own host, such as *.example.org."`
	AutoCreate  bool     `yaml:"auto_create" doc:"Create a missing queue when it is first sent or subscribed to."`

	HeartBeatMin   time.Duration `yaml:"heart_beat_min" doc:"Shortest heart-beat that is agreed to; 100ms to 1h."`
	MaxBody        int64         `yaml:"max_body" unit:"bytes" doc:"Largest body of a frame; 1KiB to 16MiB."`
	MaxConnections int           `yaml:"max_connections" doc:"Most connections of a listener."`
	Prefetch       int           `yaml:"prefetch" doc:"Messages that a subscription may have unacknowledged unless it asks otherwise; 1 to 120000."`
	PrefetchSize   int64         `yaml:"prefetch_size" unit:"bytes" doc:"Bytes that a subscription may have unacknowledged unless it asks otherwise; at least one message is sent."`
	TopicMessages  int           `yaml:"topic_messages" doc:"Messages that wait at most for a subscription to topics that is not durable, and in a temporary queue; 1 to 1000000."`
	TopicSize      int64         `yaml:"topic_size" unit:"bytes" doc:"The same in bytes; 1KiB to 1GiB."`
	SlowSubscriber string        `yaml:"slow_subscriber" oneof:"drop-oldest|close" doc:"What happens beyond stomp.topic_messages and stomp.topic_size: drop-oldest drops the oldest messages that wait, close ends the connection of the subscription."`
	Hold           time.Duration `yaml:"hold" doc:"How long a client may sit on a message before its connection is closed. 0: for ever."`
	Nack           string        `yaml:"nack" oneof:"requeue|dead-letter" doc:"What NACK does unless its header requeue says otherwise: requeue delivers again by the policy of the queue, dead-letter rejects for good."`
	StickyGroups   bool          `yaml:"sticky_groups" doc:"Give the messages of a group (JMSXGroupID) on a standard queue to one subscription as long as it lives, as ActiveMQ does. Otherwise all subscriptions share each group."`
}

// MQTT configures the MQTT frontend.
type MQTT struct {
	Listen      string   `yaml:"listen" doc:"Address of the MQTT listener, written like sqs.listen."`
	WSListen    string   `yaml:"ws_listen" doc:"Address of the listener for MQTT over WebSocket, at /mqtt. Empty: none."`
	TLSListen   string   `yaml:"tls_listen" doc:"Address of an MQTT listener that speaks TLS, such as :8883, written like sqs.listen; needs tls.cert_file. Empty: none."`
	WSTLSListen string   `yaml:"ws_tls_listen" doc:"The same for WebSocket. Empty: none."`
	WSOrigins   []string `yaml:"ws_origins" doc:"Hosts whose pages may connect over WebSocket besides the broker's own host, such as *.example.org."`

	MaxPacket      int64         `yaml:"max_packet" unit:"bytes" doc:"Largest packet of a client, which clients of MQTT 5 are told; 1KiB to 16MiB."`
	ReceiveMaximum int           `yaml:"receive_maximum" doc:"Messages with QoS 1 and 2 that may be on their way to a client, and from one of MQTT 5; 1 to 32767."`
	SessionExpiry  time.Duration `yaml:"session_expiry" doc:"Longest that a session outlives its connection: what a client of MQTT 3 without clean session gets; 1s to 1 year."`
	KeepAliveMax   time.Duration `yaml:"keep_alive_max" doc:"Longest keep alive of a client of MQTT 5, which is told; up to 65535s. 0: it is as the client says."`
	MaxConnections int           `yaml:"max_connections" doc:"Most connections of a listener."`
	DenySubscribe  []string      `yaml:"deny_subscribe" doc:"Filters that nobody may subscribe to, nor to a topic that they match, such as internal/#."`
	QueueMessages  int           `yaml:"queue_messages" doc:"Messages that wait at most in memory for a connection. Beyond it the oldest with QoS 0 are dropped, and a client whose session ends with its connection is disconnected; 1 to 1000000."`
	QueueSize      int64         `yaml:"queue_size" unit:"bytes" doc:"The same in bytes; 1KiB to 1GiB."`

	SessionMessages int64 `yaml:"session_messages" doc:"Messages that wait at most on disk for a session that outlives its connection. Beyond it a PUBLISH that it matches is refused (0x97); 1000 to 1000000000."`
	SessionSize     int64 `yaml:"session_size" unit:"bytes" doc:"The same in bytes; 1MiB to 1TiB."`
}

// Cluster makes the node one of several that keep one state.
type Cluster struct {
	Node         string   `yaml:"node" flag:"node" doc:"Name of this node in its cluster: up to 64 letters, digits and . _ -, unique and for good. Empty: the node stands alone."`
	Name         string   `yaml:"name" doc:"Name of the cluster, the same on each node: up to 64 letters, digits, - and _."`
	Witness      bool     `yaml:"witness" flag:"witness" doc:"Keep the log of the cluster, and no messages: the third of two brokers and a witness."`
	Listen       string   `yaml:"listen" flag:"cluster-listen" doc:"Address at which the other nodes reach the log that this node keeps: HOST:PORT, or :PORT at the host of listen."`
	RelayListen  string   `yaml:"relay_listen" doc:"Address at which standbys reach this node, to relay clients to it while it is the primary. Port 0 takes a free one, which the other nodes are told."`
	GossipListen string   `yaml:"gossip_listen" flag:"gossip-listen" doc:"Address at which nodes find each other, over TCP and UDP."`
	Join         []string `yaml:"join" flag:"join" doc:"Gossip addresses of nodes of the cluster, this one's too: all three at the first start, any of them later."`
	Advertise    string   `yaml:"advertise" doc:"IP address at which the other nodes reach this one. Empty: that of each listener, which must be one address then."`
	SecretFile   string   `yaml:"secret_file" doc:"File with what the nodes know each other by, the same on each: 16 bytes at least, such as openssl rand -hex 32 prints. Certificates and keys between the nodes derive from it. Empty: loopback alone."`

	NATS               string        `yaml:"nats" doc:"URLs of the servers of a NATS cluster that keeps the log, such as nats://a:4222,nats://b:4222. Empty: the nodes keep it themselves."`
	NATSUserFile       string        `yaml:"nats_user_file" doc:"File with USER:PASSWORD for cluster.nats. Empty: none is shown."`
	NATSSystemUserFile string        `yaml:"nats_system_user_file" doc:"The same for a user of the system account, by which it is verified that the servers fsync each write. Empty: that stays unverified."`
	AllowUnsyncedLog   bool          `yaml:"allow_unsynced_log" doc:"Use a log whose servers do not fsync each write. A loss of power may then lose what was acknowledged."`
	LogSize            int64         `yaml:"log_size" unit:"bytes" doc:"Size of the log on disk, at most: what a standby that is away has not seen must fit; 64MiB to 1TiB, the same on each node. The disk must have room for it."`
	Lease              time.Duration `yaml:"lease" doc:"How long the primary may be silent before a standby takes over, the same on each node; 300ms to 1m."`
	TrimAfter          time.Duration `yaml:"trim_after" doc:"How long the log is kept for a standby that is away; one that comes later starts from a copy of the primary's state. 1s to 24h."`
}

// On tells whether the node is one of a cluster.
func (c Cluster) On() bool { return c.Node != "" }

// Admin configures the admin listener: health, metrics and the REST API.
type Admin struct {
	Listen       string `yaml:"listen" doc:"Address of the admin listener, written like sqs.listen."`
	TLSListen    string `yaml:"tls_listen" doc:"Address of an admin listener that speaks TLS, written like sqs.listen; needs tls.cert_file. Empty: none."`
	MetricQueues int    `yaml:"metric_queues" doc:"Most queues that /metrics shows one by one, those with the most messages; broker_series_dropped_total counts the rest."`
}

// Log configures the log on standard error.
type Log struct {
	Level  string `yaml:"level" oneof:"debug|info|warn|error" doc:"Least severe entries to write."`
	Format string `yaml:"format" oneof:"text|json" doc:"Form of an entry."`
}

// Drain configures an orderly stop.
type Drain struct {
	Timeout time.Duration `yaml:"timeout" doc:"How long a stop waits for answers that are being sent; up to 4s."`
}

// Default returns the settings of a node for which nothing was asked.
func Default() Config {
	return Config{
		Listen:  "127.0.0.1",
		Node:    Node{Data: "./data"},
		Storage: Storage{Sync: "commit", SyncInterval: 10 * time.Millisecond, Profile: "small"},
		SQS: SQS{
			Listen:  ":9324",
			Region:  "us-east-1",
			Account: "000000000000",
			Limits:  "strict",

			SessionTokens: "accept",
			MQTTPayload:   "auto",
		},
		STOMP: STOMP{
			Listen:         ":61613",
			WSListen:       ":15674",
			AutoCreate:     true,
			HeartBeatMin:   time.Second,
			MaxBody:        4 << 20,
			MaxConnections: 10_000,
			Prefetch:       1000,
			PrefetchSize:   4 << 20,
			TopicMessages:  10_000,
			TopicSize:      16 << 20,
			SlowSubscriber: "drop-oldest",
			Hold:           30 * time.Minute,
			Nack:           "requeue",
			StickyGroups:   true,
		},
		MQTT: MQTT{
			Listen:         ":1883",
			WSListen:       ":8083",
			MaxPacket:      1<<20 + 64<<10,
			ReceiveMaximum: 1000,
			SessionExpiry:  7 * 24 * time.Hour,
			MaxConnections: 100_000,
			QueueMessages:  10_000,
			QueueSize:      16 << 20,

			SessionMessages: 1_000_000,
			SessionSize:     1 << 30,
		},
		Admin: Admin{Listen: ":9325", MetricQueues: 200},
		Cluster: Cluster{
			Name:         "leasemq",
			Listen:       ":6222",
			RelayListen:  ":0",
			GossipListen: ":7946",
			LogSize:      4 << 30,
			Lease:        2 * time.Second,
			TrimAfter:    10 * time.Minute,
		},
		Log:   Log{Level: "info", Format: "text"},
		Drain: Drain{Timeout: 4 * time.Second},
	}
}
