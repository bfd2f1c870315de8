package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

func mustLoad(t *testing.T, opts LoadOptions) *Settings {
	t.Helper()
	s, err := Load(opts)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return s
}

// secretsOf returns the secrets of each source.
func secretsOf(t *testing.T, cfg *hookonce.Config) map[string][]string {
	t.Helper()
	out := make(map[string][]string)
	for _, s := range cfg.Sources {
		if s.Secrets == nil {
			continue
		}
		secrets, err := s.Secrets.Secrets(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		out[s.Name] = secrets
	}
	return out
}

func warnings(s *Settings) string {
	var lines []string
	for _, w := range s.Warnings {
		lines = append(lines, w.Text(s.File))
	}
	return strings.Join(lines, "\n")
}

func TestLoadEverything(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := mustLoad(t, LoadOptions{Dir: dirWith(t, string(data)), Environ: environ(
		"DB_PASSWORD=pass:w@rd/", "HOOKONCE_ADMIN_TOKEN=0123456789abcdef", "PAY_SECRET=whsec_pay ${UNSET} # not a comment",
	)})

	where := s.Engine.Routes[0].Where
	if where == nil || s.Engine.Routes[1].Where != nil {
		t.Fatal("the condition belongs to the first route alone")
	}
	if yes, err := where(&hookonce.Event{Body: []byte(`{"livemode": true}`)}); !yes || err != nil {
		t.Errorf("where = %v, %v, want true", yes, err)
	}
	wantSecrets := map[string][]string{
		"pay":     {"whsec_pay ${UNSET} # not a comment", "a-secret-out-of-a-file"},
		"code":    {"a-default-of-enough-bytes"},
		"partner": {"MDEyMzQ1Njc4OWFiY2RlZg=="},
		"lists":   {"${not-a-variable}"},
		"forms":   {"0123456789abcdef"},
		"device":  {"a-secret-of-a-device"},
		"legacy":  {"an-old-token-0001", "a-new-token-0002"},
		"linked":  {"a-token-of-a-link"},
		"office":  {"office:a-password-000001"},
	}
	if diff := cmp.Diff(wantSecrets, secretsOf(t, &s.Engine)); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if got, want := warnings(s), "hookonce.yaml:11:12: retention: a retention of 90d is longer than the dedupe window of 45d: "+
		"bodies are removed with the identity, at the end of the window\n"+
		"hookonce.yaml:114:3: sources.lab: unsigned: anyone can send to /webhooks/lab"; got != want {
		t.Errorf("warnings:\n got %s\nwant %s", got, want)
	}
	if got, want := s.DatabaseDisplay(), "postgres://hooks:<secret>@db1.internal,db2.internal:5433/hooks?target_session_attrs=read-write"; got != want {
		t.Errorf("DatabaseDisplay = %s, want %s", got, want)
	}
	want := &Settings{
		File:            "hookonce.yaml",
		FromEnvironment: []string{"DB_PASSWORD", "PAY_SECRET"},
		Database:        "postgres://hooks:pass:w@rd/@db1.internal,db2.internal:5433/hooks?target_session_attrs=read-write",
		Migrate:         MigrateManual,
		Schema:          "webhooks",
		Listen:          "0.0.0.0:8080",
		Admin:           Admin{Listen: "10.0.0.5:8081", Token: "0123456789abcdef"},
		AllowUnsafe:     []string{"fsync"},
		ShutdownDelay:   5 * time.Second,
		Engine:          fullEngine(),
		Named: map[string]Named{
			"pay":  {Secret: "${PAY_SECRET}"},
			"bank": {Params: map[string]string{"secret": "file:secret"}},
		},
		TLS: TLS{
			Hosts: []string{"hooks.example.com", "api.example.com"}, Email: "ops@example.com",
			Directory: "https://ca.internal/acme/dir", Folder: "/var/lib/hooks/tls",
		},
	}
	ignored := cmpopts.IgnoreFields(Settings{}, "Warnings")
	opaque := cmp.Options{
		cmpopts.IgnoreFields(hookonce.Source{}, "Secrets"), cmpopts.IgnoreFields(hookonce.Route{}, "Where"),
		cmpopts.EquateComparable(hookonce.DeadLetterPolicy{}, netip.Prefix{}),
	}
	if diff := cmp.Diff(want, s, ignored, opaque, cmp.Comparer(func(a, b Secret) bool { return a == b })); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func fullEngine() hookonce.Config {
	return hookonce.Config{
		DedupeWindow:   45 * day,
		Retention:      90 * day,
		UnverifiedRate: hookonce.Rate{Count: 6000, Per: time.Minute},
		TrustedProxies: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32"),
		},
		Sources: []hookonce.Source{
			{
				Name: "pay", Provider: provider.Stripe, Tolerance: 10 * time.Minute,
				Redelivery: hookonce.RedeliveryAck, Rate: hookonce.Rate{Count: 100, Per: time.Second},
				Reconcile: &hookonce.Reconcile{Key: "a-secret-out-of-a-file", Delay: time.Hour, Every: 15 * time.Minute, Types: []string{"invoice.*"}, URL: "https://api.internal"},
				Stale: []hookonce.StaleRule{
					{Types: []string{"customer.subscription.updated", "invoice.*"}, Key: "body:data.object.id", Version: "body:created"},
					{Key: "body:data.object.type + body:data.object.id", Version: "header:X-Sequence | body:sequence"},
				},
			},
			{
				Name: "code", Provider: provider.GitHub, Scheme: "sha1", Malformed: hookonce.MalformedQuarantine, ReplayGuard: true,
				ContentEncodings: []string{"gzip"}, MaxBody: 2 << 20, AckTimeout: 2 * time.Second, DedupeWindow: 90 * day, Retention: 36 * time.Hour,
				Reconcile: &hookonce.Reconcile{Key: "a-key-of-the-api", Params: map[string]string{"owner": "o", "repo": "r", "hook": "7"}},
			},
			{
				Name: "partner", Provider: provider.HMAC, URL: "https://hooks.example.com/webhooks/partner",
				Signature: &verify.Scheme{
					Family: verify.FamilyHMAC, Header: "X-Partner-Signature", Algorithm: "sha512", Encoding: "base64", Prefix: "v1 ",
					Content: "{url}\n{timestamp}.{body}", SecretEncoding: "base64",
					Timestamp: &verify.Timestamp{At: "header:X-Partner-Time", Format: "unix_ms", Tolerance: 30 * time.Second},
				},
				Event: provider.EventRules{ID: "body:id + body:attempt_of | header:X-Partner-Id", Type: "body:kind", Time: "body:at"},
				Ack:   &hookonce.Ack{Status: 202, ContentType: "application/json", Body: `{"ok":true}`},
			},
			{
				Name: "lists", Provider: provider.HMAC, Consume: hookonce.ConsumeSQL, OnDead: "audit", Ack: &hookonce.Ack{Body: "[accepted]"},
				Signature: &verify.Scheme{
					Family: verify.FamilyHMAC, Header: "X-Lists", Format: "kv", SignatureKeys: []string{"s1", "s2"},
					Content: "{timestamp}.{body}", Timestamp: &verify.Timestamp{At: "header:X-Lists#t"},
				},
				Event: provider.EventRules{ID: "item:id", Batch: "body:items"},
			},
			{
				Name: "keyed", Provider: provider.StandardWebhooks, Scheme: "v1a",
				Key: "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
			},
			{Name: "topic", Provider: "aws-sns", Params: map[string]string{"topic_arn": "arn:aws:sns:eu-west-1:123456789012:orders"}},
			{
				Name: "bank", Provider: "plaid", Event: provider.EventRules{ID: "body:webhook_id"},
				Params: map[string]string{"client_id": "0123", "secret": "a-secret-out-of-a-file", "environment": "sandbox"},
			},
			{Name: "forms", Provider: "docusign", Event: provider.EventRules{ID: "item:id", Batch: "body:all", Document: "form:payload"}},
			{
				Name: "wallet", Provider: provider.Alipay, URL: "https://hooks.example.com/webhooks/wallet",
				Key: strings.TrimSpace(keyFiles()["public.pem"]), AckKey: strings.TrimSpace(keyFiles()["rsa.pem"]),
			},
			{
				Name: "device", Provider: provider.HMAC, Event: provider.EventRules{ID: "body:id"},
				Signature: &verify.Scheme{
					Family: verify.FamilyHMAC, At: "query:sig", Format: "list", Separator: ";", Prefix: "v1=", PrefixOptional: true,
				},
			},
			{
				Name: "agency", Provider: provider.HMAC, Event: provider.EventRules{ID: "body:id"}, Key: strings.TrimSpace(keyFiles()["public.pem"]),
				Signature: &verify.Scheme{
					Family: verify.FamilySignature, Header: "X-Agency", MoreHeaders: []string{"X-Agency-2"}, Algorithm: "rsa-sha256", Encoding: "base64",
				},
			},
			{
				Name: "legacy", Provider: provider.Token, Event: provider.EventRules{ID: "body:id"},
				Signature: &verify.Scheme{Family: verify.FamilyToken, Header: "X-Legacy-Token", Prefix: "Bearer "},
			},
			{
				Name: "linked", Provider: provider.Token, Event: provider.EventRules{ID: "header:X-Id"},
				Signature: &verify.Scheme{Family: verify.FamilyToken, At: "query:token"},
			},
			{Name: "office", Provider: provider.Basic, Event: provider.EventRules{ID: "body:id"}},
			{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}},
		},
		Destinations: []hookonce.Destination{
			{
				Name: "billing", URL: "http://billing:3000/hooks?from=pay", Secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", Timeout: 5 * time.Second,
				Retry:       hookonce.Retry{Attempts: 5, First: time.Second, Max: time.Hour},
				Concurrency: 4, Rate: hookonce.Rate{Count: 1, Per: time.Hour}, AllowPrivate: true, OnDead: "audit",
				FreshConnections: true,
			},
			{
				Name: "audit", URL: "https://audit.internal/",
				AllowPrivate: true,
			},
			{
				Name: "route:route-3", URL: "http://127.0.0.1:9000/", Timeout: 30 * time.Second,
				Retry:        hookonce.Retry{First: 13 * time.Hour},
				AllowPrivate: true,
			},
		},
		Routes: []hookonce.Route{
			{Name: "paid", Sources: []string{"pay"}, Types: []string{"invoice.*", "charge.refunded"}, To: "billing", Order: &hookonce.Order{Key: "body:data.object.id", Version: "body:created", OnDead: hookonce.DeadPass}},
			{Name: "audit", To: "audit"},
			{Name: "route-3", Sources: []string{"code", "lab"}, To: "route:route-3"},
		},
	}
}

func TestLoadNothing(t *testing.T) {
	t.Parallel()
	want := &Settings{
		Database: DefaultDatabase, Migrate: MigrateAuto, Schema: "hookonce", Listen: ":8080", Admin: Admin{Listen: "127.0.0.1:8081"},
	}
	got := mustLoad(t, LoadOptions{Dir: t.TempDir(), Environ: environ()})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without a file (-want +got):\n%s", diff)
	}
	want.File = DefaultFile
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "\ufeff", "sources:\ndestinations: {}\nroutes: []\nadmin:\r\n"} {
		got := mustLoad(t, LoadOptions{Dir: dirWith(t, text), Environ: environ()})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("file %q (-want +got):\n%s", text, diff)
		}
	}
}

func TestWhichFile(t *testing.T) {
	t.Parallel()
	dir := dirWith(t, "listen: :1\n")
	for name, text := range map[string]string{"a.yaml": "listen: :2\n", "b.yaml": "listen: :3\n", "big.yaml": "# " + strings.Repeat("x", maxFile)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, file, variable string
		want, fault          string
	}{
		{name: "the usual one", want: ":1"},
		{name: "by variable", variable: "a.yaml", want: ":2"},
		{name: "by flag", file: "b.yaml", variable: "a.yaml", want: ":3"},
		{name: "by absolute path", file: filepath.Join(dir, "b.yaml"), want: ":3"},
		{name: "named and not there", file: "c.yaml", fault: "c.yaml: the settings file cannot be read: no such file or directory"},
		{name: "named by variable and not there", variable: "c.yaml", fault: "c.yaml: the settings file cannot be read: no such file or directory"},
		{name: "a folder", file: ".", fault: ".: the settings file cannot be read: is a directory"},
		{name: "too big", file: "big.yaml", fault: "big.yaml: the settings file cannot be read: it has more than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := Load(LoadOptions{Dir: dir, File: tt.file, Environ: environ("HOOKONCE_CONFIG=" + tt.variable)})
			switch {
			case tt.fault != "" && (err == nil || err.Error() != tt.fault):
				t.Errorf("got %v, want %s", err, tt.fault)
			case tt.fault == "" && (err != nil || s.Listen != tt.want):
				t.Errorf("got %v, %v, want %s", s, err, tt.want)
			}
		})
	}
}

func TestConcurrentLoads(t *testing.T) {
	t.Parallel()
	dir := dirWith(t, "listen: ${LISTEN}\nsources: {a: {provider: stripe, secrets: ['${SECRET}'], timestamp: {tolerance: 1m}}}\n"+
		"routes: [{url: 'http://a/', where: 'body.a == 1'}]\n")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if _, err := Load(LoadOptions{Dir: dir, Environ: environ("LISTEN=:1", "SECRET=0123456789abcdef")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
