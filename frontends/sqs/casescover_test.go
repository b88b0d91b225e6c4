package sqs

import "testing"

// TestEveryActionAndErrorHasItsCase fails for an action or an error of the
// frontend that the table has no case of, in each protocol that can show it.
func TestEveryActionAndErrorHasItsCase(t *testing.T) {
	succeeds, fails, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, rc := range rawCases() {
		if names[rc.name] {
			t.Errorf("two cases are called %q", rc.name)
		}
		names[rc.name] = true
		for _, p := range rc.protocols() {
			if rc.code != "" {
				fails[string(p)+" "+rc.code] = true
			} else if rc.json != "" || rc.xml != "" || rc.void { // the whole answer is compared
				succeeds[string(p)+" "+rc.action] = true
			}
		}
	}
	for _, wc := range wireCases() { // TestSignaturesOnTheWire has them in both
		fails["json "+wc.want.code], fails["query "+wc.want.code] = true, true
	}
	for _, a := range actions() {
		for _, p := range []protocol{awsJSON, query} {
			if !succeeds[string(p)+" "+a.name] {
				t.Errorf("%s has no case of a success in %s", a.name, p)
			}
		}
	}
	// What only one protocol can say, and why.
	alone := map[string]string{
		"json MissingAction":             "JSON without a target is an unknown action",
		"json UnknownOperationException": "a GET is Query",
		"json MalformedQueryString":      "JSON has no query string",
		"json RequestHeadersTooLarge":    "nobody knows the protocol of a header that was not read",
	}
	for f := faultInternal; f < faultEnd; f++ {
		w := f.wire()
		want, ok := documentedError(w.code)
		shape := sqsShapes + w.shape
		if w.general {
			shape = generalShapes + w.shape
		}
		if got := (wireError{w.code, shape, w.status, w.receiver}); !ok || got != want {
			t.Errorf("fault %d is told as %+v, documented is %+v", f, got, want)
		}
		for _, p := range []protocol{awsJSON, query} {
			key := string(p) + " " + w.code
			if _, excused := alone[key]; excused == fails[key] {
				t.Errorf("the error %s in %s: has a case: %v, excused: %v", w.code, p, fails[key], excused)
			}
		}
	}
}
