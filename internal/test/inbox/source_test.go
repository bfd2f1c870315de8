package inbox_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

const adyenItem = `{"notificationItems":[{"NotificationRequestItem":{"pspReference":"p1","merchantAccountCode":"m",` +
	`"merchantReference":"r","amount":{"value":10,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true",` +
	`"additionalData":{"hmacSignature":""}}}]}`

// The answer to a delivery is the one that the provider expects, unless the source sets another.
func TestAckOfTheProvider(t *testing.T) {
	t.Parallel()
	const key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	for want, ack := range map[string]*hookonce.Ack{"[accepted]": nil, "mine": {Body: "mine"}} {
		src := hookonce.Source{Name: "pay", Provider: "adyen", Secrets: hookonce.StaticSecrets(key), Ack: ack, AckTimeout: 30 * time.Second}
		in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{src} })
		for range 2 {
			w := answered(in, signAs(t, &src, key, adyenItem))
			if w.Code != http.StatusOK || w.Body.String() != want {
				t.Errorf("answer %d %s, want 200 %s", w.Code, w.Body, want)
			}
		}
	}
}

// A shared credential is stored as <secret>, in the header of any of the provider's schemes. The
// query string is not stored at all.
func TestCredentialsAreNotStored(t *testing.T) {
	t.Parallel()
	own := &verify.Scheme{Family: verify.FamilyToken, Header: "X-Own-Token", MoreHeaders: []string{"x-own-token-2"}}
	inHeader, err := provider.TokenScheme("header:X-Own-Token", "")
	if err != nil {
		t.Fatal(err)
	}
	const token, password = "canary-7f3a-token", "user:canary-7f3a-password"
	tests := []struct {
		source         hookonce.Source
		secret, header string
	}{
		{hookonce.Source{Provider: "telegram"}, token, "X-Telegram-Bot-Api-Secret-Token"},
		{hookonce.Source{Provider: "chargebee"}, password, "Authorization"},
		{hookonce.Source{Provider: provider.Basic}, password, "Authorization"},
		{hookonce.Source{Provider: provider.Token, Signature: &inHeader}, token, "X-Own-Token"},
		{hookonce.Source{Provider: "buildkite"}, token, "X-Buildkite-Token"}, // the header of another scheme
		{hookonce.Source{Provider: "buildkite", Scheme: "token"}, token, "X-Buildkite-Token"},
		{hookonce.Source{Provider: provider.HMAC, Signature: own}, token, "X-Own-Token"},
		{hookonce.Source{Provider: provider.HMAC, Signature: own}, token, "X-Own-Token-2"},
	}
	for _, tt := range tests {
		t.Run(string(tt.source.Provider)+tt.source.Scheme, func(t *testing.T) {
			t.Parallel()
			src := tt.source
			src.Name, src.Secrets, src.Event.ID = "gh", hookonce.StaticSecrets(tt.secret), "body:id"
			src.AckTimeout = 30 * time.Second // the machine may be slow
			store := rig.OpenSQLite(t)
			in := newEngine(t, store, func(c *hookonce.Config) { c.Sources = []hookonce.Source{src} })
			r := httptest.NewRequest(http.MethodPost, "/webhooks/gh", strings.NewReader(`{"id":"e1"}`))
			if src.Signature == nil {
				r = signAs(t, &src, tt.secret, `{"id":"e1"}`)
			}
			if r.Header.Get(tt.header) == "" {
				r.Header.Set(tt.header, token)
			}
			r.URL.RawQuery = "token=canary-7f3a-query"
			r.Header.Set("X-Original-Uri", r.URL.RequestURI())
			for _, name := range []string{
				"X-Forwarded-Access-Token", "X_forwarded_access_token", "X-Amzn-Oidc-Data", "X-Amzn-Oidc-Accesstoken", "X-Auth-Request-Access-Token",
				"X-Goog-Iap-Jwt-Assertion", "Cf-Access-Client-Secret", "X-Ms-Token-Aad-Id-Token", "X-Authentik-Jwt", "X-Serverless-Authorization", "Cookie2",
				"X-Pomerium-Jwt-Assertion",
			} {
				r.Header[name] = []string{"canary-7f3a-proxy"}
			}
			r.Header.Set("X-Auth-Token", "of the sender, for the destination")
			r.Header.Set("Webhook-Session", "of the sender, too")
			if got := deliver(in, r); got != ok {
				t.Fatalf("got %+v, want ok", got)
			}
			ev := eventState(t, store, "e1")
			text, err := json.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			for _, bytes := range [][]byte{ev.Headers, ev.Body, text} {
				if strings.Contains(string(bytes), "canary") {
					t.Errorf("the event holds the canary: %s", bytes)
				}
			}
			var header http.Header
			if err := json.Unmarshal(ev.Headers, &header); err != nil || header.Get(tt.header) != "<secret>" {
				t.Errorf("error %v, headers %s; want <secret> for %s", err, ev.Headers, tt.header)
			}
			if header.Get("X-Amzn-Oidc-Data") != "<secret>" || header.Get("X-Auth-Token") == "<secret>" || header.Get("Webhook-Session") == "<secret>" {
				t.Errorf("headers %s", ev.Headers)
			}
		})
	}
}

// A sender whose notifications have no body sends the same body for every event: that is no repetition.
func TestEmptyBodiesAreNoRepetition(t *testing.T) {
	t.Parallel()
	src := hookonce.Source{
		Name: "cal", Provider: provider.GoogleCalendar, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second,
	}
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) { c.Sources = []hookonce.Source{src} })
	for _, number := range []string{"1", "7"} {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/cal", http.NoBody)
		r.Header.Set("X-Goog-Channel-Token", secret)
		r.Header.Set("X-Goog-Channel-ID", "channel")
		r.Header.Set("X-Goog-Message-Number", number)
		if got := deliver(in, r); got.Status != ok.Status {
			t.Fatalf("got %+v, want ok", got)
		}
		ev, err := store.Event(t.Context(), "cal", "channel:"+number)
		if err != nil || ev.Deliveries.RepeatOf != "" {
			t.Errorf("event %s: error %v, a repetition of %q", number, err, ev.Deliveries.RepeatOf)
		}
	}
}

// The catalog sets defaults of a source: the dedupe window covers the provider's retries.
func TestDefaultsOfTheProvider(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.DedupeWindow, c.Logger = time.Hour, log.Logger()
		one := hookonce.StaticSecrets(secret)
		c.Sources = []hookonce.Source{
			{Name: "a", Provider: provider.Stripe, Secrets: one},
			{Name: "b", Provider: provider.Stripe, Secrets: one, DedupeWindow: 2 * time.Hour},
			{Name: "c", Provider: provider.GitHub, Secrets: one},
			{Name: "d", Provider: "sentry", Secrets: one, Event: provider.EventRules{ID: "body:id"}},
			{Name: "e", Provider: "docker-hub", Scheme: "unsigned", Event: provider.EventRules{ID: "body:id"}},
		}
	})
	type defaults struct {
		DedupeWindow, AckTimeout time.Duration
		MaxBody                  int64
		Unsigned                 bool
	}
	got := make(map[string]defaults)
	for _, s := range in.Operator().Sources() {
		got[s.Name] = defaults{s.DedupeWindow, s.AckTimeout, s.MaxBody, s.Unsigned}
	}
	want := map[string]defaults{
		"a": {72 * time.Hour, 3 * time.Second, 1 << 20, false},
		"b": {2 * time.Hour, 3 * time.Second, 1 << 20, false},
		"c": {time.Hour, 3 * time.Second, 25 << 20, false},
		"d": {time.Hour, 800 * time.Millisecond, 1 << 20, false},
		"e": {time.Hour, 3 * time.Second, 1 << 20, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := log.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "shorter") || !strings.Contains(lines[0], "sources.b.dedupe_window") {
		t.Errorf("the log says %q, want one line about the short dedupe window of b", lines)
	}
}

// A source refuses a private key: with it, hookonce could sign as the provider.
func TestSourcesRefusePrivateKeys(t *testing.T) {
	t.Parallel()
	spec, err := provider.Lookup("discord")
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.Compile(spec.Schemes[0])
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := v.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{public: "", private: "key: this is a private key: the source needs the public one"} {
		_, err := hookonce.NewEngine(rig.OpenSQLite(t), &hookonce.Config{Sources: []hookonce.Source{{
			Name: "d", Provider: "discord", Key: key, Event: provider.EventRules{ID: "sha256:body"},
		}}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestStaleRulesAreChecked(t *testing.T) {
	t.Parallel()
	_, err := hookonce.NewEngine(rig.OpenSQLite(t), &hookonce.Config{Sources: []hookonce.Source{{
		Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}, Consume: hookonce.ConsumeSQL,
		Stale: []hookonce.StaleRule{{Key: "body:id", Version: "body:v"}, {Key: "", Version: "query:v"}, {Key: "header:Cookie", Version: "item:v"}},
	}}})
	for _, want := range []string{
		`sources.lab.stale: it cannot be applied with consume: sql`,
		`sources.lab.stale[1].key: it is missing`,
		`sources.lab.stale[1].version: "query:v" looks into the query string`,
		`sources.lab.stale[2].key: "header:Cookie" looks into a header that carries a credential`,
		`sources.lab.stale[2].version: "item:v" looks into an item`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}
