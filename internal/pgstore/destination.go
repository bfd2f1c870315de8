package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// pauseSQL keeps the time of an earlier pause.
var pauseSQL = statement(`
INSERT INTO {schema}.paused_destination AS p (destination, paused_at)
SELECT $1::text, coalesce($2::timestamptz, now()) FROM {schema}.durably()
ON CONFLICT (destination) DO UPDATE SET paused_at = p.paused_at
RETURNING paused_at`)

var resumeSQL = statement(`
WITH gone AS (
	DELETE FROM {schema}.paused_destination WHERE destination = $1::text RETURNING destination
)
SELECT destination FROM gone CROSS JOIN {schema}.durably()`)

var pausedSQL = statement(`SELECT destination, paused_at FROM {schema}.paused_destination ORDER BY destination COLLATE "C"`)

// hurrySQL reads the messages behind the present time in the index on due messages.
var hurrySQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($3::timestamptz, now()) AS now, {schema}.durably() AS durable
), waiting AS MATERIALIZED (
	SELECT m.id
	FROM {schema}.message m
	WHERE m.destination = $1::text AND m.state IN (0, 1) AND m.state = 0 AND m.due_at > (SELECT now FROM setting)
		AND m.due_at < {schema}.parked()
	ORDER BY m.due_at
	LIMIT $2::int
	FOR UPDATE SKIP LOCKED
), changed AS (
	UPDATE {schema}.message m SET due_at = setting.now
	FROM waiting, setting
	WHERE m.id = waiting.id
	RETURNING m.id
)
SELECT count(*) FROM changed`)

// PauseDestination implements [driver.Store].
func (s *Store) PauseDestination(ctx context.Context, p *driver.PauseParams) (at time.Time, err error) {
	const op = "pausing a destination"
	if err := p.Check(); err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", op, err)
	}
	err = write(ctx, s.pools.Admin, op, func(r Rows) error { return r.Scan(&at) }, s.text(pauseSQL), p.Destination, clock(p.Now))
	if err != nil {
		return time.Time{}, err
	}
	return at.UTC(), nil
}

// ResumeDestination implements [driver.Store].
func (s *Store) ResumeDestination(ctx context.Context, destination string) (resumed bool, err error) {
	if !driver.IsText(destination) {
		return false, nil
	}
	err = write(ctx, s.pools.Admin, "resuming a destination", func(r Rows) error {
		resumed = true
		return r.Scan(&destination)
	}, s.text(resumeSQL), destination)
	return resumed && err == nil, err
}

// PausedDestinations implements [driver.Store].
func (s *Store) PausedDestinations(ctx context.Context) ([]driver.PausedDestination, error) {
	var all []driver.PausedDestination
	err := read(ctx, s.pools.Admin, "listing paused destinations", func(r Rows) error {
		var d driver.PausedDestination
		err := r.Scan(&d.Destination, &d.At)
		d.At = d.At.UTC()
		all = append(all, d)
		return err
	}, s.text(pausedSQL))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// HurryMessages implements [driver.Store].
func (s *Store) HurryMessages(ctx context.Context, p *driver.HurryParams) (int, error) {
	if p.Limit <= 0 || !driver.IsText(p.Destination) {
		return 0, nil
	}
	var n int64
	err := write(ctx, s.pools.Admin, "making messages due now", func(r Rows) error { return r.Scan(&n) },
		s.text(hurrySQL), p.Destination, int32(min(p.Limit, driver.MaxHurry)), clock(p.Now))
	if err != nil {
		return 0, err
	}
	return int(n), nil
}
