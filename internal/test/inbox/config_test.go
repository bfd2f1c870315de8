package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

func TestNewEngineRefusesFaults(t *testing.T) {
	t.Parallel()
	gh := func(change func(*hookonce.Source)) *hookonce.Config {
		s := hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)}
		change(&s)
		return &hookonce.Config{Sources: []hookonce.Source{s}}
	}
	with := func(name provider.Name, change func(*hookonce.Source)) *hookonce.Config {
		return gh(func(s *hookonce.Source) {
			s.Provider = name
			change(s)
		})
	}
	dest := hookonce.Destination{Name: "app", URL: "http://localhost/x", AllowPrivate: true}
	tests := []struct {
		name string
		cfg  *hookonce.Config
		want string // in the error
	}{
		{"a message leased for longer than any", &hookonce.Config{Destinations: []hookonce.Destination{
			{Name: "app", URL: "http://localhost/x", AllowPrivate: true, Timeout: 2 * time.Hour},
		}}, "destinations.app.timeout: it must not be longer than 1h"},
		{"source name", gh(func(s *hookonce.Source) { s.Name = "Git Hub" }), "name must begin"},
		{"unknown provider", gh(func(s *hookonce.Source) { s.Provider = "githib" }), "github"},
		{"unknown scheme", gh(func(s *hookonce.Source) { s.Scheme = "md5" }), "sha256"},
		{"missing secrets", gh(func(s *hookonce.Source) { s.Secrets = nil }), "secrets"},
		{"empty list", gh(func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets() }), "empty"},
		{"empty secret", gh(func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets(secret, "") }), "secrets[1]"},
		{"blank secret", gh(func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets("  ") }), "secrets[0]"},
		{"signature of a known provider", gh(func(s *hookonce.Source) { s.Signature = &verify.Scheme{} }), "signature"},
		{"hmac without a signature", gh(func(s *hookonce.Source) { s.Provider = provider.HMAC }), "signature"},
		{"token without a signature", gh(func(s *hookonce.Source) { s.Provider = provider.Token }), "signature"},
		{"token of another family", gh(func(s *hookonce.Source) {
			s.Provider, s.Signature = provider.Token, &verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Signature"}
		}), "provider token takes a token in a header or in the query"},
		{"token in the body", gh(func(s *hookonce.Source) {
			s.Provider, s.Signature = provider.Token, &verify.Scheme{Family: verify.FamilyToken, At: "body:token"}
		}), "provider token takes a token in a header or in the query"},
		{"no password", gh(func(s *hookonce.Source) { s.Provider, s.Event.ID = provider.Basic, "body:id" }), "user:password"},
		{"id in a credential", gh(func(s *hookonce.Source) {
			s.Provider, s.Signature = provider.Token, &verify.Scheme{Family: verify.FamilyToken, At: "query:token"}
			s.Event.ID = "query:token"
		}), `event.id: "query:token" carries a credential`},
		{"tolerance without timestamp", gh(func(s *hookonce.Source) { s.Tolerance = time.Minute }), "tolerance"},
		{"secrets of an unsigned source", gh(func(s *hookonce.Source) {
			s.Provider, s.Event.ID = provider.None, "body:id"
		}), "unsigned"},
		{"unsigned without an id", gh(func(s *hookonce.Source) { s.Provider, s.Secrets = provider.None, nil }), "event.id"},
		{"bad location", gh(func(s *hookonce.Source) { s.Event.ID = "nowhere:id" }), "event.id"},
		{"unknown encoding", gh(func(s *hookonce.Source) { s.ContentEncodings = []string{"br"} }), "gzip"},
		{"guard for a signed id", gh(func(s *hookonce.Source) { s.Event.ID, s.ReplayGuard = "body:id", true }), "guard"},
		{"negative window", gh(func(s *hookonce.Source) { s.DedupeWindow = -1 }), "negative"},
		{"public key for an HMAC", gh(func(s *hookonce.Source) { s.Key = "whpk_AAAA" }), "key"},
		{"unknown redelivery", gh(func(s *hookonce.Source) { s.Redelivery = "again" }), "redelivery"},
		{"unknown malformed", gh(func(s *hookonce.Source) { s.Malformed = "drop" }), "malformed"},
		{"unknown consume", gh(func(s *hookonce.Source) { s.Consume = "SQL" }), "consume"},
		{"rate without a period", gh(func(s *hookonce.Source) { s.Rate.Count = 1 }), "rate"},
		{"negative tolerance", gh(func(s *hookonce.Source) { s.Tolerance = -1 }), "tolerance"},
		{"body with a 204", gh(func(s *hookonce.Source) { s.Ack = &hookonce.Ack{Status: 204, Body: "x"} }), "no body"},
		{"negative destination rate", &hookonce.Config{Destinations: []hookonce.Destination{{
			Name: "x", URL: dest.URL, Rate: hookonce.Rate{Count: 1, Per: -1},
		}}}, "rate"},
		{"retry beyond a year", &hookonce.Config{Destinations: []hookonce.Destination{{
			Name: "x", URL: dest.URL, Retry: hookonce.Retry{Max: 1 << 62},
		}}}, "retry"},
		{"weak default scheme", with("travis-ci", func(s *hookonce.Source) { s.Secrets = nil }), "weak"},
		{"unsigned default scheme", with("docker-hub", func(s *hookonce.Source) { s.Secrets = nil }), "scheme unsigned"},
		{"secrets of an unsigned scheme", with("docker-hub", func(s *hookonce.Source) { s.Scheme = "unsigned" }), "unsigned source has none"},
		{"unknown parameter", gh(func(s *hookonce.Source) { s.Params = map[string]string{"region": "eu"} }), "params.region"},
		{"missing parameter of the signature", with("paypal", func(s *hookonce.Source) { s.Secrets = nil }), "params.webhook_id: it is missing: The ID of your webhook"},
		{"missing parameter of the provider", with("aws-sns", func(s *hookonce.Source) { s.Secrets = nil }), "params.topic_arn: it is missing: The ARN"},
		{"missing parameter of the key fetch", with("plaid", func(s *hookonce.Source) { s.Secrets = nil }), "params.client_id: missing"},
		{"empty parameter", with("paypal", func(s *hookonce.Source) { s.Params = map[string]string{"webhook_id": " "} }), "params.webhook_id: it is empty"},
		{"value that is not allowed", with("cloudinary", func(s *hookonce.Source) {
			s.Scheme, s.Params = "sha1", map[string]string{"algorithm": "canary"}
		}), "params.algorithm"},
		{"missing key", with("discord", func(s *hookonce.Source) { s.Secrets = nil }), "public key"},
		{"key of another kind", with("sendgrid", func(s *hookonce.Source) { s.Secrets, s.Key = nil, "canary" }), "ECDSA"},
		{"password without a user", with("chargebee", func(*hookonce.Source) {}), "user:password"},
		{"blank token", with("telegram", func(s *hookonce.Source) { s.Secrets = hookonce.StaticSecrets(" ") }), "secrets[0]"},
		{"missing token", with("telegram", func(s *hookonce.Source) { s.Secrets = nil }), "secrets"},
		{"missing URL", with("square", func(*hookonce.Source) {}), "url"},
		{"id that the provider only hints at", with("airtable", func(*hookonce.Source) {}), "event.id: it is not known"},
		{"ack status not 2xx", gh(func(s *hookonce.Source) { s.Ack = &hookonce.Ack{Status: 302} }), "2xx"},
		{"two sources of one name", &hookonce.Config{Sources: append(gh(func(*hookonce.Source) {}).Sources,
			gh(func(*hookonce.Source) {}).Sources...)}, "two of that name"},
		{"two destinations of one name", &hookonce.Config{Destinations: []hookonce.Destination{dest, dest}}, "two of that name"},
		{"destination URL not HTTP", &hookonce.Config{Destinations: []hookonce.Destination{{Name: "x", URL: "ftp://canary@h/"}}}, "http"},
		{"malformed destination secret", &hookonce.Config{Destinations: []hookonce.Destination{{
			Name: "x", URL: dest.URL, Secret: "whsec_canary!",
		}}}, "secret"},
		{"credentials in a URL", &hookonce.Config{Destinations: []hookonce.Destination{{
			Name: "x", URL: "http://user:canary@localhost/",
		}}}, "password"},
		{"port of a source's URL", gh(func(s *hookonce.Source) { s.URL = "https://hooks.example.com:99999/canary" }), "url: the port"},
		{"retry max below first", &hookonce.Config{Destinations: []hookonce.Destination{{
			Name: "x", URL: dest.URL, Retry: hookonce.Retry{First: time.Hour, Max: time.Minute},
		}}}, "max"},
		{"route to an unknown destination", &hookonce.Config{Routes: []hookonce.Route{{Name: "r", To: "app"}}}, `no destination "app"`},
		{"route from an unknown source", &hookonce.Config{
			Destinations: []hookonce.Destination{dest},
			Routes:       []hookonce.Route{{Name: "r", To: "app", Sources: []string{"x"}}},
		}, `no source "x"`},
	}
	store := rig.OpenSQLite(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := hookonce.NewEngine(store, tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that contains %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error quotes the canary, which could be a secret: %v", err)
			}
		})
	}
}

func TestNewEngineReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := hookonce.NewEngine(rig.OpenSQLite(t), &hookonce.Config{
		Sources:      []hookonce.Source{{Name: "a", Provider: "?"}, {Name: "b", Provider: provider.GitHub}},
		Destinations: []hookonce.Destination{{Name: "c"}},
		Routes:       []hookonce.Route{{Name: "d", To: "e"}},
	})
	for _, want := range []string{"sources.a.provider", "sources.b.secrets", "destinations.c.url", "routes[0].to"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}
