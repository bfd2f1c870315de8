package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// The server refuses the done mark of one event of many. The others are done, each with one effect. The one event has
// failed attempts and is dead in the end, and its handler is not called again and again meanwhile.
func TestDoneMarkRefused(t *testing.T) {
	t.Parallel()
	for code, what := range map[string]string{
		"P0001": "a trigger raises", "53100": "the server says that its disk is full", "25P03": "its handler's time-out ends the session",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := onPGX(t)
			if code != "25P03" {
				l.exec(t, storetest.RefuseDone(driver.EventKey("gh", "evt_3"), code))
			}
			var calls atomic.Int64
			mux := &hookonce.Mux[pgx.Tx]{}
			hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
				calls.Add(1)
				if code == "25P03" && ev.ID == "evt_3" {
					return beIdle(ctx, tx)
				}
				return l.insert(ctx, tx, ev.ID)
			})
			in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers = 1 }) // no other batch begins beside a refused one
			const n = 10
			for i := range n {
				deliverAll(t, in, fmt.Sprint("evt_", i))
			}
			run(t, in)
			for i := range n {
				want := driver.StateDone
				if i == 3 {
					want = driver.StateDead
				}
				if got := ended(t, l, fmt.Sprint("evt_", i)); got.State != want {
					t.Errorf("evt_%d is %s, want %s", i, got.State, want)
				} else if i == 3 && got.Attempts != quickRetry.Attempts {
					t.Errorf("evt_%d had %d attempts, want %d", i, got.Attempts, quickRetry.Attempts)
				}
			}
			eventually.True(t, "each other event has one effect", func() bool { return len(l.read(t)) == n-1 })
			// Each event in a batch and alone, and the refused one alone for each attempt and each look whether it is the reason.
			if got := calls.Load(); got > 3*n {
				t.Errorf("handlers were called %d times for %d events", got, n)
			}
		})
	}
}

// The server refuses one event of a delivery with many, by a code of its owner's own or one that may concern all. The others
// are durable.
func TestRefusedEventOfMany(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"UX001": 200, "42501": 503, "53400": 503, "XX001": 503} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			l := onPGX(t)
			refusal, _ := storetest.RefuseRow("event", driver.EventKey("gh", "3"))
			l.exec(t, strings.Replace(refusal.Begin, "'not this one'", "'not this one' USING ERRCODE = '"+code+"'", 1))
			in := newEngine(t, l.db, items)
			const n = 40
			var body strings.Builder
			for i := range n {
				fmt.Fprintf(&body, `,{"id":%d}`, i)
			}
			w := answered(in, delivery("batch", `{"items":[`+body.String()[1:]+`]}`))
			if w.Code != want {
				t.Errorf("answer %d %s, want %d", w.Code, w.Body, want)
			}
			for i := range n {
				if _, err := l.db.Event(t.Context(), "gh", fmt.Sprint(i)); (err == nil) != (i != 3) {
					t.Errorf("event %d: the error is %v", i, err)
				}
			}
		})
	}
}

// beIdle has the server end the session of tx, which has been idle for too long by a time-out of its own.
func beIdle(ctx context.Context, tx pgx.Tx) error {
	pid := tx.Conn().PgConn().PID()
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '1ms'"); err != nil {
		return err
	}
	other, err := pgx.ConnectConfig(ctx, tx.Conn().Config())
	if err != nil {
		return err
	}
	defer other.Close(ctx)
	for there := true; there; {
		if err := other.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1::int)", int32(pid)).Scan(&there); err != nil {
			return err
		}
	}
	return nil
}
