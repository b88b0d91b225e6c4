package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
)

// parseRequest reads a request as a server would.
func parseRequest(t *testing.T, wire []byte) (*http.Request, string) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		t.Fatalf("request %q: %v", wire, err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.Index(wire, []byte("\r\n\r\n")); len(body) != len(wire)-i-4 {
		t.Fatalf("content length %d, but %d bytes follow the head", len(body), len(wire)-i-4)
	}
	return req, string(body)
}

func newBodies(t testing.TB, size int) *Bodies {
	t.Helper()
	b, err := NewBodies(1, size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const testQueue = "http://127.0.0.1:9324/000000000000/a-b"

func TestJSONSendCarriesTheStamps(t *testing.T) {
	bodies := newBodies(t, 100)
	for _, batch := range []int{1, 3} {
		w := Writer{Host: "h:1", Protocol: ProtocolJSON, QueueURL: testQueue}
		send := w.Send(bodies, batch, true)
		for i := range batch {
			send.Stamp(i, Stamp{Sender: 2, Counter: uint64(40 + i)}, i)
		}
		req, body := parseRequest(t, send.Bytes)
		if got := req.Header.Get("Content-Type"); got != "application/x-amz-json-1.0" {
			t.Errorf("content type %q", got)
		}
		type entry struct{ ID, MessageBody, MessageGroupId, MessageDeduplicationId string }
		var got struct {
			entry
			QueueUrl string
			Entries  []entry
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		target := "AmazonSQS.SendMessageBatch"
		if batch == 1 {
			target, got.Entries = "AmazonSQS.SendMessage", []entry{got.entry}
		}
		if req.Header.Get("X-Amz-Target") != target || got.QueueUrl != testQueue || len(got.Entries) != batch {
			t.Fatalf("target %q, queue %q, %d entries", req.Header.Get("X-Amz-Target"), got.QueueUrl, len(got.Entries))
		}
		for i, e := range got.Entries {
			st, err := bodies.Parse([]byte(e.MessageBody))
			if err != nil || st.Counter != uint64(40+i) || st.Sender != 2 {
				t.Errorf("entry %d: stamp %+v, %v", i, st, err)
			}
			if want := "s0002g000" + string(rune('0'+i)); e.MessageGroupId != want {
				t.Errorf("entry %d: group %q, want %q", i, e.MessageGroupId, want)
			}
			if e.MessageDeduplicationId != e.MessageBody[:dedupBytes] {
				t.Errorf("entry %d: dedup id %q", i, e.MessageDeduplicationId)
			}
		}
	}
}

func TestQuerySendCarriesTheStamps(t *testing.T) {
	bodies := newBodies(t, 64)
	for _, batch := range []int{1, 10} {
		w := Writer{Host: "h:1", Path: "/ctx", Protocol: ProtocolQuery, QueueURL: testQueue}
		send := w.Send(bodies, batch, false)
		for i := range batch {
			send.Stamp(i, Stamp{Sender: 1, Counter: uint64(7 + i)}, 0)
		}
		req, body := parseRequest(t, send.Bytes)
		form, err := url.ParseQuery(body)
		if err != nil || req.URL.Path != "/ctx" || form.Get("QueueUrl") != testQueue || form.Get("Version") != "2012-11-05" {
			t.Fatalf("path %q, form %v, %v", req.URL.Path, form, err)
		}
		for i := range batch {
			key := "MessageBody"
			if batch > 1 {
				key = "SendMessageBatchRequestEntry." + strconv.Itoa(i+1) + ".MessageBody"
			}
			if st, err := bodies.Parse([]byte(form.Get(key))); err != nil || st.Counter != uint64(7+i) {
				t.Errorf("%s: stamp %+v, %v", key, st, err)
			}
		}
	}
}

func TestDeleteCarriesTheHandles(t *testing.T) {
	handles := [][]byte{[]byte("a+/="), []byte("b-_")}
	for _, n := range []int{1, 2} {
		w := Writer{Host: "h", Protocol: ProtocolJSON, QueueURL: testQueue}
		_, body := parseRequest(t, w.Delete(handles[:n]))
		var got struct {
			ReceiptHandle string
			Entries       []struct{ Id, ReceiptHandle string }
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if n == 1 && got.ReceiptHandle != "a+/=" || n == 2 && (len(got.Entries) != 2 || got.Entries[1].ReceiptHandle != "b-_" || got.Entries[1].Id != "1") {
			t.Errorf("got %s", body)
		}

		w.Protocol = ProtocolQuery
		_, body = parseRequest(t, w.Delete(handles[:n]))
		form, err := url.ParseQuery(body)
		if err != nil {
			t.Fatal(err)
		}
		key := "ReceiptHandle"
		if n > 1 {
			key = "DeleteMessageBatchRequestEntry.1.ReceiptHandle"
		}
		if form.Get(key) != "a+/=" {
			t.Errorf("got %v", form)
		}
	}
}

func BenchmarkSendStamp(b *testing.B) {
	w := Writer{Host: "h", Protocol: ProtocolJSON, QueueURL: testQueue}
	send := w.Send(newBodies(b, 200), 1, false)
	b.ReportAllocs()
	var n uint64
	for b.Loop() {
		n++
		send.Stamp(0, Stamp{Sender: 3, Counter: n}, 0)
	}
}

func BenchmarkDelete(b *testing.B) {
	w := Writer{Host: "127.0.0.1:9324", Protocol: ProtocolJSON, QueueURL: testQueue}
	handles := [][]byte{bytes.Repeat([]byte("h"), 67)}
	b.ReportAllocs()
	for b.Loop() {
		w.Delete(handles)
	}
}
