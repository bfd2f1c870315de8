package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// For a claim whose transaction does the work too: the event is done.
	reopenDone = `UPDATE hookonce_event_state SET state = 2, note = '', attempts = 1, crashes = 0, generation = ?1,
			due_at = ?2, processed_at = ?2, failed_at = NULL, last_error = ''` + bySender + `
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3) AND state = 3 AND undecided = 0` + notEnded + kept + ` RETURNING key_generation`

	claimDone = `UPDATE hookonce_event_state SET processed_at = ?, attempts = ?
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?)`

	claimStale = `UPDATE hookonce_event_state
		SET state = 4, note = ?, last_error = ?, attempts = ?, processed_at = NULL
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?)`

	selectFailures = `SELECT failures FROM hookonce_inline_failure WHERE key = ?`

	claimEnded = `UPDATE hookonce_event_state
		SET state = 3, note = ?, failed_at = ?, last_error = ?, signature = ?, attempts = ?, processed_at = NULL
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?) AND state = 2 RETURNING generation, attempts`

	selectClaimTaken = takenColumns + `
		FROM hookonce_event e CROSS JOIN hookonce_event_state s ON s.id = e.id WHERE e.key = ?`

	countInline = `INSERT INTO hookonce_inline_failure
		(key, source, event_id, type, occurred_at, headers, body, body_sha256, messages, failures, last_error, first_at, last_at, remote, gateway)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, ?10, ?11, ?11, ?12, ?13)
		ON CONFLICT (key) DO UPDATE SET
			failures = failures + 1, last_error = excluded.last_error, last_at = excluded.last_at
		RETURNING failures, first_at, remote, gateway`

	deleteInline = `DELETE FROM hookonce_inline_failure WHERE key = ?`

	selectInline = `SELECT key, source, event_id, type, occurred_at, headers, body, body_sha256, messages, failures,
			last_error, first_at, remote, gateway
		FROM hookonce_inline_failure WHERE key = ? AND last_at <= ?`

	oldInline = `SELECT key FROM hookonce_inline_failure WHERE last_at <= ? ORDER BY last_at LIMIT ?`

	buryInline = `UPDATE hookonce_event_state
		SET state = 3, attempts = ?, failed_at = ?, last_error = ?, signature = ?, processed_at = NULL
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?)`
)

// TakeClaim implements driver.Driver. It waits for the write lock until the context ends. SQLite
// has no lock on a single key, so LockTimeout bounds nothing.
func (s *Store) TakeClaim(ctx context.Context, p *driver.ClaimParams) (driver.Run[*sql.Tx], driver.ClaimResult, error) {
	var result driver.ClaimResult
	if len(p.Claims) != 1 {
		panic(fmt.Sprintf("sqlitestore: TakeClaim of %d claims", len(p.Claims)))
	}
	if err := checkClaims(p.Claims); err != nil {
		return nil, result, fmt.Errorf("%s: %w", opClaim, err)
	}
	r := s.newRun()
	r.ofClaim = true
	err := r.begin(ctx, ctx)
	if err == nil {
		r.t.now = clock(p.Now)
		err = r.claim(p, &result)
	}
	if err == nil && len(r.taken) > 0 {
		return r, result, nil
	}
	// Rolled back first, because classifying the error may look at the schema.
	undone := r.rollBack(ctx)
	if err != nil {
		return nil, driver.ClaimResult{}, s.failed(ctx, opClaim, err)
	}
	return nil, result, undone
}

// claim claims the event, or reopens it, and takes it into the run.
func (r *run) claim(p *driver.ClaimParams, result *driver.ClaimResult) (err error) {
	if err := r.t.checkFlush(p.AllowUnsafe); err != nil {
		return err
	}
	c := &p.Claims[0]
	if err := r.t.claimWithWork(c, p.Reopen, result); err != nil || !result.Claimed && !result.Reopened {
		return err
	}
	if r.taken, err = r.t.find(0, selectClaimTaken, c.Key[:]); err != nil {
		return err
	}
	e := &r.taken[0]
	e.Attempts, e.DueAt = 0, time.Time{} // the row counts this attempt already
	err = r.t.queryRow(selectFailures, c.Key[:]).Scan(&e.Attempts)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	r.token = nextToken(time.Now().UnixMicro(), r.taken)
	return r.setBegun(e)
}

// claimWithWork claims an event in the transaction that does its work. It does not reopen a dead
// event that was only routed: the event has no work to do again.
func (t *writeTx) claimWithWork(c *driver.Claim, reopen bool, result *driver.ClaimResult) error {
	if err := t.claim(c, result); err != nil || !result.Dead || !reopen {
		return err
	}
	generation, err := t.nextGeneration(c.Key)
	if err != nil {
		return err
	}
	switch err := t.queryRow(reopenDone, generation, t.now, c.Key[:]).Scan(&result.KeyGeneration); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	result.Reopened, result.Generation = true, generation
	return t.record(&historyEntry{key: c.Key, action: driver.ActionReopened, generation: generation})
}

// recordClaimed records the outcome of TakeClaim's event, which failed that often before. The outcome
// is never a failure, because a failure undoes the claim.
func (t *writeTx) recordClaimed(r *driver.WorkResult, failures int) error {
	query, args := claimDone, []any{t.now, failures + 1, r.Key[:]}
	if r.Outcome == driver.WorkStale {
		query, args = claimStale, []any{driver.NoteStale, r.Error, failures, r.Key[:]}
	}
	if _, err := t.exec(query, args...); err != nil {
		return err
	}
	_, err := t.exec(deleteInline, r.Key[:])
	return err
}

// endClaim records that the handler of TakeClaim's event, which failed that often before, committed
// the claim by itself.
func (t *writeTx) endClaim(r *driver.WorkResult, failures int) error {
	_, err := t.recordFailure(r, "dead", claimEnded, []any{driver.NoteTxEnded, t.now, r.Error, driver.ErrorSignature(r.Error), failures + 1, r.Key[:]})
	if err != nil {
		return err
	}
	_, err = t.exec(deleteInline, r.Key[:])
	return err
}

// ClaimTx implements driver.Driver.
func (s *Store) ClaimTx(ctx context.Context, tx *sql.Tx, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	if err := checkClaims(p.Claims); err != nil {
		return nil, fmt.Errorf("%s: %w", opClaim, err)
	}
	results := make([]driver.ClaimResult, len(p.Claims))
	err := s.inTx(ctx, tx, opClaim, p.Now, len(p.Claims), func(t *writeTx, i int) error {
		if i == 0 {
			if err := t.checkFlush(p.AllowUnsafe); err != nil {
				return err
			}
		}
		return t.claimWithWork(&p.Claims[i], p.Reopen, &results[i])
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// CountInlineFailure implements driver.Store.
func (s *Store) CountInlineFailure(ctx context.Context, f *driver.InlineFailure) (*driver.InlineFailed, error) {
	const op = "counting a failure"
	err := checkClaim(&f.Claim)
	if err == nil && !driver.IsText(f.Error) {
		err = fmt.Errorf("%w: the error is not valid UTF-8 or holds a NUL", driver.ErrBadRow)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	failed := &driver.InlineFailed{}
	err = s.writeEach(ctx, op, f.Now, 1, func(t *writeTx, _ int) error { return t.countFailure(f, failed) })
	if err != nil {
		return nil, err
	}
	return failed, nil
}

func (t *writeTx) countFailure(f *driver.InlineFailure, failed *driver.InlineFailed) error {
	c := &f.Claim
	var claimed driver.ClaimResult
	if err := t.readClaimed(c, &claimed); !errors.Is(err, sql.ErrNoRows) {
		failed.Dead = claimed.Dead
		return err
	}
	occurredAt, err := nullMicros(c.OccurredAt)
	if err != nil {
		return err
	}
	messages, err := json.Marshal(c.Messages)
	if err != nil {
		return err
	}
	var firstAt int64
	first := *c
	err = t.queryRow(countInline, c.Key[:], c.Source, c.EventID, c.Type, occurredAt, blob(c.Headers), blob(c.Body),
		c.BodyHash[:], string(messages), f.Error, t.now, c.Remote, c.Gateway).Scan(&failed.Failures, &firstAt, &first.Remote, &first.Gateway)
	if err != nil || !f.Dead && failed.Failures < f.Limit {
		return err
	}
	failed.Dead, err = t.fileFailure(&first, failed.Failures, f.Error, firstAt)
	return err
}

// fileFailure claims an event as a dead letter, as it was first received. It reports false if the
// event exists already.
func (t *writeTx) fileFailure(c *driver.Claim, failures int, reason string, firstAt int64) (bool, error) {
	if _, err := t.exec(deleteInline, c.Key[:]); err != nil {
		return false, err
	}
	filed := *c
	filed.Work = driver.WorkDone
	now := t.now
	t.now = firstAt
	var result driver.ClaimResult
	err := t.claim(&filed, &result)
	t.now = now
	if err != nil || !result.Claimed {
		return false, err
	}
	// An UPDATE that a trigger drops would leave the event done.
	if err := t.insert(buryInline, failures, t.now, reason, driver.ErrorSignature(reason), c.Key[:]); err != nil {
		return false, err
	}
	err = t.insert(insertTry, c.Key[:], 0, failures, "dead", reason, t.now, 0)
	return err == nil, err
}

// inlineFailure is a row of hookonce_inline_failure.
type inlineFailure struct {
	driver.Claim
	failures  int
	lastError string
	firstAt   int64
}

// FileInlineFailures implements driver.Store. Each event has a transaction of its own, so that one
// whose rows the database drops or refuses does not keep the others from being filed.
func (s *Store) FileInlineFailures(ctx context.Context, p *driver.FileFailuresParams) ([]driver.FiledFailure, error) {
	const op = "filing old failures"
	if p.OlderThan <= 0 {
		return nil, fmt.Errorf("%s: the age must be positive", op)
	}
	var keys []driver.Key
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
		keys, err = t.oldFailures(t.now-p.OlderThan.Microseconds(), p.Limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	var filed []driver.FiledFailure
	var dropped error
	for _, key := range keys {
		var dead *driver.FiledFailure
		err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
			dead, err = t.fileOld(key, t.now-p.OlderThan.Microseconds())
			return err
		})
		switch {
		case errors.Is(err, driver.ErrNotStored), isOfRow(err):
			dropped = err
		case err != nil:
			return filed, err
		case dead != nil:
			filed = append(filed, *dead)
		}
	}
	return filed, dropped
}

// oldFailures returns the events whose last failure is not after a time.
func (t *writeTx) oldFailures(before int64, limit int) ([]driver.Key, error) {
	rows, err := t.query(oldInline, before, limit) //nolint:sqlclosecheck // collect closes them
	return collect(rows, err, func(key *driver.Key) error {
		var found []byte
		err := rows.Scan(&found)
		copy(key[:], found)
		return err
	})
}

// fileOld files a dead letter for an event. It returns nil if the event was claimed or has failed after
// a time.
func (t *writeTx) fileOld(key driver.Key, before int64) (*driver.FiledFailure, error) {
	found, err := t.readFailure(key, before)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	f := &found[0]
	if filed, err := t.fileFailure(&f.Claim, f.failures, f.lastError, f.firstAt); err != nil || !filed {
		return nil, err
	}
	return &driver.FiledFailure{Source: f.Source, EventID: f.EventID, Type: f.Type, Failures: f.failures, Error: f.lastError}, nil
}

// readFailure returns the failure of an event; none if it was claimed or has failed after a time.
func (t *writeTx) readFailure(key driver.Key, before int64) ([]inlineFailure, error) {
	rows, err := t.query(selectInline, key[:], before)
	return collect(rows, err, func(f *inlineFailure) error {
		var key, hash []byte
		var messages string
		var occurredAt sql.NullInt64
		if err := rows.Scan(&key, &f.Source, &f.EventID, &f.Type, &occurredAt, &f.Headers, &f.Body, &hash, &messages,
			&f.failures, &f.lastError, &f.firstAt, &f.Remote, &f.Gateway); err != nil {
			return err
		}
		copy(f.Key[:], key)
		copy(f.BodyHash[:], hash)
		f.OccurredAt = fromNullMicros(occurredAt)
		return json.Unmarshal([]byte(messages), &f.Messages)
	})
}
