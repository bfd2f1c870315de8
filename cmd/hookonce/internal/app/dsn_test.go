package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestRawCharactersInAURL refuses URLs whose password ends early, without a word of them.
func TestRawCharactersInAURL(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		"u:12#hunter2@h/d": "raw '#'", "u:hunter2#@h/d": "raw '#'", "u:12/hunter2@h/d": "raw '/'", "us@er:hunter2/x@h/d": "raw '/'",
		"u:12?hunter2@h/d": "raw '?'", "u:12?hunter2@h/d?sslmode=disable": "raw '?'",
	} {
		err := CheckPostgres("postgres://" + rest)
		wantHint(t, err, want, "write it as %")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %q", err)
		}
	}
	for _, good := range []string{"u:a%23b%2Fc%3Fd@h/d", "u:a@b@h/d", "h/d?user=a@b", "h/d?password=a/b@c", "/d?host=/run/postgresql", "h/d%40e"} {
		if err := CheckPostgres("postgres://" + good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// TestKeywordsOfLibpq checks which parameters of a URL reach the server, and which are refused.
func TestKeywordsOfLibpq(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]map[string]string{
		"keepalives=1&keepalives_idle=30&keepalives_interval=5&keepalives_count=3&tcp_user_timeout=1": {},
		"gssencmode=disable&gssdelegation=0&sslcompression=0&load_balance_hosts=random":               {},
		"fallback_application_name=a":                                      {"application_name": "a"},
		"fallback_application_name=a&application_name=b":                   {"application_name": "b"},
		"client_encoding=auto&requiressl=0":                                {},
		"statement_timeout=5s&search_path=a&my.own=1&options=-c%20x.y%3D1": {"statement_timeout": "5s", "search_path": "a", "my.own": "1", "options": "-c x.y=1"},
		"sslmode=require&ssl_min_protocol_version=TLSv1.3":                 {},
	} {
		cfg, err := parsePostgres("postgres://h/d?" + query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if diff := cmp.Diff(want, cfg.ConnConfig.RuntimeParams); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		if strings.Contains(query, "TLSv1.3") && cfg.ConnConfig.TLSConfig.MinVersion != tls.VersionTLS13 {
			t.Error("the version of TLS has no effect")
		}
	}
	for parameter, want := range map[string][2]string{
		"schema=public":                                {"schema belongs to another client", "use the setting schema"},
		"currentSchema=x":                              {"currentSchema belongs", "use the setting schema"},
		"pgbouncer=true":                               {"pgbouncer belongs", "PgBouncer needs no setting"},
		"connection_limit=5":                           {"connection_limit belongs", "pool_max_conns"},
		"ApplicationName=x":                            {"ApplicationName belongs", "application_name"},
		"gssencmode=require":                           {"gssencmode asks for GSSAPI", "sslmode"},
		"sslcrl=x":                                     {"sslcrl is not supported", "leave it out"},
		"requirepeer=postgres":                         {"requirepeer is not supported", "leave it out"},
		"hostaddr=10.0.0.1":                            {"hostaddr is not supported", "as the host"},
		"requiressl=1":                                 {"requiressl is not supported", "sslmode=require"},
		"ssl_min_protocol_version=SSLv3":               {"is not a version of TLS", "TLSv1.2"},
		"connect-timeout=5":                            {"no setting of PostgreSQL", "leave it out"},
		"sslmode=no-verify&keepalives_idle=":           {"sslmode has a value that cannot be used", "verify-full"},
		"sslmode=disable&target_session_attrs=standby": {"target_session_attrs asks", "read-write"},
		"sslmode=VERIFY-FULL":                          {"sslmode has a value", "verify-full"},
		"target_session_attrs=master":                  {"target_session_attrs has a value", "primary"},
		"connect_timeout=5s":                           {"connect_timeout has a value", "seconds"},
		"application_name=a&service=none":              {"service has a value", "servicefile"},
		"sslrootcert=/none.pem&sslmode=allow":          {"sslrootcert has a value", "system"},
		"options=-cgeqo=off":                           {"options has a value", "%20"},
	} {
		t.Run(parameter, func(t *testing.T) {
			t.Parallel()
			wantHint(t, CheckPostgres("postgres://h/d?"+parameter), want[0], want[1])
		})
	}
}

// TestUnknownParameter checks that the server's refusal of a parameter is not waited for.
func TestUnknownParameter(t *testing.T) {
	t.Parallel()
	if err := error(&tls.CertificateVerificationError{Err: errors.New("expired")}); lastingRemedy(fmt.Errorf("connecting: %w", err)) == "" {
		t.Error("serve waits for another certificate")
	}
	dsn := dbtest.StartServer(t, &dbtest.Options{Config: []string{"fsync=off"}}).DSN()
	if !strings.Contains(dsn, "?") {
		dsn += "?"
	}
	for _, parameter := range []string{"no_such_parameter=1", "shared_buffers=1GB", "DateStyle=soon"} {
		t.Run(parameter, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(parameter, "=")
			_, err := OpenStore(t.Context(), settings(t, "database: "+dsn+"&"+parameter))
			wantHint(t, err, name, "correct that parameter in the setting database")
			if mayHeal(err) {
				t.Errorf("serve waits for %v", err)
			}
		})
	}
}
