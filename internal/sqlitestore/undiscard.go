package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	selectDiscards = `SELECT id, event_key, coalesce(message_id, ''), generation, failed_at, coalesce(note, '') FROM hookonce_history
		WHERE operation = ? AND operation IS NOT NULL AND action = '` + driver.ActionDiscarded + `' AND id > ? ORDER BY id LIMIT ?`

	// Only the last discard of a letter is undone.
	selectLater = `SELECT 1 FROM hookonce_history WHERE event_key = ? AND id > ? AND coalesce(message_id, '') = ?
		AND action IN ('` + driver.ActionDiscarded + `', '` + driver.ActionUndone + `') LIMIT 1`

	// Without its body, a letter could neither be sent nor reopened.
	withBody = ` AND body IS NOT NULL`

	undiscardEvent = `UPDATE hookonce_event_state SET state = 3, note = ?1, failed_at = ?2, ended = 0
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?3` + withBody + `) AND state = 4 AND note = '` + driver.NoteDiscarded + `' AND generation = ?4`

	undiscardMessage = `UPDATE hookonce_message SET state = 3, note = ?1, failed_at = ?2
		WHERE event = (SELECT id FROM hookonce_event WHERE key = ?3` + withBody + `) AND state = 4 AND note = '` + driver.NoteDiscarded + `' AND generation = ?4 AND id = ?5`

	countDiscards = `SELECT count(*) FROM (SELECT 1 FROM hookonce_history
		WHERE operation = ? AND operation IS NOT NULL AND action = '` + driver.ActionDiscarded + `' LIMIT 1001)`

	selectLastDiscard = `SELECT at FROM hookonce_history
		WHERE operation = ? AND operation IS NOT NULL AND action = '` + driver.ActionDiscarded + `' ORDER BY id DESC LIMIT 1`
)

// discard is an entry of the history.
type discard struct {
	id         int64
	letter     driver.DeadLetterRef
	generation int
	failedAt   sql.NullInt64
	note       string
}

// Undiscard implements driver.Store.
func (s *Store) Undiscard(ctx context.Context, p *driver.UndiscardParams) (*driver.Undiscarded, error) {
	limit := min(max(p.Limit, 1), driver.MaxJobStep)
	var done driver.Undiscarded
	err := s.writeEach(ctx, "undoing a discard", p.Now, 1, func(t *writeTx, _ int) (err error) {
		done = driver.Undiscarded{Held: true}
		if p.Step != nil {
			if done.Held, err = t.holdJob(p.Step); err != nil || !done.Held {
				return err
			}
		}
		entries, err := t.discards(p, limit)
		if err != nil {
			return err
		}
		for i := range entries {
			undone := false
			if !p.Pass {
				if undone, err = t.undiscard(p.Operation, &entries[i]); err != nil {
					return err
				}
			}
			if undone {
				done.Undone++
			} else {
				done.Skipped++
			}
		}
		if len(entries) == limit {
			done.Next = strconv.FormatInt(entries[limit-1].id, 10)
		}
		if p.Step == nil {
			return nil
		}
		return t.stepJob(p.Recorded(&done))
	})
	if err != nil {
		return nil, err
	}
	return &done, nil
}

func (t *writeTx) discards(p *driver.UndiscardParams, limit int) ([]discard, error) {
	after := int64(0)
	if p.After != "" {
		var err error
		if after, err = strconv.ParseInt(p.After, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: the place to go on: %w", driver.ErrBadRow, err)
		}
	}
	rows, err := t.query(selectDiscards, p.Operation, after, limit)
	return collect(rows, err, func(d *discard) error {
		var key []byte
		err := rows.Scan(&d.id, &key, &d.letter.MessageID, &d.generation, &d.failedAt, &d.note)
		copy(d.letter.Key[:], key)
		return err
	})
}

func (t *writeTx) undiscard(operation string, d *discard) (bool, error) {
	var later int
	if err := t.queryRow(selectLater, d.letter.Key[:], d.id, d.letter.MessageID).Scan(&later); !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	query, args := undiscardEvent, []any{d.note, d.failedAt, d.letter.Key[:], d.generation}
	if d.letter.MessageID != "" {
		query, args = undiscardMessage, append(args, d.letter.MessageID)
	}
	changed, err := t.exec(query, args...)
	if err != nil || changed == 0 {
		return false, err
	}
	if err := t.settleIDs([]string{d.letter.Place()}); err != nil {
		return false, err
	}
	return true, t.record(&historyEntry{
		key: d.letter.Key, action: driver.ActionUndone, generation: d.generation, messageID: d.letter.MessageID, operation: operation,
	})
}

// Discards implements driver.Store.
func (s *Store) Discards(ctx context.Context, operation string) (*driver.Discarded, error) {
	var found driver.Discarded
	err := s.snapshot(ctx, "looking for discards", func(ctx context.Context, tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, countDiscards, operation).Scan(&found.Count); err != nil || found.Count == 0 {
			return err
		}
		var at int64
		err := tx.QueryRowContext(ctx, selectLastDiscard, operation).Scan(&at)
		found.Recent = at >= clock(time.Time{})-driver.UndoTime.Microseconds()
		return err
	})
	if err == nil && found.Count == 0 {
		err = driver.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}
