package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// loadStep is how many sends and deletes must go well before and after each fault.
const loadStep = 200

// TestClusterSurvivesTheKillOfItsPrimary kills the primary twice, so that each broker
// takes over once.
func TestClusterSurvivesTheKillOfItsPrimary(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	l := startLoad(t, f.journal, f.a.sqs, f.b.sqs)
	for range 2 {
		l.more(loadStep)
		primary, _ := f.awaitPrimary("")
		primary.kill()
		f.did("killed the primary, " + primary.name)
		f.awaitPrimary(primary.name)
		l.more(loadStep)
		primary.start()
		f.awaitBoth()
	}
	l.finish()
	f.wantEqual(f.a)
}

// TestClusterSurvivesTheKillOfItsLogLeader kills the node that orders the records.
func TestClusterSurvivesTheKillOfItsLogLeader(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	l := startLoad(t, f.journal, f.a.sqs, f.b.sqs)
	l.more(loadStep)
	leader := f.logLeader()
	leader.kill()
	f.did("killed the log's leader, " + leader.name)
	l.more(loadStep)
	leader.start()
	f.did("restarted " + leader.name)
	l.more(loadStep)
	l.finish()
	f.wantEqual(f.a)
}

// TestClusterSurvivesAPauseOfItsPrimary stops the primary for three leases: it wakes
// when another one has long taken over.
func TestClusterSurvivesAPauseOfItsPrimary(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	l := startLoad(t, f.journal, f.a.sqs, f.b.sqs)
	l.more(loadStep)
	primary, _ := f.awaitPrimary("")
	primary.freeze()
	f.did("froze the primary, " + primary.name)
	time.Sleep(3 * clusterLease)
	f.awaitPrimary(primary.name)
	primary.thaw()
	f.did("thawed " + primary.name)
	l.more(loadStep)
	f.awaitBoth()
	l.finish()
	f.wantEqual(f.a)
}

// TestClusterSurvivesTheKillOfItsStandby kills the standby, and has it take over when
// it has come back: it must have what it missed.
func TestClusterSurvivesTheKillOfItsStandby(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	l := startLoad(t, f.journal, f.a.sqs, f.b.sqs)
	l.more(loadStep)
	primary, standby := f.awaitPrimary("")
	standby.kill()
	f.did("killed the standby, " + standby.name)
	l.more(loadStep)
	standby.start()
	f.awaitBoth()
	l.more(loadStep)
	primary.kill()
	f.did("killed the primary, " + primary.name)
	f.awaitPrimary(primary.name)
	l.more(loadStep)
	primary.start()
	f.awaitBoth()
	l.finish()
	f.wantEqual(f.a)
}

// TestClusterIsRestartedNodeByNode stops each node in turn, and starts it again.
func TestClusterIsRestartedNodeByNode(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	l := startLoad(t, f.journal, f.a.sqs, f.b.sqs)
	for _, m := range f.members() {
		l.more(loadStep)
		m.stop()
		f.did("stopped " + m.name)
		l.more(loadStep)
		m.start()
		f.did("restarted " + m.name)
		if m != f.w {
			f.awaitBoth()
		}
	}
	l.more(loadStep)
	l.finish()
	f.wantEqual(f.a)
}

// TestAStandbyServesItsClients has clients that know the standby alone: by way of it
// they reach the primary, and it itself when it is that.
func TestAStandbyServesItsClients(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	primary, standby := f.awaitPrimary("")
	l := startLoad(t, f.journal, standby.sqs)
	l.more(loadStep)
	primary.kill()
	f.did("killed the primary, " + primary.name)
	f.awaitPrimary(primary.name)
	l.more(loadStep)
	primary.start()
	f.awaitBoth()
	l.finish()
	f.wantEqual(standby)
}

// TestClusterSurvivesFaultsByChance kills, stops or freezes any node, again and again.
// LEASEMQ_KILLS says how often.
func TestClusterSurvivesFaultsByChance(t *testing.T) {
	t.Parallel()
	faults := faultsDefault
	if s := os.Getenv("LEASEMQ_KILLS"); s != "" {
		var err error
		if faults, err = strconv.Atoi(s); err != nil {
			t.Fatalf("LEASEMQ_KILLS: %v", err)
		}
	}
	r := newRand(t)
	f := startFleet(t)
	l := startLoad(t, f.journal, f.a.sqs, f.b.sqs)
	for range faults {
		m := f.members()[r.IntN(3)]
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
		f.fault(m, r)
		l.more(loadStep)
		f.awaitBoth()
	}
	l.finish()
	f.wantEqual(f.a)
}

// faultsDefault is how many faults there are by chance if nothing else is said.
const faultsDefault = 4

// fault does something to m and undoes it after a while.
func (f *fleet) fault(m *member, r *rand.Rand) {
	f.t.Helper()
	pause := time.Duration(r.Int64N(int64(3 * clusterLease)))
	switch r.IntN(3) {
	case 0:
		m.kill()
		f.did("killed " + m.name + " for " + pause.String())
		time.Sleep(pause)
		m.start()
	case 1:
		m.stop()
		f.did("stopped " + m.name + " for " + pause.String())
		time.Sleep(pause)
		m.start()
	default:
		m.freeze()
		f.did("froze " + m.name + " for " + pause.String())
		time.Sleep(pause)
		m.thaw()
	}
}

// TestClusterChecksFindLoss is the proof that the tests above can fail: clients of a
// broker that answers before anything has left its process, and is killed, must be
// told something that does not fit.
func TestClusterChecksFindLoss(t *testing.T) {
	t.Parallel()
	j := newJournal()
	args := []string{"--data", t.TempDir(), "--sync", "never", "--frontends", "sqs", "--log-level", "warn"}
	for _, listener := range []string{"--sqs-listen", "--admin-listen"} {
		args = append(args, listener, "127.0.0.1:"+freePorts(t, 1)[0])
	}
	m := &member{t: t, name: "alone", ports: t.TempDir() + "/ports.json"}
	m.args = append(args, "--ports-file", m.ports)
	m.start()
	l := startLoad(t, j, m.process.sqs)
	for range 3 {
		l.more(loadStep)
		fault := op{Kind: opFault, Outcome: outcomeOK, Node: "kill", Call: j.now()}
		m.kill()
		m.start()
		j.add(fault)
	}
	l.drain()
	found := violations(j.all())
	if len(found) == 0 {
		t.Fatal("kills without fsync went unnoticed")
	}
	t.Logf("%d violations, the first: %s", len(found), found[0])
}
