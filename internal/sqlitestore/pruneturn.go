package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pruning"
)

const (
	// A turn that ends far ahead is from before the clock was set back.
	turnIsFree = `SELECT NOT EXISTS (SELECT 1 FROM hookonce_prune_turn
		WHERE until > ?1 AND until <= ?1 + ?2 AND NOT (background AND NOT ?3))`

	// A fence begins at the time, so that a row that was lost brings no old fence back.
	takeTurn = `INSERT INTO hookonce_prune_turn (only_one, fence, until, background, state) VALUES (1, ?1, ?2, ?3, '')
		ON CONFLICT (only_one) DO UPDATE SET fence = fence + 1, until = excluded.until, background = excluded.background
		RETURNING fence, state`

	holdTurn  = `SELECT 1 FROM hookonce_prune_turn WHERE only_one = 1 AND fence = ?`
	renewTurn = `UPDATE hookonce_prune_turn SET until = ?2 WHERE only_one = 1 AND fence = ?1`
	// Not until now: the clock may be set back.
	endTurn = `UPDATE hookonce_prune_turn SET until = 0, state = ?2 WHERE only_one = 1 AND fence = ?1`
)

// turn is the right to prune, which one call has at a time.
type turn struct {
	fence   int64
	state   string // how far the turns before came
	renewed time.Time
}

// turnPoll is how long a call waits before it asks for its turn again.
const turnPoll = 20 * time.Millisecond

// takeTurn returns nil if another call prunes and this one is in the background. Otherwise it waits for
// its turn. It takes the write lock only if the turn seems to be free.
func (s *Store) takeTurn(ctx context.Context, background bool) (*turn, error) {
	const op = "waiting for the turn to prune"
	for {
		var free bool
		now := time.Now().UnixMicro()
		if err := s.reader.QueryRowContext(ctx, turnIsFree, now, pruning.FarAhead.Microseconds(), background).Scan(&free); err != nil {
			return nil, s.failed(ctx, op, err)
		}
		var t *turn
		if free {
			if err := s.writeEach(ctx, op, time.Time{}, 1, func(w *writeTx, _ int) error {
				if err := w.queryRow(turnIsFree, w.now, pruning.FarAhead.Microseconds(), background).Scan(&free); err != nil || !free {
					return err
				}
				t = &turn{renewed: time.Now()}
				return w.queryRow(takeTurn, w.now, w.now+pruning.Turn.Microseconds(), background).Scan(&t.fence, &t.state)
			}); err != nil {
				return nil, err
			}
		}
		if t != nil || background {
			return t, nil
		}
		if !sleep(ctx, turnPoll) {
			return nil, context.Cause(ctx)
		}
	}
}

// hold fails with [driver.ErrTurnLost] unless the turn lasts, and prolongs it if it is time to. The
// turn lasts to the end of the transaction.
func (t *turn) hold(w *writeTx) error {
	var one int
	switch err := w.queryRow(holdTurn, t.fence).Scan(&one); {
	case errors.Is(err, sql.ErrNoRows):
		return driver.ErrTurnLost
	case err != nil:
		return err
	}
	now := time.Now()
	if now.Sub(t.renewed) < pruning.Renew {
		return nil
	}
	t.renewed = now
	_, err := w.exec(renewTurn, t.fence, now.Add(pruning.Turn).UnixMicro())
	return err
}

// endTimeout bounds the end of a turn whose context may have ended.
const endTimeout = 5 * time.Second

// end gives the turn back and leaves state to the next one, unless the turn was lost.
func (s *Store) endTurn(ctx context.Context, t *turn, state string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return s.write(ctx, "ending the turn to prune", func(w *writeTx) error {
		_, err := w.exec(endTurn, t.fence, state)
		return err
	})
}
