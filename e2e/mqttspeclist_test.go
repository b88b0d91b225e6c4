package e2e

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// statementList is the document that lists the statements of the specifications.
const statementList = "../docs/mqtt-conformance.md"

// TestMQTTStatementsAreListed: what is listed as tested has a test, and the other
// way round; nothing stands twice.
func TestMQTTStatementsAreListed(t *testing.T) {
	document, err := os.ReadFile(statementList)
	if err != nil {
		t.Fatal(err)
	}
	tested, untested, ok := strings.Cut(string(document), "## Not tested")
	if !ok {
		t.Fatal("the document has no list of what is not tested")
	}
	has := [2]map[string]bool{{}, {}}
	for _, c := range specCases() {
		for version, numbers := range []string{c.v5, c.v3} {
			for _, n := range strings.Fields(numbers) {
				has[version][n] = true
			}
		}
	}
	for version, numbers := range specLogins() {
		for _, n := range strings.Fields(numbers) {
			has[version][n] = true
		}
	}
	for version, name := range []string{"MQTT 5", "MQTT 3.1.1"} {
		listed := statements(t, name, tested, version)
		for n := range has[version] {
			if !slices.Contains(listed, n) {
				t.Errorf("%s: %s has a test and is not listed", name, n)
			}
		}
		for _, n := range listed {
			if !has[version][n] {
				t.Errorf("%s: %s is listed and has no test", name, n)
			}
		}
		for _, n := range statements(t, name, untested, version) {
			if has[version][n] {
				t.Errorf("%s: %s is listed as not tested", name, n)
			}
		}
	}
}

// statements returns the numbers in a column of the tables of text.
func statements(t *testing.T, name, text string, column int) []string {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(cells[1], "MQTT") || strings.Contains(cells[1], "---") {
			continue
		}
		for _, n := range strings.Fields(cells[1+column]) {
			if seen[n] {
				t.Errorf("%s: %s stands twice", name, n)
			}
			seen[n] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}
