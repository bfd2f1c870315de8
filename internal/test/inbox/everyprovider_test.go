package inbox_test

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// catalogSource is a source for one scheme of the catalog, with a sender for it.
type catalogSource struct {
	hookonce.Source
	sender *sample.Sender
	key    verify.Key
}

// catalogSources returns a source for every scheme of the catalog.
func catalogSources(t *testing.T) []catalogSource {
	t.Helper()
	var all []catalogSource
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range spec.Schemes {
			all = append(all, newCatalogSource(t, spec, &spec.Schemes[i]))
		}
	}
	return all
}

var notInNames = regexp.MustCompile(`[^a-z0-9_-]`)

// newCatalogSource gives each source its own secret. Public keys are shared: generating an RSA key takes
// long.
func newCatalogSource(t *testing.T, spec *provider.Spec, scheme *verify.Scheme) catalogSource {
	t.Helper()
	params := map[string]string{}
	for _, p := range spec.ParamsOf(scheme) {
		params[p.Name] = "value-1"
		if len(p.Sets) > 0 {
			params[p.Name] = slices.Sorted(maps.Keys(p.Sets))[0]
		}
	}
	s := catalogSource{Source: hookonce.Source{
		Name:     notInNames.ReplaceAllString(strings.ToLower(string(spec.Name)+"_"+scheme.ID), "-"),
		Provider: spec.Name, Scheme: scheme.ID, Params: params,
		URL: "https://hooks.example.com/webhooks/one", AckTimeout: 30 * time.Second,
	}}
	var err error
	if s.sender, err = sample.New(sample.Setup{Provider: spec.Name, Scheme: scheme.ID, Params: params}); err != nil {
		t.Fatal(err)
	}
	switch {
	case s.sender.Rules.ID != "" && !s.sender.OtherBody():
	case s.sender.Rules.Batch != "":
		s.Event.ID = "sha256:item"
	default:
		s.Event.ID = "sha256:body"
	}
	v := s.sender.Verifier
	if !v.NeedsKeys() {
		return s
	}
	private, public := keyPair(t, v)
	if s.Key = public; public == "" {
		other, _ := keyPair(t, v)
		s.Secrets = hookonce.StaticSecrets(other, private) // as during a rotation
	}
	if s.key, err = v.ParseKey(private); err != nil {
		t.Fatal(err)
	}
	return s
}

// signed returns a request as the provider sends it.
func (s *catalogSource) signed(t *testing.T) *verify.Request {
	t.Helper()
	now := time.Now()
	req, err := s.sender.Request(sample.Draft{Event: sample.Event{Type: "made.up", Time: now}, URL: s.URL, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.sender.Verifier.Sign(req, s.key); err != nil {
		t.Fatalf("%v\n%s", err, req.Body)
	}
	return req
}

// Every scheme of the catalog works in a source: a signed request is one event, the same request
// again is a duplicate, and a changed byte is refused.
func TestEveryProviderDelivers(t *testing.T) {
	t.Parallel()
	type observation struct {
		Outcome string
		Status  int
		Events  int
	}
	var got []observation
	all := catalogSources(t)
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.UnverifiedRate = hookonce.Rate{Count: 1_000_000, Per: time.Second}
		c.Observer = &observe.Observer{Delivery: func(o observe.Delivery) {
			got = append(got, observation{o.Outcome, o.Status, o.Events})
		}}
		c.Sources = nil
		for i := range all {
			c.Sources = append(c.Sources, all[i].Source)
		}
	})
	for i := range all {
		s := &all[i]
		t.Run(s.Name, func(t *testing.T) {
			got = nil
			status := http.StatusOK
			if ack := s.sender.Spec.Ack; ack != nil {
				status = cmp.Or(ack.Status, status)
			}
			want := []observation{{"ok", status, 1}, {"duplicate", status, 1}}
			req := s.signed(t)
			send := func() {
				r := httptest.NewRequest(http.MethodPost, "/webhooks/"+s.Name, bytes.NewReader(req.Body))
				r.Header, r.URL.RawQuery = req.Header.Clone(), req.RawQuery
				answered(in, r)
			}
			send()
			send()
			if s.sender.Verifier.NeedsKeys() {
				if err := s.sender.Corrupt(req, s.key); err != nil {
					t.Fatal(err)
				}
				send()
				want = append(want, observation{"refused", http.StatusUnauthorized, 0})
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s%s", diff, req.Body)
			}
		})
	}
}
