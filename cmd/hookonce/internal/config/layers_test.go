package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
)

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	tests := []struct {
		key, inFile, variable string
		flag                  func(*Flags)
		get                   func(*Settings) any
		byDefault             any
		byFile, byVariable    any
		byFlag                any
	}{
		{
			"database", "database: sqlite:file.db", "HOOKONCE_DATABASE=sqlite:variable.db", func(f *Flags) { f.Database = "sqlite:flag.db" },
			func(s *Settings) any { return s.Database }, "sqlite:hookonce.db", "sqlite:file.db", "sqlite:variable.db", "sqlite:flag.db",
		},
		{
			"listen", "listen: :1", "HOOKONCE_LISTEN=:2", func(f *Flags) { f.Listen = ":3" },
			func(s *Settings) any { return s.Listen }, ":8080", ":1", ":2", ":3",
		},
		{
			"admin.listen", "admin: {listen: 'localhost:1'}", "HOOKONCE_ADMIN_LISTEN=[::1]:2", func(f *Flags) { f.AdminListen = "127.1.2.3:3" },
			func(s *Settings) any { return s.Admin.Listen }, "127.0.0.1:8081", "localhost:1", "[::1]:2", "127.1.2.3:3",
		},
		{
			"admin.token", "admin: {token: file-" + token + "}", "HOOKONCE_ADMIN_TOKEN=file:secret", nil,
			func(s *Settings) any { return string(s.Admin.Token) }, "", "file-" + token, "a-secret-out-of-a-file", nil,
		},
		{
			"migrate", "migrate: manual", "HOOKONCE_MIGRATE=auto", nil,
			func(s *Settings) any { return s.Migrate }, "auto", "manual", "auto", nil,
		},
		{
			"dedupe_window", "dedupe_window: 10d", "HOOKONCE_DEDUPE_WINDOW=20d", nil,
			func(s *Settings) any { return s.Inbox.DedupeWindow }, 30 * day, 10 * day, 20 * day, nil,
		},
		{
			"retention", "retention: 10d", "HOOKONCE_RETENTION=20d", nil,
			func(s *Settings) any { return s.Inbox.Retention }, 30 * day, 10 * day, 20 * day, nil,
		},
		{
			"unverified_rate", "unverified_rate: 1/s", "HOOKONCE_UNVERIFIED_RATE=2/h", nil,
			func(s *Settings) any { return s.Inbox.UnverifiedRate },
			hookonce.DefaultUnverifiedRate,
			hookonce.Rate{Count: 1, Per: time.Second},
			hookonce.Rate{Count: 2, Per: time.Hour},
			nil,
		},
		{
			"shutdown_delay", "shutdown_delay: 1s", "HOOKONCE_SHUTDOWN_DELAY=2s", nil,
			func(s *Settings) any { return s.ShutdownDelay }, time.Duration(0), time.Second, 2 * time.Second, nil,
		},
	}
	covered := make(map[string]bool)
	for _, tt := range tests {
		covered[tt.key] = true
		t.Run(tt.key, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(tt.variable, "=")
			check := func(what string, want any, opts LoadOptions) {
				t.Helper()
				if diff := cmp.Diff(want, tt.get(mustLoad(t, opts))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			check("default", tt.byDefault, LoadOptions{Dir: dirWith(t, ""), Environ: environ()})
			check("file", tt.byFile, LoadOptions{Dir: dirWith(t, tt.inFile), Environ: environ(name + "=")})
			check("variable", tt.byVariable, LoadOptions{Dir: dirWith(t, tt.inFile), Environ: environ(tt.variable)})
			if tt.flag != nil {
				opts := LoadOptions{Dir: dirWith(t, tt.inFile), Environ: environ(tt.variable)}
				tt.flag(&opts.Flags)
				check("flag", tt.byFlag, opts)
			}
			// A wrong variable is a fault under its own name.
			if tt.key != "admin.token" {
				_, err := Load(LoadOptions{Dir: dirWith(t, tt.inFile), Environ: environ(name + "=!")})
				if err == nil || !strings.HasPrefix(err.Error(), name+": ") {
					t.Errorf("%s=!: got %v", name, err)
				}
			}
		})
	}
	for key := range variables {
		if !covered[key] {
			t.Errorf("the variable for %s is not tested", key)
		}
	}
}

func TestReplacedValueIsNotRead(t *testing.T) {
	t.Parallel()
	dir := dirWith(t, "database: ${NOT_SET}\nlisten: nonsense\n")
	s := mustLoad(t, LoadOptions{Dir: dir, Environ: environ("HOOKONCE_LISTEN=:9"), Flags: Flags{Database: "sqlite:x ${NOT_SET}.db"}})
	if s.Database != "sqlite:x ${NOT_SET}.db" || s.Listen != ":9" {
		t.Errorf("got %s and %s", s.Database, s.Listen)
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, LoadOptions{Dir: dirWith(t, "listen: ${HOOKONCE_MY_LISTEN}\nmigrate: ${HOOKONCE_MY_MIGRATE:-auto}\n"), Environ: environ(
		"HOOKONCE_MY_LISTEN=:1", "HOOKONCE_MY_MIGRATE=manual", "HOOKONCE_TEST_POSTGRES=x", "HOOKONCE_LISSTEN=:2", "HOOKONCE_ELSE=secret-value", "PATH=/bin",
	)})
	want := "HOOKONCE_ELSE: nothing reads this variable (known: HOOKONCE_ADMIN_LISTEN, HOOKONCE_ADMIN_TOKEN, HOOKONCE_CONFIG, HOOKONCE_DATABASE, " +
		"HOOKONCE_DEDUPE_WINDOW, HOOKONCE_LISTEN, HOOKONCE_MIGRATE, HOOKONCE_RETENTION, HOOKONCE_SHUTDOWN_DELAY, HOOKONCE_UNVERIFIED_RATE)\n" +
		"HOOKONCE_LISSTEN: nothing reads this variable (did you mean HOOKONCE_LISTEN?)"
	if diff := cmp.Diff(want, warnings(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, LoadOptions{
		Dir: dirWith(t, `
sources:
  old: {provider: github, secrets: ["${NOT_SET}"]}
  kept: {provider: github, secrets: ["0123456789abcdef"]}
destinations: {billing: {url: "http://billing/"}}
routes: [{to: billing}]
`), Environ: environ(),
		Flags: Flags{
			Sources:  []string{"gh=github:a:secret=with:signs==", "old=stripe:file:secret", "lab=none", "lab2=none:"},
			Forwards: []string{"app=http://127.0.0.1:3000/hooks?a=b", "gh=http://127.0.0.1:3001/"},
		},
	})
	wantSecrets := map[string][]string{"kept": {"0123456789abcdef"}, "gh": {"a:secret=with:signs=="}, "old": {"a-secret-out-of-a-file"}}
	if diff := cmp.Diff(wantSecrets, secretsOf(t, &s.Inbox)); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	byID := provider.EventRules{ID: "body:id"}
	want := hookonce.Config{
		Sources: []hookonce.Source{
			{Name: "kept", Provider: provider.GitHub},
			{Name: "gh", Provider: provider.GitHub},
			{Name: "old", Provider: provider.Stripe},
			{Name: "lab", Provider: provider.None, Event: byID},
			{Name: "lab2", Provider: provider.None, Event: byID},
		},
		Destinations: []hookonce.Destination{
			{Name: "billing", URL: "http://billing/"},
			{Name: "app", URL: "http://127.0.0.1:3000/hooks?a=b"},
			{Name: "route:gh", URL: "http://127.0.0.1:3001/"},
		},
		Routes: []hookonce.Route{
			{Name: "billing", To: "billing"},
			{Name: "app", To: "app"},
			{Name: "gh", Sources: []string{"gh"}, To: "route:gh"},
		},
	}
	ignore := cmp.Options{
		cmpopts.IgnoreFields(hookonce.Config{}, "DedupeWindow", "Retention", "UnverifiedRate"),
		cmpopts.IgnoreFields(hookonce.Source{}, "Secrets"),
		cmpopts.EquateComparable(hookonce.DeadLetterPolicy{}),
		cmpopts.IgnoreFields(hookonce.Destination{}, "Timeout", "Retry", "Concurrency", "AllowPrivate"),
	}
	if diff := cmp.Diff(want, s.Inbox, ignore); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantWarnings := "--source lab: unsigned: anyone can send to /webhooks/lab\n--source lab2: unsigned: anyone can send to /webhooks/lab2\n" +
		"hookonce.yaml:3:3: sources.old: a --source flag replaces this source, with its secrets"
	if got := warnings(s); got != wantWarnings {
		t.Errorf("warnings:\n%s", got)
	}
}

func TestFlagFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"source gh":                        "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source gh=":                       "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source Gh=github:x":               "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source github:sk_live_canary=":    "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source gh=sk_live_canary":         "--source gh: there is no secret; write it as NAME=PROVIDER:SECRET",
		"source gh=github":                 "--source gh: there is no secret; write it as NAME=PROVIDER:SECRET",
		"source gh=github:":                "--source gh: it is empty",
		"source gh=sk_live_canary:x":       "--source gh: unknown provider (hookonce providers lists those that are known)",
		"source gh=discord":                "--source gh: there is no secret; write it as NAME=PROVIDER:SECRET",
		"source gh=docker-hub:x":           "--source gh: provider docker-hub signs nothing, so anyone could send: where that is acceptable, say so with scheme unsigned (a flag cannot: write the source into a settings file, with scheme: unsigned)",
		"source st=strava":                 "--source st: provider strava signs nothing, so anyone could send: where that is acceptable, say so with scheme unsigned (a flag cannot: write the source into a settings file, with scheme: unsigned)",
		"source gh=hmac:0123456789abcdef":  "--source gh: a source of provider hmac must say how it signs, which a flag cannot (write it into a settings file)",
		"source gh=none:sk_live_canary":    "--source gh: provider none takes no secret",
		"source old=github:sk_live_canary": "--source old: the source is given twice",
		"forward app":                      "--forward: this is not NAME=URL; a name has a-z 0-9 _ -",
		"forward app=":                     "--forward: this is not NAME=URL; a name has a-z 0-9 _ -",
		"forward http://x/?a=b":            "--forward: this is not NAME=URL; a name has a-z 0-9 _ -",
		"forward billing=http://x/":        "--forward billing: there is a destination or route of that name already",
		"forward paid=http://x/":           "--forward paid: there is a destination or route of that name already",
		"forward app=127.0.0.1:80":         "--forward app: this is no URL; write it as https://host/path",
	} {
		flags := Flags{Sources: []string{"old=github:0123456789abcdef"}}
		if source, ok := strings.CutPrefix(text, "source "); ok {
			flags.Sources = append(flags.Sources, source)
		} else {
			flags.Forwards = []string{strings.TrimPrefix(text, "forward ")}
		}
		dir := dirWith(t, "destinations: {billing: {url: 'http://billing/'}}\nroutes: [{name: paid, to: billing}]\n")
		_, err := Load(LoadOptions{Dir: dir, Environ: environ(), Flags: flags})
		var faults *Faults
		if !errors.As(err, &faults) || err.Error() != want {
			t.Errorf("--%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestWorldReadableSecret(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no permissions for others on Windows")
	}
	dir := dirWith(t, "admin: {token: 'file:secret'}\n")
	if err := os.Chmod(filepath.Join(dir, "secret"), 0o604); err != nil {
		t.Fatal(err)
	}
	text, ok := Check(LoadOptions{Dir: dir, Environ: environ()})
	want := "hookonce.yaml:1:16: warning: admin.token: every user of this machine can read the file that file: names; take that away with chmod o-r\n"
	if !ok || text != want {
		t.Errorf("got %v, %s", ok, text)
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

// A source whose keys are got from the provider, or whose secret is handed over, needs
// none.
func TestFlagSourceWithoutSecret(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, LoadOptions{Dir: t.TempDir(), Environ: environ(), Flags: Flags{Sources: []string{"a=fireblocks", "b=asana", "c=discord:" + strings.Repeat("ab", 32)}}})
	var got []string
	for _, src := range s.Inbox.Sources {
		got = append(got, fmt.Sprintf("%s %s %v", src.Name, src.Provider, src.Secrets != nil))
	}
	if diff := cmp.Diff([]string{"a fireblocks false", "b asana false", "c discord true"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
