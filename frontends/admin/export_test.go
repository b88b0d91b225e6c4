package admin

// ExplainedErrors returns the errors that the table knows.
func ExplainedErrors() []error {
	var out []error
	for _, e := range errorTable() {
		out = append(out, e.err)
	}
	return out
}
