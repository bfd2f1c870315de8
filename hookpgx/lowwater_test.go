package hookpgx_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

const (
	finishedRows = 5000 // or rows of other types
	// fewBlocks is the most blocks that a statement may read for one row. It reads about 20, and all
	// that hold other rows, 200 or more, if it begins at the front of the index.
	fewBlocks = 60
)

// TestOpenTransaction finishes many rows while another transaction is open, which keeps their entries in
// the indexes. Looks for due rows must not read them all each time.
func TestOpenTransaction(t *testing.T) {
	t.Parallel()
	type look struct {
		name string
		at   func(t *testing.T, w *world, i int) error
	}
	for _, c := range []struct {
		name   string
		finish func(t *testing.T, w *world) // many rows
		looks  []look                       // those that leave rows come last
	}{
		{"messages", leaseMany, []look{
			{"due destinations", func(t *testing.T, w *world, _ int) error {
				due, err := w.DueDestinations(t.Context(), []string{"to-billing"})
				return errors.Join(err, wantNone(len(due)))
			}},
			{"lease", func(t *testing.T, w *world, i int) error {
				w.mustClaim(t, true, newClaim(fmt.Sprint("evt ", i), "billing"))
				return leaseAll(t, w, 1)
			}},
		}},
		{"events", takeMany, []look{
			{"due sources", func(t *testing.T, w *world, _ int) error {
				due, err := w.DueSources(t.Context(), []string{"stripe"})
				return errors.Join(err, wantNone(len(due)))
			}},
			{"take", func(t *testing.T, w *world, i int) error {
				w.queue(t, fmt.Sprint("take ", i))
				run := w.take(t, 1, false)
				return run.Finish(t.Context(), succeeded(run))
			}},
			{"reserve", func(t *testing.T, w *world, i int) error {
				w.queue(t, fmt.Sprint("reserve ", i))
				return reserveOne(t, w, "*")
			}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, plans := openExplained(t, nil)
			tx, err := w.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Fatal(err)
			}
			c.finish(t, w)
			for _, look := range c.looks {
				t.Run(look.name, func(t *testing.T) {
					readsFew(t, plans, func(i int) error { return look.at(t, w, i) })
				})
			}
		})
	}
}

// TestForeignTypes looks for events behind a backlog of types that other processes handle. Looks must not
// read it each time.
func TestForeignTypes(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	claimOld(t, w, queued)
	for name, look := range map[string]func(*world) error{
		"take": func(w *world) error {
			p := takeOf(1, false)
			p.Types = []string{"mine.*"}
			run, err := w.Take(t.Context(), p)
			if err != nil || run == nil {
				return errors.Join(err, errors.New("took nothing"))
			}
			return run.Finish(t.Context(), succeeded(run))
		},
		"reserve": func(w *world) error { return reserveOne(t, w, "mine.*") },
	} {
		t.Run(name, func(t *testing.T) {
			readsFew(t, plans, func(i int) error {
				c := queued(fmt.Sprint(name, i))
				c.Type = "mine.paid"
				w.mustClaim(t, true, c)
				return look(w)
			})
		})
	}
}

// readsFew fails unless one of some looks reads few blocks. A look at all rows may come between, at most
// one a second.
func readsFew(t *testing.T, plans *explained, look func(i int) error) {
	t.Helper()
	least := float64(finishedRows)
	for i := 0; i < 20 && least > fewBlocks; i++ {
		most := 0.0
		for _, p := range plans.of(t, func() error { return look(i) }) {
			most = max(most, p.Plan.Hit+p.Plan.Read)
		}
		least = min(least, most)
	}
	if least > fewBlocks {
		t.Errorf("every look read %.0f blocks or more, want one that reads %d or fewer", least, fewBlocks)
	}
}

func reserveOne(t *testing.T, w *world, types string) error {
	t.Helper()
	events, err := w.Reserve(t.Context(), &driver.ReserveParams{Source: "stripe", Types: []string{types}, Limit: 1, For: time.Hour})
	if err == nil && len(events) != 1 {
		err = fmt.Errorf("reserved %d events, want one", len(events))
	}
	return err
}

func wantNone(n int) error {
	if n > 0 {
		return fmt.Errorf("found %d, want none", n)
	}
	return nil
}

// claimOld claims many events that are due since an hour.
func claimOld(t *testing.T, w *world, of func(id string) driver.Claim) {
	t.Helper()
	var batch []driver.Claim
	for i := range finishedRows {
		batch = append(batch, of(fmt.Sprint("done ", i)))
	}
	// Few at a time: the server may not take 2 s for a claim, and logs its plans here.
	for some := range slices.Chunk(sortedClaims(batch...), 100) {
		p := claimOf(some...)
		p.Now = time.Now().Add(-time.Hour)
		if _, err := w.Claim(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

// leaseMany leases and completes many messages.
func leaseMany(t *testing.T, w *world) {
	t.Helper()
	claimOld(t, w, func(id string) driver.Claim { return newClaim(id, "billing") })
	if err := leaseAll(t, w, finishedRows); err != nil {
		t.Fatal(err)
	}
}

// leaseAll leases and completes all due messages, which are n.
func leaseAll(t *testing.T, w *world, n int) error {
	t.Helper()
	leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: n + 1, For: time.Minute, MaxAttempts: 3})
	if err != nil {
		return err
	}
	if len(leased.Messages) != n {
		return fmt.Errorf("leased %d messages, want %d", len(leased.Messages), n)
	}
	_, err = w.Complete(t.Context(), allSent(leased))
	return err
}

// takeMany takes and finishes many events.
func takeMany(t *testing.T, w *world) {
	t.Helper()
	claimOld(t, w, queued)
	run := w.take(t, finishedRows+1, false)
	if err := run.Finish(t.Context(), succeeded(run)); err != nil {
		t.Fatal(err)
	}
}
