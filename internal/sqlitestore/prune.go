package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pruning"
)

const opPrune = "pruning"

// pruneLock is the most rows of the quarantine and of figures that are removed under one hold of the write lock. For
// events, pruning.Pace decides. Both bound the wait of a claim that arrives meanwhile.
const pruneLock = 200

// pruneTime is how long events hold the write lock for half of the time at most, unless a hold has the fewest events.
// Every claim waits for it.
const pruneTime = 8 * time.Millisecond

// defaultChunk is how many rows one step looks at.
const defaultChunk = 1000

// finished is the condition that an event is done or skipped.
const finished = `NOT EXISTS (SELECT 1 FROM hookonce_message m WHERE m.event = hookonce_event.id AND m.state IN (0, 1, 3))
		AND NOT EXISTS (SELECT 1 FROM hookonce_event_state s WHERE s.id = hookonce_event.id AND s.state IN (0, 1, 3))`

// quiet is the condition that an event was not delivered, sent, processed, skipped, given up or changed by an operator at ?2
// or later: after each of these its sender may deliver it again.
const quiet = `
		AND NOT EXISTS (SELECT 1 FROM hookonce_message m WHERE m.event = hookonce_event.id
			AND (m.sent_at >= ?2 OR m.failed_at >= ?2 OR m.note = '` + driver.NoteStale + `' AND m.due_at >= ?2))
		AND NOT EXISTS (SELECT 1 FROM hookonce_event_state s WHERE s.id = hookonce_event.id
			AND (s.processed_at >= ?2 OR s.failed_at >= ?2 OR s.note = '` + driver.NoteStale + `' AND s.due_at >= ?2))
		AND NOT EXISTS (SELECT 1 FROM hookonce_delivery_count d WHERE d.key = hookonce_event.key AND d.last_at >= ?2)
		AND NOT EXISTS (SELECT 1 FROM hookonce_history h WHERE h.event_key = hookonce_event.key AND h.at >= ?2)`

// undone is the condition that no discard of an event from ?3 or later can be undone, and that no job undoes an earlier one.
const undone = ` AND NOT EXISTS (SELECT 1 FROM hookonce_history h
		WHERE h.event_key = hookonce_event.key AND h.action = '` + driver.ActionDiscarded + `' AND (
			max(h.at, coalesce((SELECT n.at FROM hookonce_history n
				WHERE n.operation = h.operation AND n.action = '` + driver.ActionDiscarded + `' ORDER BY n.id DESC LIMIT 1), 0)) >= ?3
			OR EXISTS (SELECT 1 FROM hookonce_job j WHERE j.state = 1
				AND CASE j.action WHEN '` + driver.JobUndo + `' THEN j.filter ->> 'request_id' = h.operation END)))`

const (
	// The walks look for victims on a reader, and go on behind the last row they saw: unfinished
	// events stay in their place and are not read again.
	walkIdentities = `SELECT key, source, received_at FROM hookonce_event
		WHERE (received_at, key) > (?, ?) AND received_at < ? ORDER BY received_at, key LIMIT ?`

	walkBodies = `SELECT id, source, received_at FROM hookonce_event
		WHERE body IS NOT NULL AND (received_at, id) > (?, ?) AND received_at < ? ORDER BY received_at, id LIMIT ?`

	nextQuarantineSource = `SELECT source FROM hookonce_quarantine WHERE source > ? ORDER BY source LIMIT 1`

	// The age is checked again: since the walk, another process may have pruned the event, and a
	// sender may have claimed it again.
	deleteEvent = `DELETE FROM hookonce_event WHERE key = ?1 AND received_at < ?2 AND ` + finished + quiet + undone +
		` RETURNING id, source, body_sha256`

	deleteState    = `DELETE FROM hookonce_event_state WHERE id = ?`
	deleteAttempts = `DELETE FROM hookonce_attempt
		WHERE message_id IN (SELECT id FROM hookonce_message WHERE event = ?)`
	deleteTries   = `DELETE FROM hookonce_event_attempt WHERE key = ?`
	deleteOrdered = `DELETE FROM hookonce_ordered_message
		WHERE number IN (SELECT number FROM hookonce_message WHERE event = ?1 UNION ALL SELECT ?1 + ` + eventPlaces + `)`
	deleteMessages = `DELETE FROM hookonce_message WHERE event = ?`
	deleteCount    = `DELETE FROM hookonce_delivery_count WHERE key = ?`
	deleteBodySeen = `DELETE FROM hookonce_body_seen WHERE body_key = ? AND key = ?`

	deleteBody = `UPDATE hookonce_event SET headers = NULL, body = NULL
		WHERE id = ?1 AND source = ?4 AND received_at < ?2 AND body IS NOT NULL AND ` + finished + undone + ` RETURNING key`

	walkVersions = `SELECT object, source, applied_at FROM hookonce_object_version
		WHERE (applied_at, object) > (?, ?) AND applied_at < ? ORDER BY applied_at, object LIMIT ?`

	// The row of a line with open messages or dead letters stays.
	deleteVersion = `DELETE FROM hookonce_object_version WHERE object = ?1 AND applied_at < ?2
		AND NOT EXISTS (SELECT 1 FROM hookonce_ordered_message WHERE line = ?1 AND state < 2)
		AND NOT EXISTS (SELECT 1 FROM hookonce_ordered_message WHERE line = ?1 AND state = 3)`

	deleteQuarantineOld = `DELETE FROM hookonce_quarantine WHERE rowid IN (
		SELECT rowid FROM hookonce_quarantine WHERE source = ? AND last_at < ? ORDER BY last_at LIMIT ?)`

	deleteQuarantineRows = `DELETE FROM hookonce_quarantine WHERE rowid IN (
		SELECT rowid FROM hookonce_quarantine WHERE source = ?
		ORDER BY last_at DESC, key DESC LIMIT ? OFFSET ?)`
)

// pruner is one call of Prune in its turn.
type pruner struct {
	store   *Store
	p       *driver.PruneParams
	turn    *turn
	longest driver.Windows
	state   *pruning.State
	now     int64
	chunk   int           // rows that one step looks at
	pace    *pruning.Pace // of events under one hold of the write lock
	result  driver.PruneResult
	stay    pruning.Refused
}

// Prune implements driver.Store.
func (s *Store) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	if _, err := p.Windows(); err != nil {
		return nil, err
	}
	turn, err := s.takeTurn(ctx, p.Background)
	if err != nil || turn == nil {
		return &driver.PruneResult{}, err
	}
	began, text := time.Now(), turn.state
	run := &pruner{store: s, p: p, turn: turn, now: clock(p.Now), chunk: p.Chunk, pace: pruning.NewPace(min(p.Chunk, pruneLock), pruneTime)}
	if run.chunk <= 0 {
		run.chunk = defaultChunk
	}
	if run.longest, err = s.longestWindows(ctx, p, run.now); err == nil {
		now := time.UnixMicro(run.now).UTC()
		run.state = pruning.Begin(turn.state, now, !p.Background)
		// The other steps must not keep the events from being looked at again.
		err = pruning.Each(ctx, func(ctx context.Context) error {
			err := pruning.Each(ctx, run.identities, run.bodies)
			if err == nil {
				run.state.Complete(now.Add(time.Since(began)))
			}
			return err
		}, run.versions, run.quarantine, run.refused, run.jobs, run.figures, run.feed, run.forgetWindows)
		text = run.state.Text()
	}
	run.result.Further = err != nil && text != turn.state
	if err == nil { // an error that ends the pass says enough
		err = run.stay.Err()
	}
	return &run.result, errors.Join(err, s.endTurn(ctx, turn, text))
}

// write runs a transaction of the turn.
func (r *pruner) write(ctx context.Context, op string, work func(t *writeTx) error) error {
	return r.store.write(ctx, op, func(t *writeTx) error {
		t.now = clock(r.p.Now)
		if err := r.turn.hold(t); err != nil {
			return err
		}
		return work(t)
	})
}

// retained returns the oldest time within the retention of a source.
func (r *pruner) retained(source string) int64 { return r.before(r.longest.Of(source).Retention) }

// lock returns the most rows to remove under one hold of the write lock.
func (r *pruner) lock() int { return min(r.chunk, pruneLock) }

func (r *pruner) before(window time.Duration) int64 { return r.now - window.Microseconds() }

// victim is a row that is past its window.
type victim struct {
	key    driver.Key
	id     int64
	source string
	at     int64
	before int64
}

func dedupeWindow(k driver.Kept) time.Duration { return k.DedupeWindow }

// kind is one kind of rows that have a window.
type kind struct {
	query  string // looks for those past it on a reader
	byID   bool   // they have a number; otherwise a key
	window func(driver.Kept) time.Duration
	remove func(*writeTx, *victim) (bool, error)
}

// identities removes events with all their rows, oldest first.
func (r *pruner) identities(ctx context.Context) error {
	return r.walks(ctx, &r.state.Events, &kind{walkIdentities, false, dedupeWindow, (*writeTx).deleteEvent}, &r.result.Events)
}

// bodies removes the bodies of events whose identity is kept.
func (r *pruner) bodies(ctx context.Context) error {
	retention := func(k driver.Kept) time.Duration { return k.Retention }
	return r.walks(ctx, &r.state.Bodies, &kind{walkBodies, true, retention, (*writeTx).deleteBody}, &r.result.Bodies)
}

// versions removes the versions of objects that had nothing applied for a dedupe window.
func (r *pruner) versions(ctx context.Context) error {
	var removed int64 // not part of the result
	return r.walks(ctx, &pruning.Marks{}, &kind{walkVersions, false, dedupeWindow, func(t *writeTx, v *victim) (bool, error) {
		changed, err := t.exec(deleteVersion, v.key[:], v.before)
		return changed > 0, err
	}}, &removed)
}

// walks removes the rows of one kind, oldest first. It moves the marks and adds the number of rows to total.
func (r *pruner) walks(ctx context.Context, marks *pruning.Marks, k *kind, total *int64) error {
	now := time.UnixMicro(r.now).UTC()
	walks := marks.Walks(r.longest, k.window, now)
	each := make([]func(context.Context) error, len(walks))
	for i := range walks {
		each[i] = func(ctx context.Context) error {
			to, err := r.walk(ctx, &walks[i], k, total)
			marks.Move(&walks[i], to, now)
			return err
		}
	}
	return pruning.Each(ctx, each...)
}

// walk removes the rows of one walk. It has looked at all rows before the time that it returns.
func (r *pruner) walk(ctx context.Context, w *pruning.Walk, k *kind, total *int64) (to time.Time, err error) {
	last := victim{at: w.From.UnixMicro()}
	before := w.Before.UnixMicro()
	for last.at < before {
		seen, err := r.look(ctx, w, k, &last)
		if err == nil {
			var removed int64
			removed, err = r.remove(ctx, seen, k.remove)
			*total += removed
		}
		if err != nil {
			return time.UnixMicro(last.at).UTC(), err
		}
		if len(seen) < r.chunk {
			break
		}
		last = seen[len(seen)-1]
	}
	return w.Before, nil
}

// look returns the next rows of a walk, behind the last one.
func (r *pruner) look(ctx context.Context, w *pruning.Walk, k *kind, last *victim) ([]victim, error) {
	before := w.Before.UnixMicro()
	var place any = last.key[:]
	if k.byID {
		place = last.id
	}
	rows, err := r.store.reader.QueryContext(ctx, k.query, last.at, place, before, r.chunk)
	seen, err := collect(rows, err, func(v *victim) error {
		var key []byte
		var name any = &key
		if k.byID {
			name = &v.id
		}
		err := rows.Scan(name, &v.source, &v.at)
		copy(v.key[:], key)
		if v.before = before; !w.Holds(v.source) {
			v.before = math.MinInt64
		}
		return err
	})
	if err != nil {
		return nil, r.store.failed(ctx, opPrune, err)
	}
	return seen, nil
}

// remove removes those of the seen rows that are past their windows, a few under one hold of the
// write lock. It returns their number.
func (r *pruner) remove(ctx context.Context, seen []victim, one func(*writeTx, *victim) (bool, error)) (int64, error) {
	past := slices.DeleteFunc(slices.Clone(seen), func(v victim) bool { return v.at >= v.before })
	var total int64
	for len(past) > 0 {
		some := past[:min(len(past), r.pace.Size())]
		past = past[len(some):]
		began := time.Now()
		removed, held, err := r.removeSome(ctx, some, one, inOrder)
		if isOfRow(err) {
			removed, held, err = r.removeSome(ctx, some, one, passOver)
		}
		if err != nil {
			return total, err
		}
		r.pace.Took(len(some), time.Since(held))
		total += removed
		if err := r.p.Pause(ctx, began); err != nil {
			return total, err
		}
	}
	return total, nil
}

// removeSome removes rows in one transaction. held is when the wait for the write lock was over.
func (r *pruner) removeSome(
	ctx context.Context, some []victim, one func(*writeTx, *victim) (bool, error), each eachRow[victim],
) (removed int64, held time.Time, err error) {
	err = r.write(ctx, opPrune, func(t *writeTx) error {
		held = time.Now()
		done, refusal, err := each(t, some, func(v *victim) error {
			gone, err := one(t, v)
			if gone {
				removed++
			}
			return errors.Join(t.alive(), err)
		})
		if refusal != nil {
			r.stay.Add(len(some)-len(done), fmt.Errorf("%s: %w: %w", opPrune, driver.ErrBadRow, refusal))
		}
		return err
	})
	return removed, held, err
}

// undoable returns the earliest time of a discard that can still be undone.
func (t *writeTx) undoable() int64 { return t.now - driver.UndoTime.Microseconds() }

// deleteEvent removes a finished event with all its rows.
func (t *writeTx) deleteEvent(v *victim) (bool, error) {
	var id int64
	var source string
	var hash []byte
	switch err := t.queryRow(deleteEvent, v.key[:], v.before, t.undoable()).Scan(&id, &source, &hash); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, query := range []string{deleteResponses, deleteAttempts, deleteOrdered, deleteMessages, deleteState} {
		if _, err := t.exec(query, id); err != nil {
			return false, err
		}
	}
	for _, query := range []string{deleteOtherBody, deleteTries, deleteCount, deleteHistory} {
		if _, err := t.exec(query, v.key[:]); err != nil {
			return false, err
		}
	}
	bodyKey := driver.BodyKey(source, [32]byte(hash))
	_, err := t.exec(deleteBodySeen, bodyKey[:], v.key[:])
	return err == nil, err
}

// deleteBody removes the body and headers of a finished event, with its other body and the responses
// of its messages.
func (t *writeTx) deleteBody(v *victim) (bool, error) {
	var key []byte
	switch err := t.queryRow(deleteBody, v.id, v.before, t.undoable(), v.source).Scan(&key); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	if _, err := t.exec(deleteResponses, v.id); err != nil {
		return false, err
	}
	_, err := t.exec(deleteOtherBody, key)
	return err == nil, err
}

// quarantine removes requests past their retention, then those above the number of rows to keep.
func (r *pruner) quarantine(ctx context.Context) error {
	return r.eachSource(ctx, nextQuarantineSource, func(source string) error {
		before := r.retained(source)
		if err := r.repeat(ctx, &r.result.Quarantined, deleteQuarantineOld, source, before, r.lock()); err != nil {
			return err
		}
		return r.repeat(ctx, &r.result.Quarantined, deleteQuarantineRows, source, r.lock(), r.longest.Of(source).QuarantineRows)
	})
}

// repeat runs a statement that deletes up to r.lock() rows until it deletes fewer, each time in a
// transaction of its own. It adds their number to total.
func (r *pruner) repeat(ctx context.Context, total *int64, query string, args ...any) error {
	for {
		began := time.Now()
		var removed int64
		err := r.write(ctx, opPrune, func(t *writeTx) (err error) {
			removed, err = t.exec(query, args...)
			return err
		})
		if isOfRow(err) {
			r.stay.Add(0, err)
			return nil
		}
		if err != nil {
			return err
		}
		*total += removed
		if removed < int64(r.lock()) {
			return nil
		}
		if err := r.p.Pause(ctx, began); err != nil {
			return err
		}
	}
}

// eachSource calls do for "", the source of messages without an event, and for every source that
// next finds, in order.
func (r *pruner) eachSource(ctx context.Context, next string, do func(source string) error) error {
	for source := ""; ; {
		if err := do(source); err != nil {
			return err
		}
		switch err := r.store.reader.QueryRowContext(ctx, next, source).Scan(&source); {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return r.store.failed(ctx, opPrune, err)
		}
	}
}
