package config

import (
	"errors"
	"regexp"
	"strings"
)

const sqlitePrefix = "sqlite:"

// database reads the database. It is never quoted, because it may hold a
// password. What a PostgreSQL URL may hold is the driver's business.
func (l *loader) database(n *node) string {
	text, ok := l.text(n)
	if n == nil {
		return DefaultDatabase
	}
	if !ok {
		return ""
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		l.fault(n, "it holds a control character")
		return ""
	}
	if path, ok := strings.CutPrefix(text, sqlitePrefix); ok {
		switch {
		case strings.TrimSpace(path) == "":
			l.fault(n, "sqlite: wants the path of a file behind it, as %s", DefaultDatabase)
		case path == ":memory:" || strings.HasPrefix(path, "file:") || strings.ContainsAny(path, "?#"):
			l.fault(n, "sqlite: wants the plain path of a file, without options, because events must outlive the process")
		}
		return text
	}
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok := strings.CutPrefix(text, scheme); ok {
			if rest == "" {
				l.fault(n, "%s wants a host or a database behind it", scheme)
				return text
			}
			l.postgres(n, text)
			return text
		}
	}
	l.fault(n, "this is no database; write sqlite:PATH or postgres://USER@HOST/NAME")
	return ""
}

// postgres asks the driver about a URL.
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

// redactDSN takes the passwords out of a database URL. It does without
// url.Parse, which refuses lists of hosts, and takes away too much rather than
// too little where a password holds characters that should be escaped.
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
