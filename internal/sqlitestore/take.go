package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Limits for SQLite: handlers run inside the write lock, and receiving waits for them.
const (
	handlerTimeout    = time.Second
	maxHandlerTimeout = 30 * time.Second
	batchTime         = 200 * time.Millisecond
	// runMargin is the time a run gets beyond its handlers before it counts as interrupted. A sweep
	// takes the write lock, which a run holds, so the margin covers only the time before and after.
	runMargin = 5 * time.Second
	// giveBackTime is how long a run that could not begin tries to release its events before they
	// count as interrupted.
	giveBackTime = 3 * time.Second
)

const opTake = "taking events"

// WorkLimits implements driver.Driver.
func (s *Store) WorkLimits() driver.WorkLimits {
	return driver.WorkLimits{
		Transactions: 1, HandlerTimeout: handlerTimeout, MaxHandlerTimeout: maxHandlerTimeout, BatchTime: batchTime,
	}
}

const (
	takenColumns = `SELECT s.key, s.due_at, s.run, s.generation, s.key_generation, s.attempts, s.crashes, s.replayed,
			e.source, e.event_id, e.type, e.occurred_at, e.received_at, ` + bodyColumns

	// The conditions of the two indexes of pending events.
	fresh = `state = 0 AND attempts = 0 AND crashes = 0`
	tried = `state = 0 AND (attempts > 0 OR crashes > 0)`

	// The indexes are named, because SQLite might choose one that reads the pending events of all
	// sources.
	selectFresh = takenColumns + `
		FROM hookonce_event_state s INDEXED BY hookonce_event_state_fresh CROSS JOIN hookonce_event e ON e.id = s.id
		WHERE s.source = ? AND s.state = 0 AND s.attempts = 0 AND s.crashes = 0 AND s.due_at <= ?`

	selectTried = takenColumns + `
		FROM hookonce_event_state s INDEXED BY hookonce_event_state_tried CROSS JOIN hookonce_event e ON e.id = s.id
		WHERE s.source = ? AND s.state = 0 AND (s.attempts > 0 OR s.crashes > 0) AND s.due_at <= ?`

	selectPendingKeys = takenColumns + `
		FROM hookonce_event e CROSS JOIN hookonce_event_state s ON s.id = e.id
		WHERE s.state = 0 AND `

	orderByDue = ` ORDER BY s.due_at LIMIT ?`

	markTaken = `UPDATE hookonce_event_state SET state = 1, run = ?, run_size = ?, run_retry_in = ?, due_at = ?
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?)`

	selectDueAt = `SELECT due_at FROM hookonce_event_state WHERE id = (SELECT id FROM hookonce_event WHERE key = ?)`

	postpone = `UPDATE hookonce_event_state SET due_at = ?
		WHERE id = (SELECT id FROM hookonce_event WHERE key = ?)`

	selectDueSources = `SELECT s.value,
			EXISTS (SELECT 1 FROM hookonce_event_state INDEXED BY hookonce_event_state_fresh
				WHERE source = s.value AND state = 0 AND attempts = 0 AND crashes = 0 AND due_at <= ?2),
			EXISTS (SELECT 1 FROM hookonce_event_state INDEXED BY hookonce_event_state_tried
				WHERE source = s.value AND state = 0 AND (attempts > 0 OR crashes > 0) AND due_at <= ?2 AND crashes = 0),
			EXISTS (SELECT 1 FROM hookonce_event_state INDEXED BY hookonce_event_state_tried
				WHERE source = s.value AND state = 0 AND (attempts > 0 OR crashes > 0) AND due_at <= ?2 AND crashes > 0)
		FROM json_each(?1) s`
)

// DueSources implements driver.Store.
func (s *Store) DueSources(ctx context.Context, sources []string) ([]driver.DueSource, error) {
	const op = "looking for due events"
	if len(sources) == 0 {
		return nil, nil
	}
	names, err := json.Marshal(sources)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	var due []driver.DueSource
	err = s.read(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, selectDueSources, string(names), clock(time.Time{}))
		due, err = collect(rows, err, func(d *driver.DueSource) error { return rows.Scan(&d.Source, &d.Fresh, &d.Tried, &d.Suspect) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(due, func(d driver.DueSource) bool { return !d.Fresh && !d.Tried && !d.Suspect }), nil
}

// takenEvent is a taken event with its due time and its run from before.
type takenEvent struct {
	driver.TakenEvent
	due int64
	run int64
}

// Take implements driver.Driver.
//
// It marks the events as running in a commit of its own. Then the handlers' transaction begins, as
// soon as the writer is free. If that takes too long, the events are released, and the error is
// ErrUnavailable.
func (s *Store) Take(ctx context.Context, p *driver.TakeParams) (driver.Run[*sql.Tx], error) {
	budget := p.HandlerTimeout + batchTime + runMargin
	r := s.newRun()
	r.ordered = len(p.Lines) > 0
	_, err := s.pastRefusals(ctx, opTake, picking{limit: p.Limit, skip: p.Skip}, p.Refused,
		func(how *picking) (taken []takenEvent, refused []driver.RefusedEvent, err error) {
			refused, err = s.mark(ctx, p, r, budget, how)
			return r.taken, refused, err
		})
	switch {
	case len(r.taken) == 0:
		return nil, err
	case err != nil:
		r.giveBack() // after ErrCommitUnknown the events may be marked
		return nil, err
	}
	wait, cancel := context.WithTimeoutCause(ctx, budget-giveBackTime, errWriterWait)
	defer cancel()
	if err := r.begin(wait, ctx); err != nil {
		r.giveBack()
		return nil, s.failed(ctx, opTake, err)
	}
	if len(r.taken) == 0 {
		return nil, r.rollBack(ctx) // a sweep took them meanwhile
	}
	return r, nil
}

// mark takes events into a run, by a commit of its own.
func (s *Store) mark(ctx context.Context, p *driver.TakeParams, r *run, budget time.Duration, how *picking) (refused []driver.RefusedEvent, err error) {
	err = s.writeEach(ctx, opTake, p.Now, 1, func(t *writeTx, _ int) (err error) {
		if r.taken, err = t.pick(p, how); err == nil && len(p.Lines) > 0 {
			r.taken, err = t.mayRun(p, r.taken)
		}
		if err != nil {
			return err
		}
		r.token = nextToken(t.now, r.taken)
		size := len(r.taken) // 1 counts an attempt when the run is swept
		if p.Beside {
			size = max(size, 2)
		}
		r.taken, refused, err = t.change(how, r.taken, func(e *takenEvent) error {
			var retryIn any
			if delay, last := p.Retry.AfterInterrupted(e.Attempts + 1); !last {
				retryIn = delay.Microseconds()
			}
			_, err := t.exec(markTaken, r.token, size, retryIn, t.now+budget.Microseconds(), e.Key[:])
			return err
		})
		return err
	})
	return refused, err
}

// nextToken returns the number of a run. It is higher than all earlier numbers of its events, and
// even, because the next number is its marker.
func nextToken(now int64, taken []takenEvent) int64 {
	highest := now
	for i := range taken {
		highest = max(highest, taken[i].run)
	}
	return (highest + 2) &^ 1
}

// pick finds the events that p asks for.
func (t *writeTx) pick(p *driver.TakeParams, how *picking) ([]takenEvent, error) {
	if len(p.Keys) > 0 {
		return t.pickBy(how, p.Bytes, selectPendingKeys+keyIn(`e.key`, len(p.Keys)), keyArgs(p.Keys))
	}
	query := selectFresh
	if p.Tried {
		query = selectTried
	}
	return t.pickDue(how, query+suspectsIn(p.Suspects), p.Source, p.Types, p.Bytes)
}

func (t *writeTx) pickDue(how *picking, query, source string, types []string, bytes int64) ([]takenEvent, error) {
	condition, args := typeIn(types)
	return t.pickBy(how, bytes, query+condition, append([]any{source, t.now}, args...))
}

// suspectsIn returns the condition on interrupted runs.
func suspectsIn(s driver.Suspects) string {
	switch s {
	case driver.NoSuspects:
		return ` AND s.crashes = 0`
	case driver.OnlySuspects:
		return ` AND s.crashes > 0`
	}
	return ""
}

// typeIn returns the condition that the type is one of types, or matches a pattern among them, and
// its arguments.
func typeIn(types []string) (condition string, args []any) {
	var alternatives []string
	for _, text := range types {
		switch {
		case text == "*":
			return "", nil
		case strings.Contains(text, "*"):
			alternatives = append(alternatives, `s.type GLOB ?`)
			args = append(args, globEscaper.Replace(text))
		default:
			alternatives = append(alternatives, `s.type = ?`)
			args = append(args, text)
		}
	}
	if len(alternatives) == 0 {
		return ` AND FALSE`, nil
	}
	return ` AND (` + strings.Join(alternatives, ` OR `) + `)`, args
}

// globEscaper leaves '*' as the only special character of a pattern.
var globEscaper = strings.NewReplacer(`?`, `[?]`, `[`, `[[]`)

// find runs a query of takenColumns, and reads no more events than fit into bytes, but at least one.
// The text depends on the number of types or keys, so it is not prepared.
func (t *writeTx) find(bytes int64, query string, args ...any) ([]takenEvent, error) {
	rows, err := t.tx.QueryContext(t.inner, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []takenEvent
	left := cmp.Or(bytes, driver.MaxTakeBytes)
	for rows.Next() {
		var e takenEvent
		if err := e.scan(rows); err != nil {
			return nil, err
		}
		if left -= e.size(); left < 0 && len(found) > 0 {
			return found, nil
		}
		found = append(found, e)
	}
	return found, rows.Err()
}

func (e *takenEvent) size() int64 { return int64(len(e.Headers) + len(e.Body)) }

// scan reads a row of takenColumns.
func (e *takenEvent) scan(rows *sql.Rows) error {
	var key []byte
	var occurredAt sql.NullInt64
	var receivedAt int64
	err := rows.Scan(&key, &e.due, &e.run, &e.Generation, &e.KeyGeneration, &e.Attempts, &e.Crashes, &e.Replayed,
		&e.Source, &e.EventID, &e.Type, &occurredAt, &receivedAt, &e.Headers, &e.Body)
	copy(e.Key[:], key)
	e.OccurredAt, e.ReceivedAt, e.DueAt = fromNullMicros(occurredAt), fromMicros(receivedAt), fromMicros(e.due)
	return err
}

// fitting returns the first events of all that fit into a limit and into bytes, but at least one.
func fitting(all []takenEvent, limit int, bytes int64) []takenEvent {
	left := cmp.Or(bytes, driver.MaxTakeBytes)
	for i := range all {
		if left -= all[i].size(); i >= limit || left < 0 && i > 0 {
			return all[:i]
		}
	}
	return all
}

func eventsOf(taken []takenEvent) []driver.TakenEvent {
	events := make([]driver.TakenEvent, len(taken))
	for i := range taken {
		events[i] = taken[i].TakenEvent
	}
	return events
}

// Reserve implements driver.Store.
func (s *Store) Reserve(ctx context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	const op = "reserving events"
	taken, err := s.pastRefusals(ctx, op, picking{limit: p.Limit, skip: p.Skip}, p.Refused,
		func(how *picking) (taken []takenEvent, refused []driver.RefusedEvent, err error) {
			err = s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
				taken, refused, err = t.reserve(p, how)
				return err
			})
			return taken, refused, err
		})
	switch {
	case len(taken) == 0:
		return nil, err
	case err != nil: // the body could not be read
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
		return nil, errors.Join(err, s.RecordReserved(ctx, driver.Unreserved(&taken[0].TakenEvent)))
	}
	return eventsOf(taken), nil
}

func (t *writeTx) reserve(p *driver.ReserveParams, how *picking) (done []takenEvent, refused []driver.RefusedEvent, err error) {
	fresh, err := t.pickDue(how, selectFresh+suspectsIn(p.Suspects), p.Source, p.Types, p.Bytes)
	if err != nil {
		return nil, nil, err
	}
	tried, err := t.pickDue(how, selectTried+suspectsIn(p.Suspects), p.Source, p.Types, p.Bytes)
	if err != nil {
		return nil, nil, err
	}
	due := append(fresh, tried...)
	slices.SortStableFunc(due, func(a, b takenEvent) int { return cmp.Compare(a.due, b.due) })
	until := t.now + p.For.Microseconds()
	return t.change(how, fitting(due, how.limit, p.Bytes), func(e *takenEvent) error {
		e.DueAt = fromMicros(until)
		_, err := t.exec(postpone, until, e.Key[:])
		return err
	})
}

// RecordReserved implements driver.Store.
func (s *Store) RecordReserved(ctx context.Context, p *driver.FinishParams) error {
	const op = "recording outcomes"
	if err := checkResults(p); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return s.writeEach(ctx, op, p.Now, len(p.Results), func(t *writeTx, i int) error {
		r := &p.Results[i]
		var due int64
		err := t.queryRow(selectDueAt, r.Key[:]).Scan(&due)
		if errors.Is(err, sql.ErrNoRows) || err == nil && due != r.ReservedUntil.UnixMicro() {
			return nil
		}
		var held bool
		if err == nil {
			held, err = t.recordOutcome(r, fence{state: statePending})
		}
		if err == nil && held && r.Line != nil {
			err = t.settleIDs([]string{driver.EventPlace(r.Key)})
		}
		return err
	})
}
