package pgsession

import (
	"errors"
	"strings"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// notSentError is a failure before the statement: nothing of the statement reached the server.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// NotSent returns err with the mark that nothing of the statement reached the server.
func NotSent(err error) error { return notSentError{err} }

// Outcome implements pgstore.DB.
func (d *DB) Outcome(err error) pgstore.Outcome {
	var notSent notSentError
	switch {
	case errors.As(err, &notSent):
		return pgstore.NotSent
	case d.client.Refused(err):
		return pgstore.Refused
	}
	return pgstore.Unknown
}

// Classes of SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html) that a server
// may report after it has written a commit.
var (
	// Of connections, and of the server's own end.
	afterCommit = []string{"08", "57P0"}
	// Of resources, the system and bugs: the session may die of them, which only the severity tells.
	fatalClasses = []string{"53", "58", "XX"}
)

// Undone reports whether an error that the server sent means that it undid the statement. Errors of a
// severity other than ERROR may come after the commit. severity is empty if the client library does
// not tell it; state is empty if the error is not the server's.
func Undone(state, severity string) bool {
	switch {
	case state == "", severity != "" && severity != "ERROR", hasClass(state, afterCommit):
		return false
	}
	return severity != "" || !hasClass(state, fatalClasses)
}

// codeReadOnly is the SQLSTATE of a write on a server that an operator took out of service, or that
// has become a standby. Such a server keeps its connections.
const codeReadOnly = "25006"

// outOfService are classes of SQLSTATE that say that the server takes no writes or shuts down.
var outOfService = []string{codeReadOnly, "57P0"}

// spoil spoils a connection if err says that its server is out of service. err may be nil.
func spoil(conn Spoiler, err error) {
	if err != nil && hasClass(pgstore.SQLState(err), outOfService) {
		conn.Spoil()
	}
}

func hasClass(state string, classes []string) bool {
	for _, class := range classes {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}
