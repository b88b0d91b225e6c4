package sqs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/frontends/frontendtest"
)

// protocol is a form that requests and answers have.
type protocol string

const (
	awsJSON protocol = "json"
	query   protocol = "query"
)

// rawCase is a request and its answer, byte for byte, in both protocols. The name
// begins with what it is a case of: action/, error/, limit/, url/, feature/, wish/.
type rawCase struct {
	name    string
	options Options
	core    error    // what a canned core answers; nil: a whole core
	given   []string // steps before, in AWS JSON: see rawRun.step
	action  string
	in      string              // the input in AWS JSON; Query sends the same parameters
	form    string              // what Query sends instead
	path    string              // of Query
	raw     map[protocol]string // the whole request instead
	only    protocol            // the one protocol that can say it
	then    []string            // steps after

	code   string // of an error, which documentedErrors describes
	text   string // of an error
	json   string // a success, "" if it does not matter
	xml    string // the same in Query: what the result holds
	void   bool   // a success without a result
	closes bool   // the connection ends
}

// wireError is what reference pages say of an error.
type wireError struct {
	code, shape string
	status      int
	receiver    bool
}

// documentedErrors lists the errors as clients have to see them. It repeats what
// errors.go says, so that a slip there is found.
func documentedErrors() []wireError {
	const old, of, coral = "AWS.SimpleQueueService.", "com.amazonaws.sqs#", "com.amazon.coral.service#"
	return []wireError{
		{old + "NonExistentQueue", of + "QueueDoesNotExist", 400, false},
		{"QueueAlreadyExists", of + "QueueNameExists", 400, false},
		{old + "QueueDeletedRecently", of + "QueueDeletedRecently", 400, false},
		{"InvalidParameterValue", coral + "InvalidParameterValueException", 400, false},
		{"MissingParameter", coral + "MissingRequiredParameterException", 400, false},
		{"InvalidAttributeName", of + "InvalidAttributeName", 400, false},
		{"InvalidAttributeValue", of + "InvalidAttributeValue", 400, false},
		{"InvalidMessageContents", of + "InvalidMessageContents", 400, false},
		{"ReceiptHandleIsInvalid", of + "ReceiptHandleIsInvalid", 404, false},
		{old + "MessageNotInflight", of + "MessageNotInflight", 400, false},
		{old + "PurgeQueueInProgress", of + "PurgeQueueInProgress", 403, false},
		{"OverLimit", of + "OverLimit", 403, false},
		{old + "EmptyBatchRequest", of + "EmptyBatchRequest", 400, false},
		{old + "TooManyEntriesInBatchRequest", of + "TooManyEntriesInBatchRequest", 400, false},
		{old + "BatchEntryIdsNotDistinct", of + "BatchEntryIdsNotDistinct", 400, false},
		{old + "InvalidBatchEntryId", of + "InvalidBatchEntryId", 400, false},
		{old + "BatchRequestTooLong", of + "BatchRequestTooLong", 400, false},
		{old + "UnsupportedOperation", of + "UnsupportedOperation", 400, false},
		{"ResourceNotFoundException", of + "ResourceNotFoundException", 404, false},
		{"InvalidAction", coral + "UnknownOperationException", 400, false},
		{"MalformedInput", coral + "SerializationException", 400, false},
		{"AccessDenied", coral + "AccessDeniedException", 403, false},
		{"InvalidClientTokenId", coral + "UnrecognizedClientException", 403, false},
		{"SignatureDoesNotMatch", coral + "InvalidSignatureException", 403, false},
		{"IncompleteSignature", coral + "IncompleteSignatureException", 400, false},
		{"MissingAction", coral + "MissingActionException", 400, false},
		{"MalformedQueryString", coral + "MalformedQueryStringException", 400, false},
		{"UnknownOperationException", coral + "UnknownOperationException", 404, false},
		{"RequestEntityTooLarge", coral + "RequestEntityTooLargeException", 413, false},
		{"RequestTimeout", coral + "RequestTimeoutException", 408, false},
		{"RequestHeadersTooLarge", coral + "RequestHeadersTooLargeException", 431, false},
		{"MalformedHttpRequest", coral + "MalformedHttpRequestException", 400, false},
		{"ServiceUnavailable", coral + "ServiceUnavailableException", 503, true},
		{"InternalFailure", coral + "InternalFailure", 500, true},
	}
}

func documentedError(code string) (wireError, bool) {
	for _, e := range documentedErrors() {
		if e.code == code {
			return e, true
		}
	}
	return wireError{}, false
}

// rawCases is the one table.
func rawCases() []rawCase {
	return slices.Concat(actionCases(), messageActionCases(), moveActionCases(), errorCases(), batchErrorCases(), parameterErrorCases(), coreErrorCases(), httpErrorCases(),
		limitCases(), messageLimitCases(), attributeLimitCases(), idLimitCases(), waitLimitCases(), urlCases(), urlPathCases(), settingCases(), featureCases(), orderCases(), activeMoveCases(), wishCases())
}

// protocols returns those that have the case.
func (rc *rawCase) protocols() []protocol {
	if rc.only != "" {
		return []protocol{rc.only}
	}
	return []protocol{awsJSON, query}
}

func TestEveryCaseOnTheWire(t *testing.T) {
	startServerDate()
	for _, rc := range rawCases() {
		ranCases.run(t, rc.name, rc.name, func(t *testing.T) { rc.run(t) })
	}
}

// results remembers which tests have passed, so that docs/sqs.md need not run
// them again.
type results struct {
	mu     sync.Mutex
	passed map[string]bool // by name; whether it passed
}

var ranCases = &results{passed: map[string]bool{}}

// run runs a test as a subtest of t, unless it has run before, and reports whether
// it has passed.
func (r *results) run(t *testing.T, name, subtest string, f func(t *testing.T)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed, ran := r.passed[name]; ran {
		return passed
	}
	ran := false
	passed := t.Run(subtest, func(t *testing.T) { ran = true; f(t) })
	if ran { // and was not left out by -run
		r.passed[name] = passed
	}
	return passed
}

// run does the case in each protocol, on a server of its own.
func (rc *rawCase) run(t *testing.T) {
	for _, p := range rc.protocols() {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, options: rc.options, started: map[string]chan string{}}
				w.options.Logger = quiet()
				if rc.core == nil {
					w.engine = frontendtest.NewEngine(t)
				}
				w.fails = rc.core
				defer func() {
					w.stop()
					time.Sleep(11 * time.Second) // see runTranscript
				}()
				w.start()
				r := &rawRun{t: t, w: w}
				for _, s := range rc.given {
					r.step(s)
				}
				a, body := r.ask(rc, p)
				rc.check(t, p, a, w.anonymous(body), body)
				if a.Close {
					r.hangUp()
				}
				for _, s := range rc.then {
					r.step(s)
				}
			})
		})
	}
}

// note remembers what became of a test that is no subtest. It is deferred by
// those that docs/sqs.md names, which come before it.
func (r *results) note(t *testing.T) {
	if t.Skipped() || strings.Contains(t.Name(), "/") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed[t.Name()] = !t.Failed()
}

// rawRun is a case being run.
type rawRun struct {
	t *testing.T
	w *world
}

func (r *rawRun) hangUp() {
	if r.w.conn != nil {
		_ = r.w.conn.Close()
		r.w.conn = nil
	}
}

func (r *rawRun) dial() {
	if r.w.conn == nil {
		r.w.conn = r.w.ln.Dial(r.t)
		r.w.reader = bufio.NewReader(r.w.conn)
	}
}

// step does "advance DURATION" or "ACTION INPUT", which must succeed. What stands
// after " => " must be in the answer, after " =/> " must not.
func (r *rawRun) step(s string) {
	r.t.Helper()
	s, unwanted, _ := strings.Cut(s, " =/> ")
	s, wanted, _ := strings.Cut(s, " => ")
	verb, in, _ := strings.Cut(s, " ")
	if verb == "advance" {
		span, err := time.ParseDuration(in)
		if err != nil {
			r.t.Fatal(err)
		}
		r.hangUp() // the server closes idle connections
		time.Sleep(span)
		return
	}
	r.dial()
	a, body := exchange(r.t, r.w.conn, r.w.reader, r.w.request("json", []string{verb}, in))
	body = r.w.anonymous(body)
	if a.StatusCode != 200 || !strings.Contains(body, wanted) || unwanted != "" && strings.Contains(body, unwanted) {
		r.t.Errorf("%.200s answers %d %.400s\nwant %q, not %q", s, a.StatusCode, body, wanted, unwanted)
	}
}

// ask sends the request of the case.
func (r *rawRun) ask(rc *rawCase, p protocol) (*http.Response, string) {
	r.t.Helper()
	r.dial()
	if raw, ok := rc.raw[p]; ok {
		go func() { _, _ = r.w.conn.Write([]byte(raw)) }() // a pipe has no buffer, and the peer may not read all
		return readAnswer(r.t, r.w.reader)
	}
	if p == awsJSON {
		return exchange(r.t, r.w.conn, r.w.reader, r.w.request("json", []string{rc.action}, rc.in))
	}
	form := rc.form
	if form == "" {
		form = "Action=" + rc.action + "&Version=2012-11-05"
		if rc.in != "" {
			values := url.Values{}
			flatten(r.t, values, rc.action, "", r.w.tasks.resolve(r.w.handles.resolve(r.w.ids.resolve(rc.in))))
			form += "&" + values.Encode()
		}
	}
	path := rc.path
	if path == "" {
		path = "/"
	}
	return exchange(r.t, r.w.conn, r.w.reader, r.w.request("post", []string{path, "Content-Type=application/x-www-form-urlencoded"}, form))
}

// flatten adds the parameters of a JSON object to form as Query has them.
func flatten(t *testing.T, form url.Values, action, prefix, object string) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatalf("%v in %.200s", err, object)
	}
	lists := map[string]string{
		"TagKeys": "TagKey", "AttributeNames": "AttributeName", "MessageSystemAttributeNames": "MessageSystemAttributeName",
		"MessageAttributeNames": "MessageAttributeName", "AWSAccountIds": "AWSAccountId", "Actions": "ActionName", "Entries": action + "RequestEntry",
		"StringListValues": "StringListValue", "BinaryListValues": "BinaryListValue",
	}
	for name, value := range members {
		switch {
		case name == "Attributes":
			flattenMap(t, form, prefix+"Attribute", "Name", "Value", value)
		case name == "tags" || name == "Tags":
			flattenMap(t, form, prefix+"Tag", "Key", "Value", value)
		case name == "MessageAttributes" || name == "MessageSystemAttributes":
			flattenMap(t, form, prefix+strings.TrimSuffix(name, "s"), "Name", "Value", value)
		case lists[name] != "":
			var items []json.RawMessage
			if err := json.Unmarshal(value, &items); err != nil {
				t.Fatal(err)
			}
			for i, item := range items {
				flattenValue(t, form, fmt.Sprintf("%s%s.%d", prefix, lists[name], i+1), item)
			}
		default:
			flattenValue(t, form, prefix+name, value)
		}
	}
}

func flattenMap(t *testing.T, form url.Values, prefix, key, value string, object json.RawMessage) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatal(err)
	}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		at := fmt.Sprintf("%s.%d.", prefix, i+1)
		form.Set(at+key, name)
		flattenValue(t, form, at+value, members[name])
	}
}

func flattenValue(t *testing.T, form url.Values, name string, value json.RawMessage) {
	t.Helper()
	var s string
	switch {
	case bytes.HasPrefix(value, []byte("{")):
		flatten(t, form, "", name+".", string(value))
	case json.Unmarshal(value, &s) == nil:
		form.Set(name, s)
	default:
		form.Set(name, string(value))
	}
}

// check compares the answer. plain is the body, body the same with names for what
// is different in each run.
func (rc *rawCase) check(t *testing.T, p protocol, a *http.Response, body, plain string) {
	t.Helper()
	want := wireError{status: 200}
	if rc.code != "" {
		var known bool
		if want, known = documentedError(rc.code); !known {
			t.Fatalf("the error %s is not documented", rc.code)
		}
	}
	if a.StatusCode != want.status {
		t.Fatalf("answered %d %.600s\nwant %d", a.StatusCode, body, want.status)
	}
	if a.Close != rc.closes {
		t.Errorf("the connection closes: %v, want %v", a.Close, rc.closes)
	}
	id := a.Header.Get("x-amzn-RequestId")
	if uuids.FindString(id) != id || len(id) != 36 {
		t.Errorf("x-amzn-RequestId is %q", id)
	}
	side := "Sender"
	if want.receiver {
		side = "Receiver"
	}
	queryError, contentType := "", "text/xml"
	if p == awsJSON {
		contentType = "application/x-amz-json-1.0"
		if rc.code != "" {
			queryError = rc.code + ";" + side
		}
	} else if rc.code != "UnknownOperationException" && !strings.Contains(plain, "<RequestId>"+id+"</RequestId>") {
		t.Errorf("the request id %s is not in %s", id, plain)
	}
	if got := a.Header.Get("x-amzn-query-error"); got != queryError {
		t.Errorf("x-amzn-query-error is %q, want %q", got, queryError)
	}
	if got := a.Header.Get("Content-Type"); got != contentType {
		t.Errorf("Content-Type is %q, want %q", got, contentType)
	}
	if hint := a.Header.Get("Retry-After"); (hint != "") != (want.status == 503) {
		t.Errorf("Retry-After is %q with status %d", hint, want.status)
	}
	switch {
	case rc.code != "" && p == awsJSON:
		rc.checkJSONError(t, want, body)
	case rc.code != "":
		rc.checkXMLError(t, side, body)
	default:
		rc.checkSuccess(t, p, body)
	}
}

func (rc *rawCase) checkJSONError(t *testing.T, want wireError, body string) {
	t.Helper()
	var got map[string]string
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if members := map[string]string{"__type": want.shape, "message": rc.text}; !maps.Equal(got, members) {
		t.Errorf("got  %v\nwant %v", got, members)
	}
}

func (rc *rawCase) checkXMLError(t *testing.T, side, body string) {
	t.Helper()
	if rc.code == "UnknownOperationException" {
		if body != "<UnknownOperationException/>" {
			t.Errorf("got %s", body)
		}
		return
	}
	m := regexp.MustCompile(`(?s)^<\?xml version="1\.0"\?><ErrorResponse xmlns="http://queue\.amazonaws\.com/doc/2012-11-05/"><Error><Type>(.*)</Type><Code>(.*)</Code><Message>(.*)</Message><Detail/></Error><RequestId>request</RequestId></ErrorResponse>$`).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("not the form of an error: %s", body)
	}
	text := rc.text
	if rc.code == "AWS.SimpleQueueService.NonExistentQueue" { // the one that differs
		text = "The specified queue does not exist for this wsdl version."
	}
	if m[1] != side || m[2] != rc.code || html.UnescapeString(m[3]) != text {
		t.Errorf("got  %s %s %s\nwant %s %s %s", m[1], m[2], html.UnescapeString(m[3]), side, rc.code, text)
	}
}

func (rc *rawCase) checkSuccess(t *testing.T, p protocol, body string) {
	t.Helper()
	want := rc.json
	switch {
	case rc.json == "" && rc.xml == "" && !rc.void:
		if strings.Contains(body, "Failed") || strings.Contains(body, "BatchResultErrorEntry") {
			t.Errorf("got %.600s", body)
		}
		return
	case p == query:
		want = `<?xml version="1.0"?><` + rc.action + `Response xmlns="http://queue.amazonaws.com/doc/2012-11-05/">`
		if !rc.void {
			want += rc.xmlResult()
		}
		want += "<ResponseMetadata><RequestId>request</RequestId></ResponseMetadata></" + rc.action + "Response>"
	}
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func (rc *rawCase) xmlResult() string {
	if rc.xml == "" {
		return "<" + rc.action + "Result/>"
	}
	return "<" + rc.action + "Result>" + rc.xml + "</" + rc.action + "Result>"
}

func replace(in, value string) string { return strings.ReplaceAll(in, "$", value) }
