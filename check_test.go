package hookonce_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Check tells all faults at once, each at its setting, and none that only follows from another one.
func TestCheckTellsAllFaults(t *testing.T) {
	t.Parallel()
	sender, secrets := "http://crm.example.com/", hookonce.StaticSecrets("a-secret-of-enough-bytes")
	tests := []struct {
		name string
		cfg  *hookonce.Config
		want []string
	}{
		{"nothing", nil, nil},
		{"what failed is known to others", &hookonce.Config{
			Sources:      []hookonce.Source{{Name: "a", Provider: "?"}},
			Destinations: []hookonce.Destination{{Name: "b", OnDead: "c"}, {Name: "c", URL: "ftp://c/"}},
			Routes:       []hookonce.Route{{Name: "r", Sources: []string{"a"}, To: "b"}},
		}, []string{"sources.a.provider", "destinations.b.url", "destinations.c.url"}},
		{"a scheme beside a signature", &hookonce.Config{Sources: []hookonce.Source{{
			Name: "a", Provider: provider.HMAC, Scheme: "v1", Secrets: secrets, Event: provider.EventRules{ID: "body:id"},
			Signature: &verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Signature"},
		}}}, []string{"sources.a.scheme"}},
		{"many of one source", &hookonce.Config{Sources: []hookonce.Source{{
			Name: "a", Provider: provider.StandardWebhooks, Secrets: hookonce.StaticSecrets("whsec_!", "whsec_?"), URL: "ftp://a/",
			Event: provider.EventRules{ID: "nowhere:id"}, MaxBody: -1, Malformed: "drop", Redelivery: "again", AckKey: "key",
			ContentEncodings: []string{"gzip", "br"}, Ack: &hookonce.Ack{Status: 302}, OnDead: "b",
		}}}, []string{
			"sources.a.event.id", "sources.a.max_body", "sources.a.ack.status", "sources.a.malformed", "sources.a.redelivery",
			"sources.a.content_encoding[1]", "sources.a.secrets[0]", "sources.a.secrets[1]", "sources.a.url", "sources.a.ack_key", "sources.a.on_dead",
		}},
		{"many of the rest", &hookonce.Config{
			DedupeWindow: -1, OnDead: "b",
			Destinations: []hookonce.Destination{{Name: "a", URL: sender, Timeout: -1, Retry: hookonce.Retry{Attempts: -1, First: 2, Max: 1}, OnDead: "a"}},
			Routes:       []hookonce.Route{{Name: "R", To: "a"}, {Name: "r", To: "b"}, {Name: "r", To: "a", Sources: []string{"x"}}},
		}, []string{
			"dedupe_window", "destinations.a.timeout", "destinations.a.retry.attempts", "destinations.a.retry.max", "destinations.a.retry.on_dead",
			"on_dead", "routes[0].name", "routes[1].to", "routes[2].sources[0]", "routes[2].name",
		}},
		{"settings of handlers", &hookonce.Config{Sources: []hookonce.Source{
			{Name: "a", Provider: provider.GitHub, Secrets: secrets, Inline: true},
		}}, nil},
	}
	for _, tt := range tests {
		_, err := tt.cfg.Check()
		var got []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, fault := range joined.Unwrap() {
				var field *hookonce.FieldError
				if !errors.As(fault, &field) || field.Problem+field.Detail == "" {
					t.Fatalf("%s: %v is not a *FieldError with a text", tt.name, fault)
				}
				got = append(got, field.Path)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestCheckWarns(t *testing.T) {
	t.Parallel()
	warnings, err := (&hookonce.Config{
		DedupeWindow: time.Hour, Retention: 2 * time.Hour,
		Sources: []hookonce.Source{
			{Name: "a", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets("short"), DedupeWindow: time.Minute},
			{Name: "b", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}},
		},
		Destinations: []hookonce.Destination{{Name: "c", URL: "http://c.example.com/", Secret: "short"}},
	}).Check()
	got := make(map[string]bool)
	for _, w := range warnings {
		got[w.Path] = w.Logged
	}
	want := map[string]bool{
		"retention": false, "sources.a.secrets[0]": false, "sources.a.dedupe_window": true, "sources.a.timestamp.tolerance": true,
		"sources.b": false, "destinations.c.secret": false,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, warnings and whether they are logged (-want +got):\n%s", err, diff)
	}
}
