package app

import (
	"cmp"
	"errors"
	"strings"
)

// Error is a failure and its remedy.
type Error struct {
	Err    error
	Remedy string // one sentence, lower case, without a full stop
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure itself.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the remedy; the command line prints it after "Try:".
func (e *Error) Hint() string { return e.Remedy }

// Errors of PostgreSQL that only a person can resolve; see
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	classAuthorization = "28"    // wrong password, unknown role, or not admitted
	stateNoDatabase    = "3D000" // invalid_catalog_name
	stateNoPrivilege   = "42501" // insufficient_privilege: to connect, among others
)

// Primary result codes of SQLite that only a person can resolve; see
// https://www.sqlite.org/rescode.html.
const (
	sqlitePerm     = 3
	sqliteBusy     = 5
	sqliteReadOnly = 8
	sqliteIOErr    = 10
	sqliteCorrupt  = 11
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

// lastingRemedy returns the remedy for a database error that retrying cannot resolve, and "" for
// every other error.
func lastingRemedy(err error) string {
	if state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		switch code := state.SQLState(); {
		case strings.HasPrefix(code, classAuthorization):
			return "check user and password in the setting database, and that the server admits that user (pg_hba.conf)"
		case code == stateNoDatabase:
			return "create that database on the server, or correct its name in the setting database"
		case code == stateNoPrivilege:
			return "grant the privilege to the user, or name another user in the setting database"
		}
		return ""
	}
	if code, ok := sqliteCode(err); ok {
		switch code {
		case sqlitePerm, sqliteReadOnly, sqliteCantOpen:
			return "check the setting database; the file and its folder must be readable and writable for this user"
		case sqliteCorrupt, sqliteNotADB:
			return "check the setting database: that file is not a SQLite database, or it is damaged or encrypted"
		}
	}
	return ""
}

// diskRemedy returns the remedy for an error of the disk below a SQLite file, and "" for every other
// error. More room may come by itself, so the gateway retries.
func diskRemedy(err error) string {
	if code, ok := sqliteCode(err); ok && (code == sqliteFull || code == sqliteIOErr) {
		return "make room on the disk of the database, and look at the log of the machine for errors of that disk"
	}
	return ""
}

// lockRemedy returns the remedy for a SQLite file that another program keeps locked, and "" for every
// other error.
func lockRemedy(err error) string {
	if code, ok := sqliteCode(err); ok && code == sqliteBusy {
		return "end the program that keeps the file locked, or run the same command again when it has ended"
	}
	return ""
}

// sqliteCode returns the primary result code of SQLite, which is the lowest byte of an extended one.
func sqliteCode(err error) (code int, is bool) {
	coded, is := errors.AsType[interface {
		error
		Code() int
	}](err)
	if !is {
		return 0, false
	}
	return coded.Code() & 0xff, true
}

// Remedy returns the remedy for an error of a database, and "" for every other error.
func Remedy(err error) string {
	return cmp.Or(lastingRemedy(err), diskRemedy(err), lockRemedy(err))
}
