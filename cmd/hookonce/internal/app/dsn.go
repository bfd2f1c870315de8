package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// checkSpelling refuses a URL that means another server than its author thinks: a raw '#', '/' or '?'
// ends the user and password early. The error quotes nothing.
func checkSpelling(database string) error {
	server, query, _ := strings.Cut(database, "?")
	_, rest, _ := strings.Cut(server, "://")
	_, path, _ := strings.Cut(rest, "/")
	first, _, _ := strings.Cut(query, "=")
	for _, raw := range []struct {
		there bool
		char  string
		code  string
	}{
		{strings.Contains(database, "#"), "#", "%23"}, {strings.Contains(path, "@"), "/", "%2F"}, {strings.Contains(first, "@"), "?", "%3F"},
	} {
		if raw.there {
			return &Error{
				fmt.Errorf("a raw '%s' ends the server's address early, and the rest is not read as meant", raw.char),
				fmt.Sprintf("write it as %s in a user or a password", raw.code),
			}
		}
	}
	return nil
}

// parameterValues are remedies for parameters with a wrong value.
var parameterValues = map[string]string{
	"sslmode":              "use disable, allow, prefer, require, verify-ca or verify-full",
	"target_session_attrs": "use read-write, primary or any",
	"connect_timeout":      "use a number of seconds",
	"options":              "write -c%20name%3Dvalue",
	"sslrootcert":          "name a file of certificates in PEM that exists, or system",
	"service":              "name a service of the file that servicefile or PGSERVICEFILE names, or of ~/.pg_service.conf",
}

// wrongParameter returns the name of the one parameter that keeps the driver from taking the URL; "" if there is no
// such one.
func wrongParameter(database string) string {
	server, query, _ := strings.Cut(database, "?")
	parameters := strings.Split(query, "&")
	for i, text := range parameters {
		name, _, _ := strings.Cut(text, "=")
		others := slices.Delete(slices.Clone(parameters), i, i+1)
		if _, err := pgxpool.ParseConfig(server + "?" + strings.Join(others, "&")); err == nil && sessionSetting.MatchString(name) {
			return name
		}
	}
	return ""
}

// Parameters of libpq (https://www.postgresql.org/docs/current/libpq-connect.html, section 32.1.2) that the
// driver would send to the server, which refuses them.
var (
	// droppedKeywords tune things that the driver does in its own way.
	droppedKeywords = []string{
		"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "load_balance_hosts", "sslcompression",
		"gsslib", "gssdelegation", "sslkeylogfile", "authtype", "tty",
	}
	// missingKeywords ask for protection, or an address, that the driver cannot give.
	missingKeywords = map[string]string{
		"hostaddr": "write the address as the host", "requiressl": "use sslmode=require", "replication": "leave it out",
		"requirepeer": "leave it out", "sslcrl": "leave it out", "sslcrldir": "leave it out",
		"scram_client_key": "use a password", "scram_server_key": "use a password",
	}
	// foreignKeywords belong to other clients, in lower case.
	foreignKeywords = map[string]string{
		"schema": "use the setting schema", "currentschema": "use the setting schema",
		"pgbouncer": "leave it out: PgBouncer needs no setting here", "preparethreshold": "leave it out: PgBouncer needs no setting here",
		"prepared_statements": "leave it out: PgBouncer needs no setting here", "connection_limit": "use pool_max_conns",
		"max_connections": "use pool_max_conns", "pool_size": "use pool_max_conns", "pool_timeout": "leave it out",
		"usessl": "use sslmode", "sslaccept": "use sslmode", "sslidentity": "use sslcert and sslkey",
		"sslfactory": "use sslmode", "uselibpqcompat": "leave it out", "applicationname": "use application_name",
		"connecttimeout": "use connect_timeout", "logintimeout": "use connect_timeout", "sockettimeout": "leave it out",
		"socket_timeout": "leave it out", "targetservertype": "use target_session_attrs", "tcpkeepalive": "leave it out",
		"statement_cache_size": "use statement_cache_capacity", "charset": "leave it out", "encoding": "leave it out",
		"rewritebatchedinserts": "leave it out",
	}
	sessionSetting = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
)

// checkWritable refuses a URL that asks for a server that takes no claims.
func checkWritable(database string) error {
	_, query, _ := strings.Cut(database, "?")
	values, err := url.ParseQuery(query)
	if attrs := values.Get("target_session_attrs"); err == nil && slices.Contains([]string{"read-only", "standby", "prefer-standby"}, attrs) {
		return &Error{errors.New("its parameter target_session_attrs asks for a server that cannot be written to"), "use read-write or primary"}
	}
	return nil
}

// readKeywords applies the parameters that are libpq's alone, or drops them, and refuses those that the
// server cannot know. The server judges the others. The error quotes no value.
func readKeywords(cfg *pgxpool.Config) error {
	params := cfg.ConnConfig.RuntimeParams
	refuse := func(name, why, remedy string) error {
		return &Error{fmt.Errorf("its parameter %s %s", name, why), remedy}
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		value := params[name]
		remedy, foreign := foreignKeywords[strings.ToLower(name)]
		missing, isMissing := missingKeywords[name]
		switch {
		case slices.Contains(droppedKeywords, name), strings.HasPrefix(name, "oauth_"), name == "client_encoding" && value == "auto":
		case name == "fallback_application_name":
			if params["application_name"] == "" {
				params["application_name"] = value
			}
		case name == "gssencmode":
			if value == "require" {
				return refuse(name, "asks for GSSAPI encryption, which hookonce does not have", "use sslmode=verify-full")
			}
		case name == "ssl_min_protocol_version", name == "ssl_max_protocol_version":
			if err := setTLSVersion(cfg, name, value); err != nil {
				return refuse(name, err.Error(), "use TLSv1.2 or TLSv1.3")
			}
		case isMissing && value != "" && value != "0":
			return refuse(name, "is not supported", missing)
		case isMissing:
		case foreign:
			return refuse(name, "belongs to another client", remedy)
		case !sessionSetting.MatchString(name):
			return &Error{errors.New("one of its parameters has a name that no setting of PostgreSQL has"), "correct it, or leave it out"}
		default:
			continue
		}
		delete(params, name)
	}
	return nil
}

// setTLSVersion sets a limit for the server and all its fallbacks.
func setTLSVersion(cfg *pgxpool.Config, name, value string) error {
	version, known := map[string]uint16{"": 0, "TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}[value]
	if !known {
		return errors.New("is not a version of TLS")
	}
	configs := []*tls.Config{cfg.ConnConfig.TLSConfig}
	for _, fallback := range cfg.ConnConfig.Fallbacks {
		configs = append(configs, fallback.TLSConfig)
	}
	for _, c := range configs {
		switch {
		case c == nil:
		case name == "ssl_max_protocol_version":
			c.MaxVersion = version
		default:
			c.MinVersion = max(version, tls.VersionTLS12)
		}
	}
	return nil
}
