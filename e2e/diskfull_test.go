package e2e

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The shape of the full disk.
const (
	diskSize        = "96m"
	diskBodyBytes   = 50_000
	diskSendsMax    = 20_000 // far more than fit
	diskVisibility  = "43200"
	diskSpaceReturn = 60 * time.Second
	diskRefusals    = 2000
)

// TestFullDiskRefusesProducersOnly fills a small disk: producers get 503 and a
// reason, consumers go on, space returns, and so do the producers. Nothing that
// was acknowledged is missing, also not after a restart on the full disk.
func TestFullDiskRefusesProducersOnly(t *testing.T) {
	data := smallDisk(t, diskSize)
	n := startNode(t, "--data", data)
	client := dialRaw(t, n)
	attributes := map[string]string{"VisibilityTimeout": diskVisibility}
	queue := client.createQueue(t, "q", attributes)
	sent := make(map[string]bool)
	fill(t, client, queue, sent)
	t.Logf("%d messages of %d bytes fit on %s", len(sent), diskBodyBytes, diskSize)

	if code := n.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM on a full disk\n%s", code, n.log)
	}
	n = startNode(t, "--data", data)
	client = dialRaw(t, n)
	queue = client.createQueue(t, "q", attributes)

	empty(t, client, queue, sent)
	n.alive()
	err := eventually(diskSpaceReturn, func() (bool, error) {
		_, err := client.send(rawSend{QueueUrl: queue, MessageBody: "after"})
		if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == 503 {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("producers do not go on though the queue is empty: %v\n%s", err, n.log)
	}
	got, err := client.receive(queue, 10, 1)
	if err != nil || len(got) != 1 || got[0].Body != "after" {
		t.Errorf("got %d messages, %v; want the one that was sent after the disk was full", len(got), err)
	}
	n.alive()
}

// fill sends until the broker refuses, and wants the refusal to be clear.
func fill(t *testing.T, client *raw, queue string, sent map[string]bool) {
	t.Helper()
	filling := randomText(newRand(t), diskBodyBytes)
	for i := range diskSendsMax {
		at := i % (diskBodyBytes / 2)
		out, err := client.send(rawSend{QueueUrl: queue, MessageBody: filling[at:] + filling[:at]})
		if err == nil {
			sent[out.MessageId] = true
			continue
		}
		refused := (*refusedError)(nil)
		if !errors.As(err, &refused) || refused.status != 503 || !strings.Contains(strings.ToLower(refused.body), "disk") {
			t.Fatalf("send %d: %v; want status 503 that names the disk", i, err)
		}
		if len(sent) == 0 {
			t.Fatal("refused before anything was sent")
		}
		return
	}
	t.Fatalf("%d sends of %d bytes were accepted on %s", diskSendsMax, diskBodyBytes, diskSize)
}

// empty receives and deletes everything and wants it to be what was sent.
func empty(t *testing.T, client *raw, queue string, sent map[string]bool) {
	t.Helper()
	missing := len(sent)
	for missing > 0 {
		got, err := client.receive(queue, 10, 2)
		if err != nil {
			t.Fatalf("receive on a full disk: %v", err)
		}
		if len(got) == 0 {
			t.Fatalf("%d of %d acknowledged messages are missing", missing, len(sent))
		}
		for _, m := range got {
			if left, known := sent[m.MessageId]; known && left {
				sent[m.MessageId] = false
				missing--
			} else if known {
				t.Errorf("message %s came twice", m.MessageId)
			} // else: a send that was refused or unanswered may be there
			if err := client.delete(queue, m.ReceiptHandle); err != nil {
				t.Fatalf("delete on a full disk: %v", err)
			}
		}
	}
}

// smallDisk mounts a file system of that size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mountDisk(t, dir, size)
	return dir
}

// TestStolenSpaceIsSurvived lets somebody else take all of the disk's space
// under load, so that the log itself cannot be written: nothing is acknowledged
// that is not kept, and when space is back the broker goes on.
func TestStolenSpaceIsSurvived(t *testing.T) {
	data := smallDisk(t, diskSize)
	n := startNode(t, "--data", data)
	client := dialRaw(t, n)
	queue := client.createQueue(t, "q", map[string]string{"VisibilityTimeout": diskVisibility})
	filling := randomText(newRand(t), diskBodyBytes)

	var stop atomic.Bool
	var refused atomic.Int64
	var load sync.WaitGroup
	acked := make([]map[string]bool, crashProducers)
	for i := range acked {
		acked[i] = make(map[string]bool)
		client := dialRaw(t, n)
		load.Go(func() {
			for !stop.Load() {
				out, err := client.send(rawSend{QueueUrl: queue, MessageBody: filling})
				var no *refusedError
				switch {
				case err == nil:
					acked[i][out.MessageId] = true
				case errors.As(err, &no) && no.status == 503:
					refused.Add(1)
				default:
					t.Errorf("send: %v", err)
					return
				}
			}
		})
	}
	hog := filepath.Join(data, "hog")
	takeSpace(t, hog)
	if err := eventually(startMax, func() (bool, error) { return refused.Load() > 0, nil }); err != nil {
		t.Errorf("no producer was refused on a disk without space: %v", err)
	}
	n.alive()
	// A consumer may have to wait for space, but loses nothing by it.
	consumer := dialRaw(t, n)
	var consumed []rawMessage
	load.Go(func() { consumed = consumeSome(t, consumer, queue) })
	if err := eventually(startMax, func() (bool, error) { return refused.Load() > diskRefusals, nil }); err != nil {
		t.Errorf("producers are not refused for long: %v", err)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	stop.Store(true)
	load.Wait()
	sent := make(map[string]bool)
	for _, ids := range acked {
		maps.Copy(sent, ids)
	}
	t.Logf("%d messages acknowledged, %d refused, %d consumed without space", len(sent), refused.Load(), len(consumed))
	for _, m := range consumed {
		delete(sent, m.MessageId)
	}
	empty(t, client, queue, sent)
	n.alive()
}

// consumeSome receives ten messages and deletes them one by one.
func consumeSome(t *testing.T, client *raw, queue string) []rawMessage {
	got, err := client.receive(queue, 10, 1)
	if err != nil {
		t.Errorf("receive on a disk without space: %v", err)
		return nil
	}
	for _, m := range got {
		if err := client.delete(queue, m.ReceiptHandle); err != nil {
			t.Errorf("delete on a disk without space: %v", err)
		}
	}
	return got
}

// takeSpace writes a file until there is no room left.
func takeSpace(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
