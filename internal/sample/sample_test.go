package sample_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

const publicURL = "https://hooks.example.com/webhooks/one"

// now is the time of all signatures.
var now = time.Unix(1_760_000_000, 0).UTC()

// params returns a value for each parameter of a scheme.
func params(scheme *verify.Scheme) map[string]string {
	values := make(map[string]string)
	for _, p := range scheme.Params {
		values[p.Name] = "value-1"
		for value := range p.Sets {
			values[p.Name] = value
		}
	}
	return values
}

// each runs test for every scheme of the catalog.
func each(t *testing.T, test func(t *testing.T, s *sample.Sender, key verify.Key)) {
	t.Parallel()
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range spec.Schemes {
			scheme := &spec.Schemes[i]
			t.Run(string(name)+"/"+scheme.ID, func(t *testing.T) {
				t.Parallel()
				s, key := sender(t, name, scheme.ID)
				test(t, s, key)
			})
		}
	}
}

// sender returns a sender of a scheme, "" for the default one, and a key to sign with.
func sender(t *testing.T, name provider.Name, id string) (*sample.Sender, verify.Key) {
	t.Helper()
	spec, err := provider.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := spec.ChooseScheme(id)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sample.New(sample.Setup{Provider: name, Scheme: scheme.ID, Params: params(&scheme)})
	if err != nil {
		t.Fatal(err)
	}
	s, _ = s.WithHints()
	if !s.Verifier.NeedsKeys() {
		return s, verify.Key{}
	}
	private, _, err := s.Verifier.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.Verifier.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

// signed returns a signed request of s.
func signed(t *testing.T, s *sample.Sender, key verify.Key, ev sample.Event) *verify.Request {
	t.Helper()
	req, err := s.Request(sample.Draft{Event: ev, URL: publicURL, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verifier.Sign(req, key); err != nil {
		t.Fatalf("%v\n%s", err, req.Body)
	}
	return req
}

func events(t *testing.T, s *sample.Sender, req *verify.Request) ([]provider.Event, []provider.Malformed) {
	t.Helper()
	x, err := provider.CompileRules(s.Rules)
	if err != nil {
		t.Fatal(err)
	}
	return x.Extract(&locate.Input{Header: req.Header, Body: req.Body, RawQuery: req.RawQuery})
}

// TestEveryProvider checks that a request made for a provider verifies for that provider, contains
// one event with the requested type and time, and has a new id each time.
func TestEveryProvider(t *testing.T) {
	each(t, func(t *testing.T, s *sample.Sender, key verify.Key) {
		ev := sample.Event{Type: "made.up", Time: now}
		var ids []string
		for range 2 {
			req := signed(t, s, key, ev)
			if err := s.Verifier.Verify(req, []verify.Key{key}); err != nil {
				t.Fatalf("%v\n%s", err, req.Body)
			}
			if s.Rules.ID == "" || otherBodies[string(s.Spec.Name)+"/"+s.Scheme.ID] {
				return // the place of the id is unknown
			}
			got, bad := events(t, s, req)
			if len(got) != 1 || len(bad) != 0 {
				t.Fatalf("%d events and the malformed ones %v in\n%v\n%s", len(got), bad, req.Header, req.Body)
			}
			ids = append(ids, got[0].ID)
			if diff := cmp.Diff(wantedType(t, s, ev.Type), got[0].Type); diff != "" {
				t.Errorf("type (-want +got):\n%s%s", diff, req.Body)
			}
			if at := got[0].Time; s.Rules.Time != "" && !at.IsZero() && !at.Equal(now) {
				t.Errorf("time %s, want %s", at, now)
			}
		}
		if ids[0] == ids[1] {
			t.Errorf("two events have the id %q", ids[0])
		}
	})
}

// TestSignOwn checks that SignOwn changes only the signature and the signed time in a body of the
// caller's own.
func TestSignOwn(t *testing.T) {
	each(t, func(t *testing.T, s *sample.Sender, key verify.Key) {
		if !s.Verifier.NeedsKeys() {
			return
		}
		req, err := s.Request(sample.Draft{Event: sample.Event{ID: "evt_1", Type: "a", Time: now}, URL: publicURL, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		before := string(req.Body)
		if err := s.SignOwn(req, key); err != nil {
			t.Fatal(err)
		}
		if err := s.Verifier.Verify(req, []verify.Key{key}); err != nil {
			t.Errorf("%v\n%s", err, req.Body)
		}
		set := sample.InBody(s.Scheme.At) || s.Scheme.Timestamp != nil && sample.InBody(s.Scheme.Timestamp.At) || s.Rules.Document == "jwt"
		if !set && before != string(req.Body) {
			t.Errorf("the body changed from\n%s\nto\n%s", before, req.Body)
		}
	})
}

// TestSignOwnKeepsWhatIsRequired checks that SignOwn does not add the scheme's required values to a
// body of the caller's own.
func TestSignOwnKeepsWhatIsRequired(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`[ {"recipient_client_id":"other"} ]`, `{}`, `no JSON`} {
		s, err := sample.New(sample.Setup{Provider: "adobe-io-events", Params: map[string]string{"client_id": "mine"}})
		if err != nil {
			t.Fatal(err)
		}
		private, _, err := s.Verifier.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		key, err := s.Verifier.ParseKey(private)
		if err != nil {
			t.Fatal(err)
		}
		req, err := s.Request(sample.Draft{Body: []byte(body), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SignOwn(req, key); err != nil || string(req.Body) != body {
			t.Errorf("got the error %v and the body %s, want %s", err, req.Body, body)
		}
		if err := s.Verifier.Verify(req, []verify.Key{key}); err == nil {
			t.Errorf("the body %s verifies", body)
		}
	}
}

// otherBodies are schemes with requests in another form than the fields of the catalog: a source
// must say where its fields are.
var otherBodies = map[string]bool{"mailgun/form": true, "vonage/sms-sig-hmac": true}

// wantedType returns the type that a rule reads if every part of it is typ.
func wantedType(t *testing.T, s *sample.Sender, typ string) string {
	t.Helper()
	if s.Rules.Type == "" {
		return ""
	}
	e, err := locate.ParseType(s.Rules.Type)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for i, ref := range e.First() {
		if i > 0 {
			want += ":"
		}
		if ref.Kind == locate.Const {
			want += ref.Name
		} else {
			want += typ
		}
	}
	return want
}
