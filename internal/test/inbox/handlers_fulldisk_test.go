package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// SQLite has no room for the done marks. That costs no event an attempt, and handlers are not called again and again. Once
// there is room, each event has one effect.
func TestHandlersOnAFullDisk(t *testing.T) {
	t.Parallel()
	store, open := onSmallDisk(t)
	other := open()
	for _, text := range []string{
		`CREATE TABLE effects (name TEXT NOT NULL)`, `CREATE TABLE filler (bytes BLOB)`, `CREATE TABLE marks (bytes BLOB)`,
		`CREATE TRIGGER marked AFTER UPDATE OF state ON hookonce_event_state WHEN NEW.state = 2 BEGIN
			INSERT INTO marks VALUES (zeroblob(5000));
		END`, // a done mark needs a new page
	} {
		if _, err := other.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}

	var calls atomic.Int64
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		calls.Add(1)
		_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES (?)`, ev.ID)
		return err
	})
	log := &rig.Log{}
	in := inbox(t, &library[*sql.Tx]{db: store}, mux, func(c *hookonce.Config) { c.Logger = log.Logger() })
	const n = 10
	for i := range n {
		deliverAll(t, in, fmt.Sprint("evt_", i))
	}
	for size := 100_000; size > 0; {
		if _, err := other.ExecContext(t.Context(), `INSERT INTO filler VALUES (zeroblob(?))`, size); err != nil {
			size /= 10
		}
	}
	run(t, in)
	eventually.True(t, "the source rests longer and longer", func() bool { return strings.Contains(log.Text(), "rest=4s") })
	if got := calls.Load(); got > n+2 { // the batch, and one event after each rest
		t.Errorf("handlers were called %d times for %d events until the third rest", got, n)
	}
	if _, err := other.ExecContext(t.Context(), `DELETE FROM filler`); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e := ended(t, &library[*sql.Tx]{db: store}, fmt.Sprint("evt_", i))
		if e.State != driver.StateDone || e.Attempts != 1 {
			t.Errorf("evt_%d is %s after %d attempts, want it done after one", i, e.State, e.Attempts)
		}
	}
	var effects int
	if err := other.QueryRowContext(t.Context(), `SELECT count(*) FROM effects`).Scan(&effects); err != nil || effects != n {
		t.Errorf("%d effects (%v), want %d", effects, err, n)
	}
}
