package inbox_test

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
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

const formSecret = "a-secret-of-thirty-two-characters"

// formRequest returns a request with the headers of signed, and with body.
func formRequest(signed *http.Request, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, signed.URL.Path, strings.NewReader(body))
	r.Header = signed.Header.Clone()
	return r
}

// If a signature covers one field of a form, the body must be a plain form. Otherwise an attacker
// could put a captured field into another document.
func TestSignedFieldInAnotherDocument(t *testing.T) {
	t.Parallel()
	s := hookonce.Source{
		Name: "forge", Provider: "gitea", Scheme: "form", Secrets: hookonce.StaticSecrets(formSecret),
		AckTimeout: 30 * time.Second,
	}
	payload := url.QueryEscape(`{"ref":"real"}`)
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{s} })
	captured := signAs(t, &s, formSecret, "payload="+payload)
	captured.Header.Set("X-Gitea-Delivery", "d1")
	if got := deliver(in, formRequest(captured, "payload="+payload)); got != ok {
		t.Fatalf("the captured request: %+v, want ok", got)
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
		"JSON":               strings.ReplaceAll(string(forged), `\u0026`, "&"),
		"XML":                "<a>&payload=" + payload + "&</a>",
		"gzip":               zipped.String(),
		"after another line": "x=1\n&payload=" + payload,
		"JSON string":        `"&payload=` + payload + `&"`,
		"the field twice":    "payload=" + payload + "&payload=" + payload,
	} {
		r := formRequest(captured, body)
		r.Header.Set("X-Gitea-Delivery", "d2")
		if got := deliver(in, r); got.Code != http.StatusUnauthorized {
			t.Errorf("%s: got %+v, want 401", name, got)
		}
	}
	s.ContentEncodings = []string{"gzip"}
	if _, err := hookonce.NewEngine(rig.OpenSQLite(t), &hookonce.Config{Sources: []hookonce.Source{s}}); err == nil || !strings.Contains(err.Error(), "content_encoding") {
		t.Errorf("gzip for a form: error %v, want one about the content encoding", err)
	}
}

// The replay guard compares the signed part of a body. One signature fits many encodings of a form,
// and the guard takes all of them for one body.
func TestReplayGuardIgnoresTheEncodingOfAForm(t *testing.T) {
	t.Parallel()
	s := hookonce.Source{
		Name: "sms", Provider: "twilio", Secrets: hookonce.StaticSecrets(formSecret), ReplayGuard: true, Consume: hookonce.ConsumeSQL,
		URL: "https://hooks.example.com/webhooks/sms", AckTimeout: 30 * time.Second, Ack: &hookonce.Ack{ContentType: "application/json", Body: `{"status":"taken"}`},
	}
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) { c.Sources = []hookonce.Source{s} })
	const body = "Body=hello&From=%2B15550100&MessageSid=SM1"
	captured := signAs(t, &s, formSecret, body)
	for i, encoded := range []string{
		body, body, "MessageSid=SM1&From=%2B15550100&Body=hello", "Body=%68ello&From=%2B15550100&MessageSid=SM1",
		"&Body=hello&&From=%2B15550100&MessageSid=SM1",
	} {
		r := formRequest(captured, encoded)
		r.Header.Set("I-Twilio-Idempotency-Token", []string{"t0", "t1", "t2", "t3", "t4"}[i])
		if got := deliver(in, r); got.Code != http.StatusOK {
			t.Fatalf("%s: %+v, want 200", encoded, got)
		}
	}
	stats, err := store.Stats(t.Context())
	if err != nil || stats.EventsPending != 1 {
		t.Errorf("the store has %+v (error %v), want one event", stats, err)
	}
}

// Standard Webhooks sign the event id in webhook-id or svix-id. The catalog must read it from these
// headers.
func TestStandardWebhooksReadTheSignedID(t *testing.T) {
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
		// A request with both headers is refused, so the order does not matter.
		if !strings.HasPrefix(spec.Event.ID, "header:webhook-id | header:svix-id") && spec.Event.ID != "header:svix-id | header:webhook-id" {
			t.Errorf("%s reads the id from %q: an unsigned header could replace the signed one", name, spec.Event.ID)
		}
	}
}
