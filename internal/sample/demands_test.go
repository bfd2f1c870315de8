package sample_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// TestDemands checks the parts of a signed request that a provider's own verifier demands, but the
// check of its signature does not.
func TestDemands(t *testing.T) {
	t.Parallel()
	svix := map[string]string{
		"Svix-Id": "evt_1", "Svix-Timestamp": "1760000000", "Svix-Signature": "v1,.+",
		"Webhook-Id": "", "Webhook-Timestamp": "", "Webhook-Signature": "",
	}
	tests := map[provider.Name]struct {
		headers map[string]string // patterns
		body    string            // a pattern
		token   map[string]string // patterns of the header and claims of the JWT, as JSON
	}{
		provider.Orb:         {headers: map[string]string{"X-Orb-Timestamp": `2025-10-09T08:53:20\.000`, "X-Orb-Signature": "v1=[0-9a-f]{64}"}},
		provider.Klaviyo:     {headers: map[string]string{"Klaviyo-Timestamp": "Thu, 09 Oct 2025 08:53:20 GMT"}},
		provider.Contentful:  {headers: map[string]string{"X-Contentful-Signed-Headers": "x-contentful-signed-headers,x-contentful-timestamp"}},
		provider.Shopify:     {headers: map[string]string{"X-Shopify-Shop-Domain": ".+", "X-Shopify-API-Version": "20[0-9]{2}-[0-9]{2}", "X-Shopify-Topic": "made.up"}},
		provider.Clerk:       {headers: svix},
		provider.Resend:      {headers: svix},
		provider.Svix:        {headers: svix},
		provider.Supabase:    {headers: map[string]string{"Webhook-Id": "evt_1", "Svix-Id": ""}},
		provider.Sanity:      {headers: map[string]string{"Sanity-Webhook-Signature": "t=[0-9]{13},v1=[A-Za-z0-9_-]{43}"}},
		provider.Linear:      {body: `"webhookTimestamp":1760000000000[,}]`},
		provider.MessageBird: {token: map[string]string{"claims": `"jti":"[A-Z0-9]{26}"`}},
		provider.Plaid:       {token: map[string]string{"header": `"kid":"1"`}},
		provider.AWSSNS:      {body: `"SigningCertURL":"https://sns\.us-east-1\.amazonaws\.com/[^"]+\.pem"`},
		provider.AdobeIOEvents: {headers: map[string]string{
			"X-Adobe-Public-Key1-Path": `/prod/keys/pub-key-[^/]+\.pem`, "X-Adobe-Public-Key2-Path": `/prod/keys/pub-key-[^/]+\.pem`,
		}},
		provider.Pusher: {headers: map[string]string{"X-Pusher-Key": "[0-9a-f]{20}"}},
		provider.Sentry: {headers: map[string]string{"Sentry-Hook-Timestamp": "1760000000"}},
	}
	for name, tt := range tests {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			s, key := sender(t, name, "")
			req := signed(t, s, key, sample.Event{ID: "evt_1", Type: "made.up", Time: now})
			for header, pattern := range tt.headers {
				if got := req.Header.Get(header); !whole(pattern).MatchString(got) {
					t.Errorf("header %s is %q, want %s", header, got, pattern)
				}
			}
			for part, pattern := range tt.token {
				if got := segment(t, req.Header.Get(s.Scheme.Header), part == "claims"); !regexp.MustCompile(pattern).MatchString(got) {
					t.Errorf("the %s of the token is %s, want %s", part, got, pattern)
				}
			}
			if !regexp.MustCompile(tt.body).Match(req.Body) {
				t.Errorf("the body is %s, want %s", req.Body, tt.body)
			}
		})
	}
}

// TestSvixHeaders checks that every scheme of Svix is signed in the headers that Svix's users read.
func TestSvixHeaders(t *testing.T) {
	each(t, func(t *testing.T, s *sample.Sender, key verify.Key) {
		if s.Scheme.ID != "svix" {
			return
		}
		h := signed(t, s, key, sample.Event{ID: "evt_1", Type: "made.up", Time: now}).Header
		if h.Get("Svix-Id") != "evt_1" || h.Get("Svix-Timestamp") != "1760000000" || !strings.HasPrefix(h.Get("Svix-Signature"), "v1,") {
			t.Errorf("got %v", h)
		}
		for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
			if h.Get(name) != "" {
				t.Errorf("%s is set beside the headers of Svix: %v", name, h)
			}
		}
	})
}

// segment returns the header or the claims of a JWT.
func segment(t *testing.T, token string, claims bool) string {
	t.Helper()
	pieces := strings.Split(token, ".")
	if len(pieces) != 3 {
		t.Fatalf("%q is not a JWT", token)
	}
	text := pieces[0]
	if claims {
		text = pieces[1]
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestBraintreeElements checks that a notification has the elements of Braintree's own.
func TestBraintreeElements(t *testing.T) {
	t.Parallel()
	s, key := sender(t, provider.Braintree, "")
	req := signed(t, s, key, sample.Event{ID: "evt_1", Type: "check", Time: now})
	form, err := url.ParseQuery(string(req.Body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(form.Get("bt_payload"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<timestamp type="datetime">2025-10-09T08:53:20Z</timestamp>`, "<kind>check</kind>", `<subject><check type="boolean">true</check></subject>`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the notification is %s, want %s", text, want)
		}
	}
}

// TestOwnBodyType checks that a header holds the type although the body is the caller's own.
func TestOwnBodyType(t *testing.T) {
	t.Parallel()
	s, _ := sender(t, provider.GitHub, "")
	for given, want := range map[string]string{"": "test", "push": "push"} {
		header := http.Header{}
		if given != "" {
			header.Set("X-GitHub-Event", given)
		}
		req, err := s.Request(sample.Draft{Body: []byte(`{}`), Header: header, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if got := req.Header.Get("X-GitHub-Event"); got != want {
			t.Errorf("given %q: X-GitHub-Event is %q, want %q", given, got, want)
		}
	}
}

// TestWixTexts checks that the claims of Wix hold JSON as texts.
func TestWixTexts(t *testing.T) {
	t.Parallel()
	s, key := sender(t, provider.Wix, "")
	req := signed(t, s, key, sample.Event{ID: "evt_1", Type: "made.up", Time: now})
	claims := segment(t, string(req.Body), true)
	want := `{"data":"{\"data\":\"{\\\"eventTime\\\":\\\"2025-10-09T08:53:20Z\\\",\\\"id\\\":\\\"evt_1\\\"}\",\"eventType\":\"made.up\"}","iat":1760000000}`
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

// TestSignOwnJSON checks that a scheme for forms and JSON signs a JSON body as JSON.
func TestSignOwnJSON(t *testing.T) {
	t.Parallel()
	s, key := sender(t, provider.Vonage, "sms-sig-hmac")
	req, err := s.Request(sample.Draft{Body: []byte(`{"messageId":"1"}`), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SignOwn(req, key); err != nil {
		t.Fatal(err)
	}
	if err := s.Verifier.Verify(req, []verify.Key{key}); err != nil {
		t.Error(err)
	}
	if got := req.Header.Get("Content-Type"); got != "application/json" || !whole(`\{"sig":"[0-9a-f]{32,}","messageId":"1"\}`).Match(req.Body) {
		t.Errorf("got %s with the content type %s", req.Body, got)
	}
}
