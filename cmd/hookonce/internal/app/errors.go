package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"strings"

	"github.com/hookonce/hookonce/driver"
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
	stateUnknownName   = "42704" // undefined_object: an unknown parameter of the URL
	stateBadValue      = "22023" // invalid_parameter_value
	stateFixed         = "55P02" // cant_change_runtime_param
	stateTooMany       = "53300" // too_many_connections
	stateProtocol      = "08P01" // protocol_violation: PgBouncer's code for nearly everything
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

// refusal is an error of PostgreSQL.
type refusal interface {
	error
	SQLState() string
}

// refusalOf returns the error of PostgreSQL in err.
func refusalOf(err error) (refusal, bool) { return errors.AsType[refusal](err) }

// lastingRemedy returns the remedy for a database error that retrying cannot resolve, and "" for
// every other error.
func lastingRemedy(err error) string {
	if errors.Is(err, driver.ErrReadOnlyRole) {
		return "ALTER ROLE … RESET default_transaction_read_only, or name another user in the setting database"
	}
	if state, ok := refusalOf(err); ok {
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
	if wrongCertificate(err) {
		return "check sslmode and sslrootcert in the setting database, and the certificate of the server"
	}
	for words, remedy := range demands {
		if strings.Contains(err.Error(), words) {
			return remedy
		}
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

// demands are remedies for a server that does not meet a demand of the database's URL. The keys are the words of pgconn's errors,
// which have no type.
var demands = map[string]string{
	"server refused TLS connection":     "turn TLS on at the server, or correct sslmode in the setting database",
	"channel binding required but":      "turn TLS and scram-sha-256 on at the server, or correct channel_binding in the setting database",
	"authentication method requirement": "let the server ask for that method (pg_hba.conf), or correct require_auth in the setting database",
}

// passingRemedy returns the remedy for a database error that may pass by itself, for example in a failover, and "" for
// every other error.
func passingRemedy(err error) string {
	if errors.Is(err, driver.ErrStandby) {
		return "name the primary in the setting database, or all hosts: postgres://USER@HOST1,HOST2/NAME"
	}
	state, ok := refusalOf(err)
	if ok && state.SQLState() == stateTooMany {
		return "raise the limit of the role (CONNECTION LIMIT), the database or the server (max_connections), or lower pool_max_conns in the setting database"
	}
	return ""
}

// parameterRemedy returns the remedy if a server, or a PgBouncer, refused to connect because of a parameter
// of the URL, and "" for every other error. A statement may fail with the same codes.
func parameterRemedy(err error) string {
	state, ok := refusalOf(err)
	if !ok {
		return ""
	}
	switch code := state.SQLState(); {
	case code == stateUnknownName, code == stateBadValue, code == stateFixed,
		code == stateProtocol && strings.Contains(state.Error(), "startup parameter"):
		return "correct that parameter in the setting database, or leave it out"
	}
	return ""
}

// wrongCertificate reports whether err says that the server cannot prove to be the one of the URL.
func wrongCertificate(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
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
	return cmp.Or(lastingRemedy(err), passingRemedy(err), diskRemedy(err), lockRemedy(err))
}
