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
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// catalogSource is a source for one scheme of the catalog, with a sender for it.
type catalogSource struct {
	hookonce.Source
	sender *sample.Sender
	key    verify.Key
}

// catalogSources returns a source for every scheme of the catalog, and one more for every parameter
// value that changes the scheme. Each has its own key.
func catalogSources(t *testing.T) []catalogSource {
	t.Helper()
	var all []catalogSource
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range spec.Schemes {
			scheme := &spec.Schemes[i]
			for _, params := range paramSettings(spec.ParamsOf(scheme)) {
				all = append(all, newCatalogSource(t, spec, scheme, params))
			}
		}
	}
	return all
}

// paramSettings returns sets of values for all parameters. Every value that changes the scheme is
// in one of them.
func paramSettings(params []verify.Param) []map[string]string {
	first := map[string]string{}
	for _, p := range params {
		first[p.Name] = "value-1"
		if len(p.Sets) > 0 {
			first[p.Name] = slices.Sorted(maps.Keys(p.Sets))[0]
		}
	}
	all := []map[string]string{first}
	for _, p := range params {
		for _, value := range slices.Sorted(maps.Keys(p.Sets)) {
			if value != first[p.Name] {
				other := maps.Clone(first)
				other[p.Name] = value
				all = append(all, other)
			}
		}
	}
	return all
}

var notInNames = regexp.MustCompile(`[^a-z0-9_-]`)

func newCatalogSource(t *testing.T, spec *provider.Spec, scheme *verify.Scheme, params map[string]string) catalogSource {
	t.Helper()
	name := string(spec.Name) + "_" + scheme.ID
	for _, p := range spec.ParamsOf(scheme) {
		if p.Sets != nil {
			name += "_" + params[p.Name]
		}
	}
	s := catalogSource{Source: hookonce.Source{
		Name:     notInNames.ReplaceAllString(strings.ToLower(name), "-"),
		Provider: spec.Name, Scheme: scheme.ID, Params: params,
		URL: "https://hooks.example.com/webhooks/one", AckTimeout: 30 * time.Second,
	}}
	var err error
	if s.sender, err = sample.New(sample.Setup{Provider: spec.Name, Scheme: scheme.ID, Params: s.Params}); err != nil {
		t.Fatal(err)
	}
	switch {
	case s.sender.Rules.ID != "" && !s.sender.OtherBody():
	case s.sender.Rules.Batch != "":
		s.Event.ID = "sha256:item"
	default:
		s.Event.ID = "sha256:body"
	}
	if !s.sender.Verifier.NeedsKeys() {
		return s
	}
	private, public, err := s.sender.Verifier.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if s.Key = public; public == "" {
		other, _, err := s.sender.Verifier.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		s.Secrets = hookonce.StaticSecrets(other, private) // as during a rotation
	}
	if s.key, err = s.sender.Verifier.ParseKey(private); err != nil {
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

// deliver sends a request to the source.
func (s *catalogSource) deliver(in *hookonce.Engine, req *verify.Request) {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/"+s.Name, bytes.NewReader(req.Body))
	r.Header, r.URL.RawQuery = req.Header.Clone(), req.RawQuery
	in.ServeHTTP(httptest.NewRecorder(), r)
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
		c.Observer = &hookonce.Observer{Delivery: func(o hookonce.DeliveryObserved) {
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
			s.deliver(in, req)
			s.deliver(in, req)
			if s.sender.Verifier.NeedsKeys() {
				if err := s.sender.Corrupt(req, s.key); err != nil {
					t.Fatal(err)
				}
				s.deliver(in, req)
				want = append(want, observation{"refused", http.StatusUnauthorized, 0})
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s%s", diff, req.Body)
			}
		})
	}
}
