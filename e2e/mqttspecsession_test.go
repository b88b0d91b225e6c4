package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
)

// specSessions are the tests of session state.
func specSessions() []specCase {
	return []specCase{
		{"3.1.2-4 3.1.4-4 3.2.2-2", "3.1.2-6 3.1.4-3 3.2.2-1", (*spec).cleanStart},
		{"3.1.2-5 3.1.2-23 3.1.3-2", "3.1.2-4 3.1.2-5 3.1.3-2 3.2.2-2 4.1.0-1", (*spec).resume},
		{"3.1.2-6 3.2.2-3", "3.1.2-4 3.2.2-3", (*spec).newSession},
		{"3.1.2-23", "", (*spec).expiryOfDisconnect},
		{"4.1.0-1", "4.1.0-2", (*spec).sessionWhileConnected},
		{"4.1.0-2", "", (*spec).sessionExpires},
		{"4.5.0-1", "4.5.0-1", (*spec).addedToEverySession},
		{"", "3.1.2-7", (*spec).retainedOutlivesSession},
	}
}

// specWills are the tests of wills.
func specWills() []specCase {
	return []specCase{
		{"3.1.2-7 3.1.2-8", "3.1.2-8", (*spec).will},
		{"3.1.2-8", "", (*spec).willOfDisconnect},
		{"3.1.2-8", "", (*spec).willAfterDelay},
		{"3.1.2-8", "", (*spec).willAtEndOfSession},
		{"3.1.2-8", "3.1.2-8", (*spec).willAtTakeover},
		{"3.1.2-8", "3.1.2-8", (*spec).willAtProtocolError},
		{"3.1.2-10", "3.1.2-10", (*spec).willOnce},
		{"3.1.2-14", "3.1.2-16", (*spec).willIsNotRetained},
		{"3.1.2-15", "3.1.2-17", (*spec).willIsRetained},
		{"", "3.1.2-12", (*spec).noWill},
		{"3.1.3-9", "", (*spec).noWillAfterResume},
		{"3.14.4-3", "3.14.4-3", (*spec).noWillAfterDisconnect},
	}
}

func (s *spec) cleanStart() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true})
	c.subscribe(s.topic("x"), 1)
	s.put(mqMessage{topic: s.topic("x"), payload: "before", qos: 1})
	c.message()
	c.leave()
	s.put(mqMessage{topic: s.topic("x"), payload: "while", qos: 1})
	c = s.connect(specConnect{id: id})
	if c.present {
		s.Error("CONNACK says that there is a session")
	}
	s.put(mqMessage{topic: s.topic("x"), payload: "after", qos: 1})
	c.silent()
	c.leave()
	if c = s.connect(specConnect{id: id, stay: true}); c.present {
		s.Error("a session that was to end with its connection is there")
	}
	c.silent()
}

func (s *spec) resume() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true})
	c.subscribe(s.topic("one"), 1)
	c.subscribe(s.topic("two"), 2)
	c.leave()
	s.put(mqMessage{topic: s.topic("one"), payload: "a", qos: 2}, mqMessage{topic: s.topic("two"), payload: "b", qos: 2},
		mqMessage{topic: s.topic("one"), payload: "c", qos: 1})
	other := s.connect(specConnect{id: id + "2", stay: true})
	if other.present {
		s.Error("another client has the session")
	}
	c = s.connect(specConnect{id: id, stay: true})
	if !c.present {
		s.Error("CONNACK says that there is no session")
	}
	c.expect("a", "b", "c")
	s.put(mqMessage{topic: s.topic("two"), payload: "d", qos: 1})
	c.expect("d")
	other.silent()
}

func (s *spec) newSession() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true})
	if c.present {
		s.Error("CONNACK says that there is a session")
	}
	c.drop()
	c = s.connect(specConnect{id: id, stay: true})
	if !c.present {
		s.Error("CONNACK says that there is no session")
	}
}

// expiryOfDisconnect ends a session with the DISCONNECT that says so.
func (s *spec) expiryOfDisconnect() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true})
	c.send(mqRaw(mqDISCONNECT<<4, "\x00", s.block(mqLong(mqSessionExpiry, 0))))
	c.closed()
	if c = s.connect(specConnect{id: id, stay: true, life: 1}); c.present {
		s.Error("the session outlived its DISCONNECT")
	}
	c.send(mqRaw(mqDISCONNECT<<4, "\x00", s.block(mqLong(mqSessionExpiry, 100))))
	c.closed()
	time.Sleep(1500 * time.Millisecond)
	if c = s.connect(specConnect{id: id, stay: true}); !c.present {
		s.Error("the session ended before the time of its DISCONNECT")
	}
}

func (s *spec) sessionWhileConnected() {
	c := s.listener(s.topic("x"), 1) // it ends with the connection
	time.Sleep(300 * time.Millisecond)
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1})
	c.expect("a")
}

func (s *spec) sessionExpires() {
	id := s.id("same")
	c := s.connect(specConnect{id: id, stay: true, life: 1})
	c.subscribe(s.topic("x"), 1)
	time.Sleep(1300 * time.Millisecond) // while it is connected
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1})
	c.expect("a")
	c.drop()
	time.Sleep(100 * time.Millisecond)
	c = s.connect(specConnect{id: id, stay: true, life: 1})
	if !c.present {
		s.Error("the session has ended before its time")
	}
	c.drop()
	s.put(mqMessage{topic: s.topic("x"), payload: "b", qos: 1})
	time.Sleep(2300 * time.Millisecond)
	if c = s.connect(specConnect{id: id, stay: true}); c.present {
		s.Error("the session outlived its time")
	}
	c.silent()
}

func (s *spec) addedToEverySession() {
	id := s.id("away")
	away := s.connect(specConnect{id: id, stay: true})
	away.subscribe(s.topic("+"), 1)
	away.drop()
	var all []*specClient
	for range 5 {
		all = append(all, s.listener(s.topic("x"), 1))
	}
	s.put(mqMessage{topic: s.topic("x"), payload: "a", qos: 1})
	all = append(all, s.connect(specConnect{id: id, stay: true}))
	for _, c := range all {
		c.expect("a")
	}
}

func (s *spec) retainedOutlivesSession() {
	c := s.connect(specConnect{})
	c.deliver(mqMessage{topic: s.topic("x"), payload: "a", qos: 1, retain: true})
	c.leave()
	s.listener(s.topic("x"), 0).expect("a")
}

// doomed connects with a will.
func (s *spec) doomed(o specConnect) *specClient {
	s.Helper()
	if o.will == nil {
		o.will = &mqMessage{topic: s.topic("will"), payload: "will", qos: 1}
	}
	return s.connect(o)
}

func (s *spec) will() {
	watch := s.listener(s.topic("will"), 2)
	for qos := range byte(3) {
		c := s.doomed(specConnect{will: &mqMessage{topic: s.topic("will"), payload: "will", qos: qos}})
		watch.silent()
		c.drop()
		if m := watch.take(); m.payload != "will" || m.qos != qos || m.retain {
			s.Errorf("the will with QoS %d came as %+v", qos, m)
		}
	}
}

func (s *spec) willOfDisconnect() {
	watch := s.listener(s.topic("will"), 1)
	c := s.doomed(specConnect{})
	c.send(mqRaw(mqDISCONNECT<<4, "\x04"))
	c.closed()
	watch.expect("will")
}

func (s *spec) willAfterDelay() {
	watch := s.listener(s.topic("will"), 1)
	c := s.doomed(specConnect{stay: true, delay: 1})
	begin := time.Now()
	c.drop()
	watch.silent()
	watch.expect("will")
	if took := time.Since(begin); took < 900*time.Millisecond || took > 4*time.Second {
		s.Errorf("the will came after %v", took)
	}
}

// willAtEndOfSession has sessions that end before the delay of their wills is over.
func (s *spec) willAtEndOfSession() {
	watch := s.listener(s.topic("will"), 1)
	s.doomed(specConnect{delay: 100}).drop()
	watch.expect("will")
	s.doomed(specConnect{delay: 100, stay: true, life: 1}).drop()
	watch.expect("will")
	id := s.id("same")
	s.doomed(specConnect{id: id, delay: 100, stay: true}).drop()
	watch.silent()
	s.connect(specConnect{id: id}) // a clean start ends the session
	watch.expect("will")
}

func (s *spec) willAtTakeover() {
	watch := s.listener(s.topic("will"), 1)
	id := s.id("same")
	s.doomed(specConnect{id: id, stay: true})
	s.connect(specConnect{id: id, stay: true})
	watch.expect("will")
}

func (s *spec) willAtProtocolError() {
	watch := s.listener(s.topic("will"), 1)
	c := s.doomed(specConnect{})
	c.send("\xc1\x00")
	c.closed(mqMalformed)
	watch.expect("will")
}

func (s *spec) willOnce() {
	watch := s.listener(s.topic("will"), 1)
	id := s.id("same")
	s.doomed(specConnect{id: id, stay: true}).drop()
	watch.expect("will")
	c := s.connect(specConnect{id: id, stay: true})
	c.drop()
	watch.silent()
	s.doomed(specConnect{id: id, stay: true}).leave()
	c = s.connect(specConnect{id: id, stay: true})
	c.drop()
	watch.silent()
}

func (s *spec) willIsNotRetained() {
	watch := s.listener(s.topic("will"), 1)
	s.doomed(specConnect{}).drop()
	watch.expect("will")
	s.listener(s.topic("will"), 1).silent()
}

func (s *spec) willIsRetained() {
	watch := s.listener(s.topic("will"), 1)
	s.doomed(specConnect{will: &mqMessage{topic: s.topic("will"), payload: "will", qos: 1, retain: true}}).drop()
	if m := watch.take(); m.retain {
		s.Errorf("the will came as %+v", m)
	}
	if m := s.listener(s.topic("will"), 1).take(); m.payload != "will" || !m.retain {
		s.Errorf("the retained will is %+v", m)
	}
}

func (s *spec) noWill() {
	watch := s.listener(s.topic("#"), 1)
	s.connect(specConnect{}).drop()
	watch.silent()
}

func (s *spec) noWillAfterResume() {
	watch := s.listener(s.topic("will"), 1)
	id := s.id("same")
	s.doomed(specConnect{id: id, stay: true, delay: 1}).drop()
	s.connect(specConnect{id: id, stay: true})
	time.Sleep(1500 * time.Millisecond)
	watch.silent()
}

func (s *spec) noWillAfterDisconnect() {
	watch := s.listener(s.topic("will"), 1)
	s.doomed(specConnect{}).leave()
	if s.v == 5 {
		c := s.doomed(specConnect{stay: true, delay: 1})
		c.send(mqRaw(mqDISCONNECT<<4, "\x00", s.block()))
		c.closed()
		time.Sleep(1200 * time.Millisecond)
	}
	watch.silent()
}

// specLogins are the numbers of the statements on logins, of MQTT 5 and of 3.1.1.
func specLogins() [2]string { return [2]string{"3.1.4-2 3.2.2-6 3.2.2-7", "3.2.2-4 3.2.2-5"} }

// TestMQTTConformanceOfLogins runs the statements on clients that are refused.
func TestMQTTConformanceOfLogins(t *testing.T) {
	if os.Getenv(targetVariable) != "" {
		t.Skip("it needs a broker with users")
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("device:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := newSpecServer(t, broker.Edit(func(c *configs.Config) { c.UsersFile = file }))
	for i, numbers := range specLogins() {
		v := byte(5 - i)
		name := []string{"v5", "v3.1.1"}[i]
		t.Run(name+"/MQTT-"+strings.ReplaceAll(numbers, " ", "+MQTT-"), func(t *testing.T) {
			s := &spec{T: t, v: v, server: server, mark: name}
			good := specConnect{id: "same", stay: true, user: "device", pass: "secret"}
			s.connect(good).leave()
			for _, bad := range []specConnect{
				{id: "same", stay: true},
				{id: "same", stay: true, user: "device", pass: "wrong"},
				{id: "same", stay: true, user: "nobody", pass: "secret"},
			} {
				c, code := s.knock(bad)
				if allowed := pick(s, []byte{mqBadUser, mqNotAuthorized}, []byte{4, 5}); code != allowed[0] && code != allowed[1] || c.present {
					t.Errorf("CONNACK has the code %#x, a session: %v", code, c.present)
				}
				c.closed()
			}
			if c := s.connect(good); !c.present {
				t.Error("a refused client ended the session")
			}
		})
	}
}
