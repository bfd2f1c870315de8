package config

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/send"
)

// minToken is the least length of an admin token, in bytes. A shorter one is a warning on loopback
// and a fault elsewhere.
const minToken = 16

// maxShutdownDelay bounds shutdown_delay.
const maxShutdownDelay = 5 * time.Minute

var topKeys = []string{
	"env_file", "database", "database_password", "migrate", "schema", "listen", "public_url", "tls", "admin", "dedupe_window", "retention",
	"sources", "destinations", "routes", "unverified_rate", "trusted_proxies", "allow_unsafe", "shutdown_delay",
}

// maxTitle bounds admin.title, in bytes: it stands in the head of every page.
const maxTitle = 60

// variables are the HOOKONCE_* variables, by the key that they replace.
var variables = map[string]string{
	"database": "HOOKONCE_DATABASE", "database_password": "HOOKONCE_DATABASE_PASSWORD",
	"migrate": "HOOKONCE_MIGRATE", "schema": "HOOKONCE_SCHEMA", "listen": "HOOKONCE_LISTEN",
	"admin.listen": "HOOKONCE_ADMIN_LISTEN", "admin.token": "HOOKONCE_ADMIN_TOKEN", "admin.read_token": "HOOKONCE_READ_TOKEN",
	"dedupe_window": "HOOKONCE_DEDUPE_WINDOW", "retention": "HOOKONCE_RETENTION",
	"unverified_rate": "HOOKONCE_UNVERIFIED_RATE", "trusted_proxies": "HOOKONCE_TRUSTED_PROXIES", "shutdown_delay": "HOOKONCE_SHUTDOWN_DELAY",
}

// override returns the value of the flag if it is set, otherwise that of the variable if it is set,
// otherwise n.
func (l *loader) override(n *node, key, flagName, flag string) *node {
	if flag != "" {
		return &node{kind: kindText, path: flagName, raw: flag, literal: true}
	}
	if name := variables[key]; l.env[name] != "" {
		return &node{kind: kindText, path: name, raw: l.env[name], literal: true}
	}
	return n
}

// unknownVariables warns of HOOKONCE_* variables that neither this program nor the file reads: they
// may be misspelled.
func (l *loader) unknownVariables() {
	const prefix = "HOOKONCE_"
	known, endings := []string{"HOOKONCE_CONFIG", "HOOKONCE_ADMIN_URL"}, []string{"CONFIG", "ADMIN_URL"}
	for _, name := range variables {
		known, endings = append(known, name), append(endings, strings.TrimPrefix(name, prefix))
	}
	slices.Sort(known)
	var names []string
	for name := range l.env {
		if strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "HOOKONCE_TEST") &&
			!l.used[name] && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		hint := "known: " + strings.Join(known, ", ")
		if near := say.Nearest(strings.TrimPrefix(name, prefix), endings); near != "" {
			hint = "did you mean " + prefix + near + "?"
		}
		l.warnings = append(l.warnings, Fault{Path: name, Message: "nothing reads this variable", Hint: hint})
	}
}

// unsafeSettings are the names for allow_unsafe: first those of PostgreSQL, then those of SQLite.
var unsafeSettings = []string{
	"fsync", "full_page_writes",
	"synchronous", "journal_mode", "sqlite_version", "shared_filesystem", "volatile_filesystem",
}

func (l *loader) settings(root *node, flags *Flags) *Settings {
	top := l.mapping(root, topKeys...)
	l.readEnvFile(top.get("env_file"))
	s := &Settings{
		Migrate:       cmp.Or(l.choice(l.override(top.get("migrate"), "migrate", "", ""), MigrateAuto, MigrateManual), MigrateAuto),
		ShutdownDelay: l.duration(l.override(top.get("shutdown_delay"), "shutdown_delay", "", ""), 0, maxShutdownDelay),
	}
	s.Database, s.DatabaseFile = l.database(l.override(top.get("database"), "database", "--database", flags.Database))
	s.DatabasePassword = l.password(l.override(top.get("database_password"), "database_password", "", ""), s)
	s.Schema = l.schema(l.override(top.get("schema"), "schema", "", ""), s)
	l.listeners(s, top, flags)
	for _, n := range l.list(top.get("allow_unsafe")) {
		if name := l.choice(n, unsafeSettings...); name != "" {
			s.AllowUnsafe = append(s.AllowUnsafe, name)
		}
	}

	l.places, l.broken = make(map[string]*node), make(map[string]bool)
	window := l.override(top.get("dedupe_window"), "dedupe_window", "", "")
	retention := l.override(top.get("retention"), "retention", "", "")
	l.places["dedupe_window"], l.places["retention"] = window, retention
	s.Engine = hookonce.Config{
		DedupeWindow:   l.duration(window, 1, maxAge),
		Retention:      l.duration(retention, 1, maxAge),
		UnverifiedRate: l.rate(l.override(top.get("unverified_rate"), "unverified_rate", "", "")),
		TrustedProxies: l.networks(l.override(top.get("trusted_proxies"), "trusted_proxies", "", "")),
	}
	flagSources := l.flagSources(flags.Sources)
	_, sqlite := s.SQLitePath()
	s.Engine.Sources = l.sources(&sourceReader{loader: l, sqlite: sqlite}, top.get("sources"), flagSources)
	s.Named = l.references
	r := &routeReader{loader: l, config: &s.Engine}
	r.read(top.get("destinations"), top.get("routes"))
	r.forwards(flags.Forwards)
	l.check(&s.Engine)
	l.checkRoutes(&s.Engine)
	return s
}

// schema reads the name of a PostgreSQL schema.
func (l *loader) schema(n *node, s *Settings) string {
	name, ok := l.text(n)
	if !ok {
		return DefaultSchema
	}
	if err := hookmigrate.CheckSchemaName(name); err != nil {
		l.fault(n, "%v", err)
		return DefaultSchema
	}
	if _, sqlite := s.SQLitePath(); sqlite && name != DefaultSchema {
		l.warn(n, "it has no effect: SQLite has no schemas; give each gateway its own file")
	}
	return name
}

func (l *loader) listeners(s *Settings, top mapping, flags *Flags) {
	listen := l.override(top.get("listen"), "listen", "--listen", flags.Listen)
	s.Listen = l.address(listen, DefaultListen)
	s.PublicURL = l.publicURL(top.get("public_url"))
	s.TLS = l.tls(top.get("tls"))
	admin := l.mapping(top.get("admin"), "listen", "token", "read_token", "title")
	if s.Admin.Title = l.word(admin.get("title")); len(s.Admin.Title) > maxTitle {
		l.fault(admin.get("title"), "it has more than %d bytes", maxTitle)
	}
	adminListen := l.override(admin.get("listen"), "admin.listen", "--admin-listen", flags.AdminListen)
	s.Admin.Listen = l.address(adminListen, DefaultAdminListen)
	token := l.override(admin.get("token"), "admin.token", "", "")
	s.Admin.Token = l.token(token, s.Admin.Listen)
	s.Admin.ReadToken = l.readToken(admin.get("read_token"), s)
	where := adminListen
	if where == nil {
		where = &node{path: "admin.listen"}
	}
	// A wrong token has its own fault.
	if token == nil && s.Admin.Listen != "" && !limit.Loopback(s.Admin.Listen) {
		l.faultHint(where, "set admin.token or HOOKONCE_ADMIN_TOKEN, or listen on "+DefaultAdminListen,
			"an address that others can reach needs a token")
	}
	if s.Listen != "" && s.Listen == s.Admin.Listen && !strings.HasSuffix(s.Listen, ":0") {
		l.fault(where, "the same address already serves /webhooks/")
	}
}

// publicURL reads the address of the gateway for senders.
func (l *loader) publicURL(n *node) string {
	text := strings.TrimRight(l.word(n), "/")
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		l.faultHint(n, "as https://hooks.example.com", "it is not a URL of a host that senders reach")
		return ""
	}
	return text
}

// token reads a token of the API. A short one is a warning on loopback and a fault elsewhere.
func (l *loader) token(n *node, listen string) Secret {
	token, ok := l.secret(n)
	if !ok {
		return ""
	}
	if len(token) < minToken {
		report := l.warn
		if listen != "" && !limit.Loopback(listen) {
			report = l.fault
		}
		report(n, "the token has less than %d bytes; make one with: openssl rand -hex 32", minToken)
	}
	if strings.ContainsFunc(string(token), func(r rune) bool { return r <= ' ' || r > '~' }) {
		l.fault(n, "a token is sent in a header: it may hold visible ASCII characters only")
	}
	return token
}

// readToken reads admin.read_token. An empty one means none, so that it may come from an optional
// variable.
func (l *loader) readToken(n *node, s *Settings) Secret {
	n = l.override(n, "admin.read_token", "", "")
	if text, ok := l.text(n); !ok || text == "" {
		return ""
	}
	token := l.token(n, s.Admin.Listen)
	switch {
	case token == "":
		return ""
	case s.Admin.Token == "":
		l.warn(n, "it has no effect without admin.token: every local caller may change everything")
		return ""
	case token == s.Admin.Token:
		l.faultHint(n, "make another one with: openssl rand -hex 32", "it is the same as admin.token, so it would allow changes")
	}
	return token
}

// address reads a listening address, host:port. Port 0 means any free port.
func (l *loader) address(n *node, fallback string) string {
	text, ok := l.text(n)
	if n == nil {
		return fallback
	}
	if !ok {
		return ""
	}
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host != "" && !send.ValidHost(host) {
		l.fault(n, "%s is not an address to listen on; write it as :8080, 127.0.0.1:8080 or [::1]:8080, with a port up to 65535", n.shown())
		return ""
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10))
}
