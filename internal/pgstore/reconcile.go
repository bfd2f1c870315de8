package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const reconcileColumns = ` r.source, r.list, r.began_at, r.done_until, r.fence, r.leased_until, r.next_at, r.ended_at, r.error, r.unreadable,
	r.missed, r.found_at, r.first_missing, r.last_missing`

var (
	// A fence begins at the time, so that a row that was removed brings no old fence back.
	takeReconcileSQL = statement(`
INSERT INTO {schema}.reconcile AS r (source, list, began_at, done_until, fence, leased_until, next_at, error, unreadable, missed)
SELECT $1::text, $2::bytea, m, m, (extract(epoch FROM m) * 1000000)::bigint, m + $3::bigint * interval '1 microsecond', m, '', 0, 0
FROM coalesce($5::timestamptz, now()) AS m
ON CONFLICT (source) DO UPDATE SET
	list = excluded.list, fence = r.fence + 1, leased_until = excluded.leased_until,
	began_at = CASE WHEN r.list = excluded.list THEN r.began_at ELSE excluded.began_at END,
	done_until = CASE WHEN r.list = excluded.list THEN r.done_until ELSE excluded.done_until END
WHERE (r.leased_until IS NULL OR r.leased_until <= excluded.began_at OR r.leased_until > excluded.leased_until)
	AND (r.next_at <= excluded.began_at OR r.next_at > excluded.began_at + $4::bigint * interval '1 microsecond' OR r.list <> excluded.list)
RETURNING ` + reconcileColumns + `, coalesce($5::timestamptz, now())`)

	stepReconcileSQL = statement(`
UPDATE {schema}.reconcile r SET
	leased_until = CASE WHEN $7::boolean THEN NULL ELSE m + $3::bigint * interval '1 microsecond' END,
	missed = CASE WHEN $4::bigint > 0 AND r.found_at <= m - $12::bigint * interval '1 microsecond' THEN 0 ELSE r.missed END + $4,
	first_missing = CASE WHEN $4 = 0 THEN r.first_missing WHEN r.found_at > m - $12 * interval '1 microsecond' THEN least(r.first_missing, $5) ELSE $5 END,
	last_missing = CASE WHEN $4 = 0 THEN r.last_missing WHEN r.found_at > m - $12 * interval '1 microsecond' THEN greatest(r.last_missing, $6) ELSE $6 END,
	found_at = CASE WHEN $4 > 0 THEN m ELSE r.found_at END,
	done_until = coalesce($8::timestamptz, r.done_until),
	next_at = CASE WHEN $7 THEN m + $9::bigint * interval '1 microsecond' ELSE r.next_at END,
	ended_at = CASE WHEN $7 THEN m ELSE r.ended_at END,
	error = CASE WHEN $7 THEN $10::text ELSE r.error END,
	unreadable = CASE WHEN $7 THEN $11::bigint ELSE r.unreadable END
FROM coalesce($13::timestamptz, now()) AS m
WHERE r.source = $1::text AND r.fence = $2::bigint
RETURNING true`)

	reconcilesSQL = statement(`SELECT ` + reconcileColumns + `, now() FROM {schema}.reconcile r WHERE r.source = ANY ($1::text[]) ORDER BY r.source COLLATE "C"`)

	forgetReconcilesSQL = statement(`DELETE FROM {schema}.reconcile WHERE source = ANY ($1::text[])`)
)

// scanReconcile reads reconcileColumns and the time.
func scanReconcile(r Rows) (driver.Reconcile, error) {
	var s driver.Reconcile
	var list []byte
	var leased, ended, found, first, last *time.Time
	err := r.Scan(&s.Source, &list, &s.BeganAt, &s.DoneUntil, &s.Fence, &leased, &s.NextAt, &ended, &s.Error, &s.Unreadable,
		&s.Missed, &found, &first, &last, &s.Now)
	copy(s.List[:], list)
	s.BeganAt, s.DoneUntil, s.NextAt, s.Now = s.BeganAt.UTC(), s.DoneUntil.UTC(), s.NextAt.UTC(), s.Now.UTC()
	s.LeasedUntil, s.EndedAt = timeOf(leased), timeOf(ended)
	s.FoundAt, s.FirstMissing, s.LastMissing = timeOf(found), timeOf(first), timeOf(last)
	return s, err
}

// TakeReconcile implements [driver.Store].
func (s *Store) TakeReconcile(ctx context.Context, p *driver.TakeReconcileParams) (taken *driver.Reconcile, err error) {
	const op = "taking a look at a provider's list"
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	err = write(ctx, s.pools.Work, op, func(r Rows) error {
		state, err := scanReconcile(r)
		taken = &state
		return err
	}, s.text(takeReconcileSQL), p.Source, p.List[:], p.Lease.Microseconds(), p.Every.Microseconds(), clock(p.Now))
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// StepReconcile implements [driver.Store].
func (s *Store) StepReconcile(ctx context.Context, p *driver.ReconcileStep) (held bool, err error) {
	const op = "recording a look at a provider's list"
	if err := p.Check(); err != nil {
		return false, fmt.Errorf("%s: %w", op, err)
	}
	end := p.End
	if end == nil {
		end = &driver.ReconcileEnd{}
	}
	err = write(ctx, s.pools.Work, op, func(r Rows) error { return r.Scan(&held) }, s.text(stepReconcileSQL),
		p.Source, p.Fence, p.Lease.Microseconds(), p.Missed, clock(p.FirstMissing), clock(p.LastMissing), p.End != nil,
		clock(end.DoneUntil), end.Next.Microseconds(), end.Error, end.Unreadable, driver.MissedKept.Microseconds(), clock(p.Now))
	return held && err == nil, err
}

// Reconciles implements [driver.Store].
func (s *Store) Reconciles(ctx context.Context, sources []string) (all []driver.Reconcile, err error) {
	err = read(ctx, s.pools.Work, "reading how far providers' lists were looked at", func(r Rows) error {
		state, err := scanReconcile(r)
		all = append(all, state)
		return err
	}, s.text(reconcilesSQL), sources)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ForgetReconciles implements [driver.Store].
func (s *Store) ForgetReconciles(ctx context.Context, sources []string) error {
	return write(ctx, s.pools.Work, "forgetting how far providers' lists were looked at", noRows, s.text(forgetReconcilesSQL), sources)
}
