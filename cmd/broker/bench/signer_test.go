package bench

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leasemq/broker/frontends/sqs/sigv4"
)

// TestSignedRequestsAreVerified: what the broker verifies takes them, again and
// again, and takes none that was changed.
func TestSignedRequestsAreVerified(t *testing.T) {
	keys := &Keys{ID: "a-key", Secret: "its secret/+", Region: "eu-west-1"}
	verifier, err := sigv4.New(sigv4.Options{
		Secrets: map[string]string{keys.ID: keys.Secret}, Service: "sqs", Region: keys.Region, Covered: []string{"x-amz-target"},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 9, 23, 59, 58, 0, time.UTC)
	signer := NewSigner(keys)
	for _, w := range []*Writer{
		{Host: "h:1", Protocol: ProtocolJSON, QueueURL: testQueue, Keys: keys},
		{Host: "h:1", Path: "/a%20b/c", Protocol: ProtocolQuery, QueueURL: testQueue, Keys: keys},
	} {
		request := w.Receive(10, 1)
		for range 4 { // over midnight, in place
			signer.Sign(request, now)
			if err := verify(t, verifier, request, now); err != nil {
				t.Fatalf("%s at %v: %v\n%s", w.Protocol, now, err, request)
			}
			now = now.Add(time.Second)
		}
		request[len(request)-1]++
		if verify(t, verifier, request, now) == nil {
			t.Errorf("%s: a changed body is taken", w.Protocol)
		}
	}
}

func verify(t *testing.T, v *sigv4.Verifier, request []byte, now time.Time) error {
	t.Helper()
	var parsed fasthttp.Request
	if err := parsed.Read(bufio.NewReader(bytes.NewReader(request))); err != nil {
		t.Fatal(err)
	}
	var claim sigv4.Claim
	err := v.Open(&claim, sigv4.Request{Method: []byte(http.MethodPost), Path: parsed.URI().PathOriginal(), Header: &parsed.Header}, now)
	if err == nil {
		_, err = v.Verify(&claim, parsed.Body())
	}
	return err
}

func TestWithoutKeysRequestsAreLeftAsTheyAre(t *testing.T) {
	w := Writer{Host: "h", Protocol: ProtocolJSON, QueueURL: testQueue}
	request := w.Receive(1, 0)
	before := bytes.Clone(request)
	NewSigner(nil).Sign(request, time.Now())
	if !bytes.Equal(before, request) {
		t.Errorf("%s became %s", before, request)
	}
}
