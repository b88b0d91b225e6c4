package sqs

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/leasemq/broker/frontends/frontendtest"
)

const (
	keyID     = "orders-api"
	keySecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// guarded are options with access keys.
func guarded() Options {
	return Options{AutoCreate: true, AccessKeys: []AccessKey{{ID: keyID, Secret: keySecret}, {ID: "other", Secret: "x"}}}
}

// signedCall is a request to be signed. Its fields may be changed before.
type signedCall struct {
	method, path, contentType, target, body string

	id, secret, token, service string
	hash                       string // of the body; computed if empty
	at                         time.Time
}

// callJSON and callQuery are the same request in either protocol.
func callJSON() signedCall {
	return signedCall{
		method: "POST", path: "/", contentType: contentJSON, target: "AmazonSQS.SendMessage", body: `{"QueueUrl":"q","MessageBody":"x"}`,
		id: keyID, secret: keySecret, service: "sqs", at: time.Now(),
	}
}

func callQuery() signedCall {
	return signedCall{
		method: "POST", path: "/000000000000/q", contentType: "application/x-www-form-urlencoded", body: "Action=SendMessage&MessageBody=x",
		id: keyID, secret: keySecret, service: "sqs", at: time.Now(),
	}
}

func (c signedCall) request(t testing.TB, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(c.method, "http://"+address+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", c.contentType)
	if c.target != "" {
		r.Header.Set("X-Amz-Target", c.target)
	}
	return r
}

// bodyHash returns what the signature says of the body.
func (c signedCall) bodyHash() string {
	if c.hash != "" {
		return c.hash
	}
	sum := sha256.Sum256([]byte(c.body))
	return hex.EncodeToString(sum[:])
}

func (c signedCall) credentials() aws.Credentials {
	return aws.Credentials{AccessKeyID: c.id, SecretAccessKey: c.secret, SessionToken: c.token}
}

// signed returns the request signed in its header by AWS's own signer.
func (c signedCall) signed(t testing.TB, address string) *http.Request {
	t.Helper()
	r := c.request(t, address)
	if c.hash != "" {
		r.Header.Set("X-Amz-Content-Sha256", c.hash)
	}
	if err := v4.NewSigner().SignHTTP(context.Background(), c.credentials(), r, c.bodyHash(), c.service, "eu-west-3", c.at); err != nil {
		t.Fatal(err)
	}
	return r
}

// presigned returns a GET whose URL is signed, with the parameters of c in it.
func (c signedCall) presigned(t testing.TB, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+address+c.path+"?"+c.body+"&X-Amz-Expires=60", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.body = ""
	signed, header, err := v4.NewSigner().PresignHTTP(context.Background(), c.credentials(), r, c.bodyHash(), c.service, "eu-west-3", c.at)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = http.NewRequest("GET", signed, nil); err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		if name != "Host" {
			r.Header[name] = values
		}
	}
	return r
}

// exchange sends r on conn as it is, and reads the answer.
func exchange(t testing.TB, conn net.Conn, br *bufio.Reader, r *http.Request) (*http.Response, string) {
	t.Helper()
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, br)
}

// wireAnswer is what a request gets, in either protocol.
type wireAnswer struct {
	status            int
	code, shape, text string
}

// wireCase is a request, changed before or after it was signed.
type wireCase struct {
	name   string
	before func(*signedCall)
	after  func(*http.Request)
	want   wireAnswer
}

func wireCases() []wireCase {
	const hashHeader = "X-Amz-Content-Sha256"
	var (
		good       = wireAnswer{status: 200}
		denied     = wireAnswer{403, "AccessDenied", "AccessDeniedException", "Access to the resource http://"}
		unknown    = wireAnswer{403, "InvalidClientTokenId", "UnrecognizedClientException", "The security token included in the request is invalid."}
		mismatch   = wireAnswer{403, "SignatureDoesNotMatch", "InvalidSignatureException", "The request signature we calculated does not match the signature you provided."}
		incomplete = wireAnswer{400, "IncompleteSignature", "IncompleteSignatureException", "Authorization header requires"}
		expired    = wireAnswer{403, "SignatureDoesNotMatch", "InvalidSignatureException", "Signature expired: "}
		early      = wireAnswer{403, "SignatureDoesNotMatch", "InvalidSignatureException", "Signature not yet current: "}
	)
	telling := func(a wireAnswer, text string) wireAnswer { a.text = text; return a }
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	replace := func(from, to string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), from, to, 1))
		}
	}
	return []wireCase{
		{name: "good", want: good},
		{name: "another key", before: func(c *signedCall) { c.id, c.secret = "other", "x" }, want: good},
		{name: "session token", before: func(c *signedCall) { c.token = "temporary" }, want: good},
		{name: "hash in the header", before: func(c *signedCall) { c.hash = c.bodyHash() }, want: good},
		{name: "14 minutes ago", before: func(c *signedCall) { c.at = c.at.Add(-14 * time.Minute) }, want: good},
		{name: "not signed", after: func(r *http.Request) { r.Header.Del("Authorization") }, want: denied},
		{name: "unknown key", before: func(c *signedCall) { c.id = "AKIDUNKNOWN" }, want: unknown},
		{name: "wrong secret", before: func(c *signedCall) { c.secret += "x" }, want: mismatch},
		{name: "secret of another key", before: func(c *signedCall) { c.secret = "x" }, want: mismatch},
		{name: "16 minutes ago", before: func(c *signedCall) { c.at = c.at.Add(-16 * time.Minute) }, want: expired},
		{name: "in 16 minutes", before: func(c *signedCall) { c.at = c.at.Add(16 * time.Minute) }, want: early},
		{name: "for another service", before: func(c *signedCall) { c.service = "sns" }, want: telling(mismatch, "correct service: 'sqs'")},
		{name: "another body", after: func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", int(r.ContentLength))))
		}, want: mismatch},
		{name: "another host", after: func(r *http.Request) { r.Host = "sqs.example.org" }, want: mismatch},
		{name: "another path", after: func(r *http.Request) { r.URL.Path = "/000000000000/other" }, want: mismatch},
		{name: "another query", after: func(r *http.Request) { r.URL.RawQuery = "a=b" }, want: mismatch},
		{name: "another type", after: header("Content-Type", "text/plain"), want: mismatch},
		{name: "host not signed", after: replace("host;", ""), want: telling(mismatch, "'Host' or ':authority' must be a 'SignedHeader'")},
		{name: "wrong hash", before: func(c *signedCall) { c.hash = strings.Repeat("0", 64) }, want: telling(mismatch, "x-amz-content-sha256")},
		{name: "unsigned body", before: func(c *signedCall) { c.hash = "UNSIGNED-PAYLOAD" }, want: telling(mismatch, "not encrypted")},
		{name: "streaming", before: func(c *signedCall) { c.hash = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" }, want: telling(incomplete, "Streaming and chunked signatures are not supported")},
		{name: "streaming, unsigned", after: header(hashHeader, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"), want: telling(incomplete, "not supported")},
		{name: "no parts", after: header("Authorization", "AWS4-HMAC-SHA256"), want: telling(incomplete, "requires 'Credential' parameter. Authorization header requires 'Signature' parameter.")},
		{name: "no credential", after: replace("Credential=", "C="), want: telling(incomplete, "key=value")},
		{name: "short credential", after: replace("/eu-west-3", ""), want: telling(incomplete, "5 slash-delimited elements")},
		{name: "no date", after: func(r *http.Request) { r.Header.Del("X-Amz-Date") }, want: telling(incomplete, "'X-Amz-Date' or a 'Date'")},
		{name: "malformed date", after: header("X-Amz-Date", "today"), want: telling(incomplete, "ISO-8601")},
		{name: "basic", after: header("Authorization", "Basic eDp5"), want: telling(incomplete, "AWS4-HMAC-SHA256")},
		{name: "SigV4a", after: replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), want: telling(incomplete, "AWS4-HMAC-SHA256")},
		{name: "two signatures", after: func(r *http.Request) { r.Header.Add("Authorization", "AWS4-HMAC-SHA256") }, want: telling(incomplete, "more than once")},
	}
}

func TestSignaturesOnTheWire(t *testing.T) {
	defer ranCases.note(t)
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), guarded()))
	for protocol, start := range map[string]func() signedCall{"json": callJSON, "query": callQuery} {
		for _, tc := range wireCases() {
			t.Run(protocol+" "+tc.name, func(t *testing.T) {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				br := bufio.NewReader(conn)
				c := start()
				if tc.before != nil {
					tc.before(&c)
				}
				r := c.signed(t, address)
				if tc.after != nil {
					tc.after(r)
				}
				a, body := exchange(t, conn, br, r)
				wantBody := `"__type":"com.amazon.coral.service#` + tc.want.shape + `"`
				if protocol == "query" {
					wantBody = "<Error><Type>Sender</Type><Code>" + tc.want.code + "</Code><Message>"
				}
				queryError := ""
				if tc.want.code == "" {
					wantBody = "MessageId"
				} else if protocol == "json" {
					queryError = tc.want.code + ";Sender"
				}
				text := strings.NewReplacer("&#39;", "'", "&apos;", "'").Replace(body)
				if a.StatusCode != tc.want.status || !strings.Contains(body, wantBody) || !strings.Contains(text, tc.want.text) || a.Header.Get("x-amzn-query-error") != queryError {
					t.Errorf("got %d %q %s\nwant %+v", a.StatusCode, a.Header.Get("x-amzn-query-error"), body, tc.want)
				}
				if strings.Contains(body, keySecret) {
					t.Errorf("the answer shows a secret: %s", body)
				}
				// The connection goes on, and takes a good request.
				if a, body := exchange(t, conn, br, start().signed(t, address)); a.StatusCode != 200 {
					t.Errorf("the next request got %d %s", a.StatusCode, body)
				}
			})
		}
	}
}

// The action of a JSON request is in a header: it must be signed.
func TestUnsignedActionIsRefused(t *testing.T) {
	defer ranCases.note(t)
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), guarded()))
	c := callJSON()
	c.target = ""
	r := c.signed(t, address)
	r.Header.Set("X-Amz-Target", "AmazonSQS.PurgeQueue")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a, body := exchange(t, conn, bufio.NewReader(conn), r)
	if a.StatusCode != 403 || !strings.Contains(body, "'x-amz-target' must be a 'SignedHeader'") {
		t.Errorf("got %d %s", a.StatusCode, body)
	}
}

func TestPresignedGET(t *testing.T) {
	defer ranCases.note(t)
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), guarded()))
	for name, tc := range map[string]struct {
		before func(*signedCall)
		after  func(url.Values)
		status int
		holds  string
	}{
		"good":             {status: 200, holds: "<MessageId>"},
		"50 seconds ago":   {before: func(c *signedCall) { c.at = c.at.Add(-50 * time.Second) }, status: 200, holds: "<MessageId>"},
		"session token":    {before: func(c *signedCall) { c.token = "a/b+c==" }, status: 200, holds: "<MessageId>"},
		"odd characters":   {before: func(c *signedCall) { c.body = "Action=SendMessage&MessageBody=a%20b%2Bc%2F%C3%BC%26~%2A" }, status: 200, holds: "<MessageId>"},
		"spaces as plus":   {before: func(c *signedCall) { c.body = "Action=SendMessage&MessageBody=a%20b%2Bc" }, after: func(url.Values) {}, status: 200, holds: "<MessageId>"},
		"61 seconds ago":   {before: func(c *signedCall) { c.at = c.at.Add(-61 * time.Second) }, status: 403, holds: "Signature expired"},
		"wrong secret":     {before: func(c *signedCall) { c.secret = "y" }, status: 403, holds: "<Code>SignatureDoesNotMatch</Code>"},
		"unknown key":      {before: func(c *signedCall) { c.id = "AKIDUNKNOWN" }, status: 403, holds: "<Code>InvalidClientTokenId</Code>"},
		"another message":  {after: func(v url.Values) { v.Set("MessageBody", "y") }, status: 403, holds: "<Code>SignatureDoesNotMatch</Code>"},
		"a longer life":    {after: func(v url.Values) { v.Set("X-Amz-Expires", "600") }, status: 403, holds: "<Code>SignatureDoesNotMatch</Code>"},
		"no expiry in it":  {after: func(v url.Values) { v.Set("X-Amz-Expires", "x") }, status: 400, holds: "<Code>IncompleteSignature</Code>"},
		"no signature":     {after: func(v url.Values) { v.Del("X-Amz-Signature") }, status: 400, holds: "<Code>IncompleteSignature</Code>"},
		"no part of it":    {after: func(v url.Values) { clear(v) }, status: 403, holds: "<Code>AccessDenied</Code>"},
		"more than a week": {after: func(v url.Values) { v.Set("X-Amz-Expires", "604801") }, status: 400, holds: "604800"},
	} {
		t.Run(name, func(t *testing.T) {
			c := callQuery()
			if tc.before != nil {
				tc.before(&c)
			}
			r := c.presigned(t, address)
			if tc.after != nil {
				v := r.URL.Query()
				tc.after(v)
				r.URL.RawQuery = v.Encode()
			}
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			br := bufio.NewReader(conn)
			for range 2 { // a URL may be used again
				a, body := exchange(t, conn, br, r)
				if a.StatusCode != tc.status || !strings.Contains(body, tc.holds) {
					t.Errorf("got %d %s\nwant %d with %s", a.StatusCode, body, tc.status, tc.holds)
				}
			}
		})
	}
}

// Strangers cannot make the node read and keep what they send.
func TestLargeBodyOfAStrangerIsNotRead(t *testing.T) {
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), guarded()))
	for name, head := range map[string]string{
		"announced": fmt.Sprintf("Content-Length: %d\r\n\r\n", strangerBytesMax+1),
		"chunked":   "Transfer-Encoding: chunked\r\n\r\n",
		"too large": "Content-Length: 1073741824\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// The handler runs once 8 KiB are there, or less for chunks.
		body := strings.Repeat("x", 9<<10)
		if name == "chunked" {
			body = "2000\r\n" + strings.Repeat("x", 0x2000) + "\r\n"
		}
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\n"+head+body); err != nil {
			t.Fatal(err)
		}
		a, answer := readAnswer(t, bufio.NewReader(conn))
		if a.StatusCode != 403 || !a.Close || !strings.Contains(answer, "<Code>AccessDenied</Code>") {
			t.Errorf("%s: got %d closes=%v %s", name, a.StatusCode, a.Close, answer)
		}
	}
}

func TestHealthNeedsNoSignature(t *testing.T) {
	defer ranCases.note(t)
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), guarded()))
	a, err := http.Get("http://" + address + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != 200 {
		t.Errorf("got %d", a.StatusCode)
	}
}

func TestOptionsOfSignatures(t *testing.T) {
	defer ranCases.note(t)
	o := guarded()
	o.RefuseSessionTokens, o.SigningRegion = true, "eu-west-3"
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), o))
	for name, tc := range map[string]struct {
		edit func(*signedCall)
		code string
	}{
		"good":          {func(*signedCall) {}, ""},
		"session token": {func(c *signedCall) { c.token = "temporary" }, "InvalidClientTokenId"},
	} {
		c := callJSON()
		tc.edit(&c)
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		a, body := exchange(t, conn, bufio.NewReader(conn), c.signed(t, address))
		if got, _, _ := strings.Cut(a.Header.Get("x-amzn-query-error"), ";"); got != tc.code {
			t.Errorf("%s: got %d %s", name, a.StatusCode, body)
		}
	}
	o.SigningRegion = "us-east-1"
	address = listen(t, newTestServer(t, frontendtest.NewEngine(t), o))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if a, body := exchange(t, conn, bufio.NewReader(conn), callJSON().signed(t, address)); a.StatusCode != 403 || !strings.Contains(body, "valid region") {
		t.Errorf("another region: got %d %s", a.StatusCode, body)
	}
}

func TestAccessKeysAreChecked(t *testing.T) {
	for name, keys := range map[string][]AccessKey{
		"twice":     {{ID: "a", Secret: "x"}, {ID: "a", Secret: "y"}},
		"no secret": {{ID: "a"}},
		"no id":     {{Secret: "x"}},
		"a slash":   {{ID: "a/b", Secret: "x"}},
	} {
		if _, err := newServer(sameDoor(door{}), time.Now().UnixMilli, Options{AccessKeys: keys}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	key := AccessKey{ID: keyID, Secret: keySecret}
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(form, []any{key, Options{AccessKeys: []AccessKey{key}}}); strings.Contains(got, keySecret) {
			t.Errorf("%s shows the secret: %s", form, got)
		}
	}
}

// The core knows a request by its access key.
func TestPrincipalIsTheAccessKey(t *testing.T) {
	s := newTestServer(t, frontendtest.NewEngine(t), guarded())
	for _, k := range s.options.AccessKeys {
		if got := fmt.Sprintf("%+v", s.keys.Load().clients[k.ID].messages); !strings.Contains(got, "principal:{Name:"+k.ID+" ") {
			t.Errorf("the client of %s is %s", k.ID, got)
		}
	}
}

func TestObserveHearsOfStrangers(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	o := guarded()
	o.Observe = func(action, code string, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		got[code] = action
	}
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), o))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	br := bufio.NewReader(conn)
	for _, c := range []struct{ id, secret string }{{keyID, keySecret}, {keyID, "wrong"}, {"nobody", "x"}} {
		r := callJSON()
		r.id, r.secret = c.id, c.secret
		exchange(t, conn, br, r.signed(t, address))
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]string{"": "SendMessage", "SignatureDoesNotMatch": unauthenticated, "InvalidClientTokenId": unauthenticated}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRequestsUseTheClientOfTheirKey(t *testing.T) {
	s := newTestServer(t, frontendtest.NewEngine(t), guarded())
	var asked []string
	for id := range s.keys.Load().clients {
		s.keys.Load().clients[id] = door{messages: &cannedCore{publish: func() { asked = append(asked, id) }}, queues: &cannedCore{}}
	}
	address := listen(t, s)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	br := bufio.NewReader(conn)
	for _, k := range s.options.AccessKeys {
		c := callJSON()
		c.id, c.secret = k.ID, k.Secret
		if a, body := exchange(t, conn, br, c.signed(t, address)); a.StatusCode != 200 {
			t.Errorf("%s got %d %s", k.ID, a.StatusCode, body)
		}
	}
	if want := []string{keyID, "other"}; !slices.Equal(asked, want) {
		t.Errorf("the clients of %v were asked, want %v", asked, want)
	}
}

func TestSDKSigns(t *testing.T) {
	defer ranCases.note(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serverTLS, clientTLS := testCertificate(t)
	s := newTestServer(t, frontendtest.NewEngine(t), guarded())
	serve(t, s, tls.NewListener(ln, serverTLS))
	for scheme, address := range map[string]string{"http": listen(t, s), "https": ln.Addr().String()} {
		transport := &http.Transport{TLSClientConfig: clientTLS}
		t.Cleanup(transport.CloseIdleConnections)
		client := func(id, secret, token string) *sdk.Client {
			return sdk.New(sdk.Options{
				BaseEndpoint: aws.String(scheme + "://" + address),
				Region:       "us-east-1",
				Credentials:  credentials.NewStaticCredentialsProvider(id, secret, token),
				HTTPClient:   &http.Client{Transport: transport},
				Retryer:      aws.NopRetryer{},
			})
		}
		good := client(keyID, keySecret, "")
		url := createSDK(t, good, "q-"+scheme, nil)
		must[*sdk.SendMessageOutput](t)(good.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")}))
		must[*sdk.ReceiveMessageOutput](t)(client(keyID, keySecret, "token").ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}))
		for want, c := range map[string]*sdk.Client{"SignatureDoesNotMatch": client(keyID, "wrong", ""), "InvalidClientTokenId": client("nobody", keySecret, "")} {
			_, err := c.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")})
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != want {
				t.Errorf("%s: %v, want %s", scheme, err, want)
			}
		}
	}
}

// TestPagesOfOtherSitesAreRefused: a page needs no script for such a request.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	defer ranCases.note(t)
	address := listen(t, newTestServer(t, frontendtest.NewEngine(t), Options{}))
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/?Action=ListQueues", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Fetch-Site", site)
		if a, body := exchange(t, conn, bufio.NewReader(conn), r); a.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", site, a.StatusCode, body, want)
		}
	}
}

// TestUnsignedBodyIsTakenOverTLS: the connection keeps the body as it was sent.
func TestUnsignedBodyIsTakenOverTLS(t *testing.T) {
	defer ranCases.note(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serverTLS, clientTLS := testCertificate(t)
	s := newTestServer(t, frontendtest.NewEngine(t), guarded())
	serve(t, s, tls.NewListener(ln, serverTLS))
	conn, err := tls.Dial("tcp", ln.Addr().String(), clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := callJSON()
	c.hash = "UNSIGNED-PAYLOAD"
	if a, body := exchange(t, conn, bufio.NewReader(conn), c.signed(t, ln.Addr().String())); a.StatusCode != 200 {
		t.Errorf("got %d %s", a.StatusCode, body)
	}
}
