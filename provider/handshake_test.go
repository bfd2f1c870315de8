package provider

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// handshakesOf returns the handshakes of a provider in the catalog.
func handshakesOf(t testing.TB, name Name) *Handshakes {
	t.Helper()
	spec, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	hs, err := CompileHandshakes(spec.Handshakes)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return hs
}

// TestCatalogHandshakes checks properties that the rest of the program relies on: a value signed
// with the secret cannot be a delivery, and every parameter is declared.
func TestCatalogHandshakes(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range handshakesOf(t, name).list {
			known := map[string]bool{}
			for i := range spec.Schemes {
				for _, p := range spec.ParamsOf(&spec.Schemes[i]) {
					known[p.Name] = true
				}
			}
			for _, p := range h.needs.params {
				if !known[p] {
					t.Errorf("%s: handshake %s needs the parameter %s, which is not declared", name, h.id, p)
				}
			}
			if h.digest == nil || !h.digest.keyed() {
				continue
			}
			for _, signed := range []string{
				"", "{}", "[]", `{"id":1}`, `"a"`, " 1", "1.5", "a=b&c=d", "v0:1700000000:{}", "1700000000.{}", "1:{}",
				"hmacsha256={}", "<a/>", "PGE+PC9hPgo=\n", "a b", "a\nb", "é",
			} {
				if h.pattern.MatchString(signed) {
					t.Errorf("%s: handshake %s signs %q for anyone", name, h.id, signed)
				}
			}
		}
	}
}

// TestCompileHandshakesRefuses checks the refused handshakes.
func TestCompileHandshakesRefuses(t *testing.T) {
	t.Parallel()
	const token = "query:c"
	pattern := "[a-z]{1,9}"
	for want, h := range map[string]Handshake{
		"id: it is empty":           {},
		"method: \"PUT\"":           {ID: "a", Method: "PUT"},
		"neither always nor":        {ID: "a", Signed: "sometimes"},
		"only a POST":               {ID: "a", Method: "GET", Signed: SignedAlways},
		"token: ":                   {ID: "a", Token: "nowhere:x"},
		"query:b\" is not a single": {ID: "a", Token: "query:a | query:b"},
		"item:a\" is not a single":  {ID: "a", Token: "item:a"},
		"there is no token":         {ID: "a", Pattern: "x"},
		"pattern: error":            {ID: "a", Token: token, Pattern: "["},
		"unexpected )":              {ID: "a", Token: token, Pattern: "x)|(y"},
		"delivers: it must equal":   {ID: "a", Token: token, Delivers: "header:X"},
		"needs a token with a pattern": {
			ID: "a", Token: token, Digest: &Digest{Algorithm: DigestHMACSHA256, Content: "{token}"},
		},
		"may sign only {token}": {
			ID: "a", Token: token, Pattern: pattern, Digest: &Digest{Algorithm: DigestHMACSHA1, Content: "v0:{token}"},
		},
		"digest.algorithm": {ID: "a", Token: token, Pattern: pattern, Digest: &Digest{Algorithm: "md5", Content: "{token}"}},
		"digest.encoding": {
			ID: "a", Token: token, Pattern: pattern, Digest: &Digest{Algorithm: DigestSHA256, Encoding: "b", Content: "{token}"},
		},
		"digest.secret_encoding": {
			ID: "a", Token: token, Pattern: pattern, Digest: &Digest{Algorithm: DigestSHA256, SecretEncoding: "b", Content: "{token}"},
		},
		"can be set":                       {ID: "a", When: []Condition{{At: token, Equals: "a", Absent: true}}},
		"when[0].matches: error":           {ID: "a", When: []Condition{{At: token, Matches: "("}}},
		"compared only in a check":         {ID: "a", When: []Condition{{At: token, Equals: "{param:p}"}}},
		"a check needs equals":             {ID: "a", Check: []Condition{{At: token}}},
		"{token} is unknown":               {ID: "a", Token: token, Check: []Condition{{At: token, Equals: "{token}"}}},
		"confirm: signed must be always":   {ID: "a", Confirm: "https://x/", Host: "x"},
		"host: it is empty":                {ID: "a", Signed: SignedAlways, Confirm: "https://x/"},
		"must be 2xx":                      {ID: "a", Answer: Answer{Status: 302}},
		"body and json":                    {ID: "a", Answer: Answer{Body: "x", JSON: map[string]any{}}},
		"not a header name":                {ID: "a", Answer: Answer{Header: map[string]string{"a b": "c"}}},
		"answer.body: {token}":             {ID: "a", Answer: Answer{Body: "{token}"}},
		"answer.body: a '{' is not closed": {ID: "a", Answer: Answer{Body: "{url"}},
		"answer.json.a[0]: {digest}":       {ID: "a", Answer: Answer{JSON: map[string]any{"a": []any{"{digest}"}}}},
		"answer.body: {json:a}":            {ID: "a", Answer: Answer{Body: "{json:a}"}},
		"{param:}":                         {ID: "a", Answer: Answer{Body: "{param:}"}},
	} {
		if _, err := CompileHandshakes([]Handshake{h}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v", want, err)
		}
	}
	if _, err := CompileHandshakes([]Handshake{{ID: "a"}, {ID: "a"}}); err == nil {
		t.Error("two handshakes with one id compile")
	}
}

// TestHandshakeMatch checks which requests a condition matches.
func TestHandshakeMatch(t *testing.T) {
	t.Parallel()
	hs, err := CompileHandshakes([]Handshake{
		{ID: "empty", When: []Condition{{At: "body:events", Matches: `\[\s*\]`}}},
		{ID: "ping", When: []Condition{{At: "body:a.type", Equals: "1"}, {At: "body:data", Absent: true}}},
		{ID: "raw", When: []Condition{{At: "body:", Matches: "id=[0-9]+"}}},
		{ID: "get", Method: "GET", When: []Condition{{At: "query:c"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GET", "POST"}, hs.Methods()); diff != "" {
		t.Error(diff)
	}
	long := strings.Repeat(" ", MaxHandshakeBody)
	for _, c := range []struct{ method, query, body, want string }{
		{"POST", "", `{"events":[]}`, "empty"},
		{"POST", "", "{\"events\":[ \n]}", "empty"},
		{"POST", "", `{"events":[{}]}`, ""},
		{"POST", "", `{"events":[],"events":[]}`, ""},
		{"POST", "", `{"events":[]`, ""},
		{"POST", "", `{"events":[]}` + long, ""},
		{"POST", "", `{"a":{"type":1}}`, "ping"},
		{"POST", "", `{"a":{"type":"1"},"data":null}`, "ping"},
		{"POST", "", `{"a":{"type":1.0}}`, ""},
		{"POST", "", `{"a":{"type":1},"data":{}}`, ""},
		{"POST", "", `id=17`, "raw"},
		{"POST", "", "id=17\n", ""},
		{"POST", "", `id=17&x=1`, ""},
		{"POST", "c=1", ``, ""},
		{"GET", "c=1", ``, "get"},
		{"GET", "c=", ``, "get"},
		{"GET", "c=1&c=1", ``, ""},
		{"GET", "", ``, ""},
		{"HEAD", "c=1", ``, ""},
	} {
		got := ""
		if shake := hs.Match(&HandshakeRequest{Method: c.method, RawQuery: c.query, Body: []byte(c.body)}); shake != nil {
			got = shake.ID()
		}
		if got != c.want {
			t.Errorf("%s ?%s %.40q: got %q, want %q", c.method, c.query, c.body, got, c.want)
		}
	}
}

// TestKeyedHandshakeNeedsTheSecret checks that a source without a secret signs nothing.
func TestKeyedHandshakeNeedsTheSecret(t *testing.T) {
	t.Parallel()
	shake := handshakesOf(t, X).Match(&HandshakeRequest{Method: http.MethodGet, RawQuery: "crc_token=abc"})
	if shake == nil || !shake.NeedsSecret() {
		t.Fatal("the request is not a handshake that needs the secret")
	}
	if reply, err := shake.Reply(&HandshakeSetup{}); !errors.Is(err, ErrHandshakeSetup) || reply != nil {
		t.Errorf("without: %+v, error %v", reply, err)
	}
	if _, err := shake.Reply(&HandshakeSetup{Secret: "s"}); err != nil {
		t.Errorf("with: error %v", err)
	}
}

// FuzzHandshakes tries a request with every provider of the catalog. No request may make it panic,
// and no answer may hold a value that the pattern does not allow.
func FuzzHandshakes(f *testing.F) {
	f.Add("GET", "hub.mode=subscribe&hub.verify_token=vt&hub.challenge=1", "X-Front-Challenge", "a", []byte(nil))
	f.Add("GET", "crc_token=a", "X-Okta-Verification-Challenge", "<b>", []byte(nil))
	f.Add("POST", "validationToken=%3Cscript%3E", "X-Hook-Secret", strings.Repeat("s", 16), []byte(`{"challenge":"\u0000"}`))
	f.Add("POST", "", "Aeg-Event-Type", "SubscriptionValidation", []byte(`[{"data":{"validationCode":"1"}}]`))
	f.Add("POST", "", "Validation-Token", "a b", []byte(`{"Type":"SubscriptionConfirmation","TopicArn":"v","SubscribeURL":"https://sns.a.amazonaws.com"}`))
	var all []*Handshakes
	for _, name := range Names() {
		all = append(all, handshakesOf(f, name))
	}
	setup := &HandshakeSetup{URL: "https://hooks.example.com/", Secret: "s", Params: map[string]string{}}
	for _, hs := range all {
		for _, h := range hs.list {
			for _, p := range h.needs.params {
				setup.Params[p] = "v"
			}
		}
	}
	f.Fuzz(func(t *testing.T, method, query, name, value string, body []byte) {
		r := &HandshakeRequest{Method: method, RawQuery: query, Header: http.Header{http.CanonicalHeaderKey(name): {value}}, Body: body}
		for _, hs := range all {
			shake := hs.Match(r)
			if shake == nil {
				_ = hs.Signable(r)
				continue
			}
			reply, err := shake.Reply(setup)
			if err != nil {
				if !errors.Is(err, ErrHandshakeToken) && !errors.Is(err, ErrHandshakeCheck) {
					t.Errorf("%s: %v", shake.ID(), err)
				}
				continue
			}
			for _, text := range append([]string{string(reply.Body)}, values(reply.Header)...) {
				if i := strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c > '~' }); i >= 0 {
					t.Errorf("%s answers %q", shake.ID(), text)
				}
			}
			if u := reply.ConfirmURL; u != "" && !strings.HasPrefix(u, "https://sns.") {
				t.Errorf("%s confirms %q", shake.ID(), u)
			}
		}
	})
}

func values(m map[string]string) []string {
	var all []string
	for _, v := range m {
		all = append(all, v)
	}
	return all
}
