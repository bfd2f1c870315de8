package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// refusedCallError says that a handler called a method of its transaction that only hookonce may
// call. The call did nothing, so the error is a handler's failure like a failed statement.
type refusedCallError struct{ method string }

// Error implements error.
func (e *refusedCallError) Error() string {
	instead := "return nil instead, and hookonce commits"
	if e.method == "Rollback" {
		instead = "return an error instead, and hookonce rolls back"
	}
	return "the handler called " + e.method + " on its transaction, which did nothing: " + instead
}

// Is reports whether target is driver.ErrTxAborted.
func (e *refusedCallError) Is(target error) bool { return target == driver.ErrTxAborted }

// Refuse makes the run fail, because a handler called a method of its transaction that must do
// nothing. The error is for the handler.
func (r *Run) Refuse(method string) error {
	err := &refusedCallError{method}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refused = err
	}
	return err
}

// Note keeps the first error of a handler's statements. Check reports it if the handler ignores it.
// Note ignores nil.
func (r *Run) Note(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noted == nil {
		r.noted = err
	}
}

// notes returns and clears the errors of Refuse and Note.
func (r *Run) notes() (refused error, noted error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused != nil {
		refused = r.refused
	}
	noted = r.noted
	r.refused, r.noted = nil, nil
	return refused, noted
}

// Check implements [driver.Run].
func (r *Run) Check(ctx context.Context, handlerErr error) error {
	refused, noted := r.notes()
	if err := r.usable(); err != nil {
		return err
	}
	status, state := r.tx.Status(ctx), txInProgress
	switch status {
	case TxOpen:
	case TxLost:
		return r.lost(ctx, handlerErr, noted)
	default: // a handler may have begun another transaction after this one
		state = r.outcome(ctx)
	}
	switch {
	case status == TxEnded, state == txCommitted, state == txAborted:
		return endedAs(state)
	case handlerErr != nil:
		return verdictOn(handlerErr, status)
	case refused != nil:
		return refused
	case status == TxFailed:
		if err := verdictOn(noted, status); err != nil {
			return err
		}
		return because(driver.ErrTxAborted, noted)
	case status == TxBusy:
		return fmt.Errorf("%w: the handler left rows or other results open: close them before it returns", driver.ErrTxAborted)
	case state != txInProgress:
		return endedAs(state)
	}
	return nil
}

// because adds the reason why to err, unless why is nil.
func because(err, why error) error {
	if why == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// verdictOn returns an error if a handler's err is not the handler's fault, and nil if it is or if
// that is not known. An error that left the transaction intact may come from another database.
func verdictOn(err error, status TxStatus) error {
	switch code := SQLState(err); {
	case givenUp(code):
		return fmt.Errorf("%w: %w", driver.ErrSerialization, err)
	case overwhelmed(code) && status == TxFailed:
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return nil
}

// givenUp reports whether the server gave up in favor of another transaction.
func givenUp(code string) bool { return strings.HasPrefix(code, classRollback) }

// overwhelmed reports whether the server is full, busy, broken or shutting down.
func overwhelmed(code string) bool {
	return strings.HasPrefix(code, classResources) && code != codeConfiguredLimit || strings.HasPrefix(code, classShutdown) || strings.HasPrefix(code, classSystem)
}

// lost classifies the closed connection of a run. The client library also closes it when a
// context ends during a statement; that is the handler's failure, unless a handler committed just
// before.
func (r *Run) lost(ctx context.Context, handlerErr, noted error) error {
	if r.outcome(ctx) == txCommitted {
		return &driver.TxEndedError{Committed: true}
	}
	why := handlerErr
	if why == nil {
		why = noted
	}
	switch late := errors.Is(why, context.DeadlineExceeded) || errors.Is(why, context.Canceled); {
	case late && handlerErr != nil:
		return nil
	case late:
		return because(driver.ErrTxAborted, why)
	}
	return because(driver.ErrUnavailable, why)
}

// The states of a transaction as txid_status names them. An empty state is unknown.
const (
	txCommitted  = "committed"
	txAborted    = "aborted"
	txInProgress = "in progress"
)

// outcomeSQL returns the state of the transaction $1, unless its number belongs to another home than $2: that of another
// transaction may be the same there.
var outcomeSQL = statement(`SELECT CASE WHEN {schema}.is_run_home($2::text) THEN coalesce(txid_status($1::bigint), '') ELSE '' END`)

// outcome asks for the state of the run's transaction, on another connection.
func (r *Run) outcome(ctx context.Context) (status string) {
	if err := read(ctx, r.store.pools.Receive, "asking for the outcome of a transaction", func(rows Rows) error {
		return rows.Scan(&status)
	}, r.store.text(outcomeSQL), r.xid, r.home); err != nil {
		return ""
	}
	return status
}

// endedByHandler returns how a handler ended the transaction. A transaction still in progress is
// rolled back next.
func (r *Run) endedByHandler(ctx context.Context) error { return endedAs(r.outcome(ctx)) }

func endedAs(state string) error {
	if state == "" {
		return fmt.Errorf("%w: a handler ended the transaction, and the server does not say how", driver.ErrUnavailable)
	}
	return &driver.TxEndedError{Committed: state == txCommitted}
}

// failure classifies the error of one of our own statements in the run. Nothing of the run is
// committed.
func (r *Run) failure(err error) error {
	return r.failed(err, func(code string) error { return classOf(code, driver.ErrUnavailable) })
}

// failureAtCommit classifies the server's refusal of the handlers' writes.
func (r *Run) failureAtCommit(err error) error {
	return r.failed(err, func(code string) error {
		switch code {
		case "": // the server rolled back and did not say why
			return driver.ErrTxAborted
		case codeCancelled:
			return driver.ErrUnavailable
		}
		return driver.ErrBadRow
	})
}

// failureOfRecord classifies a failure to record outcomes. Unless the server is in trouble, or gave up in favor of
// another transaction, the reason lies in one of the events: a trigger refuses its row, the row cannot be read, or its
// handler made the transaction read-only or took our rights away.
func (r *Run) failureOfRecord(err error) error {
	return r.failed(err, func(code string) error {
		class := classOf(code, driver.ErrUnavailable)
		if isUnexplained(class) && code != "" {
			return driver.ErrBadRow
		}
		return class
	})
}

func (r *Run) failed(err error, classOf func(code string) error) error {
	if err == nil {
		return nil
	}
	class := driver.ErrAway
	if code := SQLState(err); code == codeIdleInTx || code == codeTxTimeout {
		class = driver.ErrTxAborted // time-outs that a handler set for the transaction
	} else if r.store.pools.Work.Outcome(err) == Refused {
		class = driver.ErrUnavailable
		switch code := SQLState(err); {
		case strings.HasPrefix(code, classShutdown):
			class = driver.ErrAway
		case code == CodeTxAborted:
			class = driver.ErrTxAborted
		case givenUp(code):
			class = driver.ErrSerialization
		case !overwhelmed(code):
			class = classOf(code)
		}
	}
	return fmt.Errorf("%w: %w", class, err)
}

// quoteRole returns a role in the syntax of SET ROLE.
func quoteRole(role string) string {
	if role == "" || role == "none" {
		return "NONE"
	}
	return `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
}
