package sqlitestore

import (
	"cmp"
	"context"
	"strconv"

	"github.com/hookonce/hookonce/driver"
)

const opPullBack = "pulling due times back"

// The conditions share their arguments: ?1 the time, ?2 the farthest due time, ?3 how many rows, and
// ?4 the source or destination. They read only the far end of an index.
const (
	farFresh = ` FROM hookonce_event_state INDEXED BY hookonce_event_state_fresh
		WHERE source = ?4 AND state = 0 AND attempts = 0 AND crashes = 0 AND due_at > ?2 AND due_at < ` + parked + ` LIMIT ?3`

	farTried = ` FROM hookonce_event_state INDEXED BY hookonce_event_state_tried
		WHERE source = ?4 AND state = 0 AND (attempts > 0 OR crashes > 0) AND due_at > ?2 AND due_at < ` + parked + `
			AND due_at > ?1 + iif(attempts > 0, retry_in, 0) LIMIT ?3`

	farRunning = ` FROM hookonce_event_state INDEXED BY hookonce_event_state_running
		WHERE state = 1 AND due_at > ?2 AND source = ?4 LIMIT ?3`

	farArmed = ` FROM hookonce_armed_source WHERE source = ?4 AND armed_until > ?1 + armed_for LIMIT ?3`

	// A running event gets a minute: its run may be about to begin.
	pullEvents = `UPDATE hookonce_event_state
		SET due_at = ?1 + CASE WHEN state = 1 THEN 60000000 WHEN attempts > 0 THEN retry_in ELSE 0 END WHERE id IN (SELECT id`

	pullArmed = `UPDATE hookonce_armed_source SET armed_until = ?1 + armed_for WHERE source IN (SELECT source`
)

// A leased message gets the longest lease: its holder may still be sending.
var (
	messageWait = `CASE WHEN state = 1 THEN ` + strconv.FormatInt(driver.LongestLease.Microseconds(), 10) + ` WHEN attempts > 0 THEN retry_in ELSE 0 END`

	farMessages = ` FROM hookonce_message INDEXED BY hookonce_message_due
		WHERE destination = ?4 AND state IN (0, 1) AND due_at > ?2 AND due_at < ` + parked + ` AND due_at > ?1 + ` + messageWait + ` LIMIT ?3`

	pullMessages = `UPDATE hookonce_message SET due_at = ?1 + ` + messageWait + ` WHERE number IN (SELECT number`
)

// PullBack implements driver.Store. It waits for the writer only if there is something to change.
func (s *Store) PullBack(ctx context.Context, p *driver.PullBackParams) (events, messages int, err error) {
	for _, source := range p.Armable {
		if _, err := s.pullBack(ctx, p, source, farArmed, pullArmed+farArmed+`)`); err != nil {
			return 0, 0, err
		}
	}
	for _, source := range p.Sources {
		for _, far := range []string{farFresh, farTried, farRunning} {
			n, err := s.pullBack(ctx, p, source, far, pullEvents+far+`)`)
			events += n
			if err != nil {
				return events, messages, err
			}
		}
	}
	for _, destination := range p.Destinations {
		n, err := s.pullBack(ctx, p, destination, farMessages, pullMessages+farMessages+`)`)
		messages += n
		if err != nil {
			return events, messages, err
		}
	}
	return events, messages, nil
}

// pullBack changes the rows of a condition. It returns their number.
func (s *Store) pullBack(ctx context.Context, p *driver.PullBackParams, name, far, pull string) (int, error) {
	now := clock(p.Now)
	args := []any{now, now + cmp.Or(p.Ahead, driver.MaxAhead).Microseconds(), p.Limit, name}
	var found int
	if err := s.reader.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1`+far+`)`, args...).Scan(&found); err != nil {
		return 0, s.failed(ctx, opPullBack, err)
	}
	if found == 0 {
		return 0, nil
	}
	var changed int64
	err := s.write(ctx, opPullBack, func(t *writeTx) error {
		result, err := t.tx.ExecContext(t.inner, pull, args...)
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(changed), nil
}
