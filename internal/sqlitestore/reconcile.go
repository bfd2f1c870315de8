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
	reconcileColumns = ` source, list, began_at, done_until, fence, leased_until, next_at, ended_at, error, unreadable,
		missed, found_at, first_missing, last_missing`

	// A fence begins at the time, so that a row that was removed brings no old fence back.
	takeReconcile = `INSERT INTO hookonce_reconcile AS r (source, list, began_at, done_until, fence, leased_until, next_at, error, unreadable, missed)
		VALUES (?1, ?2, ?5, ?5, ?5, ?5 + ?3, ?5, '', 0, 0)
		ON CONFLICT (source) DO UPDATE SET
			list = excluded.list, fence = r.fence + 1, leased_until = excluded.leased_until,
			began_at = iif(r.list = excluded.list, r.began_at, excluded.began_at),
			done_until = iif(r.list = excluded.list, r.done_until, excluded.done_until)
		WHERE (r.leased_until IS NULL OR r.leased_until <= ?5 OR r.leased_until > ?5 + ?3)
			AND (r.next_at <= ?5 OR r.next_at > ?5 + ?4 OR r.list <> excluded.list)
		RETURNING` + reconcileColumns

	// A found_at before ?12 is too old to add to.
	stepReconcile = `UPDATE hookonce_reconcile SET
			leased_until = iif(?7, NULL, ?13 + ?3),
			missed = iif(?4 > 0 AND found_at <= ?12, 0, missed) + ?4,
			first_missing = CASE WHEN ?4 = 0 THEN first_missing WHEN found_at > ?12 THEN min(first_missing, ?5) ELSE ?5 END,
			last_missing = CASE WHEN ?4 = 0 THEN last_missing WHEN found_at > ?12 THEN max(last_missing, ?6) ELSE ?6 END,
			found_at = iif(?4 > 0, ?13, found_at),
			done_until = coalesce(?8, done_until),
			next_at = iif(?7, ?13 + ?9, next_at),
			ended_at = iif(?7, ?13, ended_at),
			error = iif(?7, ?10, error),
			unreadable = iif(?7, ?11, unreadable)
		WHERE source = ?1 AND fence = ?2`

	selectReconciles = `SELECT` + reconcileColumns + ` FROM hookonce_reconcile WHERE source IN (SELECT value FROM json_each(?)) ORDER BY source`

	forgetReconciles = `DELETE FROM hookonce_reconcile WHERE source IN (SELECT value FROM json_each(?))`
)

// scanReconcile reads reconcileColumns.
func scanReconcile(scan func(...any) error, now int64, s *driver.Reconcile) error {
	var list []byte
	var began, done, next int64
	var leased, ended, found, first, last sql.NullInt64
	err := scan(&s.Source, &list, &began, &done, &s.Fence, &leased, &next, &ended, &s.Error, &s.Unreadable, &s.Missed, &found, &first, &last)
	copy(s.List[:], list)
	s.BeganAt, s.DoneUntil, s.NextAt, s.Now = fromMicros(began), fromMicros(done), fromMicros(next), fromMicros(now)
	s.LeasedUntil, s.EndedAt = fromNullMicros(leased), fromNullMicros(ended)
	s.FoundAt, s.FirstMissing, s.LastMissing = fromNullMicros(found), fromNullMicros(first), fromNullMicros(last)
	return err
}

// TakeReconcile implements driver.Store.
func (s *Store) TakeReconcile(ctx context.Context, p *driver.TakeReconcileParams) (*driver.Reconcile, error) {
	const op = "taking a look at a provider's list"
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	var taken driver.Reconcile
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		row := t.queryRow(takeReconcile, p.Source, p.List[:], p.Lease.Microseconds(), p.Every.Microseconds(), t.now)
		return scanReconcile(row.Scan, t.now, &taken)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &taken, nil
}

// StepReconcile implements driver.Store.
func (s *Store) StepReconcile(ctx context.Context, p *driver.ReconcileStep) (bool, error) {
	const op = "recording a look at a provider's list"
	if err := p.Check(); err != nil {
		return false, fmt.Errorf("%s: %w", op, err)
	}
	end := p.End
	if end == nil {
		end = &driver.ReconcileEnd{}
	}
	var held int64
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
		held, err = t.exec(stepReconcile, p.Source, p.Fence, p.Lease.Microseconds(), p.Missed, orNull(p.FirstMissing), orNull(p.LastMissing),
			p.End != nil, orNull(end.DoneUntil), end.Next.Microseconds(), end.Error, end.Unreadable, t.now-driver.MissedKept.Microseconds(), t.now)
		return err
	})
	return held > 0 && err == nil, err
}

// Reconciles implements driver.Store.
func (s *Store) Reconciles(ctx context.Context, sources []string) (all []driver.Reconcile, err error) {
	names, err := json.Marshal(append([]string{}, sources...))
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, "reading how far providers' lists were looked at", func(ctx context.Context, tx *sql.Tx) error {
		now := clock(time.Time{})
		rows, err := tx.QueryContext(ctx, selectReconciles, string(names)) //nolint:sqlclosecheck // collect closes them
		all, err = collect(rows, err, func(r *driver.Reconcile) error { return scanReconcile(rows.Scan, now, r) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ForgetReconciles implements driver.Store.
func (s *Store) ForgetReconciles(ctx context.Context, sources []string) error {
	names, err := json.Marshal(append([]string{}, sources...))
	if err != nil {
		return err
	}
	return s.write(ctx, "forgetting how far providers' lists were looked at", func(t *writeTx) error {
		_, err := t.exec(forgetReconciles, string(names))
		return err
	})
}

// orNull returns the microseconds of a time; NULL for the zero time.
func orNull(at time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: at.UnixMicro(), Valid: !at.IsZero()}
}
