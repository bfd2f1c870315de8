package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
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
			"admin.read_token", "admin: {token: full-" + token + ", read_token: file-" + token + "}", "HOOKONCE_READ_TOKEN=file:secret", nil,
			func(s *Settings) any {
				if s.Admin.Token == "" && s.Admin.ReadToken != "" {
					return "a read-only token without a full one"
				}
				return string(s.Admin.ReadToken)
			}, "", "file-" + token, "a-secret-out-of-a-file", nil,
		},
		{
			"migrate", "migrate: manual", "HOOKONCE_MIGRATE=auto", nil,
			func(s *Settings) any { return s.Migrate }, "auto", "manual", "auto", nil,
		},
		{
			"schema", "schema: billing", "HOOKONCE_SCHEMA=shop_2", nil,
			func(s *Settings) any { return s.Schema }, "hookonce", "billing", "shop_2", nil,
		},
		{
			"dedupe_window", "dedupe_window: 10d", "HOOKONCE_DEDUPE_WINDOW=20d", nil,
			func(s *Settings) any { return s.Engine.DedupeWindow }, time.Duration(0), 10 * day, 20 * day, nil,
		},
		{
			"database_password", "database: postgres://u@h/d\ndatabase_password: one", "HOOKONCE_DATABASE_PASSWORD=two", nil,
			func(s *Settings) any { return s.DatabasePassword.Text }, Secret(""), Secret("one"), Secret("two"), nil,
		},
		{
			"retention", "retention: 10d", "HOOKONCE_RETENTION=20d", nil,
			func(s *Settings) any { return s.Engine.Retention }, time.Duration(0), 10 * day, 20 * day, nil,
		},
		{
			"unverified_rate", "unverified_rate: 1/s", "HOOKONCE_UNVERIFIED_RATE=2/h", nil,
			func(s *Settings) any { return s.Engine.UnverifiedRate },
			hookonce.Rate{},
			hookonce.Rate{Count: 1, Per: time.Second},
			hookonce.Rate{Count: 2, Per: time.Hour},
			nil,
		},
		{
			"trusted_proxies", "trusted_proxies: [10.0.0.0/8]", "HOOKONCE_TRUSTED_PROXIES=192.0.2.1, 2001:db8::/32", nil,
			func(s *Settings) any { return fmt.Sprint(s.Engine.TrustedProxies) }, "[]", "[10.0.0.0/8]", "[192.0.2.1/32 2001:db8::/32]", nil,
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
			// A wrong variable is a fault with the variable's name.
			if !strings.HasSuffix(tt.key, "token") && !strings.HasSuffix(tt.key, "password") {
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

// The read-only token may come from an optional variable, and means nothing without a full one.
func TestReadTokenOfNone(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	for text, warns := range map[string]bool{
		"admin: {token: full-" + token + ", read_token: '${NOT_SET:-}'}": false,
		"admin: {read_token: '${NOT_SET:-}'}":                            false,
		"admin: {read_token: 'reader-" + token + "'}":                    true,
	} {
		s := mustLoad(t, LoadOptions{Dir: dirWith(t, text), Environ: environ()})
		if s.Admin.ReadToken != "" || (len(s.Warnings) > 0) != warns {
			t.Errorf("%s: token of %d bytes, warnings %v", text, len(s.Admin.ReadToken), s.Warnings)
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
	want := "HOOKONCE_ELSE: nothing reads this variable (known: HOOKONCE_ADMIN_LISTEN, HOOKONCE_ADMIN_TOKEN, HOOKONCE_ADMIN_URL, HOOKONCE_CONFIG, HOOKONCE_DATABASE, HOOKONCE_DATABASE_PASSWORD, " +
		"HOOKONCE_DEDUPE_WINDOW, HOOKONCE_LISTEN, HOOKONCE_MIGRATE, HOOKONCE_READ_TOKEN, HOOKONCE_RETENTION, HOOKONCE_SCHEMA, HOOKONCE_SHUTDOWN_DELAY, HOOKONCE_TRUSTED_PROXIES, HOOKONCE_UNVERIFIED_RATE)\n" +
		"HOOKONCE_LISSTEN: nothing reads this variable (did you mean HOOKONCE_LISTEN?)"
	if diff := cmp.Diff(want, warnings(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
