package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	countLearned = `SELECT count(*) FROM hookonce_learned_secret WHERE source = ?`

	armSource = `INSERT INTO hookonce_armed_source (source, armed_until, armed_for, replace) VALUES (?, ?, ?, ?)
		ON CONFLICT (source) DO UPDATE
		SET armed_until = excluded.armed_until, armed_for = excluded.armed_for, replace = excluded.replace`

	takeArmed = `DELETE FROM hookonce_armed_source WHERE source = ? AND armed_until > ? RETURNING replace`

	forgetLearned = `DELETE FROM hookonce_learned_secret WHERE source = ? AND secret <> ?`

	keepLearned = `INSERT INTO hookonce_learned_secret (source, secret, learned_at) VALUES (?, ?, ?)
		ON CONFLICT (source, secret) DO UPDATE SET learned_at = max(learned_at, excluded.learned_at)`

	selectArmed   = `SELECT armed_until FROM hookonce_armed_source WHERE source = ?`
	selectLearned = `SELECT secret, learned_at FROM hookonce_learned_secret WHERE source = ? ORDER BY learned_at, secret`
)

// Arm implements driver.Store.
func (s *Store) Arm(ctx context.Context, p *driver.ArmParams) (*driver.SourceSecrets, error) {
	const op = "arming a source"
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	full := false
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		var have int
		if err := t.queryRow(countLearned, p.Source).Scan(&have); err != nil {
			return err
		}
		if full = have >= driver.MaxLearnedSecrets && !p.Replace && p.For > 0; full {
			return nil
		}
		_, err := t.exec(armSource, p.Source, t.now+p.For.Microseconds(), p.For.Microseconds(), p.Replace)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case full:
		return nil, fmt.Errorf("%s: %w: %d", op, driver.ErrTooManySecrets, driver.MaxLearnedSecrets)
	}
	all, err := s.LearnedSecrets(ctx, []string{p.Source})
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// LearnSecret implements driver.Store.
func (s *Store) LearnSecret(ctx context.Context, p *driver.LearnParams) (bool, error) {
	const op = "learning a secret"
	if err := p.Check(); err != nil {
		return false, fmt.Errorf("%s: %w", op, err)
	}
	learned := false
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) error {
		var replace bool
		err := t.queryRow(takeArmed, p.Source, t.now).Scan(&replace)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if replace {
			if _, err := t.exec(forgetLearned, p.Source, p.Secret); err != nil {
				return err
			}
		}
		learned = true
		_, err = t.exec(keepLearned, p.Source, p.Secret, t.now)
		return err
	})
	return learned && err == nil, err
}

// LearnedSecrets implements driver.Store.
func (s *Store) LearnedSecrets(ctx context.Context, sources []string) ([]driver.SourceSecrets, error) {
	all := make([]driver.SourceSecrets, len(sources))
	err := s.read(ctx, "reading learned secrets", func(ctx context.Context, tx *sql.Tx) error {
		for i, name := range sources {
			of := &all[i]
			of.Source, of.Now = name, fromMicros(clock(time.Time{}))
			var until sql.NullInt64
			if err := tx.QueryRowContext(ctx, selectArmed, name).Scan(&until); err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			of.ArmedUntil = fromNullMicros(until)
			rows, err := tx.QueryContext(ctx, selectLearned, name)
			of.Secrets, err = collect(rows, err, func(l *driver.LearnedSecret) error {
				var at int64
				err := rows.Scan(&l.Secret, &at)
				l.LearnedAt = fromMicros(at)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
