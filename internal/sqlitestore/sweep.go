package sqlitestore

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// sweptAtOnce is the most events that one sweep finds. It bounds how long the sweep holds the write
// lock.
const sweptAtOnce = 500

// longestWait bounds the recorded wait until the next attempt.
const longestWait = 365 * 24 * time.Hour

const (
	lostRuns = ` FROM hookonce_event_state s INDEXED BY hookonce_event_state_running
		CROSS JOIN hookonce_event e ON e.id = s.id WHERE s.state = 1 AND s.due_at <= ?1 LIMIT ?2`

	countLost = `SELECT count(*) FROM (SELECT 1` + lostRuns + `)`

	selectLost = `SELECT s.key, s.source, e.event_id, e.type, s.generation, s.attempts, s.run, s.run_size, s.run_retry_in` + lostRuns

	// An event that was alone in its run is at fault, so this counts an attempt.
	loseAlone = `UPDATE hookonce_event_state
		SET state = ?2, attempts = ?3, crashes = min(crashes, 2147483646) + 1, due_at = ?4, failed_at = ?5, last_error = ?6, retry_in = ?7, note = ?8, signature = ?9
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?1)`

	loseOther = `UPDATE hookonce_event_state SET state = 0, crashes = min(crashes, 2147483646) + 1, due_at = ?2
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?1)`
)

// lostEvent is an event of an interrupted run.
type lostEvent struct {
	driver.LostRun
	generation int
	run        int64
	size       int
	retryIn    sql.NullInt64 // null: it was the last attempt
}

// SweepRuns implements driver.Store. A run in progress holds the write lock, so every overdue event
// that a sweep sees under that lock was interrupted. Together with an error it returns the runs that it recorded.
func (s *Store) SweepRuns(ctx context.Context, p *driver.SweepRunsParams) ([]driver.LostRun, error) {
	const op = "looking for interrupted runs"
	// Most sweeps find nothing, and see that without waiting for the writer.
	var n int
	err := s.read(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, countLost, clock(p.Now), 1).Scan(&n)
	})
	if err != nil || n == 0 {
		return nil, err
	}
	lost, err := s.sweep(ctx, op, p, inOrder)
	if isOfRow(err) {
		lost, err = s.sweep(ctx, op, p, passOver)
	}
	return lost, err
}

// sweep records interrupted runs by one commit. With the error of a refused row it returns the others.
func (s *Store) sweep(ctx context.Context, op string, p *driver.SweepRunsParams, each eachRow[lostEvent]) ([]driver.LostRun, error) {
	var events []lostEvent
	var refusal error
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
		if events, err = t.lost(); err != nil {
			return err
		}
		events, refusal, err = each(t, events, t.lose)
		return err
	})
	if err != nil {
		return nil, err
	}
	lost := make([]driver.LostRun, len(events))
	for i := range events {
		lost[i] = events[i].LostRun
	}
	if refusal != nil {
		return lost, s.failed(ctx, op, refusal)
	}
	return lost, nil
}

func (t *writeTx) lost() ([]lostEvent, error) {
	rows, err := t.query(selectLost, t.now, sweptAtOnce)
	return collect(rows, err, func(e *lostEvent) error {
		var key []byte
		err := rows.Scan(&key, &e.Source, &e.EventID, &e.Type, &e.generation, &e.Attempts, &e.run, &e.size, &e.retryIn)
		copy(e.Key[:], key)
		e.Alone = e.size == 1
		return err
	})
}

// lose records that the run of e was interrupted, and lets its line go on.
func (t *writeTx) lose(e *lostEvent) error {
	if err := t.recordInterrupted(e); err != nil {
		return err
	}
	return t.settleIDs([]string{driver.EventPlace(e.Key)})
}

func (t *writeTx) recordInterrupted(e *lostEvent) error {
	reason, note := driver.ErrorRunInterrupted, ""
	// The number says that its handler had begun in a transaction that is committed, and only a
	// handler can have committed it. The event would take effect again.
	if e.run&1 == 1 {
		e.Ended, reason, note = true, (&driver.TxEndedError{Committed: true}).Error(), driver.NoteTxEnded
	}
	if !e.Alone && !e.Ended {
		_, err := t.exec(loseOther, e.Key[:], t.now)
		return err
	}
	e.Attempts = min(e.Attempts, math.MaxInt32-1) + 1
	e.Dead = e.Ended || !e.retryIn.Valid
	e.retryIn.Int64 = min(max(e.retryIn.Int64, 0), longestWait.Microseconds())
	state, outcome, dueAt, failedAt := statePending, "retry", t.now+e.retryIn.Int64, any(nil)
	if e.Dead {
		state, outcome, failedAt = stateDead, "dead", t.now
	}
	if _, err := t.exec(loseAlone, e.Key[:], state, e.Attempts, dueAt, failedAt, reason, e.retryIn.Int64, note, driver.ErrorSignature(reason)); err != nil {
		return err
	}
	_, err := t.exec(insertTry, e.Key[:], e.generation, e.Attempts, outcome, reason, t.now, 0)
	return err
}
