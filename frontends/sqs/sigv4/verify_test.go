package sigv4

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/valyala/fasthttp"
)

// signSDK signs with AWS's own signer.
func signSDK(t testing.TB, r *http.Request, body, service, region string, at time.Time) *fasthttp.RequestHeader {
	t.Helper()
	sum := sha256.Sum256([]byte(body))
	credentials := aws.Credentials{AccessKeyID: suiteID, SecretAccessKey: suiteSecret}
	if err := v4.NewSigner().SignHTTP(context.Background(), credentials, r, hex.EncodeToString(sum[:]), service, region, at); err != nil {
		t.Fatal(err)
	}
	h := &fasthttp.RequestHeader{}
	h.SetHost(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			h.Add(name, value)
		}
	}
	if len(body) > 0 {
		h.SetContentLength(len(body))
		h.Add("Content-Length", fmt.Sprint(len(body)))
	}
	return h
}

// sendSDK is a SendMessage of AWS JSON as Go's SDK signs it.
func sendSDK(t testing.TB, body, service, region string, at time.Time) Request {
	t.Helper()
	r, err := http.NewRequest("POST", "http://127.0.0.1:9324/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	r.Header.Set("X-Amzn-Query-Mode", "true")
	return Request{Method: []byte("POST"), Path: []byte("/"), Header: signSDK(t, r, body, service, region, at)}
}

func sqsVerifier(t testing.TB, edit func(*Options)) *Verifier {
	t.Helper()
	o := Options{Secrets: map[string]string{suiteID: suiteSecret}, Service: "sqs", Covered: []string{"x-amz-target"}}
	if edit != nil {
		edit(&o)
	}
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// check opens and verifies.
func check(v *Verifier, r Request, body string, now time.Time) (string, error) {
	var c Claim
	if err := v.Open(&c, r, now); err != nil {
		return "", err
	}
	return v.Verify(&c, []byte(body))
}

// kindOf returns the kind of an error, 0 for none.
func kindOf(t testing.TB, err error) Kind {
	t.Helper()
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("error %v is no *Error", err)
	}
	if e == nil {
		return 0
	}
	if e.Kind == 0 || e.Text == "" {
		t.Errorf("error %+v says nothing", e)
	}
	return e.Kind
}

func TestScopeAndTime(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 5, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		service, region string
		at              time.Duration // from now
		edit            func(*Options)
		want            Kind
		text            string
	}{
		"now":                 {service: "sqs", region: "us-east-1"},
		"any region":          {service: "sqs", region: "mars-north-7"},
		"yesterday":           {service: "sqs", region: "us-east-1", at: -10 * time.Minute},
		"15 minutes ago":      {service: "sqs", region: "us-east-1", at: -SkewMax},
		"in 15 minutes":       {service: "sqs", region: "us-east-1", at: SkewMax},
		"older":               {service: "sqs", region: "us-east-1", at: -SkewMax - time.Second, want: Mismatch, text: "Signature expired: 20260228T234959Z is now earlier than 20260228T235000Z (20260301T000500Z - 15 min.)"},
		"later":               {service: "sqs", region: "us-east-1", at: SkewMax + time.Second, want: Mismatch, text: "Signature not yet current: 20260301T002001Z is still later than 20260301T002000Z (20260301T000500Z + 15 min.)"},
		"another service":     {service: "s3", region: "us-east-1", want: Mismatch, text: "correct service: 'sqs'"},
		"the region asked":    {service: "sqs", region: "eu-west-1", edit: func(o *Options) { o.Region = "eu-west-1" }},
		"not that region":     {service: "sqs", region: "us-east-1", edit: func(o *Options) { o.Region = "eu-west-1" }, want: Mismatch, text: "us-east-1"},
		"unknown key":         {service: "sqs", region: "us-east-1", edit: func(o *Options) { o.Secrets = map[string]string{"other": suiteSecret} }, want: UnknownKey, text: "security token"},
		"wrong secret":        {service: "sqs", region: "us-east-1", edit: func(o *Options) { o.Secrets = map[string]string{suiteID: "x"} }, want: Mismatch, text: "does not match"},
		"a region that is no": {service: "sqs", region: strings.Repeat("r", regionBytesMax+1), want: Incomplete, text: "5 slash-delimited"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sendSDK(t, "{}", tc.service, tc.region, now.Add(tc.at))
			id, err := check(sqsVerifier(t, tc.edit), r, "{}", now)
			if got := kindOf(t, err); got != tc.want || err != nil && !strings.Contains(err.Error(), tc.text) || err == nil && id != suiteID {
				t.Errorf("got %q, kind %d, %v\nwant kind %d with %q", id, got, err, tc.want, tc.text)
			}
		})
	}
}

// TestAlteredRequests changes one thing of a request that is good.
func TestAlteredRequests(t *testing.T) {
	now := time.Now()
	set := func(name, value string) func(*Request) {
		return func(r *Request) { r.Header.(*fasthttp.RequestHeader).Set(name, value) }
	}
	replace := func(name, from, to string) func(*Request) {
		return func(r *Request) {
			h := r.Header.(*fasthttp.RequestHeader)
			h.Set(name, strings.Replace(string(h.Peek(name)), from, to, 1))
		}
	}
	const hash = "x-amz-content-sha256"
	for name, tc := range map[string]struct {
		edit func(*Request)
		want Kind
		text string
	}{
		"nothing":              {func(*Request) {}, 0, ""},
		"no header":            {func(r *Request) { r.Header.(*fasthttp.RequestHeader).Del("Authorization") }, NoCredentials, "not signed"},
		"host":                 {set("Host", "127.0.0.1:9325"), Mismatch, "does not match"},
		"no port":              {set("Host", "127.0.0.1"), Mismatch, "does not match"},
		"path":                 {func(r *Request) { r.Path = []byte("/q") }, Mismatch, "does not match"},
		"query":                {func(r *Request) { r.Query = []byte("a=b") }, Mismatch, "does not match"},
		"action":               {set("X-Amz-Target", "AmazonSQS.PurgeQueue"), Mismatch, "does not match"},
		"date":                 {set("X-Amz-Date", now.UTC().Add(time.Second).Format(stampForm)), Mismatch, ""},
		"no date":              {func(r *Request) { r.Header.(*fasthttp.RequestHeader).Del("X-Amz-Date") }, Incomplete, "'X-Amz-Date' or a 'Date'"},
		"malformed date":       {set("X-Amz-Date", "yesterday"), Incomplete, "ISO-8601"},
		"fraction in date":     {set("X-Amz-Date", now.UTC().Format("20060102T150405.000Z")), Incomplete, "ISO-8601"},
		"unsigned host":        {replace("Authorization", ";host", ""), Mismatch, "'Host' or ':authority'"},
		"unsigned action":      {replace("Authorization", ";x-amz-target", ""), Mismatch, "'x-amz-target' must be a 'SignedHeader'"},
		"signed less":          {replace("Authorization", ";x-amzn-query-mode", ""), Mismatch, "does not match"},
		"signature":            {replace("Authorization", "Signature=", "Signature=0"), Mismatch, "does not match"},
		"signature of letters": {replace("Authorization", "Signature=", "Signature="+strings.Repeat("z", 64)), Mismatch, "does not match"},
		"scope's end":          {replace("Authorization", "aws4_request", "aws5_request"), Mismatch, "terminator"},
		"scope's date":         {replace("Authorization", suiteID+"/2", suiteID+"/1"), Mismatch, "Date in Credential scope"},
		"scope's region":       {replace("Authorization", "us-east-1", "us-east-2"), Mismatch, "does not match"},
		"short scope":          {replace("Authorization", "/us-east-1", ""), Incomplete, "5 slash-delimited"},
		"long scope":           {replace("Authorization", "/us-east-1", "/us/east"), Incomplete, "5 slash-delimited"},
		"no id":                {replace("Authorization", suiteID, ""), Incomplete, "5 slash-delimited"},
		"capitals":             {replace("Authorization", "host", "Host"), Incomplete, "lower case"},
		"no credential":        {replace("Authorization", "Credential=", "Kredential="), Incomplete, "key=value"},
		"token, unsigned":      {set("X-Amz-Security-Token", "t"), 0, ""},
		"hash in the header":   {set(hash, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"), 0, ""},
		"another hash":         {set(hash, strings.Repeat("0", 64)), Mismatch, "hash of the body"},
		"a hash that is none":  {set(hash, "x"), Mismatch, "hash of the body"},
		"unsigned body":        {set(hash, unsignedWord), Mismatch, "must be signed"},
		"streaming":            {set(hash, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Incomplete, "Streaming"},
		"presigned too":        {func(r *Request) { r.Query = []byte("X-Amz-Signature=1") }, Incomplete, "more than once"},
		"two signatures":       {func(r *Request) { r.Header.(*fasthttp.RequestHeader).Add("Authorization", "x") }, Incomplete, "more than once"},
		"many parameters":      {func(r *Request) { r.Query = []byte(strings.Repeat("a&", pairsMax+1)) }, Incomplete, "too many"},
		"SigV2":                {set("Authorization", "AWS AKID:c2lnbmF0dXJl"), Incomplete, Algorithm},
		"SigV4a":               {replace("Authorization", Algorithm, "AWS4-ECDSA-P256-SHA256"), Incomplete, Algorithm},
		"basic":                {set("Authorization", "Basic c2VjcmV0"), Incomplete, Algorithm},
		"empty":                {set("Authorization", ""), Incomplete, Algorithm},
	} {
		t.Run(name, func(t *testing.T) {
			r := sendSDK(t, "{}", "sqs", "us-east-1", now)
			tc.edit(&r)
			_, err := check(sqsVerifier(t, nil), r, "{}", now)
			if got := kindOf(t, err); got != tc.want || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got kind %d, %v\nwant kind %d with %q", got, err, tc.want, tc.text)
			}
			if err != nil && (strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), suiteSecret)) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestDateHeaderStandsIn(t *testing.T) {
	// The signature of the plain GET is over X-Amz-Date, so both are sent first.
	v := suiteVerifier(t)
	for name, date := range map[string]string{"HTTP": "Sun, 30 Aug 2015 12:36:00 GMT", "basic": suiteStamp} {
		r := vectors()[0].signedHeader()
		h := r.Header.(header)
		h[1] = "Date:" + date
		var c Claim
		if err := v.Open(&c, r, suiteTime()); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if string(c.stamp[:]) != suiteStamp || !c.at.Equal(suiteTime()) {
			t.Errorf("%s: %s was read as %s, %v", name, date, c.stamp, c.at)
		}
	}
}

func TestPresignedParameters(t *testing.T) {
	now := suiteTime()
	v := suiteVerifier(t)
	for name, tc := range map[string]struct {
		from, to string
		after    time.Duration
		want     Kind
		text     string
	}{
		"good":               {want: 0},
		"at its end":         {after: time.Hour},
		"after its end":      {after: time.Hour + time.Second, want: Mismatch, text: "Signature expired: 20150830T133600Z is now earlier than 20150830T133601Z"},
		"before its begin":   {after: -SkewMax - time.Second, want: Mismatch, text: "not yet current"},
		"other end":          {from: "Expires=3600", to: "Expires=7200", want: Mismatch, text: "does not match"},
		"no end":             {from: "X-Amz-Expires=3600&", want: Mismatch, text: "does not match"},
		"no end, later":      {from: "X-Amz-Expires=3600&", after: 16 * time.Minute, want: Mismatch, text: "expired"},
		"an end of 0":        {from: "Expires=3600", to: "Expires=0", want: Incomplete, text: "from 1 to 604800"},
		"beyond a week":      {from: "Expires=3600", to: "Expires=604801", want: Incomplete, text: "from 1 to 604800"},
		"an end in words":    {from: "Expires=3600", to: "Expires=soon", want: Incomplete, text: "from 1 to 604800"},
		"two ends":           {from: "Expires=3600", to: "Expires=3600&X-Amz-Expires=3600", want: Incomplete, text: "from 1 to 604800"},
		"no signature":       {from: "X-Amz-Signature=" + vectors()[0].inQuery + "&", want: Incomplete, text: "'X-Amz-Signature'"},
		"two signatures":     {from: "X-Amz-Expires", to: "X-Amz-Signature=1&X-Amz-Expires", want: Incomplete, text: "'X-Amz-Signature' once"},
		"no date":            {from: "X-Amz-Date=" + suiteStamp + "&", want: Incomplete, text: "'X-Amz-Date'"},
		"no algorithm":       {from: "X-Amz-Algorithm=AWS4-HMAC-SHA256&", want: Incomplete, text: "'X-Amz-Algorithm'"},
		"another algorithm":  {from: "HMAC", to: "ECDSA", want: Incomplete, text: Algorithm},
		"no signed headers":  {from: "&X-Amz-SignedHeaders=host", want: Incomplete, text: "'X-Amz-SignedHeaders'"},
		"bad signed headers": {from: "=host", to: "=host%3B", want: Incomplete, text: "lower case"},
		"unsigned host":      {from: "=host", to: "=date", want: Mismatch, text: "'Host'"},
		"unknown key":        {from: suiteID, to: "someone", want: UnknownKey, text: "security token"},
		"one more parameter": {from: "X-Amz-Expires", to: "Action=PurgeQueue&X-Amz-Expires", want: Mismatch, text: "does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			r := vectors()[0].presigned()
			r.Query = []byte(strings.Replace(string(r.Query), tc.from, tc.to, 1))
			_, err := check(v, r, "", now.Add(tc.after))
			if got := kindOf(t, err); got != tc.want || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got kind %d, %v\nwant kind %d with %q", got, err, tc.want, tc.text)
			}
		})
	}
}

func TestSessionTokensAreRefusedIfSoSet(t *testing.T) {
	v := suiteVerifier(t)
	v.options.RefuseTokens = true
	for _, vector := range vectors() {
		for form, r := range map[string]Request{"header": vector.signedHeader(), "query": vector.presigned()} {
			var c Claim
			if got := kindOf(t, v.Open(&c, r, suiteTime())); (got == UnknownKey) != (vector.token != "") {
				t.Errorf("%s, %s: kind %d", vector.name, form, got)
			}
		}
	}
}

// An unsigned body is taken where nobody can alter it, or where there is none.
func TestUnsignedPayload(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		body    string
		private bool
		want    Kind
	}{
		"a body on TLS":       {"{}", true, 0},
		"a body in the clear": {"{}", false, Mismatch},
		"no body":             {"", false, 0},
	} {
		r, err := http.NewRequest("POST", "http://127.0.0.1:9324/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Content-Sha256", unsignedWord)
		credentials := aws.Credentials{AccessKeyID: suiteID, SecretAccessKey: suiteSecret}
		if err := v4.NewSigner().SignHTTP(t.Context(), credentials, r, unsignedWord, "sqs", "us-east-1", now); err != nil {
			t.Fatal(err)
		}
		h := &fasthttp.RequestHeader{}
		h.SetHost(r.Host)
		for n := range r.Header {
			h.Set(n, r.Header.Get(n))
		}
		_, got := check(sqsVerifier(t, nil), Request{Method: []byte("POST"), Path: []byte("/"), Header: h, Private: tc.private}, tc.body, now)
		if kindOf(t, got) != tc.want {
			t.Errorf("%s: %v, want kind %d", name, got, tc.want)
		}
	}
}

func TestNewChecksItsOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no service": {},
		"no id":      {Service: "sqs", Secrets: map[string]string{"": "x"}},
		"a slash":    {Service: "sqs", Secrets: map[string]string{"a/b": "x"}},
		"a space":    {Service: "sqs", Secrets: map[string]string{"a b": "x"}},
		"no secret":  {Service: "sqs", Secrets: map[string]string{"a": ""}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// The cache is bounded, and holds only what a right signature asked for.
func TestSigningKeysAreBounded(t *testing.T) {
	v := sqsVerifier(t, nil)
	now := time.Now()
	wrong := sendSDK(t, "{}", "sqs", "us-east-1", now)
	if _, err := check(v, wrong, "other", now); err == nil {
		t.Fatal("a wrong body was accepted")
	}
	if n := len(v.signers.m); n != 0 {
		t.Errorf("%d keys are kept after a wrong signature", n)
	}
	for i := range signersMax + 10 {
		if _, err := check(v, sendSDK(t, "{}", "sqs", fmt.Sprint("region-", i), now), "{}", now); err != nil {
			t.Fatal(err)
		}
		if n := len(v.signers.m); n < 1 || n > signersMax {
			t.Fatalf("%d keys are kept, at most %d may be", n, signersMax)
		}
	}
}

func TestVerifierIsSharedByGoroutines(t *testing.T) {
	v := sqsVerifier(t, nil)
	now := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		good := sendSDK(t, "{}", "sqs", fmt.Sprint("region-", i%3), now)
		wg.Go(func() {
			for range 100 {
				if _, err := check(v, good, "{}", now); err != nil {
					t.Error(err)
				}
				if _, err := check(v, good, "[]", now); err == nil {
					t.Error("a wrong body was accepted")
				}
			}
		})
	}
	wg.Wait()
}

func TestVerifyAllocatesLittle(t *testing.T) {
	v := sqsVerifier(t, nil)
	now := time.Now()
	var c Claim
	for name, r := range map[string]Request{"header": sendSDK(t, "{}", "sqs", "us-east-1", now), "query": vectors()[0].presigned()} {
		verifier, at, body := v, now, []byte("{}")
		if name == "query" {
			r.Header = &fasthttp.RequestHeader{}
			r.Header.(*fasthttp.RequestHeader).SetHost("example.amazonaws.com")
			verifier, at, body = suiteVerifier(t), suiteTime(), nil
		}
		allocs := testing.AllocsPerRun(100, func() {
			if err := verifier.Open(&c, r, at); err != nil {
				t.Fatal(err)
			}
			if _, err := verifier.Verify(&c, body); err != nil {
				t.Fatal(err)
			}
		})
		// There is none, but that a pool may forget, which it does at random under the race detector.
		if allocs > 8 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

// BenchmarkVerify is what signatures add to a request.
func BenchmarkVerify(b *testing.B) {
	now := time.Now()
	body := fmt.Sprintf(`{"QueueUrl":"http://127.0.0.1:9324/000000000000/orders","MessageBody":"%s"}`, strings.Repeat("x", 200))
	v := sqsVerifier(b, nil)
	r := sendSDK(b, body, "sqs", "us-east-1", now)
	sent := []byte(body)
	var c Claim
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Open(&c, r, now); err != nil {
			b.Fatal(err)
		}
		if _, err := v.Verify(&c, sent); err != nil {
			b.Fatal(err)
		}
	}
}
