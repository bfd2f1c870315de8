package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const opPrune = "pruning"

// pruneLock is the most rows that are removed under one hold of the write lock. It bounds the wait
// of a claim that arrives meanwhile.
const pruneLock = 200

// defaultChunk is how many rows one step looks at.
const defaultChunk = 1000

// finished is the condition that an event is done or skipped.
const finished = `NOT EXISTS (SELECT 1 FROM hookonce_message m WHERE m.event = hookonce_event.id AND m.state IN (0, 1, 3))
		AND NOT EXISTS (SELECT 1 FROM hookonce_event_state s WHERE s.id = hookonce_event.id AND s.state IN (0, 1, 3))`

const (
	// Both walks look for victims on a reader, and go on behind the last row they saw: unfinished
	// events stay in their place and are not read again.
	walkIdentities = `SELECT key, source, received_at FROM hookonce_event
		WHERE (received_at, key) > (?, ?) AND received_at < ? ORDER BY received_at, key LIMIT ?`

	walkBodies = `SELECT id, received_at FROM hookonce_event
		WHERE source = ? AND body IS NOT NULL AND (received_at, id) > (?, ?) AND received_at < ?
		ORDER BY received_at, id LIMIT ?`

	nextBodySource = `SELECT source FROM hookonce_event
		WHERE body IS NOT NULL AND source > ? ORDER BY source LIMIT 1`

	nextQuarantineSource = `SELECT source FROM hookonce_quarantine WHERE source > ? ORDER BY source LIMIT 1`

	// The age is checked again: since the walk, another process may have pruned the event, and a
	// sender may have claimed it again.
	deleteEvent = `DELETE FROM hookonce_event WHERE key = ? AND received_at < ? AND ` + finished +
		` RETURNING id, source, body_sha256`

	deleteState    = `DELETE FROM hookonce_event_state WHERE id = ?`
	deleteAttempts = `DELETE FROM hookonce_attempt
		WHERE message_id IN (SELECT id FROM hookonce_message WHERE event = ?)`
	deleteTries    = `DELETE FROM hookonce_event_attempt WHERE key = ?`
	deleteMessages = `DELETE FROM hookonce_message WHERE event = ?`
	deleteCount    = `DELETE FROM hookonce_delivery_count WHERE key = ?`
	deleteBodySeen = `DELETE FROM hookonce_body_seen WHERE body_key = ? AND key = ?`

	deleteBody = `UPDATE hookonce_event SET headers = NULL, body = NULL
		WHERE id = ? AND source = ? AND received_at < ? AND body IS NOT NULL AND ` + finished + ` RETURNING key`

	walkVersions = `SELECT object, source, applied_at FROM hookonce_object_version
		WHERE (applied_at, object) > (?, ?) AND applied_at < ? ORDER BY applied_at, object LIMIT ?`

	deleteVersion = `DELETE FROM hookonce_object_version WHERE object = ? AND applied_at < ?`

	deleteQuarantineOld = `DELETE FROM hookonce_quarantine WHERE rowid IN (
		SELECT rowid FROM hookonce_quarantine WHERE source = ? AND last_at < ? ORDER BY last_at LIMIT ?)`

	deleteQuarantineRows = `DELETE FROM hookonce_quarantine WHERE rowid IN (
		SELECT rowid FROM hookonce_quarantine WHERE source = ?
		ORDER BY last_at DESC, key DESC LIMIT ? OFFSET ?)`
)

// pruner is one call of Prune.
type pruner struct {
	store   *Store
	p       *driver.PruneParams
	longest driver.Windows
	now     int64
	chunk   int
	result  driver.PruneResult
}

// Prune implements driver.Store.
func (s *Store) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	run := &pruner{store: s, p: p, now: clock(p.Now), chunk: p.Chunk}
	if run.chunk <= 0 {
		run.chunk = defaultChunk
	}
	var err error
	if run.longest, err = s.longestWindows(ctx, p, run.now); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		run.identities, run.bodies, run.versions, run.quarantine, run.refused, run.jobs, run.figures, run.feed, run.forgetWindows,
	} {
		if err := step(ctx); err != nil {
			return &run.result, err
		}
	}
	return &run.result, nil
}

// windows returns the oldest times within the windows of a source, for identities and bodies.
func (r *pruner) windows(source string) (identities, bodies int64) {
	k := r.longest.Of(source)
	return r.before(k.DedupeWindow), r.before(k.Retention)
}

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

// identities removes events with all their rows, oldest first.
func (r *pruner) identities(ctx context.Context) (err error) {
	r.result.Events, err = r.keyed(ctx, walkIdentities, (*writeTx).deleteEvent)
	return err
}

// versions removes the versions of objects that had nothing applied for a dedupe window.
func (r *pruner) versions(ctx context.Context) error {
	_, err := r.keyed(ctx, walkVersions, func(t *writeTx, v *victim) (bool, error) {
		changed, err := t.exec(deleteVersion, v.key[:], v.before)
		return changed > 0, err
	})
	return err
}

// keyed removes rows that have a key, a source and a time, and are past the dedupe window of their
// source, oldest first. It returns their number.
func (r *pruner) keyed(ctx context.Context, walk string, one func(*writeTx, *victim) (bool, error)) (total int64, err error) {
	latest := int64(math.MinInt64)
	for source := range r.longest {
		identities, _ := r.windows(source)
		latest = max(latest, identities)
	}
	last := victim{at: math.MinInt64}
	for {
		seen, err := r.walk(ctx, func(v *victim, rows *sql.Rows) error {
			var key []byte
			err := rows.Scan(&key, &v.source, &v.at)
			copy(v.key[:], key)
			v.before, _ = r.windows(v.source)
			return err
		}, walk, last.at, last.key[:], latest, r.chunk)
		if err != nil {
			return total, err
		}
		removed, err := r.remove(ctx, seen, one)
		total += removed
		if err != nil || len(seen) < r.chunk {
			return total, err
		}
		last = seen[len(seen)-1]
	}
}

// bodies removes the bodies of events whose identity is kept.
func (r *pruner) bodies(ctx context.Context) error {
	return r.eachSource(ctx, nextBodySource, func(source string) error {
		_, before := r.windows(source)
		last := victim{at: math.MinInt64}
		for {
			seen, err := r.walk(ctx, func(v *victim, rows *sql.Rows) error {
				v.source, v.before = source, before
				return rows.Scan(&v.id, &v.at)
			}, walkBodies, source, last.at, last.id, before, r.chunk)
			if err != nil {
				return err
			}
			removed, err := r.remove(ctx, seen, (*writeTx).deleteBody)
			r.result.Bodies += removed
			if err != nil || len(seen) < r.chunk {
				return err
			}
			last = seen[len(seen)-1]
		}
	})
}

func (r *pruner) walk(ctx context.Context, scan func(*victim, *sql.Rows) error, query string, args ...any) ([]victim, error) {
	rows, err := r.store.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, r.store.failed(ctx, opPrune, err)
	}
	seen, err := collect(rows, func(v *victim) error { return scan(v, rows) })
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
	for some := range slices.Chunk(past, r.lock()) {
		began := time.Now()
		var removed int64
		err := r.store.writeEach(ctx, opPrune, r.p.Now, len(some), func(t *writeTx, i int) error {
			gone, err := one(t, &some[i])
			if gone {
				removed++
			}
			return err
		})
		if err != nil {
			return total, err
		}
		total += removed
		if err := r.p.Pause(ctx, began); err != nil {
			return total, err
		}
	}
	return total, nil
}

// deleteEvent removes a finished event with all its rows.
func (t *writeTx) deleteEvent(v *victim) (bool, error) {
	var id int64
	var source string
	var hash []byte
	switch err := t.queryRow(deleteEvent, v.key[:], v.before).Scan(&id, &source, &hash); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, query := range []string{deleteResponses, deleteAttempts, deleteMessages, deleteState} {
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
	switch err := t.queryRow(deleteBody, v.id, v.source, v.before).Scan(&key); {
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
		_, before := r.windows(source)
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
		err := r.store.write(ctx, opPrune, func(t *writeTx) (err error) {
			removed, err = t.exec(query, args...)
			return err
		})
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
