package sigv4

import (
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"
)

// header is a Header of field lines.
type header []string

func (h header) PeekAll(name string) (values [][]byte) {
	for _, line := range h {
		if n, v, _ := strings.Cut(line, ":"); textproto.CanonicalMIMEHeaderKey(n) == textproto.CanonicalMIMEHeaderKey(name) {
			values = append(values, []byte(v))
		}
	}
	return values
}

// The key, scope and time of the signing test cases that AWS publishes.
const (
	suiteID     = "AKIDEXAMPLE"
	suiteSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	suiteScope  = "20150830/us-east-1/service/aws4_request"
	suiteStamp  = "20150830T123600Z"
	suiteHost   = "Host:example.amazonaws.com"
)

func suiteTime() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }

func suiteVerifier(t testing.TB) *Verifier {
	t.Helper()
	v, err := New(Options{Secrets: map[string]string{suiteID: suiteSecret}, Service: "service"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const suiteToken = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="

const unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// vector is a request and the signatures that AWS says it has: in a header, and
// in a URL that lasts an hour.
type vector struct {
	name, method, path, query string
	headers                   header // besides the host
	body                      string
	signed                    string // headers, besides host
	token                     string
	inHeader, inQuery         string
}

func vectors() []vector {
	const (
		getHeader, getQuery   = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31", "e93c787ed7f371d5c6b165c1b38ede9550f4dce4144713e844b25b7192d3865d"
		postHeader, postQuery = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", "2ce6e6d2e0cf2f9d1b55fafec88cd20574c31dc2e7631979f71ba2310083e95b"
		formHash              = "X-Amz-Content-Sha256:9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"
	)
	return []vector{
		{name: "plain", method: "GET", path: "/", inHeader: getHeader, inQuery: getQuery},
		{name: "repeated header", method: "GET", path: "/", headers: header{"My-Header1:value2", "My-Header1:value2", "My-Header1:value1"}, signed: "my-header1", inHeader: "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea", inQuery: "3349ee0b81b4b589da0ff28a395c3591e04de515651dd74f298fa992d1507a97"},
		{name: "folded header", method: "GET", path: "/", headers: header{"My-Header1:value1\r\n  value2\r\n     value3"}, signed: "my-header1", inHeader: "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd", inQuery: "e6f5def831211aca02987a44b96826706278c7bc078112ae0263659c5b2f2d56"},
		{name: "header order", method: "GET", path: "/", headers: header{"My-Header1:value4", "My-Header1:value1", "My-Header1:value3", "My-Header1:value2"}, signed: "my-header1", inHeader: "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01", inQuery: "313720e71ca6202fdcfa9b20f88de01a4eb0638a83c833b1c184359a4eda864e"},
		{name: "spaces in headers", method: "GET", path: "/", headers: header{"My-Header1: value1", `My-Header2: "a   b   c"`}, signed: "my-header1;my-header2", inHeader: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736", inQuery: "e7bb0fd515e125e1aec2ecc4c0c17484fb06f6846b927c35e46005dd3df3acd4"},
		{name: "parent, normalized", method: "GET", path: "/example/..", inHeader: getHeader, inQuery: getQuery},
		{name: "parent, as sent", method: "GET", path: "/example/..", inHeader: "eca7ead57bb5aa5c8e28007acd4ff04e1ff9a0ff3b237ec1554a184887ff9282", inQuery: "cbcb213b928a077e43275df47b500f1dfaa864ab3f5a18f6b95f4ff0938167ee"},
		{name: "two parents, normalized", method: "GET", path: "/example1/example2/../..", inHeader: getHeader, inQuery: getQuery},
		{name: "two parents, as sent", method: "GET", path: "/example1/example2/../..", inHeader: "dc33e0856fd4baca4d7aa2146c38958283844764f38c74252a333df5e613003b", inQuery: "b45db0bfd1cf15003493b733e33aa208dd981bd0e63037a6ed953f71d2118a16"},
		{name: "dot, normalized", method: "GET", path: "/./", inHeader: getHeader, inQuery: getQuery},
		{name: "dot, as sent", method: "GET", path: "/./", inHeader: "68714168e6557f8f2de0ef956fc24dc2593a4bd2961f8df51898d8a134695145", inQuery: "a9b13e8f3484d9505bf1a6f347219f8f35b0fe8f128ceea597efc146a3dfe90c"},
		{name: "two slashes, normalized", method: "GET", path: "//", inHeader: getHeader, inQuery: getQuery},
		{name: "two slashes, as sent", method: "GET", path: "//", inHeader: "c88bcd3d312d75078c0cd961d6deae3f4c754924b01669efcfcb439fd5e5b76e", inQuery: "b2a9542809db687769200f56a844a03f2bd0291d6eb90232d5101c6a579446cd"},
		{name: "pointless dot, normalized", method: "GET", path: "/./example", inHeader: "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5", inQuery: "35034b1a0bdd969f346975386daf8aedfd4976573b8348cf4f67eaa41c5857de"},
		{name: "pointless dot, as sent", method: "GET", path: "/./example", inHeader: "beb03f223f7deae4146464f06e29eebbee9c8afbe15c290cf07aa8b119e14cff", inQuery: "72b11f16d9530b18204bfb71f2d6ab085894c0ed8d352730a6e76234c58b5e10"},
		{name: "many slashes, normalized", method: "GET", path: "//example//", inHeader: "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84", inQuery: "c1834e8fb0307243711f0f907f6ab7311ed300d87f13792d7ee4da89ab93e082"},
		{name: "many slashes, as sent", method: "GET", path: "//example//", inHeader: "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5", inQuery: "822a5a9ba28072c5ab2bb4a6307d0c88276d40e49fec6b724c03fb4d4ba60fc2"},
		{name: "space in path", method: "GET", path: "/example space/", inHeader: "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741", inQuery: "7a1f416954786484c9824d93c1f26ef64acb9b1b6c9154d08c9f07d0e394abf6"},
		{name: "unreserved path", method: "GET", path: "/" + unreserved, inHeader: "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f", inQuery: "95968482db1b9e0fadef6efc1bd24689f77c77d9ef56919c96a28cc92e0d6005"},
		{name: "UTF-8 path", method: "GET", path: "/\u1234", inHeader: "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85", inQuery: "10eae3f14a260bd3911cc6d008d3c576d143b05b62f09782a7a4b37f52178e44"},
		{name: "query", method: "GET", path: "/", query: "Param1=value1", inHeader: "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb", inQuery: "49096700cbbaa5753443850f40df10f904fc2fdb544dc9512203cc77c471a9de"},
		{name: "query order, encoded", method: "GET", path: "/", query: "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", inHeader: "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac", inQuery: "c5f1848ceec943ac2ca68ee720460c23aaae30a2300586597ada94c4a65e4787"},
		{name: "query order", method: "GET", path: "/", query: "Param2=value2&Param1=value1", inHeader: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", inQuery: "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5"},
		{name: "unreserved query", method: "GET", path: "/", query: unreserved + "=" + unreserved, inHeader: "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197", inQuery: "8e76a88a7433637b12778d5592799b29ad21ecd6cf6325051c21d86f0acda2bf"},
		{name: "UTF-8 query", method: "GET", path: "/", query: "\u1234=bar", inHeader: "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04", inQuery: "0bdd809b1519ac4f0c1dc3540e2cc46bd0c7f778eda408b2ebf3b913d21ff600"},
		{name: "session token", method: "GET", path: "/", token: "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267", inHeader: "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8", inQuery: "7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c"},
		{name: "POST", method: "POST", path: "/", inHeader: postHeader, inQuery: postQuery},
		{name: "POST with header", method: "POST", path: "/", headers: header{"My-Header1:value1"}, signed: "my-header1", inHeader: "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c", inQuery: "c09d07e0d55871f10f2a6d350d994acf6825a3cae70673d7def55616e6119dd7"},
		{name: "POST with capitals", method: "POST", path: "/", headers: header{"My-Header1:VALUE1"}, signed: "my-header1", inHeader: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d", inQuery: "0698bc9e4f7f9139065ba2909c0e99da257e8e2a42492a097bcd46d792391fed"},
		{name: "POST with token", method: "POST", path: "/", token: suiteToken, inHeader: "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead", inQuery: "46c2e3c63c1dbe7d39f8ada16fe7f001c1f56c5791441565323677f96308871c"},
		{name: "POST with query", method: "POST", path: "/", query: "Param1=value1", inHeader: "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11", inQuery: "a9ef26247f293bffe40eeff86a0480ba8c14d31503b2e0c3399e3a16bf1a3682"},
		{name: "form, hash in the header", method: "POST", path: "/", headers: header{"Content-Type:application/x-www-form-urlencoded", "Content-Length:13", formHash}, signed: "content-length;content-type;x-amz-content-sha256", body: "Param1=value1", inHeader: "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"},
		{name: "form", method: "POST", path: "/", headers: header{"Content-Type:application/x-www-form-urlencoded", "Content-Length:13"}, signed: "content-length;content-type", body: "Param1=value1", inQuery: "89a40deed0f26f9461242825a082d2222717248abc7ab41f552ad84a94ad46e9"},
		{name: "form with parameters, hash in the header", method: "POST", path: "/", headers: header{"Content-Type:application/x-www-form-urlencoded; charset=utf-8", "Content-Length:13", formHash}, signed: "content-length;content-type;x-amz-content-sha256", body: "Param1=value1", inHeader: "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422"},
		{name: "form with parameters", method: "POST", path: "/", headers: header{"Content-Type:application/x-www-form-urlencoded; charset=utf-8", "Content-Length:13"}, signed: "content-length;content-type", body: "Param1=value1", inQuery: "0dbeb9b026c7b6675f266b8427efec9b4fa8b1f6ef1477d717aea231106eab4d"},
	}
}

// order sorts names of signed headers.
func order(names ...string) string {
	var all []string
	for _, n := range names {
		all = append(all, strings.FieldsFunc(n, func(r rune) bool { return r == ';' })...)
	}
	slices.Sort(all)
	return strings.Join(all, ";")
}

// signedHeader is v with its signature in the Authorization header.
func (v vector) signedHeader() Request {
	signed := order("host", "x-amz-date", v.signed)
	h := append(header{suiteHost, "X-Amz-Date:" + suiteStamp}, v.headers...)
	if v.token != "" {
		signed = order(signed, "x-amz-security-token")
		h = append(h, "X-Amz-Security-Token:"+v.token)
	}
	h = append(h, "Authorization:AWS4-HMAC-SHA256 Credential="+suiteID+"/"+suiteScope+", SignedHeaders="+signed+", Signature="+v.inHeader)
	return Request{Method: []byte(v.method), Path: []byte(v.path), Query: []byte(v.query), Header: h}
}

// presigned is v with its signature in the query.
func (v vector) presigned() Request {
	q := "X-Amz-Signature=" + v.inQuery + "&X-Amz-Expires=3600&X-Amz-Date=" + suiteStamp + "&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" +
		strings.ReplaceAll(suiteID+"/"+suiteScope, "/", "%2F") + "&X-Amz-SignedHeaders=" + strings.ReplaceAll(order("host", v.signed), ";", "%3B")
	if v.query != "" {
		q += "&" + v.query
	}
	if v.token != "" {
		q += "&X-Amz-Security-Token=" + strings.NewReplacer("/", "%2F", "+", "%2B", "=", "%3D").Replace(v.token)
	}
	return Request{Method: []byte(v.method), Path: []byte(v.path), Query: []byte(q), Header: append(header{suiteHost}, v.headers...)}
}

func TestPublishedSignatures(t *testing.T) {
	verifier := suiteVerifier(t)
	var c Claim // used for all: nothing of one request may show in the next
	for _, v := range vectors() {
		for form, r := range map[string]Request{"header": v.signedHeader(), "query": v.presigned()} {
			if form == "header" && v.inHeader == "" || form == "query" && v.inQuery == "" {
				continue
			}
			t.Run(v.name+" "+form, func(t *testing.T) {
				if err := verifier.Open(&c, r, suiteTime()); err != nil {
					t.Fatal(err)
				}
				id, err := verifier.Verify(&c, []byte(v.body))
				if err != nil || id != suiteID {
					t.Errorf("got %q %v\ncanonical request:\n%s", id, err, c.appendCanonical(nil, false))
				}
				if _, err := verifier.Verify(&c, []byte(v.body+"x")); err == nil {
					t.Error("another body was accepted")
				}
				r.Method = []byte("PUT")
				if err := verifier.Open(&c, r, suiteTime()); err != nil {
					t.Fatal(err)
				}
				if _, err := verifier.Verify(&c, []byte(v.body)); err == nil {
					t.Error("another method was accepted")
				}
			})
		}
	}
}
