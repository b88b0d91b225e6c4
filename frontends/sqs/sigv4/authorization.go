package sigv4

import (
	"bytes"
	"strings"
)

// authorization are the parts of an Authorization header, as views of it.
type authorization struct {
	credential, signed, signature []byte
}

// parseAuthorization reads a header such as
//
//	AWS4-HMAC-SHA256 Credential=ID/SCOPE, SignedHeaders=host;x-amz-date, Signature=HEX
//
// with the parts in any order, and any spaces around them.
func parseAuthorization(header []byte) (a authorization, err error) {
	scheme, rest, _ := bytes.Cut(bytes.TrimSpace(header), []byte{' '})
	if string(scheme) != Algorithm {
		return a, refuse(Incomplete, "Authorization header must begin with '"+Algorithm+"': no other signature is supported.")
	}
	for len(rest) > 0 {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte{','})
		name, value, _ := bytes.Cut(bytes.TrimSpace(part), []byte{'='})
		field := a.field(name)
		if field == nil || *field != nil || len(value) == 0 {
			return authorization{}, refuse(Incomplete, "'%s' is not a valid key=value pair in Authorization header.", name)
		}
		*field = value
	}
	var absent strings.Builder
	for _, name := range [...]string{"Credential", "Signature", "SignedHeaders"} {
		if *a.field([]byte(name)) == nil {
			absent.WriteString("Authorization header requires '" + name + "' parameter. ")
		}
	}
	if absent.Len() > 0 {
		return authorization{}, refuse(Incomplete, strings.TrimSpace(absent.String()))
	}
	return a, checkSignedHeaders(a.signed)
}

// field returns the part with a name, nil if there is none.
func (a *authorization) field(name []byte) *[]byte {
	switch string(name) {
	case "Credential":
		return &a.credential
	case "SignedHeaders":
		return &a.signed
	case "Signature":
		return &a.signature
	}
	return nil
}

// checkSignedHeaders wants names of headers in lower case, between semicolons.
func checkSignedHeaders(list []byte) error {
	inName := false
	for _, c := range list {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
			inName = true
		case c == ';' && inName:
			inName = false
		default:
			return refuse(Incomplete, textSignedHeaders)
		}
	}
	if !inName {
		return refuse(Incomplete, textSignedHeaders)
	}
	return nil
}
