package pgstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// againSQL continues a statement that has locked dead events in "queued(key, generation)", dead
// messages in "routed(id, key, generation)", and the rows of their events. It makes them due again.
// All rows of one event get one new generation, in "next".
//
// A locked row may show a newer generation than the statement's snapshot of the other rows, so the
// highest of both counts. The new generation is above that of each row that becomes due, but not
// always above that of a sibling that an earlier holder of the event's lock made due meanwhile.
//
// {state} sets the columns of the event_state row. {replayed} is true if an operator did it.
const againSQL = `
), next AS MATERIALIZED (
	SELECT k.key, 1 + greatest(
		k.generation,
		(SELECT s.generation FROM {schema}.event_state s WHERE s.key = k.key),
		(SELECT max(m.generation) FROM {schema}.message m WHERE m.event_key = k.key)
	) AS generation
	FROM (
		SELECT key, max(generation) AS generation
		FROM (SELECT key, generation FROM queued UNION ALL SELECT key, generation FROM routed) d
		GROUP BY key
	) k
), states AS (
	UPDATE {schema}.event_state s
	SET {state}, generation = next.generation
	FROM queued, next, setting
	WHERE s.key = queued.key AND next.key = queued.key
), messages AS (
	UPDATE {schema}.message m
	SET ` + messageAgainSQL + `, generation = next.generation
	FROM routed, next, setting
	WHERE m.id = routed.id AND next.key = routed.key
)`

// The columns of an event_state row and of a message that become due again with all their attempts.
// The last error and status code stay until the next answer.
const (
	stateAgainSQL = `state = 0, note = '', attempts = 0, crashes = 0, replayed = {replayed},
		due_at = setting.now, processed_at = NULL, failed_at = NULL, undecided = false, queued = false, ended = false`
	messageAgainSQL = `state = 0, note = '', attempts = 0, replayed = {replayed},
		due_at = setting.now, sent_at = NULL, failed_at = NULL`
)

// again fills in {state} and {replayed} of againSQL.
func again(sql, state string, replayed bool) string {
	sql = strings.ReplaceAll(sql, "{state}", state)
	return strings.ReplaceAll(sql, "{replayed}", strconv.FormatBool(replayed))
}

var historySQL = statement(`
SELECT at, action, generation, coalesce(message_id, ''), coalesce(request_id, operation, '')
FROM {schema}.history
WHERE event_key = $1::bytea
ORDER BY at, id`)

func (s *Store) historyOf(ctx context.Context, conn Conn, d *driver.EventDetail) error {
	return scan(ctx, conn, func(r Rows) error {
		var h driver.HistoryEntry
		var generation int32
		if err := r.Scan(&h.At, &h.Action, &generation, &h.MessageID, &h.RequestID); err != nil {
			return err
		}
		h.At, h.Generation = h.At.UTC(), int(generation)
		d.History = append(d.History, h)
		return nil
	}, s.text(historySQL), d.Key[:])
}
