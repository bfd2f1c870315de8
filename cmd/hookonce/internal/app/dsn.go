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

	"github.com/hookonce/hookonce/internal/say"
)

// badEscape finds a '%' that escapes nothing.
var badEscape = regexp.MustCompile(`%([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)`)

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
		{strings.Contains(database, "#"), "#", "%23"},
		{strings.Contains(path, "@"), "/", "%2F"},
		{strings.Contains(first, "@"), "?", "%3F"},
		{badEscape.MatchString(server), "%", "%25"},
	} {
		if raw.there {
			return Errorf("a raw '%s' stands in the server's address, so the rest is not read as meant", raw.char).
				Try(fmt.Sprintf("write it as %s in a user or a password", raw.code))
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
	// foreignKeywords belong to other clients, in lower case. The key is a remedy.
	foreignKeywords = map[string]string{
		"use the setting schema": "schema currentschema schema_search_path",
		"leave it out: PgBouncer needs no setting here": "pgbouncer preparethreshold prepared_statements prepare statement_limit " +
			"prepared_statement_cache_size prepared_statement_name_func",
		"use pool_max_conns":           "connection_limit max_connections max pool pool_size max_overflow maximumpoolsize maxpoolsize",
		"use sslmode":                  "ssl usessl sslaccept sslfactory ssl_require ssl-mode tls",
		"use sslrootcert":              "sslca ssl-ca sslcacert",
		"use sslcert and sslkey":       "sslidentity",
		"use application_name":         "applicationname application",
		"use connect_timeout":          "connecttimeout connect-timeout connectiontimeoutmillis connection_timeout logintimeout timeout",
		"use statement_timeout":        "command_timeout query_timeout querytimeout",
		"use target_session_attrs":     "targetservertype",
		"use gssencmode":               "gssencodemode",
		"use channel_binding":          "channelbinding",
		"use options":                  "server_settings variables",
		"use pool_max_conn_lifetime":   "max_connection_lifetime max_lifetime pool_recycle",
		"use pool_max_conn_idle_time":  "max_idle_connection_lifetime idle_timeout idletimeoutmillis",
		"use statement_cache_capacity": "statement_cache_size statement-cache-capacity",
	}
	// uselessKeywords belong to other clients, too, and need no setting here.
	uselessKeywords = "adapter uselibpqcompat pool_timeout sockettimeout socket_timeout tcpkeepalive keepalive charset encoding " +
		"rewritebatchedinserts binarytransfer stringtype readonly loadbalancehosts hostrecheckseconds assumeminserverversion " +
		"conn_max_age advisory_locks pooling multiplexing single_use_connections fetch_types protocol driver"
	// libpqNames are near to misspelled names, beside the settings of the server.
	libpqNames = []string{
		"sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslnegotiation", "channel_binding", "connect_timeout", "dbname", "password",
		"target_session_attrs", "require_auth", "passfile", "servicefile", "pool_max_conns", "pool_max_conn_lifetime", "options",
	}
	sessionSetting = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
)

// checkWritable refuses a URL that asks for a server that takes no claims.
func checkWritable(database string) error {
	_, query, _ := strings.Cut(database, "?")
	values, err := url.ParseQuery(query)
	if attrs := values.Get("target_session_attrs"); err == nil && slices.Contains([]string{"read-only", "standby", "prefer-standby"}, attrs) {
		return Errorf("its parameter target_session_attrs asks for a server that cannot be written to").
			Try("use read-write or primary")
	}
	return nil
}

// checkRepeated refuses a parameter with several values: the driver takes the first, libpq the last.
func checkRepeated(database string) error {
	_, query, _ := strings.Cut(database, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil //nolint:nilerr // the driver refuses it
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if sessionSetting.MatchString(name) && len(slices.Compact(values[name])) > 1 {
			return Errorf("its parameter %s has two values", name).Try("leave the one that is meant")
		}
	}
	return nil
}

// readKeywords applies the parameters that are libpq's alone, or drops them, and refuses those that the
// server cannot know, all at once. The server judges the others. The error quotes no value.
func readKeywords(cfg *pgxpool.Config) error {
	params := cfg.ConnConfig.RuntimeParams
	var whys, remedies []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch keep, why, remedy := readKeyword(cfg, name, params[name]); {
		case why != "":
			whys, remedies = append(whys, why), append(remedies, remedy)
		case !keep:
			delete(params, name)
		}
	}
	if whys == nil {
		return nil
	}
	return &Error{errors.New("its parameter " + strings.Join(whys, ", its parameter ")), strings.Join(slices.Compact(remedies), "; ")}
}

// readKeyword tells whether the driver keeps a parameter for the server, or why it is refused.
func readKeyword(cfg *pgxpool.Config, name, value string) (keep bool, why, remedy string) {
	params := cfg.ConnConfig.RuntimeParams
	remedy, foreign := foreignRemedy(name)
	missing, isMissing := missingKeywords[name]
	refuse := func(why, remedy string) (bool, string, string) { return false, name + " " + why, remedy }
	switch {
	case slices.Contains(droppedKeywords, name), strings.HasPrefix(name, "oauth_"), name == "client_encoding" && value == "auto":
	case name == "fallback_application_name":
		if params["application_name"] == "" {
			params["application_name"] = value
		}
	case name == "gssencmode":
		if value == "require" {
			return refuse("asks for GSSAPI encryption, which hookonce does not have", "use sslmode=verify-full")
		}
	case name == "ssl_min_protocol_version", name == "ssl_max_protocol_version":
		if err := setTLSVersion(cfg, name, value); err != nil {
			return refuse(err.Error(), "use TLSv1.2 or TLSv1.3")
		}
	case isMissing && value != "" && value != "0":
		return refuse("is not supported", missing)
	case isMissing:
	case foreign:
		return refuse("belongs to another client", remedy)
	case !sessionSetting.MatchString(name): // it may be a part of a password
		return false, "has a name that no setting of PostgreSQL has", "correct it, or leave it out"
	case strings.HasSuffix(strings.ToLower(name), "transaction_read_only"):
		if !slices.Contains([]string{"off", "false", "no", "0"}, strings.ToLower(value)) {
			return refuse("asks for a session that cannot write", "leave it out")
		}
		return true, "", "" // a role may have it on
	case !isClientSetting(name):
		return refuse("is no setting that a client of PostgreSQL 13 to 18 may make", unknownRemedy(name))
	default:
		return true, "", ""
	}
	return false, "", ""
}

func foreignRemedy(name string) (remedy string, foreign bool) {
	for remedy, names := range foreignKeywords {
		if slices.Contains(strings.Fields(names), strings.ToLower(name)) {
			return remedy, true
		}
	}
	return "leave it out", slices.Contains(strings.Fields(uselessKeywords), strings.ToLower(name))
}

// isClientSetting compares names as PostgreSQL does.
func isClientSetting(name string) bool {
	return strings.Contains(name, ".") || slices.ContainsFunc(clientSettings, func(s string) bool { return strings.EqualFold(s, name) })
}

func unknownRemedy(name string) string {
	if near := say.Nearest(strings.ToLower(name), slices.Concat(clientSettings, libpqNames)); near != "" {
		return "did you mean " + near + "?"
	}
	return "leave it out, or write options=-c%20" + name + "%3DVALUE if your server has it"
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
