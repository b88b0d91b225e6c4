package sqs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

var update = flag.Bool("update", false, "write docs/sqs.md")

// docRow is a row of docs/sqs.md. It is tied to the tests that show it: cases of
// rawCases, of which a star at the end takes all that begin so; transcripts, as
// "transcript NAME"; and tests by their names. Only if all pass it says what is
// in ours.
type docRow struct {
	feature, aws, elasticMQ string
	ours                    string // "" is "yes"
	shownBy                 []string
}

type docSection struct {
	title, intro string
	rows         []docRow
}

// The marks of the table, beside words.
const (
	unknown = "not documented"
	told    = "reported by its users"
)

// docTests are the tests that rows name, besides the cases.
func docTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestDeepGroupIsReadInSteps":                 TestDeepGroupIsReadInSteps,
		"TestDigestsOfAWS":                           TestDigestsOfAWS,
		"TestHandlesOutliveARestart":                 TestHandlesOutliveARestart,
		"TestHealthNeedsNoSignature":                 TestHealthNeedsNoSignature,
		"TestInFlightLimit":                          TestInFlightLimit,
		"TestMessagesOfOtherWires":                   TestMessagesOfOtherWires,
		"TestOneGroupIsGivenToOneReceiverAtATime":    TestOneGroupIsGivenToOneReceiverAtATime,
		"TestOptionsOfSignatures":                    TestOptionsOfSignatures,
		"TestEveryMoveFailureHasACode":               TestEveryMoveFailureHasACode,
		"TestPagesOfOtherSitesAreRefused":            TestPagesOfOtherSitesAreRefused,
		"TestParkedPollsHoldNobodyUp":                TestParkedPollsHoldNobodyUp,
		"TestPoliciesAreBounded":                     TestPoliciesAreBounded,
		"TestPresignedGET":                           TestPresignedGET,
		"TestProtocolsShareAConnection":              TestProtocolsShareAConnection,
		"TestProvisioningSettlesAfterOneApply":       TestProvisioningSettlesAfterOneApply,
		"TestQueueURLSaysHTTPSOverTLS":               TestQueueURLSaysHTTPSOverTLS,
		"TestQueuesComeAndGoUnderTheirUsers":         TestQueuesComeAndGoUnderTheirUsers,
		"TestRestartForgetsAndRevivesNothing":        TestRestartForgetsAndRevivesNothing,
		"TestSDKSigns":                               TestSDKSigns,
		"TestSignaturesOnTheWire":                    TestSignaturesOnTheWire,
		"TestUnsignedActionIsRefused":                TestUnsignedActionIsRefused,
		"TestUnsignedBodyIsTakenOverTLS":             TestUnsignedBodyIsTakenOverTLS,
		"TestVanishedLongPollTakesNoLease":           TestVanishedLongPollTakesNoLease,
		"TestPipelinedAnswerDoesNotWaitForALongPoll": TestPipelinedAnswerDoesNotWaitForALongPoll,
	}
}

// TestReferenceOfConformance compares docs/sqs.md with what the tests show.
func TestReferenceOfConformance(t *testing.T) {
	const path = "../../docs/sqs.md"
	startServerDate()
	want := (&docWriter{t: t, tests: docTests(), cases: rawCases()}).page()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the tests show; run go test ./frontends/sqs -run Reference -update", path)
	}
}

// docWriter writes the page.
type docWriter struct {
	t     *testing.T
	tests map[string]func(*testing.T)
	cases []rawCase
	b     strings.Builder
}

func (d *docWriter) page() string {
	d.b.WriteString(docHead)
	sections := docSections()
	for _, s := range sections {
		fmt.Fprintf(&d.b, "\n## %s\n\n", s.title)
		if s.intro != "" {
			d.b.WriteString(s.intro + "\n\n")
		}
		d.b.WriteString("| feature | AWS | ElasticMQ | ours | shown by |\n| --- | --- | --- | --- | --- |\n")
		for _, r := range s.rows {
			fmt.Fprintf(&d.b, "| %s | %s | %s | %s | %s |\n", cell(r.feature), cell(r.aws), cell(r.elasticMQ), cell(d.ours(r)), "`"+cell(strings.Join(r.shownBy, "`, `"))+"`")
		}
	}
	d.b.WriteString("\n## Deliberate differences\n\n")
	for _, r := range docDifferences() {
		result := d.ours(r)
		if len(r.shownBy) > 0 {
			result += " (`" + strings.Join(r.shownBy, "`, `") + "`)"
		}
		fmt.Fprintf(&d.b, "- **%s.** %s\n", r.feature, result)
	}
	d.b.WriteString(docTail)
	return d.b.String()
}

// cell keeps a text within its column.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// ours runs what shows a row, and returns what may be said of it.
func (d *docWriter) ours(r docRow) string {
	passed := true
	for _, name := range r.shownBy {
		if !d.run(name) {
			passed = false
		}
	}
	switch {
	case !passed:
		return "**no**: a test fails"
	case r.ours == "":
		return "yes"
	}
	return r.ours
}

// run runs the tests of a name, and tells whether all have passed.
func (d *docWriter) run(name string) bool {
	if f, ok := d.tests[name]; ok {
		return ranCases.run(d.t, name, name, f)
	}
	if transcript, ok := strings.CutPrefix(name, "transcript "); ok {
		return ranCases.run(d.t, name, name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runTranscript(t, "testdata/"+transcript+".txt") })
		})
	}
	prefix, many := strings.CutSuffix(name, "*")
	found, passed := false, true
	for _, rc := range d.cases {
		if rc.name == name || many && strings.HasPrefix(rc.name, prefix) {
			found = true
			if !ranCases.run(d.t, rc.name, rc.name, rc.run) {
				passed = false
			}
		}
	}
	if !found {
		d.t.Errorf("no test is called %q", name)
	}
	return found && passed
}

// TestDocsHaveARowOfEach fails for an action, an attribute or an error without a
// row of its own, and for a pain without its number.
func TestDocsHaveARowOfEach(t *testing.T) {
	rows := map[string]bool{}
	for _, s := range docSections() {
		for _, r := range s.rows {
			if rows[s.title+r.feature] {
				t.Errorf("two rows of %s are called %s", s.title, r.feature)
			}
			if rows[s.title+r.feature], rows[r.feature] = true, true; len(r.shownBy) == 0 || r.aws == "" || r.elasticMQ == "" {
				t.Errorf("the row %q is not whole", r.feature)
			}
		}
	}
	var wanted []string
	for _, a := range actions() {
		wanted = append(wanted, a.name)
	}
	for _, e := range documentedErrors() {
		wanted = append(wanted, "`"+e.code+"`")
	}
	for _, name := range slices.Concat(attributeList(), wanted) {
		if !rows[name] {
			t.Errorf("%s has no row", name)
		}
	}
	wishes, err := os.ReadFile("testdata/wishes.txt")
	if err != nil {
		t.Fatal(err)
	}
	pains := docPains()
	if len(pains) != 40 {
		t.Errorf("there are %d pains", len(pains))
	}
	for i, r := range pains {
		number := strconv.Itoa(i + 1)
		if !strings.HasPrefix(r.feature, number+". ") {
			t.Errorf("pain %s is %q", number, r.feature)
		}
		numbered := regexp.MustCompile(`(?m)^# (\d+, )?` + number + `(, \d+)?: `).Match(wishes)
		if slices.Contains(r.shownBy, "transcript wishes") && !numbered {
			t.Errorf("pain %s is not in wishes.txt by its number", number)
		}
	}
}
