package pgstore

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// TestFailuresOfRuns checks the meaning of errors in a run: of our own statements, of the end of a
// run, where the server checks the handlers' writes, and of the records.
func TestFailuresOfRuns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome                Outcome
		err                    error
		own, atCommit, records error
	}{
		{Refused, serverError("25P02"), driver.ErrTxAborted, driver.ErrTxAborted, driver.ErrTxAborted},
		{Refused, serverError("40001"), driver.ErrSerialization, driver.ErrSerialization, driver.ErrSerialization},
		{Refused, serverError("40P01"), driver.ErrSerialization, driver.ErrSerialization, driver.ErrSerialization},
		{Refused, serverError("55P03"), driver.ErrLockTimeout, driver.ErrBadRow, driver.ErrLockTimeout},
		{Refused, serverError("42P01"), driver.ErrSchema, driver.ErrBadRow, driver.ErrSchema},
		{Refused, serverError("23503"), driver.ErrBadRow, driver.ErrBadRow, driver.ErrBadRow},      // a deferred foreign key
		{Refused, serverError("P0001"), driver.ErrBadRow, driver.ErrBadRow, driver.ErrBadRow},      // raised by a trigger
		{Refused, serverError("XX001"), driver.ErrUnavailable, driver.ErrBadRow, driver.ErrBadRow}, // a damaged row
		{Refused, serverError("53400"), driver.ErrUnavailable, driver.ErrBadRow, driver.ErrBadRow}, // a limit of a setting
		{Refused, serverError("58000"), driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable},
		{Refused, serverError("42501"), driver.ErrUnavailable, driver.ErrBadRow, driver.ErrBadRow},           // permission denied
		{Refused, serverError("25006"), driver.ErrUnavailable, driver.ErrBadRow, driver.ErrBadRow},           // read-only
		{Refused, serverError("57014"), driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable}, // cancelled
		{Refused, serverError("53100"), driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable}, // disk full
		{Refused, serverError("58030"), driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable},
		{Refused, errors.New("commit turned into rollback"), driver.ErrUnavailable, driver.ErrTxAborted, driver.ErrUnavailable},
		{Unknown, serverError("57P01"), driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable},
		{Unknown, serverError("23503"), driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable},
		{Unknown, io.EOF, driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable},
		{NotSent, context.Canceled, driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUnavailable},
	} {
		r := &Run{store: &Store{pools: Pools{Work: verdict{outcome: test.outcome}}}}
		for what, c := range map[string]struct{ got, want error }{
			"failure":         {r.failure(test.err), test.own},
			"failureAtCommit": {r.failureAtCommit(test.err), test.atCommit},
			"failureOfRecord": {r.failureOfRecord(test.err), test.records},
		} {
			if !errors.Is(c.got, c.want) || !errors.Is(c.got, test.err) || errors.Is(c.got, driver.ErrCommitUnknown) {
				t.Errorf("%s of %v (%v): got %v, want %v", what, test.err, test.outcome, c.got, c.want)
			}
		}
	}
	for outcome, codes := range map[Outcome]map[string]bool{Refused: {"57P01": true, "53100": false, "58030": false}, Unknown: {"": true}, NotSent: {"": true}} {
		for code, want := range codes {
			r := &Run{store: &Store{pools: Pools{Work: verdict{outcome: outcome}}}}
			if err := r.failure(serverError(code)); errors.Is(err, driver.ErrAway) != want {
				t.Errorf("failure of %q (%v): got %v, want that the database is away: %v", code, outcome, err, want)
			}
		}
	}
	if err := (&Run{}).failure(nil); err != nil {
		t.Errorf("failure of nothing: got %v", err)
	}
}

// TestVerdicts checks which errors of handlers are the handlers' fault.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		status TxStatus
		want   error // nil: the handler's fault
	}{
		{nil, TxFailed, nil},
		{errors.New("no such order"), TxOpen, nil},
		{errors.New("no such order"), TxFailed, nil},
		{serverError("23505"), TxFailed, nil},
		{serverError("57014"), TxFailed, nil},
		{serverError("40001"), TxFailed, driver.ErrSerialization},
		{serverError("40P01"), TxOpen, driver.ErrSerialization}, // of a savepoint that the handler rolled back to
		{serverError("53100"), TxFailed, driver.ErrUnavailable},
		{serverError("57P01"), TxFailed, driver.ErrUnavailable},
		{serverError("53300"), TxOpen, nil}, // of another database
	} {
		got := verdictOn(test.err, test.status)
		if test.want == nil && got != nil || !errors.Is(got, test.want) {
			t.Errorf("verdict on %v: got %v, want %v", test.err, got, test.want)
		}
	}
}

func TestTypeArgs(t *testing.T) {
	t.Parallel()
	exact, patterns := typeArgs([]string{"a", `a%_\*`, "*", "", "\x00", "\xff*", `*\`})
	if diff := cmp.Diff([]string{"a", ""}, exact); diff != "" {
		t.Errorf("exact types differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`a\%\_\\%`, "%", `%\\`}, patterns); diff != "" {
		t.Errorf("patterns differ (-want +got):\n%s", diff)
	}
}

func TestQuoteRole(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]string{"": "NONE", "none": "NONE", "app": `"app"`, `a"; DROP x; --`: `"a""; DROP x; --"`} {
		if got := quoteRole(role); got != want {
			t.Errorf("quoteRole(%q): got %s, want %s", role, got, want)
		}
	}
}

func TestWorkLimits(t *testing.T) {
	t.Parallel()
	type limits struct{ transactions, most int }
	for conns, want := range map[int]limits{0: {4, 0}, 1: {1, -1}, 2: {1, 1}, 3: {1, 2}, 4: {2, 2}, 8: {4, 6}, 100: {4, 98}} {
		l := WorkLimits(conns)
		if got := (limits{l.Transactions, l.MaxTransactions}); got != want {
			t.Errorf("on %d connections: got %+v, want %+v", conns, got, want)
		}
	}
}
