package hookonce_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
)

const formSecret = "a-secret-of-thirty-two-characters"

// formRequest returns a request with the headers of signed and another body.
func formRequest(signed *http.Request, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, signed.URL.Path, strings.NewReader(body))
	r.Header = signed.Header.Clone()
	return r
}

// A form of which one field is signed must be nothing else besides: whoever has
// captured one signed field could put it into a document of their own.
func TestFormThatIsAlsoAnotherDocument(t *testing.T) {
	t.Parallel()
	s := hookonce.Source{
		Name: "forge", Provider: "gitea", Scheme: "form", Secrets: hookonce.StaticSecrets(formSecret),
		AckTimeout: 30 * time.Second,
	}
	payload := url.QueryEscape(`{"ref":"real"}`)
	in := newEngine(t, openStore(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{s} })
	captured := signAs(t, &s, formSecret, "payload="+payload)
	captured.Header.Set("X-Gitea-Delivery", "d1")
	if got := deliver(in, formRequest(captured, "payload="+payload)); got != ok {
		t.Fatalf("the request as it was sent: %+v", got)
	}
	forged, err := json.Marshal(map[string]string{"ref": "forged", "x": "&payload=" + payload + "&"})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	zw.Extra = []byte("&payload=" + payload + "&")
	if _, err := zw.Write([]byte(`{"ref":"forged"}`)); err != nil || zw.Close() != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"JSON":                strings.ReplaceAll(string(forged), `\u0026`, "&"),
		"XML":                 "<a>&payload=" + payload + "&</a>",
		"gzip":                zipped.String(),
		"a line before it":    "x=1\n&payload=" + payload,
		"a text of JSON":      `"&payload=` + payload + `&"`,
		"the field more once": "payload=" + payload + "&payload=" + payload,
	} {
		r := formRequest(captured, body)
		r.Header.Set("X-Gitea-Delivery", "d2")
		if got := deliver(in, r); got.Code != http.StatusUnauthorized {
			t.Errorf("%s: got %+v, want 401", name, got)
		}
	}
	s.ContentEncodings = []string{"gzip"}
	if _, err := hookonce.NewEngine(openStore(t), &hookonce.Config{Sources: []hookonce.Source{s}}); err == nil || !strings.Contains(err.Error(), "content encoding") {
		t.Errorf("a form that may be compressed: got the error %v", err)
	}
}

// Where the id is not signed, a repeated body is known by what of it is signed: a form
// can be spelled in many ways that one signature fits.
func TestGuardKnowsASpelledAnewForm(t *testing.T) {
	t.Parallel()
	s := hookonce.Source{
		Name: "sms", Provider: "twilio", Secrets: hookonce.StaticSecrets(formSecret), ReplayGuard: true, Consume: hookonce.ConsumeSQL,
		URL: "https://hooks.example.com/webhooks/sms", AckTimeout: 30 * time.Second, Ack: &hookonce.Ack{ContentType: "application/json", Body: `{"status":"taken"}`},
	}
	store := openStore(t)
	in := newEngine(t, store, func(c *hookonce.Config) { c.Sources = []hookonce.Source{s} })
	const body = "Body=hello&From=%2B15550100&MessageSid=SM1"
	captured := signAs(t, &s, formSecret, body)
	for i, spelled := range []string{
		body, body, "MessageSid=SM1&From=%2B15550100&Body=hello", "Body=%68ello&From=%2B15550100&MessageSid=SM1",
		"&Body=hello&&From=%2B15550100&MessageSid=SM1",
	} {
		r := formRequest(captured, spelled)
		r.Header.Set("I-Twilio-Idempotency-Token", []string{"t0", "t1", "t2", "t3", "t4"}[i])
		if got := deliver(in, r); got.Code != http.StatusOK {
			t.Fatalf("%s: %+v", spelled, got)
		}
	}
	stats, err := store.Stats(t.Context())
	if err != nil || stats.EventsPending != 1 {
		t.Errorf("the store holds %+v (error %v), want one event", stats, err)
	}
}

// Of Standard Webhooks the id is signed, so it is read from where the signed one stands,
// whichever names the headers have.
func TestStandardIDsAreTheSignedOnes(t *testing.T) {
	t.Parallel()
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		scheme, err := spec.ChooseScheme("")
		if err != nil || scheme.Family != "standard-webhooks" || !strings.Contains(spec.Event.ID, "header:") {
			continue
		}
		if !strings.HasPrefix(spec.Event.ID, "header:webhook-id | header:svix-id") {
			t.Errorf("%s reads its id from %q: another header could take the place of the signed one", name, spec.Event.ID)
		}
	}
}
