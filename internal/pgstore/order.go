package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

// The functions of the schema that these statements call tell how lines are kept.
var (
	admitSQL = statement(`
SELECT place, verdict, line, version, shown
FROM {schema}.admit($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::bytea[], $6::int[], $7::timestamptz)`)

	// settlePlacesSQL bounds how long a process that stops before its commit holds the lines: admissions wait for them.
	settlePlacesSQL = statement(`
SELECT {schema}.settle_places($1::text[], $2::bytea[], $3::text[], $4::timestamptz)
FROM set_config('idle_in_transaction_session_timeout', '5s', true)`)

	// markOrderedSQL is markSQL for a run with events of lines. It returns those that may run, and writes a record only if that
	// is all.
	markOrderedSQL = statement(`
SELECT key FROM {schema}.mark_ordered($1::bigint, $2::bytea[], $3::bytea[], nullif($4::bigint, -1), $5::text) AS key`)

	sweepLinesSQL = statement(`SELECT line, coalesce(refusal, '') FROM {schema}.sweep_lines($1::bytea, $2::int)`)

	waitingSQL = statement(`
SELECT count(*) FROM (
	SELECT FROM {schema}.ordered_message dead, {schema}.ordered_message o
	WHERE dead.message_id = $1::text AND dead.state = 1 AND o.line = dead.line AND o.state < 2 AND o.message_id <> dead.message_id
	LIMIT $2::int
) w`)

	// passedSQL finds a message, among some, in whose line a higher version was sent.
	passedSQL = statement(`
SELECT o.message_id
FROM {schema}.ordered_message o
JOIN {schema}.object_version v ON v.object = o.line
WHERE o.message_id = ANY ($1::text[]) AND o.version <> '' AND o.version < v.version
LIMIT 1`)

	// forceSQL lets messages be sent although a higher version was.
	forceSQL = statement(`UPDATE {schema}.ordered_message SET forced = true WHERE message_id = ANY ($1::text[])`)

	// followSQL gives new messages, $1, the places of earlier ones, $2. $3 is whether they are forced.
	followSQL = statement(`
INSERT INTO {schema}.ordered_message (message_id, line, source, destination, version, received_at, hold, forced)
SELECT n.id, o.line, o.source, o.destination, o.version, o.received_at, o.hold, $3::bool
FROM unnest($1::text[], $2::text[]) AS n (id, before)
JOIN {schema}.ordered_message o ON o.message_id = n.before
ON CONFLICT (message_id) DO NOTHING`)
)

// lineArgs are the places of messages in lines, as arguments.
type lineArgs struct {
	ids, sources    []string
	lines, versions [][]byte
	holds           []int32
}

// add adds a message; one without order gets an empty line.
func (a *lineArgs) add(id string, o *driver.Order) {
	line, version, source, hold := []byte{}, []byte{}, "", int32(0)
	if o != nil {
		line, version, source = slices.Clone(o.Line.Object[:]), notNil(o.Line.Version), o.Line.Source
		if o.Hold {
			hold = 1
		}
		if o.Consumer {
			hold |= 2
		}
	}
	a.ids, a.sources = append(a.ids, id), append(a.sources, source)
	a.lines, a.versions, a.holds = append(a.lines, line), append(a.versions, version), append(a.holds, hold)
}

func hasOrder(c *driver.Claim) bool {
	return c.Order != nil || slices.ContainsFunc(c.Messages, func(m driver.NewMessage) bool { return m.Order != nil })
}

// lines returns the events and messages of this round that are in lines.
func (b *claimBatch) lines() *lineArgs {
	all := &lineArgs{}
	for _, place := range b.places {
		if c := &b.Claims[place]; c.Order != nil && c.Work == driver.WorkQueued && c.Undecided == "" {
			all.add(driver.EventPlace(c.Key), c.Order)
		}
		for _, m := range b.Claims[place].Messages {
			if m.Order != nil {
				all.add(m.ID, m.Order)
			}
		}
	}
	return all
}

// Admit implements [driver.Store].
func (s *Store) Admit(ctx context.Context, p *driver.AdmitParams) ([]driver.Admission, error) {
	all := make([]driver.Admission, len(p.Messages))
	if len(all) == 0 {
		return all, nil
	}
	var args lineArgs
	tokens := make([]int64, len(all))
	for i := range p.Messages {
		m := &p.Messages[i]
		args.add(m.ID, m.Order)
		tokens[i] = m.Token
		if m.Order != nil {
			all[i].Line = m.Order.Line
		}
	}
	err := s.writeBinary(ctx, "ordering messages", func(r Rows) error {
		var place int64
		var verdict int32
		var line, version, newer []byte
		if err := r.Scan(&place, &verdict, &line, &version, &newer); err != nil {
			return err
		}
		a := &all[place-1]
		a.Verdict, a.Newer = driver.Verdict(verdict), string(newer)
		if line != nil {
			a.Line.Object, a.Line.Version = driver.Key(line), version
		}
		return nil
	}, s.statement(admitSQL), args.ids, tokens, args.lines, args.sources, args.versions, args.holds, clock(p.Now))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// SettleLines implements [driver.Store].
func (s *Store) SettleLines(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return write(ctx, s.pools.Work, "letting lines go on", noRows, s.text(settlePlacesSQL), ids, [][]byte{}, []string{}, clock(time.Time{}))
}

// settle lets the lines of messages, and of events by their places, go on that this transaction has ended or given back.
func (s *Store) settle(ctx context.Context, conn Conn, ids []string, now time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	return scan(ctx, conn, noRows, s.text(settlePlacesSQL), ids, [][]byte{}, []string{}, clock(now))
}

// settleEvents lets the lines of events go on, whose outcomes were recorded in this transaction. The lines keep the versions
// of those that succeeded.
func (s *Store) settleEvents(ctx context.Context, conn Conn, events []driver.Key, p *driver.FinishParams) error {
	if len(events) == 0 {
		return nil
	}
	ids, versions, shown := make([]string, len(events)), make([][]byte, len(events)), make([]string, len(events))
	for i, key := range events {
		ids[i], versions[i] = driver.EventPlace(key), []byte{}
		for _, r := range p.Results {
			if r.Key == key && r.Line != nil && r.Outcome == driver.WorkSucceeded {
				versions[i], shown[i] = notNil(r.Line.Version), r.Line.Shown
			}
		}
	}
	return scan(ctx, conn, noRows, s.text(settlePlacesSQL), ids, versions, shown, clock(p.Now))
}

const opSweepLines = "sweeping lines"

// sweptAtOnce is how many lines one transaction of a sweep looks at. A line may have many events to skip.
const sweptAtOnce = 50

// SweepLines implements [driver.Store].
func (s *Store) SweepLines(ctx context.Context, after driver.Key, limit int) (seen int, last driver.Key, err error) {
	var refusal error
	for last = after; seen < limit; {
		some := min(limit-seen, sweptAtOnce)
		n, to, err := s.sweepSome(ctx, last, some)
		seen, last = seen+n, to
		switch {
		case err != nil && !errors.Is(err, driver.ErrBadRow):
			return seen, last, err
		case err != nil:
			refusal = err
		}
		if n < some {
			break
		}
	}
	return seen, last, refusal
}

func (s *Store) sweepSome(ctx context.Context, after driver.Key, limit int) (seen int, last driver.Key, err error) {
	var refusal error
	last = after
	err = write(ctx, s.pools.Work, opSweepLines, func(r Rows) error {
		var line []byte
		var text string
		if err := r.Scan(&line, &text); err != nil {
			return err
		}
		if text != "" {
			refusal = fmt.Errorf("%s: line %x: %w: %s", opSweepLines, line, driver.ErrBadRow, text)
		}
		seen, last = seen+1, driver.Key(line)
		return nil
	}, s.text(sweepLinesSQL), after[:], int32(limit))
	if err == nil {
		err = refusal
	}
	return seen, last, err
}

// WaitingBehind implements [driver.Store].
func (s *Store) WaitingBehind(ctx context.Context, messageID string) (int, error) {
	var n int64
	err := read(ctx, s.pools.Admin, "counting messages that wait", func(r Rows) error { return r.Scan(&n) }, s.text(waitingSQL),
		messageID, int32(driver.MaxWaiting))
	return int(n), err
}

// keepOrder refuses a plan that would send a message after a higher version, unless the replay allows it.
func (s *Store) keepOrder(ctx context.Context, conn Conn, p *driver.ReplayParams, e *lifecycle.Event, plan *lifecycle.Plan) error {
	again, _, before := plan.InLines(e)
	if len(again)+len(before) == 0 || p.Stale {
		return nil
	}
	passed := false
	err := scan(ctx, conn, func(r Rows) error {
		var id string
		passed = true
		return r.Scan(&id)
	}, s.text(passedSQL), append(again, before...))
	if err == nil && passed {
		return refusedError{driver.ErrPassed}
	}
	return err
}

// replace gives the messages of a plan that was carried out their places in lines, and lets the lines go on.
func (s *Store) replace(ctx context.Context, conn Conn, p *driver.ReplayParams, e *lifecycle.Event, plan *lifecycle.Plan) error {
	again, added, before := plan.InLines(e)
	if len(added) > 0 {
		if err := scan(ctx, conn, noRows, s.text(followSQL), added, before, p.Stale); err != nil {
			return err
		}
	}
	if len(again) > 0 && p.Stale {
		if err := scan(ctx, conn, noRows, s.text(forceSQL), again); err != nil {
			return err
		}
	}
	return s.settle(ctx, conn, slices.Concat(plan.Skip, plan.Replace, again), p.Now)
}
