package bench

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Protocol is one of the two forms in which SQS is spoken.
type Protocol string

// The protocols.
const (
	ProtocolJSON  Protocol = "json"  // AWS JSON 1.0
	ProtocolQuery Protocol = "query" // form in, XML out
)

// groupBytes is the width of a message group in a request: "s0000g0000".
const groupBytes = 10

// Writer makes the requests for one queue. It belongs to one goroutine: each
// method returns bytes that the next call of the same method overwrites.
type Writer struct {
	Host     string // of the Host header
	Path     string // of the endpoint; "/" if empty
	Protocol Protocol
	QueueURL string
	Keys     *Keys // nil: the signature is one that nobody can verify

	out, body []byte
}

// credentials satisfies servers that want to see a signature but do not check
// it.
const credentials = "Authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/sqs/aws4_request, " +
	"SignedHeaders=host, Signature=0000000000000000000000000000000000000000000000000000000000000000\r\n" +
	"X-Amz-Date: 20260101T000000Z\r\n"

// Request returns one whole request: the action with its payload, which is a
// JSON object or the rest of a form after Action and Version.
func (w *Writer) Request(action string, payload []byte) []byte {
	b := append(w.out[:0], "POST "...)
	if w.Path == "" {
		b = append(b, '/')
	}
	b = append(b, w.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, w.Host...)
	b = append(b, "\r\n"...)
	if w.Keys != nil {
		b = append(b, w.Keys.placeholders(w.Protocol)...)
	} else {
		b = append(b, credentials...)
	}
	n := len(payload)
	if w.Protocol == ProtocolQuery {
		b = append(b, "Content-Type: application/x-www-form-urlencoded\r\n"...)
		n += len("Action=") + len(action) + len("&Version=2012-11-05")
	} else {
		b = append(b, "Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS."...)
		b = append(b, action...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, "\r\n\r\n"...)
	if w.Protocol == ProtocolQuery {
		b = append(b, "Action="...)
		b = append(b, action...)
		b = append(b, "&Version=2012-11-05"...)
	}
	w.out = append(b, payload...)
	return w.out
}

// Receive returns a request for up to most messages that waits up to wait
// seconds for a first one.
func (w *Writer) Receive(most, wait int) []byte {
	if w.Protocol == ProtocolQuery {
		return w.Request("ReceiveMessage", fmt.Appendf(nil, "&QueueUrl=%s&MaxNumberOfMessages=%d&WaitTimeSeconds=%d",
			url.QueryEscape(w.QueueURL), most, wait))
	}
	return w.Request("ReceiveMessage", fmt.Appendf(nil, `{"QueueUrl":%q,"MaxNumberOfMessages":%d,"WaitTimeSeconds":%d}`,
		w.QueueURL, most, wait))
}

// Delete returns a request that deletes by handles: singly if there is one, else
// as a batch with the Ids 0, 1, ...
func (w *Writer) Delete(handles [][]byte) []byte {
	w.body = w.body[:0]
	if w.Protocol == ProtocolQuery {
		return w.deleteQuery(handles)
	}
	w.body = append(w.body, `{"QueueUrl":"`...)
	w.body = append(w.body, w.QueueURL...)
	if len(handles) == 1 {
		w.body = append(w.body, `","ReceiptHandle":"`...)
		w.body = append(w.body, handles[0]...)
		w.body = append(w.body, `"}`...)
		return w.Request("DeleteMessage", w.body)
	}
	w.body = append(w.body, `","Entries":[`...)
	for i, h := range handles {
		if i > 0 {
			w.body = append(w.body, ',')
		}
		w.body = append(w.body, `{"Id":"`...)
		w.body = strconv.AppendInt(w.body, int64(i), 10)
		w.body = append(w.body, `","ReceiptHandle":"`...)
		w.body = append(w.body, h...)
		w.body = append(w.body, `"}`...)
	}
	w.body = append(w.body, "]}"...)
	return w.Request("DeleteMessageBatch", w.body)
}

func (w *Writer) deleteQuery(handles [][]byte) []byte {
	w.body = append(w.body, "&QueueUrl="...)
	w.body = append(w.body, url.QueryEscape(w.QueueURL)...)
	if len(handles) == 1 {
		w.body = append(w.body, "&ReceiptHandle="...)
		w.body = appendEscaped(w.body, handles[0])
		return w.Request("DeleteMessage", w.body)
	}
	for i, h := range handles {
		w.body = append(w.body, "&DeleteMessageBatchRequestEntry."...)
		w.body = strconv.AppendInt(w.body, int64(i+1), 10)
		w.body = append(w.body, ".Id="...)
		w.body = strconv.AppendInt(w.body, int64(i), 10)
		w.body = append(w.body, "&DeleteMessageBatchRequestEntry."...)
		w.body = strconv.AppendInt(w.body, int64(i+1), 10)
		w.body = append(w.body, ".ReceiptHandle="...)
		w.body = appendEscaped(w.body, h)
	}
	return w.Request("DeleteMessageBatch", w.body)
}

// appendEscaped appends v for a form.
func appendEscaped(dst, v []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range v {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// SendRequest is a prebuilt send of one message or a batch, in which only the
// stamps change.
type SendRequest struct {
	Bytes  []byte
	bodies *Bodies
	fifo   bool
	at     []sendEntry
}

// sendEntry is where the parts of one message lie in a SendRequest.
type sendEntry struct{ body, group, dedup int }

// Send returns a request for batch messages. With fifo each has a group and a
// deduplication id.
func (w *Writer) Send(bodies *Bodies, batch int, fifo bool) *SendRequest {
	r := &SendRequest{bodies: bodies, fifo: fifo, at: make([]sendEntry, batch)}
	// Marks that the escapes of neither protocol touch stand where a stamp goes.
	body, group, dedup := strings.Repeat("~", bodies.size), strings.Repeat("!", groupBytes), strings.Repeat("^", dedupBytes)
	var payload strings.Builder
	if w.Protocol == ProtocolQuery {
		fmt.Fprintf(&payload, "&QueueUrl=%s", url.QueryEscape(w.QueueURL))
	} else {
		fmt.Fprintf(&payload, `{"QueueUrl":%q`, w.QueueURL)
	}
	action := "SendMessage"
	if batch > 1 {
		action = "SendMessageBatch"
	}
	for i := range batch {
		w.sendEntry(&payload, i, batch, fifo, body, group, dedup)
	}
	if w.Protocol == ProtocolJSON {
		if batch > 1 {
			payload.WriteString("]")
		}
		payload.WriteString("}")
	}
	r.Bytes = append([]byte(nil), w.Request(action, []byte(payload.String()))...)
	r.find(body, group, dedup)
	return r
}

func (w *Writer) sendEntry(payload *strings.Builder, i, batch int, fifo bool, body, group, dedup string) {
	prefix := ""
	switch {
	case w.Protocol == ProtocolQuery && batch > 1:
		prefix = fmt.Sprintf("SendMessageBatchRequestEntry.%d.", i+1)
		fmt.Fprintf(payload, "&%sId=%d", prefix, i)
	case batch > 1 && i == 0:
		payload.WriteString(`,"Entries":[{"Id":"0"`)
	case batch > 1:
		fmt.Fprintf(payload, `,{"Id":"%d"`, i)
	}
	if w.Protocol == ProtocolQuery {
		fmt.Fprintf(payload, "&%sMessageBody=%s", prefix, body)
		if fifo {
			fmt.Fprintf(payload, "&%sMessageGroupId=%s&%sMessageDeduplicationId=%s", prefix, group, prefix, dedup)
		}
		return
	}
	fmt.Fprintf(payload, `,"MessageBody":"%s"`, body)
	if fifo {
		fmt.Fprintf(payload, `,"MessageGroupId":"%s","MessageDeduplicationId":"%s"`, group, dedup)
	}
	if batch > 1 {
		payload.WriteString("}")
	}
}

// find notes where the marks stand, one after the other.
func (r *SendRequest) find(body, group, dedup string) {
	at := 0
	next := func(mark string) int {
		i := at + strings.Index(string(r.Bytes[at:]), mark)
		at = i + len(mark)
		return i
	}
	for i := range r.at {
		r.at[i].body = next(body)
		if r.fifo {
			r.at[i].group = next(group)
			r.at[i].dedup = next(dedup)
		}
	}
}

// dedupBytes is the width of a deduplication id: sender and counter of a stamp.
const dedupBytes = 16

// Stamp writes message i of the request: its body and, for FIFO, its group and
// deduplication id.
func (r *SendRequest) Stamp(i int, s Stamp, group int) {
	e := r.at[i]
	body := r.Bytes[e.body : e.body+r.bodies.size]
	r.bodies.Fill(body, s)
	if !r.fifo {
		return
	}
	g := r.Bytes[e.group : e.group+groupBytes]
	g[0], g[5] = 's', 'g'
	putHex(g[1:5], uint64(s.Sender))
	putHex(g[6:10], uint64(group))
	copy(r.Bytes[e.dedup:e.dedup+dedupBytes], body[:dedupBytes])
}
