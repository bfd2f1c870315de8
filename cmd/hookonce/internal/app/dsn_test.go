package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestRawCharactersInAURL refuses URLs whose password ends early, without a word of them.
func TestRawCharactersInAURL(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		"u:12#hunter2@h/d": "raw '#'", "u:hunter2#@h/d": "raw '#'", "u:12/hunter2@h/d": "raw '/'", "us@er:hunter2/x@h/d": "raw '/'",
		"u:12?hunter2@h/d": "raw '?'", "u:12?hunter2@h/d?sslmode=disable": "raw '?'",
		"u:hunter2%@h/d": "raw '%'", "u:hunter2%zz@h/d": "raw '%'", "u:%1hunter2@h/d": "raw '%'", "h%4/d": "raw '%'",
	} {
		err := CheckPostgres("postgres://" + rest)
		wantHint(t, err, want, "write it as %")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %q", err)
		}
	}
	for _, good := range []string{"u:a%23b%2Fc%3Fd@h/d", "u:a@b@h/d", "h/d?user=a@b", "h/d?password=a/b@c", "/d?host=/run/postgresql", "h/d%40e", "u:a%25b%e4@h/d", "u:a@b%40@h/d?options=%2dc%20a.b%3D1"} {
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
		"application_name=a&application_name=a":                            {"application_name": "a"},
		"statement_timeout=5s&search_path=a&my.own=1&options=-c%20x.y%3D1": {"statement_timeout": "5s", "search_path": "a", "my.own": "1", "options": "-c x.y=1"},
		"sslmode=require&ssl_min_protocol_version=TLSv1.3":                 {},
		"DATESTYLE=iso&datestyle=iso":                                      {"DATESTYLE": "iso", "datestyle": "iso"},
		"role=a&transaction_timeout=1s&default_transaction_read_only=off": {
			"role": "a", "transaction_timeout": "1s", "default_transaction_read_only": "off",
		},
		"vacuum_cleanup_index_scale_factor=1&neon.x=1&options=-cnew%3D1": {"vacuum_cleanup_index_scale_factor": "1", "neon.x": "1", "options": "-cnew=1"},
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
		"schema=public&connection_limit=5&pool_size=5&nope=1": {
			"connection_limit belongs to another client, its parameter nope is no setting that a client of PostgreSQL 13 to 18 may make, its parameter pool_size belongs",
			"use the setting schema",
		},
		"sslmode=disable&sslmode=require":              {"sslmode has two values", "the one that is meant"},
		"application_name=a&user=b&user=c":             {"user has two values", "the one that is meant"},
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
		"connect-timeout=5":                            {"connect-timeout belongs", "use connect_timeout"},
		"my-own=5":                                     {"no setting of PostgreSQL", "leave it out"},
		"sslmode=no-verify&keepalives_idle=":           {"sslmode has a value that cannot be used", "verify-full"},
		"sslmode=disable&target_session_attrs=standby": {"target_session_attrs asks", "read-write"},
		"sslmode=VERIFY-FULL":                          {"sslmode has a value", "verify-full"},
		"target_session_attrs=master":                  {"target_session_attrs has a value", "primary"},
		"connect_timeout=5s":                           {"connect_timeout has a value", "seconds"},
		"application_name=a&service=none":              {"service has a value", "servicefile"},
		"sslrootcert=/none.pem&sslmode=allow":          {"sslrootcert has a value", "system"},
		"options=-cgeqo=off":                           {"options has a value", "%20"},
		"no_such_parameter=1":                          {"no_such_parameter is no setting", "options=-c%20no_such_parameter%3DVALUE"},
		"shared_buffers=1GB":                           {"shared_buffers is no setting that a client", "options"},
		"statement_timeou=5s":                          {"statement_timeou is no setting", "did you mean statement_timeout?"},
		"sslrootcrt=/a":                                {"sslrootcrt is no setting", "did you mean sslrootcert?"},
		"SSLMODE=require":                              {"SSLMODE is no setting", "did you mean sslmode?"},
		"default_transaction_read_only=on":             {"cannot write", "leave it out"},
		"transaction_read_only=true":                   {"cannot write", "leave it out"},
		"ssl=no-verify":                                {"ssl belongs to another client", "use sslmode"},
		"targetServerType=primary":                     {"targetServerType belongs", "target_session_attrs"},
		"prepareThreshold=0":                           {"prepareThreshold belongs", "PgBouncer"},
		"sslaccept=strict":                             {"sslaccept belongs", "sslmode"},
		"prepared_statement_cache_size=0":              {"prepared_statement_cache_size belongs", "PgBouncer"},
		"pool=5":                                       {"pool belongs", "pool_max_conns"},
		"schema_search_path=a":                         {"schema_search_path belongs", "setting schema"},
		"max=10":                                       {"max belongs", "pool_max_conns"},
		"idleTimeoutMillis=10":                         {"idleTimeoutMillis belongs", "pool_max_conn_idle_time"},
		"stringtype=unspecified":                       {"stringtype belongs", "leave it out"},
	} {
		t.Run(parameter, func(t *testing.T) {
			t.Parallel()
			wantHint(t, CheckPostgres("postgres://h/d?"+parameter), want[0], want[1])
		})
	}
}

// TestUnknownParameter checks that the server's refusal of a parameter, and what else stays, is not waited for.
func TestUnknownParameter(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	if err := error(&tls.CertificateVerificationError{Err: errors.New("expired")}); lastingRemedy(fmt.Errorf("connecting: %w", err)) == "" {
		t.Error("serve waits for another certificate")
	}
	plain := dbtest.StartServer(t, &dbtest.Options{Config: []string{"fsync=off"}}).DSN()
	folder := dbtest.Folder(t, "hookonce-tls-")
	encrypted := dbtest.StartServer(t, &dbtest.Options{Config: append(encrypted(t, folder), "ssl_min_protocol_version=TLSv1.3")}).DSN()
	encrypted = strings.ReplaceAll(encrypted, "sslmode=disable", "sslmode=require")
	for parameter, want := range map[string][2]string{
		"options=-cno_such_parameter%3D1":                  {"no_such_parameter", "correct that parameter in the setting database"},
		"options=endpoint%3Dep-cool-1":                     {"endpoint=ep-cool-1", "correct that parameter"},
		"options=-cgeqo":                                   {"geqo requires a value", "correct that parameter"},
		"options=-c%20default_transaction_read_only%3Don":  {"the role is read-only", "RESET default_transaction_read_only"},
		"DateStyle=soon":                                   {"DateStyle", "correct that parameter"},
		"local_preload_libraries=none":                     {"none", "correct that parameter"},
		"options=-ctransaction_isolation%3Dserializable":   {"ISOLATION", "correct that parameter"},
		"sslcertmode=require":                              {"sslcertmode", "correct sslcertmode"},
		"min_protocol_version=3.2":                         {"protocol version", "leave min_protocol_version"},
		"sslmode=require&ssl_max_protocol_version=TLSv1.2": {"protocol version", "correct the parameters"},
	} {
		t.Run(parameter, func(t *testing.T) {
			t.Parallel()
			dsn := plain
			if strings.Contains(parameter, "ssl_max") {
				dsn = encrypted
			}
			_, err := OpenStore(t.Context(), settings(t, "database: "+dsn+"&"+parameter))
			wantHint(t, err, want[0], want[1])
			if mayHeal(err) {
				t.Errorf("serve waits for %v", err)
			}
		})
	}
	for name, dsn := range map[string]string{
		"another port": strings.Replace(plain, "postgres?", "postgres?port=1&", 1), "no such host": "postgres://u@none.invalid/d", "no socket": "postgres:///d?user=u&host=/none",
	} {
		if _, err := OpenStore(t.Context(), settings(t, "database: "+dsn)); !mayHeal(err) {
			t.Errorf("serve does not wait for %s: %v", name, err)
		}
	}
}

// TestPoolerRefuses checks that serve does not wait for a PgBouncer that refuses for good.
func TestPoolerRefuses(t *testing.T) {
	t.Parallel()
	server, _ := dbtest.Postgres(t)
	bouncer := dbtest.StartBouncer(t, server, dbtest.BouncerOptions{Mode: "session"})
	for parameter, want := range map[string][2]string{
		"dbname=none":        {"no such database", "name a database"},
		"user=none":          {"none", "user"},
		"password=none":      {"authentication failed", "check user and password"},
		"options=-cgeqo%3D1": {"options", "correct that parameter"},
	} {
		t.Run(parameter, func(t *testing.T) {
			t.Parallel()
			_, err := OpenStore(t.Context(), settings(t, "database: "+bouncer.DSN()+"&"+parameter))
			wantHint(t, err, want[0], want[1])
			if mayHeal(err) {
				t.Errorf("serve waits for %v", err)
			}
		})
	}
}
