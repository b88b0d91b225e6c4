package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/frontends/stomp/frame"
)

// diskWindow is how many SENDs are under way when the disk is full.
const diskWindow = 50

// stompDisk is a broker on a small disk, and what it said of which message.
type stompDisk struct {
	t       *testing.T
	n       *node
	filling string
	stored  map[string]bool // by number: a RECEIPT was there; false: it was consumed since
	next    int
}

// TestFullDiskRefusesSTOMPProducersOnly fills a small disk over STOMP alone. A SEND
// or COMMIT has a RECEIPT, and is there, or an ERROR that names the disk; consumers
// go on, also after a restart on the full disk; space returns, and so do the
// producers.
func TestFullDiskRefusesSTOMPProducersOnly(t *testing.T) {
	data := smallDisk(t, diskSize)
	d := &stompDisk{t: t, n: startNode(t, "--data", data), filling: randomText(newRand(t), diskBodyBytes), stored: make(map[string]bool)}
	for d.fills() {
	}
	t.Logf("%d messages of %d bytes fit on %s", len(d.stored), diskBodyBytes, diskSize)
	// A flush may give back some of what the log had taken.
	for refused := 0; refused < 5; refused++ {
		time.Sleep(200 * time.Millisecond)
		if d.fills() {
			refused = 0
		}
	}
	d.transaction()
	if code := d.n.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM on a full disk\n%s", code, d.n.log)
	}
	d.n = startNode(t, "--data", data)
	d.empties()
	d.n.alive()
	err := eventually(diskSpaceReturn, func() (bool, error) {
		p := dialSTOMP(t, d.n.stomp)
		err := p.do("SEND", "after", "destination", "/queue/q")
		if isDiskFull(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("producers do not go on though the queue is empty: %v\n%s", err, d.n.log)
	}
	p := dialSTOMP(t, d.n.stomp)
	p.subscribe(t, "q", "client")
	if m := p.next(t); m.body != "after" {
		t.Errorf("got %.20q, want the message that was sent after the disk was full", m.body)
	}
	d.n.alive()
}

func isDiskFull(err error) bool {
	var refused *stompError
	return errors.As(err, &refused) && strings.Contains(refused.message, "Disk")
}

// fills sends a window of messages on a connection of its own, and tells whether
// all were taken. Answers come in order: behind the first ERROR there is none.
func (d *stompDisk) fills() bool {
	d.t.Helper()
	if d.next > diskSendsMax {
		d.t.Fatalf("%d sends of %d bytes were accepted on %s", d.next, diskBodyBytes, diskSize)
	}
	p := dialSTOMP(d.t, d.n.stomp)
	defer p.conn.Close()
	wrote := make(chan error, 1)
	first := d.next
	d.next += diskWindow
	go func() {
		for i := range diskWindow {
			number := strconv.Itoa(first + i)
			if err := p.write(stompOf("SEND", d.body(number), "destination", "/queue/q", "receipt", number)); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for i := range diskWindow {
		got, err := p.read()
		if isDiskFull(err) {
			if want := strconv.Itoa(first + i); got.headers["receipt-id"] != want {
				d.t.Errorf("the ERROR is for %q, want %s", got.headers["receipt-id"], want)
			}
			if next, err := p.read(); err == nil {
				d.t.Errorf("a %s stands behind the ERROR", next.command)
			}
			if len(d.stored) == 0 {
				d.t.Fatal("refused before anything was sent")
			}
			return false
		}
		if err != nil || got.command != frame.Receipt || got.headers["receipt-id"] != strconv.Itoa(first+i) {
			d.t.Fatalf("SEND %d was answered by %.200v, error %v", first+i, got, err)
		}
		d.stored[strconv.Itoa(first+i)] = true
	}
	if err := <-wrote; err != nil {
		d.t.Fatal(err)
	}
	return true
}

func (d *stompDisk) body(number string) string {
	n, _ := strconv.Atoi(number)
	at := n % (diskBodyBytes / 2)
	return number + " " + d.filling[at:] + d.filling[:at]
}

// transaction wants a COMMIT to be refused as a whole.
func (d *stompDisk) transaction() {
	p := dialSTOMP(d.t, d.n.stomp)
	p.must(d.t, "BEGIN", "", "transaction", "t")
	for _, queue := range []string{"q", "other"} {
		p.must(d.t, "SEND", d.body("in-transaction"), "destination", "/queue/"+queue, "transaction", "t")
	}
	if err := p.do("COMMIT", "", "transaction", "t"); !isDiskFull(err) {
		d.t.Errorf("COMMIT on a full disk: %v", err)
	}
}

// empties acknowledges all there is, one by one and in a transaction, and wants it
// to be what was stored.
func (d *stompDisk) empties() {
	d.t.Helper()
	p := dialSTOMP(d.t, d.n.stomp)
	defer p.conn.Close()
	p.subscribe(d.t, "q", "client-individual", "prefetch-count", "10")
	for missing := len(d.stored); missing > 0; missing-- {
		m := p.next(d.t)
		number, _, _ := strings.Cut(m.body, " ")
		left, known := d.stored[number]
		switch {
		case number == "in-transaction":
			d.t.Error("a message of a transaction that was refused is there")
		case known && !left:
			d.t.Errorf("message %s came twice", number)
		case !known:
			missing++ // its answer was lost behind an ERROR
		case m.body != d.body(number):
			d.t.Errorf("message %s has another body", number)
		}
		if known {
			d.stored[number] = false
		}
		if missing%10 > 0 {
			p.must(d.t, "ACK", "", "id", m.headers["ack"])
			continue
		}
		tx := fmt.Sprint("tx", missing)
		p.must(d.t, "BEGIN", "", "transaction", tx)
		p.must(d.t, "ACK", "", "id", m.headers["ack"], "transaction", tx)
		p.must(d.t, "COMMIT", "", "transaction", tx)
	}
}
