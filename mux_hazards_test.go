package hookonce_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
)

// Two batches that lock rows of the user's in different orders deadlock. That is
// nobody's failure: no attempt is counted, and each event takes effect once.
func TestDeadlockBetweenBatches(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	mux := &hookonce.Mux[pgx.Tx]{}
	const lock = "SELECT pg_advisory_xact_lock(hashtext(current_setting('application_name') || $1), $2)"
	var calls atomic.Int32
	// The first two handlers, which are of two batches, meet when each has one of two
	// locks, and then ask for the other's.
	meeting := newMeeting(2)
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		n := calls.Add(1)
		locks := []int{1, 2}
		if n%2 == 0 {
			slices.Reverse(locks)
		}
		if _, err := tx.Exec(ctx, lock, t.Name(), locks[0]); err != nil {
			return err
		}
		if n <= 2 {
			meeting.wait()
		}
		if _, err := tx.Exec(ctx, lock, t.Name(), locks[1]); err != nil {
			return err
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers, c.Batch = 2, 3 })
	deliverAll(t, in, ids(6)...)
	running(t, in)
	for _, id := range ids(6) {
		wantOutcome(t, l, id, done)
	}
	wantEffects(t, l, ids(6)...)
	if n := calls.Load(); n <= 6 {
		t.Errorf("the handlers were called %d times for 6 events: there was no deadlock", n)
	}
}

// meeting holds its guests until all have come.
type meeting struct {
	wg sync.WaitGroup
}

func newMeeting(guests int) *meeting {
	m := &meeting{}
	m.wg.Add(guests)
	return m
}

func (m *meeting) wait() {
	m.wg.Done()
	m.wg.Wait()
}

// A handler whose process has ended under it before is run with nobody beside it: if
// it kills this process too, nobody else shall be taken for guilty.
func TestSuspectsRunAlone(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	mux := &hookonce.Mux[pgx.Tx]{}
	began, release, others := make(chan string, 2), make(chan struct{}), make(chan string, 100)
	var inside atomic.Int32
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		if ev.ID != "suspect 1" && ev.ID != "suspect 2" {
			if inside.Load() > 0 {
				others <- ev.ID
			}
			return l.insert(ctx, tx, ev.ID)
		}
		if inside.Add(1) > 1 {
			others <- ev.ID
		}
		defer inside.Add(-1)
		began <- ev.ID
		<-release
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers, c.Batch = 4, 1 })
	deliverAll(t, in, "suspect 1", "suspect 2")
	l.exec(t, "UPDATE {schema}.event_state SET crashes = 1")
	running(t, in)
	<-began
	deliverAll(t, in, ids(10)...)
	// Time for others to begin, if they may. Were it too short, nothing but a defect
	// would be missed.
	select {
	case id := <-others:
		t.Errorf("%s was run beside a suspect", id)
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	for _, id := range append(ids(10), "suspect 1", "suspect 2") {
		wantOutcome(t, l, id, done)
	}
	close(others)
	for id := range others {
		t.Errorf("%s was run beside a suspect", id)
	}
	wantEffects(t, l, append(ids(10), "suspect 1", "suspect 2")...)
}

// A handler that ends its own connection, or makes the database give up, whenever it
// is run, uses up its attempts as any other failure does; those it shared a batch
// with are done.
func TestPoisonForTheDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, says string }{
		"ends its connection": {"SELECT pg_terminate_backend(pg_backend_pid())", "57P01"},
		"a full disk":         {"DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '53100'; END $$", "made up"},
		"never serialised":    {"DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '40001'; END $$", "made up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := onPGX(t)
			mux := &hookonce.Mux[pgx.Tx]{}
			hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
				if ev.ID == "e03" {
					_, err := tx.Exec(ctx, c.sql)
					return err
				}
				return l.insert(ctx, tx, ev.ID)
			})
			in := inbox(t, l, mux, nil)
			deliverAll(t, in, ids(6)...)
			running(t, in)
			wantOutcome(t, l, "e03", outcome{State: "dead", Attempts: 3, LastError: c.says})
			var good []string
			for _, id := range ids(6) {
				if id != "e03" {
					good = append(good, id)
					wantOutcome(t, l, id, done)
				}
			}
			wantEffects(t, l, good...)
		})
	}
}

// A handler that commits in a way that is found only when its run is to be finished:
// what the batch wrote is there, so none of it may take effect again, and nobody can
// say whose doing it was.
func TestCommitFoundAtTheEnd(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil || ev.ID != "e01" {
			return err
		}
		_, err := tx.Conn().PgConn().Exec(ctx, "COMMIT AND CHAIN").ReadAll()
		return err
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers = 1 })
	deliverAll(t, in, ids(3)...)
	running(t, in)
	for _, id := range ids(3) {
		wantOutcome(t, l, id, outcome{State: "dead", Attempts: 1, LastError: "committed"})
	}
	wantEffects(t, l, "e00", "e01")
}
