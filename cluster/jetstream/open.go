package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasemq/broker/cluster"
)

// Durability is what is known about the servers' fsyncs.
type Durability uint8

// The kinds.
const (
	Unverified Durability = iota // the servers do not say
	Unsynced                     // some server acknowledges what is not fsynced
	Synced                       // each server fsyncs each write
)

// String names d.
func (d Durability) String() string {
	switch d {
	case Unsynced:
		return "unsynced"
	case Synced:
		return "synced"
	}
	return "unverified"
}

// Open opens the log of a cluster, and makes its stream if there is none. It waits
// for the servers until ctx ends, and refuses what the log cannot rely on, with
// ErrUnsynced, ErrOldServer, ErrAlone, ErrSettings or ErrReplicas.
func Open(ctx context.Context, o Options) (*Log, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	l := &Log{
		o: o, nc: o.Conn, waiting: map[uint64]*waiting{}, inbox: o.Conn.NewInbox() + ".",
		name:    streamName(o.Name, o.Generation),
		subject: fmt.Sprintf("lease.log.%s.g%d", o.Name, o.Generation),
		tail:    fmt.Sprintf("lease.rep.%s.g%d", o.Name, o.Generation),
	}
	if err := l.checkServer(); err != nil {
		return nil, err
	}
	if l.js, err = jetstream.New(o.Conn); err != nil {
		return nil, err
	}
	info, err := l.openStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", l.name, err)
	}
	if err := l.checkPeers(ctx, info); err != nil {
		return nil, fmt.Errorf("stream %s: %w", l.name, err)
	}
	if l.sub, err = o.Conn.Subscribe(l.inbox+"*", l.answered); err != nil {
		return nil, err
	}
	return l, nil
}

// streamName names the stream of a generation.
func streamName(cluster string, generation uint32) string {
	return fmt.Sprintf("%s%d", streamPrefix(cluster), generation)
}

func streamPrefix(cluster string) string { return "LEASE_" + cluster + "_g" }

// Generations lists those of the log of a cluster whose streams are there, in
// ascending order. It waits for the servers until ctx ends.
func Generations(ctx context.Context, nc *nats.Conn, cluster string) ([]uint32, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	for {
		found, err := tryGenerations(ctx, js, streamPrefix(cluster))
		if err == nil {
			return found, nil
		}
		if wait(ctx, readRetry) != nil {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

func tryGenerations(ctx context.Context, js jetstream.JetStream, prefix string) ([]uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	names := js.StreamNames(ctx)
	var found []uint32
	for name := range names.Name() {
		rest, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(rest, 10, 32); ok && err == nil {
			found = append(found, uint32(n))
		}
	}
	slices.Sort(found)
	return found, names.Err()
}

// RemoveBefore removes the streams of the generations before one, so that nobody
// goes on with them, and there is room for the next.
func RemoveBefore(ctx context.Context, nc *nats.Conn, cluster string, generation uint32) error {
	found, err := Generations(ctx, nc, cluster)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, g := range found {
		if g >= generation {
			continue
		}
		if err := js.DeleteStream(ctx, streamName(cluster, g)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("remove stream of generation %d: %w", g, err)
		}
	}
	return nil
}

// checkServer checks the server that the connection is to.
func (l *Log) checkServer() error {
	if err := checkVersion(l.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	if l.nc.ConnectedClusterName() == "" {
		return fmt.Errorf("%s: %w", l.nc.ConnectedServerName(), ErrAlone)
	}
	if most := l.nc.MaxPayload(); most < payloadMin {
		return fmt.Errorf("%w: max_payload is %d, want at least %d", ErrSettings, most, payloadMin)
	}
	return nil
}

// checkVersion refuses servers that are too old.
func checkVersion(version string) error {
	majorText, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minorText, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(majorText)
	minor, minorErr := strconv.Atoi(minorText)
	if err = errors.Join(err, minorErr); err != nil || major < versionMajor || major == versionMajor && minor < versionMinor {
		return fmt.Errorf("%w: version %q, want %d.%d or newer", ErrOldServer, version, versionMajor, versionMinor)
	}
	return nil
}

// config is what the stream must be.
func (l *Log) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: l.name, Subjects: []string{l.subject}, Description: "replicated log of LeaseMQ: do not change",
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Replicas: replicas,
		Discard: jetstream.DiscardNew, MaxBytes: l.o.MaxBytes, MaxMsgs: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
		Duplicates: duplicates, DenyDelete: true, AllowDirect: true, AllowAtomicPublish: true,
		RePublish: &jetstream.RePublish{Source: l.subject, Destination: l.tail},
	}
}

// openStream finds or makes the stream. Right after their start the servers have
// no leader for that, and do not answer.
func (l *Log) openStream(ctx context.Context) (*jetstream.StreamInfo, error) {
	for {
		info, err := l.tryStream(ctx)
		var refused *jetstream.APIError
		switch {
		case err == nil && info.Cluster != nil && info.Cluster.Leader != "":
			return info, l.checkConfig(&info.Config)
		case errors.As(err, &refused) && refused.Code == 400 && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			return nil, err
		}
		if wait(ctx, readRetry) != nil {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

func (l *Log) tryStream(ctx context.Context) (info *jetstream.StreamInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	l.stream, err = l.js.Stream(ctx, l.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.stream, err = l.js.CreateStream(ctx, l.config())
	}
	if err != nil {
		return nil, err
	}
	return l.stream.CachedInfo(), nil
}

// checkConfig holds the settings of the stream against what they must be.
func (l *Log) checkConfig(got *jetstream.StreamConfig) error {
	want := l.config()
	for _, s := range []struct {
		name      string
		got, want any
	}{
		{"subjects", fmt.Sprint(got.Subjects), fmt.Sprint(want.Subjects)},
		{"retention", got.Retention, want.Retention},
		{"storage", got.Storage, want.Storage},
		{"num_replicas", got.Replicas, want.Replicas},
		{"discard", got.Discard, want.Discard},
		{"max_bytes", got.MaxBytes >= maxBytesMin, true},
		{"max_msgs", got.MaxMsgs, want.MaxMsgs},
		{"max_msgs_per_subject", got.MaxMsgsPerSubject, want.MaxMsgsPerSubject},
		{"max_age", got.MaxAge, want.MaxAge},
		{"max_msg_size", got.MaxMsgSize <= 0 || got.MaxMsgSize >= payloadMin, true},
		{"duplicate_window", got.Duplicates, want.Duplicates},
		{"deny_delete", got.DenyDelete, true},
		{"deny_purge", got.DenyPurge, false},
		{"allow_direct", got.AllowDirect, true},
		{"allow_atomic", got.AllowAtomicPublish, true},
		{"allow_rollup_hdrs", got.AllowRollup, false},
		{"allow_msg_ttl", got.AllowMsgTTL, false},
		{"sealed", got.Sealed, false},
		{"no_ack", got.NoAck, false},
		{"compression", got.Compression, want.Compression},
		{"persist_mode", got.PersistMode, want.PersistMode},
		{"mirror", got.Mirror == nil && len(got.Sources) == 0, true},
		{"subject_transform", got.SubjectTransform == nil, true},
		{"republish", got.RePublish != nil && *got.RePublish == *want.RePublish, true},
	} {
		if s.got != s.want {
			return fmt.Errorf("%w: %s is %v, want %v", ErrSettings, s.name, s.got, s.want)
		}
	}
	return nil
}

// checkPeers checks the servers that hold the stream.
func (l *Log) checkPeers(ctx context.Context, info *jetstream.StreamInfo) error {
	peers := []string{info.Cluster.Leader}
	for _, p := range info.Cluster.Replicas {
		peers = append(peers, p.Name)
	}
	if len(peers) < replicas {
		return fmt.Errorf("%w: %d, want %d", ErrReplicas, len(peers), replicas)
	}
	if l.o.System == nil {
		l.o.Logger.Warn("log: whether its servers fsync each write is unverified: that takes a connection of the system account")
		return nil
	}
	servers, err := l.askServers(ctx)
	if err != nil {
		return fmt.Errorf("ask servers for their settings: %w", err)
	}
	l.synced = Synced
	for _, name := range peers {
		s, ok := servers[name]
		switch {
		case !ok:
			if l.synced == Synced {
				l.synced = Unverified
			}
			l.o.Logger.Warn("log: whether a server fsyncs each write is unverified: it does not answer", "server", name)
			continue
		case !s.Data.Config.SyncAlways && !l.o.AllowUnsynced:
			return fmt.Errorf("%s: %w", name, ErrUnsynced)
		case !s.Data.Config.SyncAlways:
			l.o.Logger.Warn("log: a loss of power may lose what was acknowledged: a server does not fsync each write", "server", name)
			l.synced = Unsynced
		}
		if err := checkVersion(s.Server.Version); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// serverInfo is what a server says of its JetStream.
type serverInfo struct {
	Server struct {
		Name    string `json:"name"`
		Version string `json:"ver"`
	} `json:"server"`
	Data struct {
		Config struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"config"`
	} `json:"data"`
}

// askServers asks all servers, by name, and waits for as many as hold a stream.
func (l *Log) askServers(ctx context.Context) (map[string]serverInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, peersWait)
	defer cancel()
	answers, err := l.o.System.SubscribeSync(l.o.System.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := l.o.System.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", answers.Subject, nil); err != nil {
		return nil, err
	}
	servers := map[string]serverInfo{}
	for quiet := peersWait; ; quiet = peersWait / 8 {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		m, err := answers.NextMsgWithContext(waiting)
		cancel()
		if err != nil {
			return servers, nil // who has not answered by now is unverified
		}
		var s serverInfo
		if json.Unmarshal(m.Data, &s) == nil && s.Server.Name != "" {
			servers[s.Server.Name] = s
		}
	}
}

// LeaderHere implements cluster.LeaderMover.
func (l *Log) LeaderHere(ctx context.Context) (bool, error) {
	if l.o.Server == "" {
		return false, nil
	}
	info, err := l.stream.Info(ctx)
	return err == nil && info.Cluster != nil && info.Cluster.Leader == l.o.Server, err
}

// MoveLeader implements cluster.LeaderMover.
func (l *Log) MoveLeader(ctx context.Context) error {
	info, err := l.stream.Info(ctx)
	if err != nil || info.Cluster == nil || info.Cluster.Leader != l.o.Server {
		return err
	}
	to := ""
	for _, p := range info.Cluster.Replicas {
		if p.Current && !p.Offline && (to == "" || p.Name == l.o.Prefer) {
			to = p.Name
		}
	}
	if to == "" {
		return errors.New("no other server is up to date")
	}
	ask := fmt.Sprintf(`{"placement":{"preferred":%q}}`, to)
	answer, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+l.name, []byte(ask))
	if err != nil {
		return err
	}
	var a ack
	if err := json.Unmarshal(answer.Data, &a); err != nil {
		return err
	}
	if a.Error != nil {
		return fmt.Errorf("move leader to %s: %s (%d)", to, a.Error.Description, a.Error.ErrCode)
	}
	for !l.ledElsewhere(ctx) {
		if err := wait(ctx, movePoll); err != nil {
			return fmt.Errorf("move leader to %s: %w", to, err)
		}
	}
	return nil
}

// ledElsewhere tells whether another server leads the log, and takes records. While
// nobody does, nobody answers either.
func (l *Log) ledElsewhere(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, moveTryWait)
	defer cancel()
	info, err := l.stream.Info(ctx)
	return err == nil && info.Cluster != nil && info.Cluster.Leader != "" && info.Cluster.Leader != l.o.Server && l.reached(ctx)
}

// unreachedSeq is where no log ends.
const unreachedSeq = 1 << 62

// reached tells whether records reach who leads the log. A server may say that it
// leads before this one knows that it takes records, and a record that nobody takes
// is refused. What is sent here is refused by who leads, too: the log ends elsewhere.
func (l *Log) reached(ctx context.Context) bool {
	got := make(chan error, 1)
	l.Append(unreachedSeq, nil, func(_ uint64, err error) { got <- err })
	select {
	case err := <-got:
		var wrong *cluster.WrongLastError
		return errors.As(err, &wrong)
	case <-ctx.Done():
		return false
	}
}
