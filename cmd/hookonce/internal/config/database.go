package config

import (
	"errors"
	"regexp"
	"strings"
)

const sqlitePrefix = "sqlite:"

// database reads the setting database, and the file that holds it, if it names one.
func (l *loader) database(n *node) (database, file string) {
	text, ok := l.text(n)
	if n == nil {
		return DefaultDatabase, ""
	}
	if path, isFile := strings.CutPrefix(text, "file:"); isFile {
		file = l.resolve(path)
		text, ok = l.valueFile(n, path, true)
	}
	if !ok {
		return "", file
	}
	return l.databaseURL(n, text), file
}

// databaseURL checks the text of the setting database. It never quotes it, because it may hold a password. The
// driver checks PostgreSQL URLs.
func (l *loader) databaseURL(n *node, text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		l.fault(n, "it holds a control character")
		return ""
	}
	if path, ok := strings.CutPrefix(text, sqlitePrefix); ok {
		switch {
		case strings.TrimSpace(path) == "":
			l.fault(n, "sqlite: needs the path of a file, as %s", DefaultDatabase)
		case path == ":memory:" || strings.HasPrefix(path, "file:") || strings.ContainsAny(path, "?#"):
			l.fault(n, "sqlite: needs the plain path of a file, without options, because events must outlive the process")
		}
		return text
	}
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok := strings.CutPrefix(text, scheme); ok {
			if rest == "" {
				l.fault(n, "%s needs a host or a database after it", scheme)
				return text
			}
			l.postgres(n, text)
			return text
		}
	}
	l.fault(n, "this is not a database; write sqlite:PATH or postgres://USER@HOST/NAME")
	return ""
}

// postgres checks a URL with the driver.
func (l *loader) postgres(n *node, url string) {
	if l.checkPostgres == nil {
		return
	}
	err := l.checkPostgres(url)
	if err == nil {
		return
	}
	hint := ""
	var hinter interface{ Hint() string }
	if errors.As(err, &hinter) {
		hint = hinter.Hint()
	}
	l.faultHint(n, hint, "%s", err)
}

var passwordParam = regexp.MustCompile(`(?i)([?&](?:ssl)?password=)[^&]*`)

// holdsPassword finds the password of the user in a URL without secrets.
var holdsPassword = regexp.MustCompile(`(?i):` + redacted + `@|[?&]password=`)

// redactDSN removes the passwords from a database URL. It does not use url.Parse, which refuses
// lists of hosts. If a password holds unescaped characters, it removes too much rather than too
// little.
func redactDSN(dsn string) string {
	scheme, rest, ok := strings.Cut(dsn, "://")
	if !ok {
		return dsn
	}
	rest = passwordParam.ReplaceAllString(rest, "${1}"+redacted)
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if name, _, hasPassword := strings.Cut(rest[:at], ":"); hasPassword {
			rest = name + ":" + redacted + rest[at:]
		}
	}
	return scheme + "://" + rest
}
