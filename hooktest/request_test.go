package hooktest_test

import (
	"context"
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
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

const secret = "a-secret-of-16-bytes-or-more"

// signedSource returns a source for a scheme of the catalog, and its signing key as an option.
func signedSource(t *testing.T, spec *provider.Spec, scheme *verify.Scheme) (hookonce.Source, []hooktest.Option) {
	t.Helper()
	source := hookonce.Source{
		Name: string(spec.Name) + "_" + strings.ToLower(scheme.ID), Provider: spec.Name, Scheme: scheme.ID, URL: "https://hooks.example.com/webhooks/one", Params: map[string]string{},
		AckTimeout: time.Minute, // the machine may be busy
	}
	for _, p := range spec.ParamsOf(scheme) {
		source.Params[p.Name] = "value-1"
		for value := range p.Sets {
			source.Params[p.Name] = value
		}
	}
	if scheme.Family == verify.FamilyNone {
		return source, nil
	}
	private, public := hooktest.GenerateKey(t, source)
	if public == "" {
		source.Secrets = hookonce.StaticSecrets(private)
		return source, nil
	}
	source.Key = public
	return source, []hooktest.Option{hooktest.WithSecret(private)}
}

// signedCase is one scheme of the catalog with its event evt_1.
type signedCase struct {
	source hookonce.Source
	opts   []hooktest.Option // the key, and the provider's headers
	body   []byte
	signed bool
	kind   string // of the key
}

func newSignedCase(t *testing.T, spec *provider.Spec, scheme *verify.Scheme) signedCase {
	t.Helper()
	c := signedCase{
		signed: scheme.Family != verify.FamilyNone, kind: fmt.Sprint(scheme.Family, scheme.Algorithm, scheme.SecretEncoding, scheme.JWT),
	}
	c.source, c.opts = signedSource(t, spec, scheme)
	sender := newSender(t, &c.source)
	if sender.Rules.ID == "" || sender.OtherBody() {
		c.source.Event.ID = "header:X-Event"
		if spec.Event.Batch != "" {
			c.source.Event.ID = "item:my.id"
		}
		sender = newSender(t, &c.source)
	}
	req, err := sender.Request(sample.Draft{Event: sample.Event{ID: "evt_1", Type: "a.b"}})
	if err != nil {
		t.Fatal(err)
	}
	for name := range req.Header {
		c.opts = append(c.opts, hooktest.WithHeader(name, req.Header.Get(name)))
	}
	c.body = req.Body
	return c
}

func newSender(t *testing.T, source *hookonce.Source) *sample.Sender {
	t.Helper()
	sender, err := sample.New(sample.Setup{
		Provider: source.Provider, Scheme: source.Scheme, Params: source.Params, Event: source.Event,
	})
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

// TestNewRequestForEveryProvider checks that an Inbox accepts the requests for every scheme of the
// catalog, and takes repeated ones for one event. Signed with another key, they are refused.
func TestNewRequestForEveryProvider(t *testing.T) {
	t.Parallel()
	var cases []signedCase
	cfg := &hookonce.Config{UnverifiedRate: hookonce.Rate{Count: 10_000, Per: time.Second}} // this test causes many refusals
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range spec.Schemes {
			c := newSignedCase(t, spec, &spec.Schemes[i])
			cases, cfg.Sources = append(cases, c), append(cfg.Sources, c.source)
		}
	}
	in, store := newInbox(t, nil, cfg)
	others := make(map[string]string) // keys that belong to no source, by kind
	for i := range cases {
		c := &cases[i]
		other, ok := others[c.kind]
		if !ok {
			other, _ = hooktest.GenerateKey(t, c.source)
			others[c.kind] = other
		}
		t.Run(c.source.Name, func(t *testing.T) { c.check(t, in, store, other) })
	}
}

func (c *signedCase) check(t *testing.T, in http.Handler, store *hooksql.Store, other string) {
	for range 2 {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, hooktest.NewRequest(t, c.source, c.body, c.opts...))
		if w.Code/100 != 2 {
			t.Fatalf("answered %d %s to\n%s", w.Code, w.Body, c.body)
		}
	}
	page, err := store.Events(t.Context(), &driver.EventFilter{Source: c.source.Name})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Events) != 1 {
		t.Errorf("got %d events, want 1", len(page.Events))
	}
	if c.signed {
		forged := hooktest.NewRequest(t, c.source, c.body, append(c.opts, hooktest.WithSecret(other))...)
		check(t, in, forged, http.StatusUnauthorized, "")
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
	// A custom sender with one secret per tenant. It signs an id that it sends in a header.
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
	// Another custom sender. Its ids have two parts, each in a header.
	pairs := tenants
	pairs.Name, pairs.Event.ID, pairs.Secrets = "pairs", "header:X-Id + header:X-Part", hookonce.StaticSecrets(secret)
	in, _ := newInbox(t, nil, &hookonce.Config{Sources: []hookonce.Source{github, stripe, tenants, pairs}})
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
		"two parts":       {hooktest.NewRequest(t, pairs, "{}", hooktest.WithEventID("a:b")), 200, `"event_id":"a:b"`},
		"one of two":      {hooktest.NewRequest(t, pairs, "{}", hooktest.WithHeader("X-Part", "p")), 200, `:p"`},
		"signed id is in": {hooktest.NewRequest(t, tenants, "{}"), 200, `"event_id":"evt_`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { check(t, in, tt.request, tt.status, tt.body) })
	}
}

// TestNewRequestWithServer checks that a request for a server arrives there and can be sent again.
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

// TestNewRequestRefuses checks that an impossible request ends the test, with a reason that does
// not contain the secret.
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
		"no scheme": {with(func(s *hookonce.Source) { s.Provider, s.Event.ID = provider.HMAC, "body:id" }), "", nil, "signature says how it signs"},
		"bad scheme": {with(func(s *hookonce.Source) {
			s.Provider, s.Event.ID, s.Signature = provider.HMAC, "body:id", &verify.Scheme{}
		}), "", nil, "family"},
		"rules":         {with(func(s *hookonce.Source) { s.Provider = provider.None }), "", nil, "event.id"},
		"parameter":     {with(func(s *hookonce.Source) { s.Provider = provider.PayPal }), "", nil, "params.webhook_id"},
		"public URL":    {with(func(s *hookonce.Source) { s.Provider = provider.Square }), "{}", nil, "public URL"},
		"no secrets":    {with(func(s *hookonce.Source) { s.Secrets = nil }), "", nil, "WithSecret"},
		"none active":   {with(func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets() }), "", nil, "no active secrets"},
		"look-up fails": {with(func(s *hookonce.Source) { s.Secrets = hookonce.SecretsFunc(noSecrets) }), "", nil, "no such tenant"},
		"empty secret":  {with(func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets("") }), "", nil, "the secret"},
		"id elsewhere":  {stripe, `{"id":"evt_2"}`, []hooktest.Option{hooktest.WithEventID("evt_1")}, `the event id in body:id is "evt_2", not "evt_1"`},
		"id missing":    {stripe, `{}`, []hooktest.Option{hooktest.WithEventID("evt_1")}, "0 events"},
		"type":          {stripe, `{"id":"evt_1","type":"b"}`, []hooktest.Option{hooktest.WithEventType("a")}, `the event type in "body:type" is "b"`},
		"server":        {github, "{}", []hooktest.Option{hooktest.WithServer("http://[")}, "missing ']'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := fatal(t, func(t testing.TB) { hooktest.NewRequest(t, tt.source, tt.body, tt.opts...) })
			if !strings.Contains(got, tt.want) || strings.Contains(got, secret) {
				t.Errorf("the test ended with %q, want it to contain %q and no secret", got, tt.want)
			}
		})
	}
}

func noSecrets(context.Context, *http.Request) ([]string, error) {
	return nil, errors.New("no such tenant")
}

// fatalTB is a testing.TB that records the text of Fatal.
type fatalTB struct {
	testing.TB
	text string
}

func (f *fatalTB) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fatalTB) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// fatal runs test and returns the text of its Fatal; "" if it did not call Fatal.
func fatal(t *testing.T, test func(testing.TB)) string {
	f, ended := &fatalTB{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.text
}
