package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// eventColumns are the columns of an eventRow.
var eventColumns = `key, source, event_id, type, state, waiting, note, attempts, generation, duplicates, ` +
	bounded("received_at") + ", " + boundedOrNull("occurred_at") + ", " +
	boundedOrNull("processed_at") + ", " + boundedOrNull("failed_at") + ", last_error, remote = '" + driver.RemoteReconcile + "'"

// eventRow holds one row of eventColumns.
type eventRow struct {
	driver.Event
	key                               []byte
	attempts, generation              int32
	occurredAt, processedAt, failedAt *time.Time
}

func (e *eventRow) targets() []any {
	return []any{
		&e.key, &e.Source, &e.EventID, &e.Type, &e.State, &e.Waiting, &e.Note, &e.attempts, &e.generation, &e.Duplicates,
		&e.ReceivedAt, &e.occurredAt, &e.processedAt, &e.failedAt, &e.LastError, &e.Reconciled,
	}
}

// finish returns the event after a scan.
func (e *eventRow) finish() driver.Event {
	e.Key = driver.Key(e.key)
	e.Attempts, e.Generation = int(e.attempts), int(e.generation)
	e.ReceivedAt = e.ReceivedAt.UTC()
	e.OccurredAt, e.ProcessedAt, e.FailedAt = timeOf(e.occurredAt), timeOf(e.processedAt), timeOf(e.failedAt)
	return e.Event
}

var detailSQL = `
SELECT ` + eventColumns + `, headers, body, body_sha256, watched, remote, gateway, other_bodies, repeats, ` + bounded("last_at") + `
FROM {schema}.event_overview`

// eventByKeySQL probes the index for each key. For many keys, from an id with many colons, the planner
// would read all events otherwise.
var eventByKeySQL = statement(detailSQL + `
WHERE key = (
	SELECT i.key
	FROM unnest($1::bytea[]) WITH ORDINALITY AS i (key, place)
	CROSS JOIN LATERAL (
		SELECT e.source, e.event_id, e.outbox FROM {schema}.event e WHERE e.key = i.key LIMIT 1
	) e
	WHERE e.source = $2::text AND e.event_id = $3::text AND NOT e.outbox
	ORDER BY i.place
	LIMIT 1
)`)

// eventByIDSQL scans all events: no index serves it, unlike eventByKeySQL.
var eventByIDSQL = statement(detailSQL + `
WHERE source = $1::text AND event_id = $2::text
ORDER BY received_at
LIMIT 1`)

var messagesSQL = statement(`
SELECT ` + messageColumns + `
FROM {schema}.message m
WHERE m.event_key = $1::bytea OR m.cause = $1::bytea
ORDER BY m.route COLLATE "C", m.id COLLATE "C"`)

var attemptsSQL = statement(`
SELECT * FROM (
	SELECT a.message_id, a.generation, a.number, a.outcome, coalesce(a.status_code, 0), coalesce(a.error, ''), a.at, a.took,
		coalesce(r.content_type, ''), r.response
	FROM {schema}.message m
	JOIN {schema}.attempt a ON a.message_id = m.id
	LEFT JOIN {schema}.attempt_response r ON r.message_id = a.message_id AND r.generation = a.generation AND r.number = a.number
	WHERE m.event_key = $1::bytea OR m.cause = $1::bytea
	UNION ALL
	SELECT m.id, m.generation, m.attempts, 1, coalesce(m.status_code, 0), '', m.sent_at, m.took, '', NULL
	FROM {schema}.message m
	WHERE (m.event_key = $1::bytea OR m.cause = $1::bytea) AND m.sent_at IS NOT NULL
	UNION ALL
	SELECT '', a.generation, a.number, a.outcome, 0, a.error, a.at, a.took, '', NULL
	FROM {schema}.event_attempt a
	WHERE a.key = $1::bytea
) a
ORDER BY a.at, a.generation, a.number, a.message_id COLLATE "C"`)

// Event implements [driver.Store]. It reads everything from one snapshot.
func (s *Store) Event(ctx context.Context, source, eventID string) (*driver.EventDetail, error) {
	var detail *driver.EventDetail
	err := s.pools.Admin.Transaction(ctx, Snapshot, func(conn Conn) (err error) {
		var watched bool
		if detail, watched, err = s.detail(ctx, conn, source, eventID); err != nil || detail == nil {
			return err
		}
		if watched {
			if err := s.repeatOf(ctx, conn, detail); err != nil {
				return err
			}
		}
		for _, read := range []func(context.Context, Conn, *driver.EventDetail) error{
			s.recentOf, s.otherBodyOf, s.messagesOf, s.attemptsOf, s.historyOf,
		} {
			if err := read(ctx, conn, detail); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, readFailed(s.pools.Admin, "reading an event", err)
	}
	if detail == nil {
		return nil, fmt.Errorf("reading an event: %w: source %q has no event %q", driver.ErrNotFound, source, eventID)
	}
	return detail, nil
}

func (s *Store) detail(ctx context.Context, conn Conn, source, eventID string) (detail *driver.EventDetail, watched bool, err error) {
	if !driver.IsText(source) || !driver.IsText(eventID) {
		return nil, false, nil // such an event cannot be stored
	}
	sql, args := s.text(eventByIDSQL), []any{source, eventID}
	if candidates := driver.CandidateKeys(source, eventID); candidates != nil {
		sql, args = s.text(eventByKeySQL), []any{keyArgs(candidates), source, eventID}
	}
	err = scan(ctx, conn, func(r Rows) error {
		detail = new(driver.EventDetail)
		var row eventRow
		var hash []byte
		err := r.Scan(append(row.targets(), &detail.Headers, &detail.Body, &hash, &watched,
			&detail.Deliveries.FirstRemote, &detail.Deliveries.FirstGateway, &detail.Deliveries.OtherBodies, &detail.Deliveries.Repeats, &detail.Deliveries.LastAt)...)
		if err != nil {
			return err
		}
		detail.Event = row.finish()
		detail.BodySHA256 = [32]byte(hash)
		detail.BodyPruned = detail.Body == nil
		detail.Deliveries.Count = 1 + detail.Duplicates
		detail.Deliveries.FirstAt = detail.ReceivedAt
		detail.Deliveries.LastAt = detail.Deliveries.LastAt.UTC()
		return nil
	}, sql, args...)
	return detail, watched, err
}

var repeatOfSQL = statement(`
SELECT e.event_id
FROM {schema}.body_seen b
JOIN {schema}.event e ON e.key = b.key
WHERE b.body_key = $1::bytea AND b.key <> $2::bytea AND e.body_sha256 = $3::bytea -- otherwise the row is void
	AND e.received_at <= $4::timestamptz -- the event that came first may have been pruned`)

func (s *Store) repeatOf(ctx context.Context, conn Conn, d *driver.EventDetail) error {
	bodyKey := driver.BodyKey(d.Source, d.BodySHA256)
	return scan(ctx, conn, func(r Rows) error {
		return r.Scan(&d.Deliveries.RepeatOf)
	}, s.text(repeatOfSQL), bodyKey[:], d.Key[:], d.BodySHA256[:], &d.ReceivedAt)
}

func (s *Store) messagesOf(ctx context.Context, conn Conn, d *driver.EventDetail) error {
	return scan(ctx, conn, func(r Rows) error {
		var row messageRow
		if err := r.Scan(row.targets()...); err != nil {
			return err
		}
		d.Messages = append(d.Messages, row.finish())
		return nil
	}, s.text(messagesSQL), d.Key[:])
}

// outcomes are the names of attempts' outcomes. The indexes are those of driver.MessageOutcome.
var outcomes = [...]string{driver.MessageSent: "sent", driver.MessageRetry: "retry", driver.MessageDead: "dead"}

func (s *Store) attemptsOf(ctx context.Context, conn Conn, d *driver.EventDetail) error {
	return scan(ctx, conn, func(r Rows) error {
		var a driver.Attempt
		var outcome int16
		var generation, number, statusCode int32
		var took int64
		if err := r.Scan(&a.MessageID, &generation, &number, &outcome, &statusCode, &a.Error, &a.At, &took, &a.ResponseType, &a.Response); err != nil {
			return err
		}
		a.Generation, a.Number, a.StatusCode = int(generation), int(number), int(statusCode)
		a.Outcome, a.At = outcomes[outcome], a.At.UTC()
		a.Took = time.Duration(took) * time.Microsecond
		d.Tries = append(d.Tries, a)
		return nil
	}, s.text(attemptsSQL), d.Key[:])
}
