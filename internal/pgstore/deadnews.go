package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// newDeadSQL reads the dead messages of the destinations $1, and the dead events of the sources $2 or with
// the errors $6 of undecided routes. Each part reads an index in the order of failed_at.
var newDeadSQL = statement(`
SELECT destination, id, source, event_id, error, failed_at
FROM (
	(
		SELECT m.destination, m.id, e.source, e.event_id, left(coalesce(m.last_error, ''), 1000) AS error, m.failed_at
		FROM {schema}.message m
		CROSS JOIN LATERAL (SELECT c.source, c.event_id FROM {schema}.event c WHERE c.key = m.event_key LIMIT 1) e
		WHERE m.state = 3 AND m.failed_at >= $3::timestamptz AND m.failed_at < $4::timestamptz AND m.destination = ANY ($1::text[])
			AND NOT (m.route = '' AND starts_with(m.id, '` + driver.SummaryPrefix + `'))
		ORDER BY m.failed_at
		LIMIT $5::int
	) UNION ALL (
		SELECT '', '', e.source, e.event_id, left(coalesce(s.last_error, ''), 1000), s.failed_at
		FROM {schema}.event_state s
		CROSS JOIN LATERAL (SELECT c.source, c.event_id FROM {schema}.event c WHERE c.key = s.key LIMIT 1) e
		WHERE s.state = 3 AND s.failed_at >= $3 AND s.failed_at < $4
			AND (s.source = ANY ($2::text[]) OR s.undecided AND s.last_error = ANY ($6::text[]))
		ORDER BY s.failed_at
		LIMIT $5
	)
) d
ORDER BY failed_at
LIMIT $5`)

// NewDead implements [driver.Store].
func (s *Store) NewDead(ctx context.Context, p *driver.NewDeadParams) ([]driver.NewDead, error) {
	var all []driver.NewDead
	err := read(ctx, s.pools.Work, "reading new dead letters", func(r Rows) error {
		var d driver.NewDead
		var failedAt *time.Time
		err := r.Scan(&d.Destination, &d.MessageID, &d.Source, &d.EventID, &d.Error, &failedAt)
		d.FailedAt = timeOf(failedAt)
		all = append(all, d)
		return err
	}, s.text(newDeadSQL), notNilText(p.Destinations), notNilText(p.Sources), roundUp(p.Since), roundUp(p.Until), int32(driver.MaxNewDead),
		p.UndecidedErrors())
	if err != nil {
		return nil, err
	}
	return all, nil
}

// notNilText returns list, or an empty list for nil, which would be NULL.
func notNilText(list []string) []string { return append([]string{}, list...) }

// Enqueue implements [driver.Store].
func (s *Store) Enqueue(ctx context.Context, messages []driver.OutboxMessage) error {
	return transact(ctx, s.pools.Work, "enqueueing", func(conn Conn) error { return s.EnqueueOn(ctx, conn, messages) })
}
