package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pruning"
)

var (
	// takeTurnSQL takes the turn of pruning for $2 microseconds: a free one, or that of a call in the
	// background if $1 says that this call is not. It waits for the chunk that is being removed. A fence
	// begins at the time, so that a row that was lost brings no old fence back.
	takeTurnSQL = statement(`
INSERT INTO {schema}.prune_turn AS t (only_one, fence, until, background, state)
VALUES (
	true, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	clock_timestamp() + $2::bigint * interval '1 microsecond', $1::boolean, ''
)
ON CONFLICT (only_one) DO UPDATE SET fence = t.fence + 1, until = excluded.until, background = excluded.background
WHERE t.until <= clock_timestamp() OR t.until > clock_timestamp() + $3::bigint * interval '1 microsecond'
	OR (t.background AND NOT excluded.background)
RETURNING t.fence, t.state`)

	// holdTurnSQL locks the turn with the fence $1 for one step, and has no row if it was lost. For the step, the
	// planner's settings leave only plans that probe indexes. Where a plan must read a table all the same, they make it
	// look so expensive that the server would compile it: that takes a third of a second.
	holdTurnSQL = statement(`
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)
WHERE {schema}.hold_prune_turn($1::bigint)`)

	renewTurnSQL = statement(`
UPDATE {schema}.prune_turn SET until = clock_timestamp() + $2::bigint * interval '1 microsecond'
WHERE only_one AND fence = $1::bigint
RETURNING true`)

	// Not until now: the clock may be set back.
	endTurnSQL = statement(`
UPDATE {schema}.prune_turn SET until = '-infinity', state = $2::text
WHERE only_one AND fence = $1::bigint`)
)

// turn is the right to prune, which one call has at a time.
type turn struct {
	store   *Store
	fence   int64
	state   string // how far the turns before came
	renewed time.Time
}

// turnPoll is how long a call waits before it asks for its turn again.
const turnPoll = 20 * time.Millisecond

// takeTurn returns nil if another call prunes and this one is in the background. Otherwise it waits for
// its turn.
func (s *Store) takeTurn(ctx context.Context, background bool) (*turn, error) {
	for {
		var t *turn
		if err := write(ctx, s.pools.Work, "waiting for the turn to prune", func(r Rows) error {
			t = &turn{store: s, renewed: time.Now()}
			return r.Scan(&t.fence, &t.state)
		}, s.text(takeTurnSQL), background, pruning.Turn.Microseconds(), pruning.FarAhead.Microseconds()); err != nil || t != nil || background {
			return t, err
		}
		if err := Pause(ctx, turnPoll); err != nil {
			return nil, err
		}
	}
}

// hold fails with [driver.ErrTurnLost] unless the turn lasts. In a transaction the turn lasts to the end.
func (t *turn) hold(ctx context.Context, conn Conn) error {
	return t.mine(ctx, conn, t.store.text(holdTurnSQL), t.fence)
}

// renew prolongs the turn if it is time to, outside of the transactions of chunks: each time leaves a dead
// row.
func (t *turn) renew(ctx context.Context) error {
	now := time.Now()
	if now.Sub(t.renewed) < pruning.Renew {
		return nil
	}
	t.renewed = now
	return t.failed("renewing the turn to prune", t.mine(ctx, t.store.pools.Work, t.store.text(renewTurnSQL), t.fence, pruning.Turn.Microseconds()))
}

func (t *turn) mine(ctx context.Context, conn Conn, sql string, args ...any) error {
	mine := false
	err := scan(ctx, conn, func(Rows) error {
		mine = true
		return nil
	}, sql, args...)
	if err == nil && !mine {
		return driver.ErrTurnLost
	}
	return err
}

func (t *turn) failed(op string, err error) error {
	if errors.Is(err, driver.ErrTurnLost) {
		return err
	}
	return writeFailed(t.store.pools.Work, op, err)
}

// endTimeout bounds the end of a turn whose context may have ended.
const endTimeout = 5 * time.Second

// end gives the turn back and leaves state to the next one, unless the turn was lost.
func (t *turn) end(ctx context.Context, state string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return write(ctx, t.store.pools.Work, "ending the turn to prune", noRows, t.store.text(endTurnSQL), t.fence, state)
}
