package verify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// segment encodes one part of a token.
func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// hs256 makes a token with the given header and claims.
func hs256(secret, header, claims string) string {
	input := segment(header) + "." + segment(claims)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(input))
	return input + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const plainHeader = `{"alg":"HS256","typ":"JWT"}`

// claimsScheme returns a scheme that uses every option of JWT.
func claimsScheme() verify.Scheme {
	return verify.Scheme{
		ID: "claims", Family: verify.FamilyJWT, Header: "Authorization", Prefix: "Bearer ", PrefixOptional: true,
		JWT: &verify.JWT{
			Algorithms: []string{"HS256"}, Expires: true,
			Claims: []verify.Claim{
				{Name: "iss", Equals: "https://issuer", Or: []string{"issuer"}},
				{Name: "aud", Equals: "{param:audience}"},
				{Name: "team", Equals: "{param:team}"},
				{Name: "verified", Equals: "true"},
				{Name: "sha256", Equals: "{sha256:body}", WithBody: true},
			},
		},
		Params: []verify.Param{
			{Name: "audience", About: "the audience"},
			{Name: "team", About: "the team", Need: verify.NeedOptional},
		},
		Values: map[string]string{"audience": "me"},
	}
}

// hashOfBody is the claim for the body {}.
const hashOfBody = `"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"`

func TestClaims(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, claimsScheme())
	keys := mustKeys(t, v, hmacSecret)
	now := receivedAt.Unix()
	good := fmt.Sprintf(`"iss":"issuer","aud":"me","verified":true,"exp":%d`, now+10)
	with := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in %s", old, good)
		}
		return "{" + strings.Replace(good, old, replacement, 1) + "," + hashOfBody + "}"
	}
	exp := fmt.Sprintf(`"exp":%d`, now+10)
	for _, c := range []struct{ name, claims, body, want string }{
		{"unchanged", with("me", "me"), "{}", "valid"},
		{"the other issuer", with(`"issuer"`, `"https://issuer"`), "{}", "valid"},
		{"a third issuer", with(`"issuer"`, `"https://issuer/"`), "{}", "mismatch"},
		{"no issuer", with(`"iss":"issuer",`, ""), "{}", "missing"},
		{"a list of audiences", with(`"me"`, `["you","me"]`), "{}", "valid"},
		{"a list without", with(`"me"`, `["you"]`), "{}", "mismatch"},
		{"an empty list", with(`"me"`, `[]`), "{}", "mismatch"},
		{"a list in a list", with(`"me"`, `[["me"]]`), "{}", "mismatch"},
		{"an object", with(`"me"`, `{"me":"me"}`), "{}", "mismatch"},
		{"null", with(`"me"`, `null`), "{}", "mismatch"},
		{"a name in another case", with(`"aud"`, `"Aud"`), "{}", "missing"},
		{"an escaped name", with(`"aud"`, `"\u0061ud"`), "{}", "valid"},
		{"a claim twice", with(`"aud":"me"`, `"aud":"me","aud":"me"`), "{}", "malformed"},
		{"a claim twice, escaped", with(`"aud":"me"`, `"aud":"me","\u0061ud":"you"`), "{}", "malformed"},
		{"text for true", with("true", `"true"`), "{}", "valid"},
		{"false", with("true", "false"), "{}", "mismatch"},
		{"1 for true", with("true", "1"), "{}", "mismatch"},
		{"another body", with("me", "me"), "[]", "mismatch"},
		{"the body left out", with("me", "me"), "", "mismatch"},
		{"no hash and no body", "{" + good + "}", "", "valid"},
		{"no hash and a body", "{" + good + "}", "{}", "missing"},
		{"no exp", with(","+exp, ""), "{}", "missing"},
		{"exp as text", with(exp, fmt.Sprintf(`"exp":"%d"`, now+10)), "{}", "malformed"},
		{"exp in milliseconds", with(exp, fmt.Sprintf(`"exp":%d000`, now+10)), "{}", "malformed"},
		{"a huge exp", with(exp, `"exp":1e300`), "{}", "malformed"},
		{"a negative exp", with(exp, `"exp":-1`), "{}", "malformed"},
		{"exp null", with(exp, `"exp":null`), "{}", "malformed"},
		{"exp with a fraction", with(exp, fmt.Sprintf(`"exp":%d.5`, now-60)), "{}", "valid"},
		{"exp a minute ago", with(exp, fmt.Sprintf(`"exp":%d`, now-60)), "{}", "valid"},
		{"exp 61 s ago", with(exp, fmt.Sprintf(`"exp":%d`, now-61)), "{}", "too old"},
		{"nbf in a minute", with(exp, fmt.Sprintf(`%s,"nbf":%d`, exp, now+60)), "{}", "valid"},
		{"nbf in 61 s", with(exp, fmt.Sprintf(`%s,"nbf":%d`, exp, now+61)), "{}", "too new"},
		{"an nbf that is not a number", with(exp, exp+`,"nbf":true`), "{}", "malformed"},
		{"an old iat, which is not asked for", with(exp, exp+`,"iat":1`), "{}", "valid"},
		{"not an object", `["iss"]`, "{}", "malformed"},
		{"not JSON", `{`, "{}", "malformed"},
		{"a second document", with("me", "me") + "{}", "{}", "malformed"},
		{"not UTF-8", with(`"me"`, "\"me\",\"x\":\"\xff\""), "{}", "malformed"},
		{"nothing", "", "{}", "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := &verify.Request{
				Header: http.Header{"Authorization": {"Bearer " + hs256(hmacSecret, plainHeader, c.claims)}},
				Body:   []byte(c.body), Now: receivedAt.Add(999 * time.Millisecond),
			}
			wantVerdict(t, v.Verify(req, keys), c.want)
		})
	}
}

// TestTokens checks which texts are accepted as tokens.
func TestTokens(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, claimsScheme())
	keys := mustKeys(t, v, hmacSecret)
	claims := fmt.Sprintf(`{"iss":"issuer","aud":"me","verified":true,"exp":%d,%s}`, receivedAt.Unix(), hashOfBody)
	token := func(header string) string { return hs256(hmacSecret, header, claims) }
	good := token(plainHeader)
	header, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	for _, c := range []struct{ name, value, want string }{
		{"unchanged", "Bearer " + good, "valid"},
		{"without the prefix", good, "valid"},
		{"another prefix", "JWT " + good, "malformed"},
		{"a prefix in another case", "bearer " + good, "valid"},
		{"two blanks", "Bearer  " + good, "valid"},
		{"a trailing blank", "Bearer " + good + " ", "malformed"},
		{"empty", "", "missing"},
		{"the prefix alone", "Bearer ", "malformed"},
		{"none", segment(`{"alg":"none"}`) + "." + payload + ".", "malformed"},
		{"none, and a signature", segment(`{"alg":"none"}`) + "." + payload + "." + signature, "malformed"},
		{"another algorithm", token(`{"alg":"HS384"}`), "malformed"},
		{"in another case", token(`{"alg":"hs256"}`), "malformed"},
		{"two algorithms", token(`{"alg":"HS256","alg":"none"}`), "malformed"},
		{"an algorithm in a list", token(`{"alg":["HS256"]}`), "malformed"},
		{"no algorithm", token(`{}`), "malformed"},
		{"algorithm null", token(`{"alg":null}`), "malformed"},
		{"crit", token(`{"alg":"HS256","crit":["b64"],"b64":false}`), "malformed"},
		{"crit, empty", token(`{"alg":"HS256","crit":[]}`), "malformed"},
		{"a key of its own", token(`{"alg":"HS256","jwk":{"kty":"oct","k":"AA"},"jku":"https://x"}`), "valid"},
		{"a kid", token(`{"alg":"HS256","kid":"a"}`), "valid"},
		{"a kid that is a number", token(`{"alg":"HS256","kid":1}`), "malformed"},
		{"a long kid", token(`{"alg":"HS256","kid":"` + strings.Repeat("a", 257) + `"}`), "malformed"},
		{"a long header", token(`{"alg":"HS256","x":"` + strings.Repeat("a", 8<<10) + `"}`), "malformed"},
		{"a header that is a list", token(`["HS256"]`), "malformed"},
		{"two parts", header + "." + payload, "malformed"},
		{"four parts", good + ".", "malformed"},
		{"five parts", good + ".a.b", "malformed"},
		{"no signature", header + "." + payload + ".", "mismatch"},
		{"no header", "." + payload + "." + signature, "malformed"},
		{"half a signature", good[:len(good)-19], "mismatch"},
		{"padding", good + "=", "malformed"},
		{"base64", good[:len(good)-1] + "/", "malformed"},
		{"a line break", header + "." + payload[:4] + "\n" + payload[4:] + "." + signature, "malformed"},
		{"stray bits", strayBits(good), "malformed"},
		{"too long", header + "." + payload + strings.Repeat("A", 1<<20) + "." + signature, "malformed"},
		{"a long signature", good + strings.Repeat("A", 2000), "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := &verify.Request{Header: http.Header{"Authorization": {c.value}}, Body: []byte("{}"), Now: receivedAt}
			wantVerdict(t, v.Verify(req, keys), c.want)
		})
	}
	other := hs256("another secret of the tests", plainHeader, claims)
	for _, both := range [][]string{{good, good}, {good, other}, {other, good}} {
		req := &verify.Request{Header: http.Header{"Authorization": both}, Body: []byte("{}"), Now: receivedAt}
		wantVerdict(t, v.Verify(req, keys), "repeated")
	}
	wantVerdict(t, v.Verify(&verify.Request{Now: receivedAt}, keys), "missing")
}

// strayBits returns token with bits set that belong to no byte of its signature.
func strayBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last|1]) // 32 bytes leave two bits of the last digit
}

// TestAlgorithmConfusion signs with a public value: the text of a public key.
func TestAlgorithmConfusion(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jwt/RS256", "jwt/ES256", "jwt/EdDSA"} {
		p := pairOf(t, name)
		claims := fmt.Sprintf(`{"iat":%d,%s}`, receivedAt.Unix(), hashOfBody)
		for _, secret := range []string{p.public, strings.TrimSpace(p.public), ""} {
			req := &verify.Request{
				Header: http.Header{"X-Sig": {hs256(secret, plainHeader, claims)}}, Body: []byte("{}"), Now: receivedAt,
			}
			wantVerdict(t, p.v.Verify(req, p.verifies), "malformed")
		}
	}
	// A scheme that lets the token choose the algorithm does not compile either.
	s := tokenScheme("RS256")
	s.JWT.Algorithms = append(s.JWT.Algorithms, "HS256")
	if _, err := verify.Compile(s); err == nil {
		t.Error("a scheme with a secret and a public key compiles")
	}
}

// fault is a change of a scheme and the fields that Compile must report for it.
type fault struct {
	name   string
	change func(*verify.Scheme)
	want   []string
}

// wantFaults checks the faults of base() after each change.
func wantFaults(t *testing.T, base func() verify.Scheme, faults []fault) {
	t.Helper()
	if _, err := verify.Compile(base()); err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := base()
			f.change(&s)
			_, err := verify.Compile(s)
			if diff := cmp.Diff(f.want, faultyFields(t, err)); diff != "" {
				t.Errorf("faulty fields (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

func TestJWTFaults(t *testing.T) {
	t.Parallel()
	wantFaults(t, func() verify.Scheme { return tokenScheme("RS256") }, []fault{
		{"no rules", func(s *verify.Scheme) { s.JWT = nil }, []string{"jwt"}},
		{"no algorithm", func(s *verify.Scheme) { s.JWT.Algorithms = nil }, []string{"jwt.algorithms"}},
		{"none", func(s *verify.Scheme) { s.JWT.Algorithms = []string{"none"} }, []string{"jwt.algorithms"}},
		{"an algorithm of another family", func(s *verify.Scheme) { s.JWT.Algorithms = []string{"rsa-sha256"} }, []string{"jwt.algorithms"}},
		{"nowhere", func(s *verify.Scheme) { s.Header = "" }, []string{"header"}},
		{"a second header", func(s *verify.Scheme) { s.MoreHeaders = []string{"X-Token"} }, []string{"more_headers"}},
		{"fields of others", func(s *verify.Scheme) { s.Content, s.Encoding = "{body}", "hex" }, []string{"encoding", "content"}},
		{"no claim depends on the body", func(s *verify.Scheme) { s.JWT.Claims = nil }, []string{"jwt.claims"}},
		{"one alternative does not depend on the body", func(s *verify.Scheme) { s.JWT.Claims[0].Or = []string{"x"} }, []string{"jwt.claims"}},
		{"a claim without a name", func(s *verify.Scheme) { s.JWT.Claims[0].Name = "" }, []string{"jwt.claims[0].name"}},
		{"a claim without a value", func(s *verify.Scheme) { s.JWT.Claims[0].Equals = "" }, []string{"jwt.claims[0].equals", "jwt.claims"}},
		{"an unknown placeholder", func(s *verify.Scheme) { s.JWT.Claims[0].Equals = "{foo}" }, []string{"jwt.claims[0].equals", "jwt.claims"}},
		{"a time elsewhere", func(s *verify.Scheme) { s.Timestamp.At = "header:X-Time" }, []string{"timestamp.at"}},
		{"milliseconds", func(s *verify.Scheme) { s.Timestamp.Format = "unix_ms" }, []string{"timestamp.format"}},
		{"an encoding of a public key", func(s *verify.Scheme) { s.SecretEncoding = "hex" }, []string{"secret_encoding"}},
		{"a prefix of the body", func(s *verify.Scheme) { s.Header, s.At, s.Prefix = "", "body:", "x" }, []string{"prefix"}},
	})
}

// TestWholeBodyToken checks that a token in the body can be signed from its claims, and covers the
// body.
func TestWholeBodyToken(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: verify.FamilyJWT, At: "body:", JWT: &verify.JWT{Algorithms: []string{"HS256"}}})
	keys := mustKeys(t, v, hmacSecret)
	req := &verify.Request{Body: []byte(`{"data":"{\"id\":\"1\"}"}`), Now: receivedAt}
	if err := v.Sign(req, keys[0]); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, v.Verify(req, keys), "valid")
	_, rest, _ := strings.Cut(string(req.Body), ".")
	payload, _, _ := strings.Cut(rest, ".")
	claims, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"data":"{\"id\":\"1\"}","iat":1760000000}`; string(claims) != want {
		t.Errorf("claims %s, want %s", claims, want)
	}
	for i := range req.Body {
		bad := *req
		bad.Body = append([]byte(nil), req.Body...)
		bad.Body[i] ^= 1
		if err := v.Verify(&bad, keys); err == nil {
			t.Fatalf("a change of byte %d of the body passes", i)
		}
	}
	if id := must(locate.Parse("body:data.id")); !v.Covers(id) {
		t.Error("the body is not covered")
	}
	if id := must(locate.Parse("header:X-Id")); v.Covers(id) {
		t.Error("a header is covered")
	}
	req = &verify.Request{Body: []byte(`no claims`), Now: receivedAt}
	if err := v.Sign(req, keys[0]); err == nil {
		t.Error("a body that holds no claims was signed")
	}
}
