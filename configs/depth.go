package configs

import "errors"

// nestingMax bounds how deep YAML may be nested. Settings need no more than six
// levels, a policy in quotes about twice that; the parser takes time and memory
// that grow with the square of the depth.
const nestingMax = 100

var errTooDeep = errors.New("nested too deep")

// checkNesting refuses YAML that would be nested deeper than nestingMax. It counts
// brackets wherever they stand, and the lists and keys that one line begins: what
// is in quotes or comments counts too, which no real file comes near.
func checkNesting(data []byte) error {
	open, dashes, atStart := 0, 0, true
	for i, c := range data {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		case '\n', '\r':
			dashes, atStart = 0, true
			continue
		case ' ', '\t':
			continue
		case '-', '?', ':':
			if atStart && (i+1 == len(data) || data[i+1] == ' ' || data[i+1] == '\t') {
				dashes++
			}
		}
		atStart = atStart && (c == '-' || c == '?' || c == ':')
		if open > nestingMax || dashes > nestingMax {
			return errTooDeep
		}
	}
	return nil
}
