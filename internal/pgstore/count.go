package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// CountDeliveries implements [driver.Store].
func (s *Store) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error {
	const op = "counting deliveries"
	mustBeSorted(len(p.Counts), func(i int) driver.Key { return p.Counts[i].Key })
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if len(p.Counts) == 0 {
		return nil
	}
	var keys [][]byte
	var duplicates, otherBodies, repeats []int64
	for i := range p.Counts {
		c := &p.Counts[i]
		keys = append(keys, c.Key[:])
		duplicates = append(duplicates, int64(c.Duplicates))
		otherBodies = append(otherBodies, int64(c.OtherBodies))
		repeats = append(repeats, int64(c.Repeats))
	}
	args := append([]any{keys, duplicates, otherBodies, repeats, clock(p.Now)}, recentArgs(p)...)
	var counted []driver.CountedEvent
	err := write(ctx, s.pools.Receive, op, func(r Rows) error {
		var key []byte
		var e driver.CountedEvent
		err := r.Scan(&key, &e.Source, &e.ReceivedAt)
		copy(e.Key[:], key)
		e.ReceivedAt = e.ReceivedAt.UTC()
		counted = append(counted, e)
		return err
	}, s.text(countSQL), args...)
	if errors.Is(rowFailed(s.pools.Receive, "", err), driver.ErrBadRow) && SQLState(err) != codeNoRights {
		return fmt.Errorf("%w: %w", driver.ErrBadRow, err)
	}
	if err == nil && p.Counted != nil {
		for _, e := range counted {
			p.Counted(e)
		}
	}
	return err
}

var quarantineSQL = statement(`
INSERT INTO {schema}.quarantine AS q (key, source, body_sha256, part, headers, body, reason, count, handled, first_at, last_at)
SELECT key, source, body_sha256, part, headers, body, reason, count, handled,
	coalesce($9::timestamptz, now()), coalesce($9::timestamptz, now())
FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bytea[], $7::text[], $8::bigint[], $10::boolean[])
	AS i (key, source, body_sha256, part, headers, body, reason, count, handled)
CROSS JOIN {schema}.durably()
ORDER BY key
ON CONFLICT (key) DO UPDATE SET
	count = q.count + excluded.count, handled = q.handled OR excluded.handled,
	last_at = greatest(q.last_at, excluded.last_at)
RETURNING 1`)

// Quarantine implements [driver.Store].
func (s *Store) Quarantine(ctx context.Context, p *driver.QuarantineParams) error {
	if len(p.Requests) == 0 {
		return nil
	}
	// One row for each body: a statement cannot write a row twice.
	times, handled := map[driver.Key]int64{}, map[driver.Key]bool{}
	var keys []driver.Key
	first := map[driver.Key]*driver.Quarantined{}
	for i := range p.Requests {
		q := &p.Requests[i]
		key := driver.BodyKey(q.Source, q.BodyHash)
		if times[key]++; times[key] == 1 {
			keys = append(keys, key)
			first[key] = q
		}
		handled[key] = handled[key] || q.Handled
	}
	slices.SortFunc(keys, func(a, b driver.Key) int { return bytes.Compare(a[:], b[:]) })
	var ids, hashes, headers, bodies [][]byte
	var sources, reasons []string
	var parts, counts []int64
	var works []bool
	for i := range keys {
		q := first[keys[i]]
		ids, hashes = append(ids, keys[i][:]), append(hashes, q.BodyHash[:])
		headers, bodies = append(headers, notNil(q.Headers)), append(bodies, notNil(q.Body))
		sources, reasons = append(sources, q.Source), append(reasons, plain(q.Reason))
		parts, counts = append(parts, int64(q.Part)), append(counts, times[keys[i]])
		works = append(works, handled[keys[i]])
	}
	const op = "quarantining requests"
	kept := 0
	count := func(Rows) error { kept++; return nil }
	err := write(ctx, s.pools.Receive, op, count, s.text(quarantineSQL),
		ids, sources, hashes, parts, headers, bodies, reasons, counts, clock(p.Now), works)
	if err == nil && kept < len(keys) {
		return fmt.Errorf("%s: %w", op, driver.ErrNotStored)
	}
	return err
}

var (
	keepQuarantinedSQL = statement(`UPDATE {schema}.quarantine SET reason = $2 WHERE key = $1 RETURNING true`)
	dropQuarantinedSQL = statement(`DELETE FROM {schema}.quarantine WHERE key = $1 RETURNING true`)
)

// SettleQuarantined implements [driver.Store].
func (s *Store) SettleQuarantined(ctx context.Context, p *driver.SettleQuarantinedParams) (found bool, err error) {
	sql, args := s.text(dropQuarantinedSQL), []any{p.Key[:]}
	if p.Reason != "" {
		sql, args = s.text(keepQuarantinedSQL), append(args, plain(p.Reason))
	}
	err = write(ctx, s.pools.Admin, "settling a quarantined request", func(r Rows) error { return r.Scan(&found) }, sql, args...)
	return found && err == nil, err
}

// maxText bounds texts for people, such as the reasons of failures, in bytes.
const maxText = 16 << 10

// plain turns a text for people into one that PostgreSQL stores. An error message that quotes a
// peer must not keep the outcome from being recorded.
func plain(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}
