package config

import (
	"slices"
	"strings"
	"time"
)

const (
	// defaultPasswordTimeout and longestPasswordTimeout bound the command of database_password.
	defaultPasswordTimeout = 10 * time.Second
	longestPasswordTimeout = time.Minute
)

// Password tells where the password of a PostgreSQL database comes from. At most one of its sources is set; the zero
// value means the URL.
type Password struct {
	Text    Secret
	File    string        // path of a file that holds it
	Command []string      // a program and its arguments; its output is the password
	Timeout time.Duration // of Command
}

// IsZero reports whether the password is that of the URL.
func (p *Password) IsZero() bool { return p.Text == "" && p.File == "" && len(p.Command) == 0 }

// Equal reports whether both come from the same source.
func (p *Password) Equal(other *Password) bool {
	return p.Text == other.Text && p.File == other.File && slices.Equal(p.Command, other.Command) && p.Timeout == other.Timeout
}

// password reads the key database_password. It reads a file only to check it, and runs no command.
func (l *loader) password(n *node, s *Settings) (p Password) {
	switch {
	case n == nil:
		return p
	case n.kind == kindMapping:
		m := l.mapping(n, "command", "timeout")
		for _, word := range l.list(m.get("command")) {
			text, _ := l.text(word)
			p.Command = append(p.Command, text)
		}
		if m.node != nil && (len(p.Command) == 0 || strings.TrimSpace(p.Command[0]) == "") {
			l.fault(n, "name the program and its arguments: {command: [vault-password, hooks], timeout: 10s}")
			return Password{}
		}
		p.Timeout = defaultPasswordTimeout
		if given := m.get("timeout"); given != nil {
			p.Timeout = l.duration(given, time.Millisecond, longestPasswordTimeout)
		}
	default:
		text, ok := l.secret(n)
		if !ok {
			return p
		}
		if p.File = l.fileOf(n); p.File == "" {
			p.Text = text
		}
	}
	if _, sqlite := s.SQLitePath(); sqlite {
		l.fault(n, "it is for PostgreSQL; a SQLite database has no password")
	} else if holdsPassword.MatchString(s.DatabaseDisplay()) {
		l.fault(n, "the setting database holds a password, too; leave one of the two out")
	}
	return p
}

// fileOf returns the path of the file that a value names by file:, and "" for every other value.
func (l *loader) fileOf(n *node) string {
	text, _ := l.text(n)
	path, isFile := strings.CutPrefix(text, "file:")
	if !isFile {
		return ""
	}
	return l.resolve(path)
}
