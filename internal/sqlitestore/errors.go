package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// The primary result codes that matter here; see https://www.sqlite.org/rescode.html.
const (
	codeError      = 1
	codeBusy       = 5
	codeLocked     = 6
	codeNoMem      = 7
	codeReadOnly   = 8
	codeIOErr      = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeSchema     = 17
	codeTooBig     = 18
	codeConstraint = 19
	codeMismatch   = 20
)

// codeBusySnapshot is the extended code of a transaction that began by reading and cannot write,
// because another one has written since.
const codeBusySnapshot = codeBusy | 2<<8

// resultCode returns the primary result code of an SQLite error, and 0 for other errors. The lowest
// byte of an extended code is the primary one.
func resultCode(err error) int { return fullCode(err) & 0xff }

// fullCode returns the extended result code of an SQLite error.
func fullCode(err error) int {
	if coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		return coded.Code()
	}
	return 0
}

// IsBusy reports whether another connection holds a lock.
func IsBusy(err error) bool {
	code := resultCode(err)
	return code == codeBusy || code == codeLocked
}

// failed classifies an error before COMMIT, when nothing was written.
func (s *Store) failed(ctx context.Context, op string, err error) error {
	if isClassified(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	class := driver.ErrUnavailable
	switch resultCode(err) {
	case codeConstraint, codeTooBig, codeMismatch:
		class = driver.ErrBadRow
	case codeFull:
		class = driver.ErrFull
	case codeError, codeSchema:
		// "no such table" has no code of its own, so failed looks at the schema.
		if schemaErr := s.checkSchema(ctx); schemaErr != nil {
			return fmt.Errorf("%s: %w", op, schemaErr)
		}
		class = driver.ErrRefused // by a trigger of its owner: a function that it calls on a row fails, such as json_extract
	}
	return fmt.Errorf("%s: %w: %w", op, class, err)
}

func isClassified(err error) bool {
	for _, class := range []error{
		driver.ErrBadRow, driver.ErrNotStored, driver.ErrUnavailable, driver.ErrCommitUnknown, driver.ErrNotFound, driver.ErrSchema,
		driver.ErrSerialization, driver.ErrTxEnded, driver.ErrTxAborted, driver.ErrOpen, driver.ErrSent, driver.ErrBodyPruned,
		driver.ErrRequestReused, driver.ErrSearching, driver.ErrNoteNeeded, driver.ErrModeNeeded, driver.ErrNoRoute, driver.ErrPassed, driver.ErrUndecided, driver.ErrTurnLost,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// isOfRow reports whether one row may be why a statement failed.
func isOfRow(err error) bool {
	switch resultCode(err) {
	case codeConstraint, codeTooBig, codeMismatch, codeError:
		return true
	}
	return errors.Is(err, driver.ErrBadRow)
}

// commitError classifies the error of a COMMIT. Three are certain.
//
// CONSTRAINT: a deferred foreign key failed. It is checked before anything is written, and the
// driver has rolled back.
//
// BUSY and LOCKED: the commit never began, and the driver has rolled back.
//
// FULL: the frame that makes a transaction count is the last one written to the log. A write that
// failed because the disk is full left it incomplete; the next writer overwrites it, and recovery
// stops at its checksum. Only the flush can fail after that frame, with an I/O error.
func commitError(op string, err error) error {
	switch resultCode(err) {
	case codeConstraint:
		return fmt.Errorf("%s: committing: %w: %w", op, driver.ErrBadRow, err)
	case codeFull:
		return fmt.Errorf("%s: committing: %w: %w", op, driver.ErrFull, err)
	case codeBusy, codeLocked:
		return fmt.Errorf("%s: committing: %w: %w", op, driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: committing: %w: %w", op, driver.ErrCommitUnknown, err)
}
