package bench

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Keys are what requests are signed with, by AWS Signature Version 4.
type Keys struct {
	ID     string
	Secret string
	Region string // of the scope
}

// Forms of time in a signature.
const (
	signedTime = "20060102T150405Z"
	signedDate = "20060102"
)

// placeholders are the headers of a signature that Signer.Sign fills in, all in
// their final width. The target of JSON requests is signed; Query has none.
func (k *Keys) placeholders(p Protocol) string {
	target := ";x-amz-target"
	if p == ProtocolQuery {
		target = ""
	}
	return "Authorization: AWS4-HMAC-SHA256 Credential=" + k.ID + "/" + signedDate + "/" + k.Region + "/sqs/aws4_request, " +
		"SignedHeaders=host;x-amz-date" + target + ", Signature=" + fmt.Sprintf("%0*d", 2*sha256.Size, 0) + "\r\n" +
		"X-Amz-Date: " + signedTime + "\r\n"
}

// Signer signs requests of a Writer that has Keys. It belongs to one goroutine.
type Signer struct {
	keys *Keys
	date string // that key is for
	key  []byte
	text []byte
}

// NewSigner returns a Signer; one for no keys leaves requests as they are.
func NewSigner(k *Keys) *Signer { return &Signer{keys: k} }

// Sign writes time and signature into a request, in place.
func (s *Signer) Sign(request []byte, now time.Time) {
	if s.keys == nil {
		return
	}
	at := now.UTC().Format(signedTime)
	date := at[:len(signedDate)]
	if date != s.date {
		s.date, s.key = date, s.keys.derive(date)
	}
	split := bytes.Index(request, []byte("\r\n\r\n"))
	head, body := request[:split+2], request[split+4:]
	copy(head[after(head, "Credential=")+len(s.keys.ID)+1:], date)
	copy(head[after(head, "\r\nX-Amz-Date: "):], at)

	line := head[len("POST "):]
	path := line[:bytes.IndexByte(line, ' ')]
	b := append(s.text[:0], "POST\n"...)
	for _, c := range path {
		if c == '/' {
			b = append(b, c)
		} else {
			b = appendEscaped(b, []byte{c}) // what is escaped already is so once more
		}
	}
	b = append(append(b, "\n\nhost:"...), header(head, "\r\nHost: ")...)
	b = append(append(b, "\nx-amz-date:"...), at...)
	signed := "host;x-amz-date"
	if target := header(head, "\r\nX-Amz-Target: "); target != nil {
		b = append(append(b, "\nx-amz-target:"...), target...)
		signed += ";x-amz-target"
	}
	b = append(append(append(b, "\n\n"...), signed...), '\n')
	sum := sha256.Sum256(body)
	b = hex.AppendEncode(b, sum[:])
	canonical := sha256.Sum256(b)

	b = append(b[:0], "AWS4-HMAC-SHA256\n"...)
	b = append(append(b, at...), '\n')
	b = append(append(b, date...), "/"+s.keys.Region+"/sqs/aws4_request\n"...)
	b = hex.AppendEncode(b, canonical[:])
	hex.Encode(head[after(head, "Signature="):], mac(s.key, b))
	s.text = b
}

// derive returns the key that signs on a day.
func (k *Keys) derive(date string) []byte {
	key := []byte("AWS4" + k.Secret)
	for _, part := range []string{date, k.Region, "sqs", "aws4_request"} {
		key = mac(key, []byte(part))
	}
	return key
}

func mac(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return h.Sum(nil)
}

// after returns where a text that is there ends.
func after(head []byte, text string) int { return bytes.Index(head, []byte(text)) + len(text) }

// header returns the value behind a name, nil if there is none.
func header(head []byte, name string) []byte {
	i := bytes.Index(head, []byte(name))
	if i < 0 {
		return nil
	}
	value := head[i+len(name):]
	return value[:bytes.IndexByte(value, '\r')]
}
