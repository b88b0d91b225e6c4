package sigv4

import (
	"bytes"
	"testing"
)

// FuzzAuthorization: what is accepted can be put together again, and says the
// same then.
func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{
		"", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=", "Basic eDp5", "AWS4-HMAC-SHA256 ,,,===",
		"AWS4-HMAC-SHA256 Credential=" + suiteID + "/" + suiteScope + ", SignedHeaders=host;x-amz-date, Signature=00",
		"  AWS4-HMAC-SHA256   Signature=00,SignedHeaders=host,Credential=a/b/c/d/e  ",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		a, err := parseAuthorization(sent)
		if err != nil {
			if kindOf(t, err) != Incomplete {
				t.Errorf("kind %d", kindOf(t, err))
			}
			return
		}
		again := bytes.Join([][]byte{
			[]byte(Algorithm + " Credential="), a.credential, []byte(", SignedHeaders="), a.signed, []byte(", Signature="), a.signature,
		}, nil)
		b, err := parseAuthorization(again)
		if err != nil || !bytes.Equal(a.credential, b.credential) || !bytes.Equal(a.signed, b.signed) || !bytes.Equal(a.signature, b.signature) {
			t.Errorf("%q was read as %q, and that as %q, %v", sent, a, b, err)
		}
	})
}

// FuzzRequest: no request makes the verifier panic, or is accepted without the
// secret.
func FuzzRequest(f *testing.F) {
	for _, v := range vectors()[:4] {
		f.Add(v.path, v.query, "AWS4-HMAC-SHA256 Credential="+suiteID+"/"+suiteScope+", SignedHeaders=host;x-amz-date, Signature="+v.inHeader, suiteStamp)
		f.Add(v.path, string(v.presigned().Query), "", "")
	}
	verifier, err := New(Options{Secrets: map[string]string{suiteID: "another secret"}, Service: "service", Covered: []string{"x-amz-target"}})
	if err != nil {
		f.Fatal(err)
	}
	var c Claim
	f.Fuzz(func(t *testing.T, path, query, authorization, date string) {
		h := header{suiteHost}
		if authorization != "" {
			h = append(h, "Authorization:"+authorization, "X-Amz-Date:"+date)
		}
		r := Request{Method: []byte("GET"), Path: []byte(path), Query: []byte(query), Header: h}
		err := verifier.Open(&c, r, suiteTime())
		if err == nil {
			_, err = verifier.Verify(&c, nil)
		}
		if kindOf(t, err) == 0 {
			t.Error("accepted without the secret")
		}
	})
}
