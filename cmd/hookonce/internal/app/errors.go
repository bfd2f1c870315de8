package app

import (
	"errors"
	"strings"
)

// Error is a failure with what to do about it.
type Error struct {
	Err    error
	Remedy string // one sentence, lower case, without a full stop
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure itself.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do; the command line prints it behind "Try:".
func (e *Error) Hint() string { return e.Remedy }

// The conditions of PostgreSQL that only a person ends; see
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	classAuthorization = "28"    // wrong password, no such role, not let in
	stateNoDatabase    = "3D000" // invalid_catalog_name
	stateNoPrivilege   = "42501" // insufficient_privilege: to connect, among others
)

// The primary result codes of SQLite that only a person ends; see
// https://www.sqlite.org/rescode.html.
const (
	sqlitePerm     = 3
	sqliteReadOnly = 8
	sqliteCorrupt  = 11
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

// lastingRemedy returns what to do about an error of the database that trying
// again cannot heal, and "" for every other error.
func lastingRemedy(err error) string {
	if state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		switch code := state.SQLState(); {
		case strings.HasPrefix(code, classAuthorization):
			return "check user and password in the setting database, and that the server lets that user in (pg_hba.conf)"
		case code == stateNoDatabase:
			return "create that database on the server, or correct its name in the setting database"
		case code == stateNoPrivilege:
			return "grant that to the user, or name another in the setting database"
		}
		return ""
	}
	if coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		// Extended result codes have the primary one in their lowest byte.
		switch coded.Code() & 0xff {
		case sqlitePerm, sqliteReadOnly, sqliteCantOpen:
			return "check the setting database; the file and its folder must be readable and writable for this user"
		case sqliteCorrupt, sqliteNotADB:
			return "check the setting database: that file is no SQLite database, or it is damaged or encrypted"
		}
	}
	return ""
}
