package sqlitestore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// Each reads an index in the order of failed_at; the names follow, and then the limit.
	selectNewDeadMessages = `SELECT m.destination, m.id, e.source, e.event_id, substr(m.last_error, 1, 1000), m.failed_at
		FROM hookonce_message m JOIN hookonce_event e ON e.id = m.event
		WHERE m.state = 3 AND m.failed_at >= ? AND m.failed_at < ?
			AND NOT (m.route = '' AND substr(m.id, 1, length('` + driver.SummaryPrefix + `')) = '` + driver.SummaryPrefix + `')`

	selectNewDeadEvents = `SELECT '', '', e.source, e.event_id, substr(s.last_error, 1, 1000), s.failed_at
		FROM hookonce_event_state s JOIN hookonce_event e ON e.id = s.id
		WHERE s.state = 3 AND s.failed_at >= ? AND s.failed_at < ?`
)

// newDeadQuery adds a condition to one of them: a column has one of so many names, or errors.
func newDeadQuery(text, column string, names, errs int) string {
	in := "+" + keyIn(column, names)
	if errs > 0 {
		in = "(" + in + " OR s.undecided AND " + keyIn("s.last_error", errs) + ")"
	}
	return text + " AND " + in + " ORDER BY failed_at LIMIT ?"
}

// NewDead implements driver.Store.
func (s *Store) NewDead(ctx context.Context, p *driver.NewDeadParams) ([]driver.NewDead, error) {
	var all []driver.NewDead
	err := s.read(ctx, "reading new dead letters", func(ctx context.Context, tx *sql.Tx) error {
		for _, part := range []struct {
			text, column string
			names, errs  []string
		}{{selectNewDeadMessages, "m.destination", p.Destinations, nil}, {selectNewDeadEvents, "s.source", p.Sources, p.UndecidedErrors()}} {
			if len(part.names)+len(part.errs) == 0 {
				continue
			}
			args := []any{ceilMicros(p.Since), ceilMicros(p.Until)}
			for _, text := range slices.Concat(part.names, part.errs) {
				args = append(args, text)
			}
			rows, err := tx.QueryContext(ctx, newDeadQuery(part.text, part.column, len(part.names), len(part.errs)), append(args, driver.MaxNewDead)...)
			some, err := collect(rows, err, func(d *driver.NewDead) error {
				var failedAt int64
				err := rows.Scan(&d.Destination, &d.MessageID, &d.Source, &d.EventID, &d.Error, &failedAt)
				d.FailedAt = fromMicros(failedAt)
				return err
			})
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b driver.NewDead) int { return a.FailedAt.Compare(b.FailedAt) })
	return all[:min(len(all), driver.MaxNewDead)], nil
}

// Enqueue implements driver.Store.
func (s *Store) Enqueue(ctx context.Context, messages []driver.OutboxMessage) error {
	const op = "enqueueing"
	if err := checkOutbox(op, messages); err != nil {
		return err
	}
	return s.writeEach(ctx, op, time.Time{}, len(messages), func(t *writeTx, i int) error { return t.enqueue(&messages[i]) })
}
