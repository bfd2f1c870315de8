package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// verdict is a DB with one outcome for every error.
type verdict struct {
	DB
	outcome Outcome
}

func (v verdict) Outcome(error) Outcome { return v.outcome }

// serverError is an error of the server.
type serverError string

func (e serverError) Error() string    { return "server error " + string(e) }
func (e serverError) SQLState() string { return string(e) }

func TestFailureClasses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome     Outcome
		err         error
		write, read error
	}{
		{Refused, serverError("22021"), driver.ErrBadRow, driver.ErrBadRow}, // text with a NUL
		{Refused, serverError("22P05"), driver.ErrBadRow, driver.ErrBadRow}, // untranslatable character
		{Refused, serverError("23505"), driver.ErrBadRow, driver.ErrBadRow}, // unique constraint
		{Refused, serverError("23514"), driver.ErrBadRow, driver.ErrBadRow}, // check constraint
		{Refused, serverError("54000"), driver.ErrBadRow, driver.ErrBadRow}, // index row too large
		{Refused, serverError("55P03"), driver.ErrLockTimeout, driver.ErrLockTimeout},
		{Refused, serverError("40001"), driver.ErrSerialization, driver.ErrSerialization},
		{Refused, serverError("40P01"), driver.ErrSerialization, driver.ErrSerialization},
		{Refused, serverError("40003"), driver.ErrCommitUnknown, driver.ErrUnavailable},
		{Refused, serverError("42P01"), driver.ErrSchema, driver.ErrSchema},
		{Refused, serverError("42703"), driver.ErrSchema, driver.ErrSchema},
		{Refused, serverError("3F000"), driver.ErrSchema, driver.ErrSchema},
		{Refused, serverError("57014"), driver.ErrUnavailable, driver.ErrUnavailable}, // cancelled
		{Refused, serverError("53100"), driver.ErrUnavailable, driver.ErrUnavailable}, // disk full
		{Refused, serverError("53300"), driver.ErrUnavailable, driver.ErrUnavailable},
		{Refused, serverError("25006"), driver.ErrUnavailable, driver.ErrUnavailable}, // read-only
		{Refused, serverError("42501"), driver.ErrRefused, driver.ErrRefused},         // permission denied, or a policy
		{Refused, serverError("XX001"), driver.ErrRefused, driver.ErrRefused},         // a damaged row
		{Refused, serverError("53400"), driver.ErrRefused, driver.ErrRefused},         // a limit of a setting
		{Refused, serverError("44000"), driver.ErrRefused, driver.ErrRefused},         // a view's check option
		{Refused, serverError("UX001"), driver.ErrBadRow, driver.ErrBadRow},           // of somebody's trigger
		{Refused, serverError("99001"), driver.ErrBadRow, driver.ErrBadRow},           // the same
		{Refused, serverError("HV000"), driver.ErrUnavailable, driver.ErrUnavailable}, // a foreign table
		{Refused, serverError("57P05"), driver.ErrUnavailable, driver.ErrUnavailable},
		{Refused, serverError("72000"), driver.ErrUnavailable, driver.ErrUnavailable},
		{Refused, serverError("XX000"), driver.ErrUnavailable, driver.ErrUnavailable},
		{Refused, errors.New("commit turned into rollback"), driver.ErrUnavailable, driver.ErrUnavailable},
		{NotSent, io.EOF, driver.ErrUnavailable, driver.ErrUnavailable},
		{NotSent, serverError("57P03"), driver.ErrUnavailable, driver.ErrUnavailable},
		{Unknown, io.EOF, driver.ErrCommitUnknown, driver.ErrUnavailable},
		{Unknown, context.DeadlineExceeded, driver.ErrCommitUnknown, driver.ErrUnavailable},
		{Unknown, serverError("57P01"), driver.ErrCommitUnknown, driver.ErrUnavailable},
		{Unknown, serverError("22021"), driver.ErrCommitUnknown, driver.ErrUnavailable}, // a code alone decides nothing
	} {
		db := verdict{outcome: test.outcome}
		wrapped := fmt.Errorf("wrapped: %w", test.err)
		wantClass(t, writeFailed(db, "writing", wrapped), test.write, test.err)
		wantClass(t, readFailed(db, "reading", wrapped), test.read, test.err)
	}
	if err := writeFailed(verdict{}, "writing", nil); err != nil {
		t.Errorf("success became %v", err)
	}
}

// wantClass wants the class want and no other, with the cause.
func wantClass(t *testing.T, got, want, cause error) {
	t.Helper()
	if !errors.Is(got, cause) {
		t.Errorf("%v has lost its cause %v", got, cause)
	}
	for _, sentinel := range []error{
		driver.ErrBadRow, driver.ErrLockTimeout, driver.ErrSerialization, driver.ErrUnavailable,
		driver.ErrCommitUnknown, driver.ErrNotFound, driver.ErrSchema, driver.ErrRefused,
	} {
		if errors.Is(got, sentinel) != errors.Is(want, sentinel) {
			t.Errorf("%v: matches %q: %v, want only %q", got, sentinel, errors.Is(got, sentinel), want)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	long := ""
	for len(long) < 2*maxText {
		long += "été "
	}
	for _, text := range []string{"", "plain", "nul \x00 byte", "broken \xff\xc3", long, long[1:]} {
		got := plain(text)
		if !driver.IsText(got) || len(got) > maxText {
			t.Errorf("plain(%.20q) is %d bytes, text: %v", text, len(got), driver.IsText(got))
		}
		if driver.IsText(text) && len(text) <= maxText && got != text {
			t.Errorf("plain(%q) is %q, want it unchanged", text, got)
		}
	}
}

// A trigger of the database's owner that refuses a row says so with RAISE.
func TestRaisedByATrigger(t *testing.T) {
	t.Parallel()
	raised := serverError("P0001")
	for _, test := range []struct {
		outcome Outcome
		err     error
		want    error
	}{
		{Refused, raised, driver.ErrBadRow},
		{Refused, serverError("53100"), driver.ErrUnavailable},
		{Unknown, raised, driver.ErrCommitUnknown},
		{NotSent, raised, driver.ErrUnavailable},
	} {
		err := writeFailed(verdict{outcome: test.outcome}, "claiming", test.err)
		if !errors.Is(err, test.want) || !errors.Is(err, test.err) {
			t.Errorf("writeFailed of %v (%v): got %v, want %v", test.err, test.outcome, err, test.want)
		}
	}
	if err := writeFailed(verdict{outcome: Refused}, "claiming", nil); err != nil {
		t.Errorf("writeFailed of nothing: got %v", err)
	}
}
