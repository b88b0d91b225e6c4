package hocon

import "strings"

// atInclude tells whether an include statement stands here, rather than a key
// of that name.
func (p *parser) atInclude() bool {
	const word = "include"
	if !p.starts(word) || spaceAt(p.text[p.at+len(word):]) == 0 {
		return false
	}
	rest := strings.TrimLeft(p.text[p.at+len(word):], " \t")
	for _, start := range []string{`"`, "file(", "classpath(", "url(", "required("} {
		if strings.HasPrefix(rest, start) {
			return true
		}
	}
	return false
}

// includeInto reads an include statement and merges what it includes into o.
func (p *parser) includeInto(o *object, path []string) error {
	inc := Include{Pos: p.here()}
	p.advance(len("include"))
	closing := 0
	for {
		p.skip(false)
		word := ""
		for _, w := range []string{"required(", "file(", "classpath(", "url("} {
			if p.starts(w) {
				word = w
			}
		}
		if word == "" {
			break
		}
		p.advance(len(word))
		closing++
		if word == "required(" && !inc.Required && inc.Kind == "" {
			inc.Required = true
		} else if word != "required(" && inc.Kind == "" {
			inc.Kind = strings.TrimSuffix(word, "(")
		} else {
			return p.fail(inc.Pos, "not an include statement")
		}
	}
	if p.peek() != '"' {
		return p.unexpected("a quoted name")
	}
	var err error
	if inc.Path, err = p.quoted(); err != nil {
		return err
	}
	for range closing {
		if p.skip(false); p.peek() != ')' {
			return p.unexpected(")")
		}
		p.next()
	}
	return p.session.include(inc, o, path, p.depth)
}

// include reads the text that inc names.
func (s *session) include(inc Include, o *object, path []string, depth int) error {
	wrong := func(message string) error { return &Error{Pos: inc.Pos, Message: message} }
	if s.options.Include == nil {
		return wrong("include is not supported here")
	}
	if s.includes++; s.includes > includesMax {
		return wrong("too many files are included, or one includes itself")
	}
	text, name, err := s.options.Include(inc)
	if err != nil {
		return wrong("include " + inc.Path + ": " + err.Error())
	}
	if text == nil {
		return nil
	}
	included, err := s.read(text, name, path, depth)
	if err != nil {
		return err
	}
	o.merge(included)
	return nil
}
