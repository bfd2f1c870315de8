package pgstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// againSQL goes on after "queued(key, generation)" and "routed(id, key,
// generation)": dead events and messages that are locked, as is the row of each of
// their events. It makes them due again, those of one event in one generation,
// which "next" holds. What a locked row says of its generation may be newer than
// what the statement sees of the others, so the highest of both counts: above that
// of each row that becomes due, but not always above that of a sibling which a
// transaction that had the event's lock before made due meanwhile.
//
// What it means for the event's own row is said by {state}; {replayed} says whether
// it was an operator.
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

// What it means that an event's own row, or a message, is due again with full
// attempts. The last answer stays to be seen until there is another one.
const (
	stateAgainSQL = `state = 0, note = '', attempts = 0, crashes = 0, replayed = {replayed},
		due_at = setting.now, processed_at = NULL, failed_at = NULL`
	messageAgainSQL = `state = 0, note = '', attempts = 0, replayed = {replayed},
		due_at = setting.now, sent_at = NULL, failed_at = NULL`
)

// again writes a statement out in which something becomes due again.
func again(sql, state string, replayed bool) string {
	sql = strings.ReplaceAll(sql, "{state}", state)
	return strings.ReplaceAll(sql, "{replayed}", strconv.FormatBool(replayed))
}

const historySQL = `
SELECT at, action, generation, coalesce(message_id, ''), coalesce(request_id, '')
FROM {schema}.history
WHERE event_key = $1::bytea
ORDER BY at, id`

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
	}, s.sql.history, d.Key[:])
}
