package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// armSQL arms a source, or disarms it. It waits for a concurrent LearnSecret: on the lock of the
// row that it replaces, or on the inserted row if there was none.
var armSQL = statement(`
INSERT INTO {schema}.armed_source AS a (source, armed_until, armed_for, replace)
SELECT $1::text, coalesce($2::timestamptz, now()) + $3::bigint * interval '1 microsecond', $3, $4::boolean
FROM {schema}.durably()
WHERE $4 OR $3 = 0 OR (SELECT count(*) FROM {schema}.learned_secret WHERE source = $1) < $5::bigint
ON CONFLICT (source) DO UPDATE
	SET armed_until = excluded.armed_until, armed_for = excluded.armed_for, replace = excluded.replace
RETURNING true`)

// learnSQL deletes the row of the armed source, which only one session can do, and writes the
// secret.
var learnSQL = statement(`
WITH armed AS (
	DELETE FROM {schema}.armed_source
	WHERE source = $1::text AND armed_until > coalesce($3::timestamptz, now())
	RETURNING source, replace
), forgotten AS (
	DELETE FROM {schema}.learned_secret l
	USING armed a
	WHERE a.replace AND l.source = a.source AND l.secret <> $2::text
)
INSERT INTO {schema}.learned_secret AS l (source, secret, learned_at)
SELECT source, $2, coalesce($3::timestamptz, now()) FROM armed CROSS JOIN {schema}.durably()
ON CONFLICT (source, secret) DO UPDATE SET learned_at = greatest(l.learned_at, excluded.learned_at)
RETURNING true`)

// learnedSQL returns a row for each secret of each source, and one row without a secret for a
// source that has none.
var learnedSQL = statement(`
SELECT i.n, now(), a.armed_until, l.secret, l.learned_at
FROM unnest($1::text[]) WITH ORDINALITY AS i (source, n)
LEFT JOIN {schema}.armed_source a ON a.source = i.source
LEFT JOIN {schema}.learned_secret l ON l.source = i.source
ORDER BY i.n, l.learned_at, l.secret COLLATE "C"`)

// Arm implements [driver.Store].
func (s *Store) Arm(ctx context.Context, p *driver.ArmParams) (*driver.SourceSecrets, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("arming a source: %w", err)
	}
	var armed bool
	err := write(ctx, s.pools.Admin, "arming a source", func(r Rows) error { return r.Scan(&armed) }, s.text(armSQL),
		p.Source, clock(p.Now), p.For.Microseconds(), p.Replace, int64(driver.MaxLearnedSecrets))
	if err != nil {
		return nil, err
	}
	if !armed {
		return nil, fmt.Errorf("arming a source: %w: %d", driver.ErrTooManySecrets, driver.MaxLearnedSecrets)
	}
	all, err := s.learned(ctx, s.pools.Admin, []string{p.Source})
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// LearnSecret implements [driver.Store].
func (s *Store) LearnSecret(ctx context.Context, p *driver.LearnParams) (learned bool, err error) {
	if err := p.Check(); err != nil {
		return false, fmt.Errorf("learning a secret: %w", err)
	}
	err = write(ctx, s.pools.Receive, "learning a secret", func(r Rows) error { return r.Scan(&learned) },
		s.text(learnSQL), p.Source, p.Secret, clock(p.Now))
	return learned && err == nil, err
}

// LearnedSecrets implements [driver.Store].
func (s *Store) LearnedSecrets(ctx context.Context, sources []string) ([]driver.SourceSecrets, error) {
	return s.learned(ctx, s.pools.Receive, sources)
}

func (s *Store) learned(ctx context.Context, db DB, sources []string) ([]driver.SourceSecrets, error) {
	all := make([]driver.SourceSecrets, len(sources))
	for i, name := range sources {
		all[i].Source = name
	}
	if len(sources) == 0 {
		return all, nil
	}
	err := read(ctx, db, "reading learned secrets", func(r Rows) error {
		var n int64
		var now time.Time
		var armedUntil, learnedAt *time.Time
		var secret *string
		if err := r.Scan(&n, &now, &armedUntil, &secret, &learnedAt); err != nil {
			return err
		}
		of := &all[n-1]
		of.Now, of.ArmedUntil = now.UTC(), timeOf(armedUntil)
		if secret != nil {
			of.Secrets = append(of.Secrets, driver.LearnedSecret{Secret: *secret, LearnedAt: timeOf(learnedAt)})
		}
		return nil
	}, s.text(learnedSQL), sources)
	if err != nil {
		return nil, err
	}
	return all, nil
}
