package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/hookonce/hookonce/driver"
)

// fenced is the condition that a row is still in the state and the run that the caller expects.
const fenced = ` WHERE id = (SELECT id FROM hookonce_event WHERE key = ?1) AND state = ?2 AND run BETWEEN ?3 AND ?4`

const (
	recordDone = `UPDATE hookonce_event_state
		SET state = 2, note = '', attempts = attempts + 1, processed_at = ?5, failed_at = NULL, last_error = ''` + fenced

	// Pruning counts from due_at.
	recordStale = `UPDATE hookonce_event_state
		SET state = 4, note = ?5, last_error = ?6, due_at = ?7, processed_at = NULL, failed_at = NULL` + fenced

	recordRetry = `UPDATE hookonce_event_state
		SET state = 0, attempts = attempts + 1, due_at = ?5, last_error = ?6, retry_in = ?7` + fenced + ` RETURNING generation, attempts`

	recordDead = `UPDATE hookonce_event_state
		SET state = 3, attempts = attempts + 1, failed_at = ?5, last_error = ?6, note = ?7, signature = ?8` + fenced + ` RETURNING generation, attempts`

	releaseEvent = `UPDATE hookonce_event_state SET state = 0, due_at = ?5` + fenced

	// An existing row stays: it cannot be of this attempt.
	insertTry = `INSERT INTO hookonce_event_attempt (key, generation, number, outcome, error, at, took)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
)

// fence is the state and the run that an event's row must have to be changed. Without a run, every
// run matches.
type fence struct {
	state  int
	token  int64
	marker int64
}

func (f fence) args(key driver.Key, more ...any) []any {
	low, high := f.token, f.marker
	if f.token == 0 {
		low, high = 0, math.MaxInt64
	}
	return append([]any{key[:], f.state, low, high}, more...)
}

// checkResults refuses results that cannot be recorded.
func checkResults(p *driver.FinishParams) error {
	for i := range p.Results {
		r := &p.Results[i]
		if !driver.IsText(r.Error) {
			return fmt.Errorf("%w: the error of an event is not valid UTF-8 or holds a NUL", driver.ErrBadRow)
		}
		if r.Outcome < driver.WorkSucceeded || r.Outcome > driver.WorkEnded {
			return fmt.Errorf("%w: an event has the unknown outcome %d", driver.ErrBadRow, r.Outcome)
		}
	}
	for i := range p.Results {
		if line := p.Results[i].Line; line != nil {
			if err := checkVersion(line); err != nil {
				return err
			}
		}
	}
	for i := range p.Versions {
		if err := checkVersion(&p.Versions[i]); err != nil {
			return err
		}
	}
	return nil
}

func isFailure(outcome driver.WorkOutcome) bool {
	return outcome == driver.WorkRetry || outcome == driver.WorkFailed
}

// recordOutcome records the outcome of one event. It reports false if the event's row does not
// match the fence.
func (t *writeTx) recordOutcome(r *driver.WorkResult, f fence) (bool, error) {
	switch r.Outcome {
	case driver.WorkSucceeded:
		changed, err := t.exec(recordDone, f.args(r.Key, t.now)...)
		return changed > 0, err
	case driver.WorkStale:
		changed, err := t.exec(recordStale, f.args(r.Key, driver.NoteStale, r.Error, t.now)...)
		return changed > 0, err
	case driver.WorkPostponed:
		changed, err := t.exec(releaseEvent, f.args(r.Key, t.now+r.RetryIn.Microseconds())...)
		return changed > 0, err
	case driver.WorkRetry:
		return t.recordFailure(r, "retry", recordRetry, f.args(r.Key, t.now+r.RetryIn.Microseconds(), r.Error, r.RetryIn.Microseconds()))
	case driver.WorkEnded:
		return t.recordFailure(r, "dead", recordDead, f.args(r.Key, t.now, r.Error, driver.NoteTxEnded, driver.ErrorSignature(r.Error)))
	default:
		return t.recordFailure(r, "dead", recordDead, f.args(r.Key, t.now, r.Error, "", driver.ErrorSignature(r.Error)))
	}
}

func (t *writeTx) recordFailure(r *driver.WorkResult, outcome, query string, args []any) (bool, error) {
	var generation, number int
	switch err := t.queryRow(query, args...).Scan(&generation, &number); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	_, err := t.exec(insertTry, r.Key[:], generation, number, outcome, r.Error, t.now, r.Took.Microseconds())
	return err == nil, err
}
