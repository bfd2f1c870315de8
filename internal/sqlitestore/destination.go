package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// Keeps the time of an earlier pause.
	pauseDestination = `INSERT INTO hookonce_paused_destination (destination, paused_at) VALUES (?, ?)
		ON CONFLICT (destination) DO UPDATE SET paused_at = hookonce_paused_destination.paused_at
		RETURNING paused_at`

	resumeDestination = `DELETE FROM hookonce_paused_destination WHERE destination = ?`

	selectPaused = `SELECT destination, paused_at FROM hookonce_paused_destination ORDER BY destination`
)

// hurryMessages leaves parked messages where they are.
var hurryMessages = `UPDATE hookonce_message SET due_at = ?1 WHERE number IN (
		SELECT number FROM hookonce_message
		WHERE destination = ?2 AND state IN (0, 1) AND state = 0 AND due_at > ?1 AND due_at < ` + parked + ` ORDER BY due_at LIMIT ?3)`

// PauseDestination implements driver.Store.
func (s *Store) PauseDestination(ctx context.Context, p *driver.PauseParams) (time.Time, error) {
	const op = "pausing a destination"
	if err := p.Check(); err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", op, err)
	}
	var at int64
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		return t.queryRow(pauseDestination, p.Destination, t.now).Scan(&at)
	})
	if err != nil {
		return time.Time{}, err
	}
	return fromMicros(at), nil
}

// ResumeDestination implements driver.Store.
func (s *Store) ResumeDestination(ctx context.Context, destination string) (bool, error) {
	var gone int64
	err := s.write(ctx, "resuming a destination", func(t *writeTx) (err error) {
		gone, err = t.exec(resumeDestination, destination)
		return err
	})
	return gone > 0 && err == nil, err
}

// PausedDestinations implements driver.Store.
func (s *Store) PausedDestinations(ctx context.Context) ([]driver.PausedDestination, error) {
	var all []driver.PausedDestination
	err := s.read(ctx, "listing paused destinations", func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, selectPaused)
		all, err = collect(rows, err, func(d *driver.PausedDestination) error {
			var at int64
			err := rows.Scan(&d.Destination, &at)
			d.At = fromMicros(at)
			return err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// HurryMessages implements driver.Store.
func (s *Store) HurryMessages(ctx context.Context, p *driver.HurryParams) (int, error) {
	if p.Limit <= 0 {
		return 0, nil
	}
	var n int64
	err := s.writeEach(ctx, "making messages due now", p.Now, 1, func(t *writeTx, _ int) (err error) {
		n, err = t.exec(hurryMessages, t.now, p.Destination, min(p.Limit, driver.MaxHurry))
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}
