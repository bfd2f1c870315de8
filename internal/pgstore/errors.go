package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// readFailed classifies the error of a read. Nothing was written in any case.
func readFailed(db DB, op string, err error) error {
	return failed(db, op, err, driver.ErrUnavailable)
}

// writeFailed classifies the error of a statement that commits by itself.
func writeFailed(db DB, op string, err error) error {
	return failed(db, op, err, driver.ErrCommitUnknown)
}

// rowFailed classifies the error of a statement that changes known rows. Unless the server is in trouble or accepts no
// writes, the reason lies in one of the rows: a trigger refuses its change, or the row cannot be read.
func rowFailed(db DB, op string, err error) error {
	if err == nil || db.Outcome(err) != Refused {
		return writeFailed(db, op, err)
	}
	switch code := SQLState(err); {
	case code == "", code == codeReadOnly, code == codeCompletionUnknown, code == codeNotSupported, overwhelmed(code),
		!isUnexplained(classOf(code, nil)):
		return writeFailed(db, op, err)
	}
	return fmt.Errorf("%s: %w: %w", op, driver.ErrBadRow, err)
}

func failed(db DB, op string, err, unknown error) error {
	if err == nil {
		return nil
	}
	class := unknown
	switch db.Outcome(err) {
	case NotSent:
		class = driver.ErrUnavailable
	case Refused:
		class = classOf(SQLState(err), unknown)
	case Unknown:
	}
	return fmt.Errorf("%s: %w: %w", op, class, err)
}

// SQLState returns the code of an error that the server sent, and "" for other errors.
func SQLState(err error) string {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return ""
	}
	return state.SQLState()
}

// CodeTxAborted means that an earlier statement of the transaction failed.
const CodeTxAborted = "25P02"

// See https://www.postgresql.org/docs/current/errcodes-appendix.html for the codes.
const (
	codeSerialization     = "40001"
	codeCompletionUnknown = "40003"
	codeDeadlock          = "40P01"
	codeLockNotAvailable  = "55P03"
	codeSyntax            = "42601"
	codeUndefinedTable    = "42P01"
	codeUndefinedColumn   = "42703"
	codeUndefinedFunction = "42883"
	codeUndefinedObject   = "42704"
	codeUndefinedSchema   = "3F000"

	codeNotSupported    = "0A000"
	codeNoTransaction   = "25P01"
	codeNoSavepoint     = "3B001"
	codeIdleInTx        = "25P03" // the end of the session after idle_in_transaction_session_timeout
	codeTxTimeout       = "25P04" // and after transaction_timeout
	codeCancelled       = "57014"
	codeDiskFull        = "53100"
	codeReadOnly        = "25006" // a read-only transaction, or a standby
	codeRowDropped      = "27000" // raised by the function claim
	codeConfiguredLimit = "53400" // of a setting, such as temp_file_limit
	codeNoRights        = "42501"
	codeDamaged         = "XX001" // a row
	codeIndexDamaged    = "XX002"
	codeInternal        = "XX000"

	classRollback  = "40"
	classResources = "53"   // out of disk, memory or connections
	classShutdown  = "57P0" // of the server, or of a connection
	classSystem    = "58"   // an error of the operating system, such as that of a disk

	classData       = "22" // a value that its type does not accept
	classConstraint = "23"
	classLimit      = "54" // a row, an index entry or an array is too large
	classRaised     = "P0" // RAISE without a code: a trigger of the database's owner refuses a row; our functions set codes
)

// classOf returns the driver error for the code of a server's error that undid a statement.
func classOf(code string, unknown error) error {
	switch code {
	case codeSerialization, codeDeadlock:
		return driver.ErrSerialization
	case codeCompletionUnknown:
		return unknown
	case CodeTxAborted:
		return driver.ErrTxAborted
	case codeLockNotAvailable:
		return driver.ErrLockTimeout
	case codeRowDropped:
		return driver.ErrNotStored
	case codeDiskFull:
		return driver.ErrFull
	case codeCancelled:
		return driver.ErrTimedOut
	case codeUndefinedTable, codeUndefinedColumn, codeUndefinedFunction, codeUndefinedObject, codeUndefinedSchema:
		return driver.ErrSchema
	}
	switch {
	case strings.HasPrefix(code, classData), strings.HasPrefix(code, classConstraint), strings.HasPrefix(code, classRaised):
		return driver.ErrBadRow
	case strings.HasPrefix(code, classLimit):
		// Either one row is too large for an index, or a whole batch for one array. Halving the
		// batch answers both.
		return driver.ErrBadRow
	case isForeign(code):
		return driver.ErrBadRow
	case isOfServer(code):
		return driver.ErrUnavailable
	}
	return driver.ErrRefused
}

// isOfServer reports whether code says that the server or the session is the reason, and no row: out of disk or connections
// (53), read-only (25006), without a feature (0A000) and their like.
func isOfServer(code string) bool {
	if len(code) != len(codeDiskFull) || code == codeInternal {
		return true
	}
	switch code[:2] {
	case "08", "0A", "25", "28", "55", "57", classSystem, "72", "HV":
		return true
	case classResources:
		return code != codeConfiguredLimit
	}
	return false
}

// isUnexplained reports whether a class of classOf leaves open what refused a statement.
func isUnexplained(class error) bool {
	return class == driver.ErrUnavailable || class == driver.ErrRefused //nolint:errorlint // their other kinds have reasons of their own
}

// isForeign reports whether code is neither one of the SQL standard nor one of PostgreSQL: a trigger of the database's owner
// raised it.
func isForeign(code string) bool {
	if len(code) != len(codeDiskFull) || code[0] < '5' || code[0] > '9' && code[0] < 'I' {
		return false
	}
	switch code[:2] {
	case classResources, classLimit, "55", "57", classSystem, "72", classRaised, "XX":
		return false
	}
	return true
}
