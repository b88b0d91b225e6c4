package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"
)

// ErrNotOK is wrapped by the errors about answers with another status than 200.
var ErrNotOK = errors.New("server refused")

// Received is one message of an answer. Both are views of the answer.
type Received struct {
	Handle []byte
	Body   []byte
}

// Reader finds what the generator needs in answers. It searches and does not
// decode: that is sound because bodies and names of a run hold no quotes, no
// brackets and no escapes. It belongs to one goroutine.
type Reader struct {
	Protocol Protocol

	messages []Received
	scratch  []byte // unescaped handles
}

// Check turns an answer that is not 200 into an error with the server's code.
func (r *Reader) Check(a Answer) error {
	if a.Status == 200 {
		return nil
	}
	code := a.Header("x-amzn-query-error")
	if i := bytes.IndexByte(code, ';'); i >= 0 {
		code = code[:i]
	}
	if len(code) == 0 {
		code, _ = between(a.Body, "<Code>", "</Code>")
	}
	if len(code) == 0 {
		code, _, _ = jsonString(a.Body, `"__type"`)
	}
	return fmt.Errorf("status %d %s: %w", a.Status, code, ErrNotOK)
}

// Messages returns the messages of a ReceiveMessage answer. The slice and what
// it refers to hold until the next call or the next answer.
func (r *Reader) Messages(body []byte) ([]Received, error) {
	r.messages, r.scratch = r.messages[:0], r.scratch[:0]
	if r.Protocol == ProtocolQuery {
		return r.xmlMessages(body)
	}
	handles, bodies := body, body
	for {
		var m Received
		var okHandle, okBody bool
		m.Handle, handles, okHandle = jsonString(handles, `"ReceiptHandle"`)
		m.Body, bodies, okBody = jsonString(bodies, `"Body"`)
		if okHandle != okBody {
			return nil, fmt.Errorf("messages with unequal numbers of bodies and handles: %w", ErrBadAnswer)
		}
		if !okHandle {
			return r.messages, nil
		}
		r.messages = append(r.messages, m)
	}
}

func (r *Reader) xmlMessages(body []byte) ([]Received, error) {
	for {
		i := bytes.Index(body, []byte("<Message>"))
		if i < 0 {
			return r.messages, nil
		}
		body = body[i:]
		end := bytes.Index(body, []byte("</Message>"))
		if end < 0 {
			return nil, fmt.Errorf("message without an end: %w", ErrBadAnswer)
		}
		handle, ok1 := between(body[:end], "<ReceiptHandle>", "</ReceiptHandle>")
		text, ok2 := between(body[:end], "<Body>", "</Body>")
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("message without body or handle: %w", ErrBadAnswer)
		}
		r.messages = append(r.messages, Received{Handle: r.unescapeXML(handle), Body: text})
		body = body[end:]
	}
}

// unescapeXML resolves what a handle in base64 can hold: some servers escape
// its signs.
func (r *Reader) unescapeXML(v []byte) []byte {
	if bytes.IndexByte(v, '&') < 0 {
		return v
	}
	var text string
	if err := xml.Unmarshal(fmt.Appendf(nil, "<t>%s</t>", v), &text); err != nil {
		return v
	}
	start := len(r.scratch)
	r.scratch = append(r.scratch, text...)
	return r.scratch[start:len(r.scratch):len(r.scratch)]
}

// Succeeded tells, for the answer with status 200 to a batch of n, that each
// entry succeeded, or which did: it calls fail with the index and the code of
// each that did not.
func (r *Reader) Succeeded(body []byte, n int, fail func(i int, code string)) error {
	if n == 1 {
		return nil
	}
	mark := `"Code"`
	if r.Protocol == ProtocolQuery {
		mark = "<BatchResultErrorEntry>"
	}
	if !bytes.Contains(body, []byte(mark)) {
		return nil
	}
	failed, err := r.failures(body)
	if err != nil {
		return err
	}
	for _, f := range failed {
		i, err := strconv.Atoi(f.ID)
		if err != nil || i < 0 || i >= n {
			return fmt.Errorf("batch entry %q was not asked for: %w", f.ID, ErrBadAnswer)
		}
		fail(i, f.Code)
	}
	return nil
}

// failure is one failed entry of a batch.
type failure struct {
	ID   string `json:"Id" xml:"Id"`
	Code string `json:"Code" xml:"Code"`
}

// failures decodes the failed entries: rare, so with a real decoder.
func (r *Reader) failures(body []byte) ([]failure, error) {
	if r.Protocol == ProtocolQuery {
		var a struct {
			Delete []failure `xml:"DeleteMessageBatchResult>BatchResultErrorEntry"`
			Send   []failure `xml:"SendMessageBatchResult>BatchResultErrorEntry"`
		}
		if err := xml.Unmarshal(body, &a); err != nil {
			return nil, fmt.Errorf("batch answer: %w: %w", err, ErrBadAnswer)
		}
		return append(a.Delete, a.Send...), nil
	}
	var a struct {
		Failed []failure `json:"Failed"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("batch answer: %w: %w", err, ErrBadAnswer)
	}
	return a.Failed, nil
}

// Sent counts the message ids of the answer to a send.
func (r *Reader) Sent(body []byte) int {
	if r.Protocol == ProtocolQuery {
		return bytes.Count(body, []byte("<MessageId>"))
	}
	return bytes.Count(body, []byte(`"MessageId"`))
}

// QueueURL finds the queue URL in the answer to CreateQueue.
func (r *Reader) QueueURL(body []byte) (string, error) {
	if r.Protocol == ProtocolQuery {
		if v, ok := between(body, "<QueueUrl>", "</QueueUrl>"); ok {
			return string(v), nil
		}
	} else if v, _, ok := jsonString(body, `"QueueUrl"`); ok {
		return string(bytes.ReplaceAll(v, []byte(`\/`), []byte("/"))), nil
	}
	return "", fmt.Errorf("no queue URL in %q: %w", body[:min(len(body), 200)], ErrBadAnswer)
}

// jsonString finds the next key (with its quotes) and returns the string after
// it as it stands, escapes and all, and what follows. A handle that is escaped
// goes back into the next request as it came.
func jsonString(b []byte, key string) (value, rest []byte, ok bool) {
	for {
		i := bytes.Index(b, []byte(key))
		if i < 0 {
			return nil, b, false
		}
		b = b[i+len(key):]
		v := bytes.TrimLeft(b, " \t\r\n")
		if len(v) == 0 || v[0] != ':' {
			continue // the word stood as a value
		}
		v = bytes.TrimLeft(v[1:], " \t\r\n")
		if len(v) == 0 || v[0] != '"' {
			continue
		}
		v = v[1:]
		for end := 0; ; end++ {
			j := bytes.IndexByte(v[end:], '"')
			if j < 0 {
				return nil, nil, false
			}
			end += j
			if backslashes(v[:end])%2 == 0 {
				return v[:end], v[end+1:], true
			}
		}
	}
}

// backslashes counts the backslashes at the end of b.
func backslashes(b []byte) int {
	return len(b) - len(bytes.TrimRight(b, `\`))
}

// between returns what stands between the first start and the end after it.
func between(b []byte, start, end string) ([]byte, bool) {
	i := bytes.Index(b, []byte(start))
	if i < 0 {
		return nil, false
	}
	b = b[i+len(start):]
	j := bytes.Index(b, []byte(end))
	if j < 0 {
		return nil, false
	}
	return b[:j], true
}
