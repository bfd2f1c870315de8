package hooktest_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

const secret = "a-secret-of-16-bytes-or-more"

// signedSource returns a source for a scheme of the catalog, and what it signs with.
func signedSource(t *testing.T, name provider.Name, scheme verify.Scheme) (hookonce.Source, []hooktest.Option) {
	t.Helper()
	source := hookonce.Source{Name: "one", Provider: name, Scheme: scheme.ID, URL: "https://hooks.example.com/webhooks/one"}
	switch {
	case scheme.Family == verify.FamilyNone:
		return source, nil
	case scheme.Algorithm == verify.AlgorithmEd25519:
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		source.Key = "whpk_" + base64.StdEncoding.EncodeToString(public)
		return source, []hooktest.Option{hooktest.WithSecret("whsk_" + base64.StdEncoding.EncodeToString(private))}
	}
	source.Secrets = hookonce.StaticSecrets("whsec_" + base64.StdEncoding.EncodeToString([]byte(secret)))
	return source, nil
}

// Whatever the catalog says how to sign is accepted by an Inbox, with the id and
// type that were asked for; a byte more is refused.
func TestNewRequestForEveryProvider(t *testing.T) {
	t.Parallel()
	const body = `{"id":"evt_1","type":"a.b"}`
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			t.Run(string(name)+"/"+scheme.ID, func(t *testing.T) {
				t.Parallel()
				source, opts := signedSource(t, name, scheme)
				if spec.Event.ID == "" {
					source.Event = provider.EventRules{ID: "body:id", Type: "body:type"}
				}
				opts = append(opts, hooktest.WithEventID("evt_1"), hooktest.WithEventType("a.b"))
				in, store := newInbox(t, nil, &hookonce.Config{Sources: []hookonce.Source{source}})
				check(t, in, hooktest.NewRequest(t, source, body, opts...), http.StatusOK, `"event_id":"evt_1"`)
				ev, err := store.Event(t.Context(), "one", "evt_1")
				if err != nil {
					t.Fatal(err)
				}
				if ev.Type != "a.b" || string(ev.Body) != body {
					t.Errorf("got type %q and body %s", ev.Type, ev.Body)
				}
				if scheme.Family == verify.FamilyNone {
					return
				}
				forged := hooktest.NewRequest(t, source, body, opts...)
				forged.Body = io.NopCloser(strings.NewReader(body + " "))
				forged.ContentLength++
				check(t, in, forged, http.StatusUnauthorized, "")
			})
		}
	}
}

func check(t *testing.T, h http.Handler, r *http.Request, status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != status || !strings.Contains(w.Body.String(), body) {
		t.Errorf("answered %d %s, want %d %s", w.Code, w.Body, status, body)
	}
}

func TestNewRequestOptions(t *testing.T) {
	t.Parallel()
	github := hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret, "the-older-one-16-bytes")}
	stripe := hookonce.Source{Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret)}
	// An own sender, which signs an id that it sends in a header, for one secret per tenant.
	tenants := hookonce.Source{
		Name: "tenants", Provider: provider.HMAC,
		Signature: &verify.Scheme{
			ID: "own", Family: verify.FamilyHMAC, Header: "X-Signature", Content: "{header:X-Id}.{timestamp}.{body}",
			Timestamp: &verify.Timestamp{At: "header:X-Time", Format: verify.TimeUnixMS},
		},
		Event: provider.EventRules{ID: "header:X-Id", Type: "header:X-Type"},
		Secrets: hookonce.SecretsFunc(func(_ context.Context, r *http.Request) ([]string, error) {
			return []string{secret + r.Header.Get("X-Tenant")}, nil
		}),
	}
	in, _ := newInbox(t, nil, &hookonce.Config{Sources: []hookonce.Source{github, stripe, tenants}})
	tests := map[string]struct {
		request *http.Request
		status  int
		body    string
	}{
		"id made up":      {hooktest.NewRequest(t, github, "{}"), 200, `"event_id":"evt_`},
		"id by hand":      {hooktest.NewRequest(t, github, "{}", hooktest.WithHeader("X-GitHub-Delivery", "d1")), 200, `"event_id":"d1"`},
		"bytes":           {hooktest.NewRequest(t, github, []byte("{}"), hooktest.WithEventID("d2")), 200, `"event_id":"d2"`},
		"another secret":  {hooktest.NewRequest(t, github, "{}", hooktest.WithSecret("the-older-one-16-bytes")), 200, ""},
		"a wrong secret":  {hooktest.NewRequest(t, github, "{}", hooktest.WithSecret("not-the-secret-of-it")), 401, ""},
		"id in the body":  {hooktest.NewRequest(t, stripe, `{"id":"evt_7"}`), 200, `"event_id":"evt_7"`},
		"no id":           {hooktest.NewRequest(t, stripe, `{}`), 400, ""},
		"too old":         {hooktest.NewRequest(t, stripe, `{"id":"evt_8"}`, hooktest.WithTime(time.Now().Add(-time.Hour))), 401, ""},
		"nearly too old":  {hooktest.NewRequest(t, stripe, `{"id":"evt_9"}`, hooktest.WithTime(time.Now().Add(-4*time.Minute))), 200, ""},
		"tenant":          {hooktest.NewRequest(t, tenants, "{}", hooktest.WithEventID("t1"), hooktest.WithHeader("X-Tenant", "7")), 200, `"event_id":"t1"`},
		"signed id is in": {hooktest.NewRequest(t, tenants, "{}"), 200, `"event_id":"evt_`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { check(t, in, tt.request, tt.status, tt.body) })
	}
}

// A request that is made for a server arrives there, and can be sent again.
func TestNewRequestWithServer(t *testing.T) {
	t.Parallel()
	source := hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)}
	in, _ := newInbox(t, nil, &hookonce.Config{Sources: []hookonce.Source{source}})
	server := httptest.NewServer(in)
	defer server.Close()
	first := hooktest.NewRequest(t, source, "{}", hooktest.WithEventID("d1"), hooktest.WithServer(server.URL))
	again := first.Clone(t.Context())
	again.Body, _ = first.GetBody()
	var got []string
	for _, r := range []*http.Request{first, again} {
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		got = append(got, string(answer))
	}
	want := []string{`{"status":"ok","event_id":"d1"}` + "\n", `{"status":"duplicate","event_id":"d1"}` + "\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// A request that cannot be made ends the test, and says why without the secret.
func TestNewRequestRefuses(t *testing.T) {
	t.Parallel()
	github := hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)}
	with := func(change func(*hookonce.Source)) hookonce.Source {
		s := github
		change(&s)
		return s
	}
	stripe := with(func(s *hookonce.Source) { s.Provider = provider.Stripe })
	tests := map[string]struct {
		source hookonce.Source
		body   string
		opts   []hooktest.Option
		want   string
	}{
		"provider":  {with(func(s *hookonce.Source) { s.Provider = "gitub" }), "", nil, `did you mean github`},
		"scheme":    {with(func(s *hookonce.Source) { s.Scheme = "sha3" }), "", nil, `no scheme "sha3"`},
		"no scheme": {with(func(s *hookonce.Source) { s.Provider, s.Event.ID = provider.HMAC, "body:id" }), "", nil, "Source.Signature"},
		"bad scheme": {with(func(s *hookonce.Source) {
			s.Provider, s.Event.ID, s.Signature = provider.HMAC, "body:id", &verify.Scheme{}
		}), "", nil, "family"},
		"rules":         {with(func(s *hookonce.Source) { s.Provider = provider.HMAC }), "", nil, "event.id"},
		"no secrets":    {with(func(s *hookonce.Source) { s.Secrets = nil }), "", nil, "WithSecret"},
		"none active":   {with(func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets() }), "", nil, "no active secrets"},
		"look-up fails": {with(func(s *hookonce.Source) { s.Secrets = hookonce.SecretsFunc(noSecrets) }), "", nil, "no such tenant"},
		"empty secret":  {with(func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets("") }), "", nil, "the secret"},
		"id elsewhere":  {stripe, `{"id":"evt_2"}`, []hooktest.Option{hooktest.WithEventID("evt_1")}, `stands in body:id, where "evt_2" is, not "evt_1"`},
		"id missing":    {stripe, `{}`, []hooktest.Option{hooktest.WithEventID("evt_1")}, "0 events"},
		"type":          {stripe, `{"id":"evt_1","type":"b"}`, []hooktest.Option{hooktest.WithEventType("a")}, `in "body:type", where "b" is`},
		"server":        {github, "{}", []hooktest.Option{hooktest.WithServer("http://[")}, "missing ']'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := fatal(t, func(t testing.TB) { hooktest.NewRequest(t, tt.source, tt.body, tt.opts...) })
			if !strings.Contains(got, tt.want) || strings.Contains(got, secret) {
				t.Errorf("the test ended with %q, want %q in it", got, tt.want)
			}
		})
	}
}

func noSecrets(context.Context, *http.Request) ([]string, error) {
	return nil, errors.New("no such tenant")
}

// fatalTB is a test that notes how it was ended.
type fatalTB struct {
	testing.TB
	text string
}

func (f *fatalTB) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fatalTB) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// fatal returns what test ended itself with; "" if it did not.
func fatal(t *testing.T, test func(testing.TB)) string {
	f, ended := &fatalTB{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.text
}
