package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/driver"
)

// Error is a failure and its remedy.
type Error struct {
	Err    error
	Remedy string // one sentence, lower case, without a full stop
}

// Errorf returns a failure; Try gives it its remedy.
func Errorf(format string, args ...any) *Error { return &Error{Err: fmt.Errorf(format, args...)} }

// Try sets the remedy, and returns e.
func (e *Error) Try(remedy string) *Error {
	e.Remedy = remedy
	return e
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
	stateTooMany       = "53300" // too_many_connections
	stateProtocol      = "08P01" // protocol_violation: PgBouncer's code for nearly everything
)

// lastingStates are errors of passingClasses that a parameter of the URL causes.
var lastingStates = []string{
	"55P02", // cant_change_runtime_param
	"25001", // active_sql_transaction: a setting of transactions
	"58P01", // undefined_file: a library to load
}

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
		return "ALTER ROLE or ALTER DATABASE … RESET default_transaction_read_only, or name another user in the setting database"
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
	"sslcertmode check failed":          "let the server ask for a certificate (ssl_ca_file), or correct sslcertmode in the setting database",
	"server protocol version too low":   "leave min_protocol_version in the setting database out",
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

// passingClasses are the classes of PostgreSQL's errors that may pass by themselves: connections, conflicts, resources, state,
// shutting down, the system, internal errors.
var passingClasses = []string{"08", "25", "40", "53", "55", "57", "58", "XX"}

// connectRemedy returns the remedy if connecting failed in a way that stays, and "" for every other error. A
// statement may fail with the same codes.
func connectRemedy(err error) string {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); !connecting {
		return ""
	}
	state, refused := refusalOf(err)
	switch {
	case !refused && mayPass(err):
		return ""
	case !refused:
		return "correct the parameters in the setting database, or the settings of the server"
	}
	code := state.SQLState()
	if code == stateProtocol {
		for words, remedy := range poolerRefusals {
			if strings.Contains(state.Error(), words) {
				return remedy
			}
		}
	}
	if slices.Contains(passingClasses, code[:2]) && !slices.Contains(lastingStates, code) {
		return ""
	}
	return wrongParameterRemedy
}

const wrongParameterRemedy = "correct that parameter in the setting database, or leave it out"

// poolerRefusals are remedies for refusals of PgBouncer, which have one code for nearly everything.
var poolerRefusals = map[string]string{
	"startup parameter":     wrongParameterRemedy,
	"no such database":      "name a database that PgBouncer has, in the setting database or in its [databases]",
	"no such user":          "name a user that PgBouncer has, in the setting database or in its auth_file",
	"authentication failed": "check user and password in the setting database, and PgBouncer's auth_file",
}

// mayPass reports whether an error of the client while connecting is one of the network.
func mayPass(err error) bool {
	if call, is := errors.AsType[*net.OpError](err); is {
		return call.Op != "remote error" && call.Op != "local error" // of TLS
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, driver.ErrReadOnly) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
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
