package sqltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

const (
	consumers    = 8
	loadEvents   = 1600
	loadBatch    = 100 // events in one claim
	testDeadline = time.Minute
)

// TestTakeUnderLoad lets many consumers take side by side while events arrive. They commit, roll
// back, fail and lose their connections at random; in the end each event took effect once.
func TestTakeUnderLoad(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.exec(t, "CREATE TABLE hookonce.effect (event_id text)") // without a constraint
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	var running sync.WaitGroup
	for i := range consumers {
		running.Go(func() {
			c := &loadConsumer{w: w, random: rand.New(rand.NewPCG(1, uint64(i)))}
			if err := c.run(ctx); err != nil {
				t.Errorf("consumer %d: %v", i, err)
				cancel()
			}
		})
	}
	for first := 0; first < loadEvents; first += loadBatch {
		var claims []driver.Claim
		for n := first; n < first+loadBatch; n++ {
			claims = append(claims, newClaim("shop", fmt.Sprint("evt_", n), "body"))
		}
		if err := claim(ctx, w.store, claims...); err != nil {
			t.Errorf("claiming: %v", err)
			cancel()
			break
		}
	}
	running.Wait()
	if n := get[int](t, w, "SELECT count(*) FROM hookonce.effect"); n != loadEvents {
		t.Errorf("there are %d effects, want %d", n, loadEvents)
	}
	if n := get[int](t, w, "SELECT count(DISTINCT event_id) FROM hookonce.effect"); n != loadEvents {
		t.Errorf("%d events took effect, want %d", n, loadEvents)
	}
	failed := get[int](t, w, "SELECT sum(attempts - 1) FROM hookonce.event_state WHERE state = 2")
	if recorded := get[int](t, w, "SELECT count(*) FROM hookonce.event_attempt"); failed != recorded || failed < 1 {
		t.Errorf("%d attempts were counted as failed, but %d recorded", failed, recorded)
	}
}

// loadConsumer is one of the consumers.
type loadConsumer struct {
	w      *world
	random *rand.Rand
	conn   *pgx.Conn
}

// run works until every event is done.
func (c *loadConsumer) run(ctx context.Context) (err error) {
	for {
		if c.conn == nil {
			if c.conn, err = pgx.Connect(ctx, c.w.dsn); err != nil {
				return err
			}
		}
		if err := c.step(ctx); err != nil {
			return err
		}
		var done int
		err := c.w.pool.QueryRow(ctx, c.w.text("SELECT count(*) FROM hookonce.event_state WHERE state = 2")).Scan(&done)
		if err != nil {
			return err
		}
		if done == loadEvents {
			if c.conn != nil {
				return c.conn.Close(ctx)
			}
			return nil
		}
	}
}

// step takes some events, works on them, and ends the transaction in a random way.
func (c *loadConsumer) step(ctx context.Context) error {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, c.w.text("SELECT event_id FROM hookonce.take('shop', $1)"), 1+c.random.IntN(20))
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, c.w.text("INSERT INTO hookonce.effect SELECT unnest($1::text[])"), ids); err != nil {
		return err
	}
	switch how := c.random.IntN(10); {
	case how == 0 && len(ids) > 0:
		return c.fail(ctx, tx, ids[0])
	case how == 1:
		return tx.Rollback(ctx)
	case how == 2:
		err := c.conn.PgConn().Conn().Close() // without telling the server
		c.conn = nil
		return err
	}
	return tx.Commit(ctx)
}

// fail records that the work on an event failed. Another consumer may have taken the event by then.
func (c *loadConsumer) fail(ctx context.Context, tx pgx.Tx, id string) error {
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	_, err := c.conn.Exec(ctx, c.w.text("SELECT hookonce.fail('shop', $1, 'bad luck', 1000000, '1 microsecond')"), id)
	var refused interface{ SQLState() string }
	if errors.As(err, &refused) && refused.SQLState() == lockedRow {
		return nil
	}
	return err
}

// When a backend is killed, the events that it took are due again, without an attempt counted.
func TestTakeIsUndoneWithItsBackend(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.exec(t, "CREATE TABLE hookonce.effect (event_id text)")
	w.put(t, "shop", "a", "b")
	s := w.connect(t)
	s.run(t, "BEGIN")
	s.run(t, "INSERT INTO hookonce.effect SELECT event_id FROM hookonce.take('shop', 10)")
	if !get[bool](t, w, "SELECT pg_terminate_backend($1, 10000)", s.PgConn().PID()) {
		t.Fatal("the backend did not end")
	}
	if _, err := s.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("the killed session committed")
	}
	for _, id := range []string{"a", "b"} {
		w.wantState(t, id, state{State: "pending"})
	}
	if n := get[int](t, w, "SELECT count(*) FROM hookonce.effect"); n > 0 {
		t.Errorf("%d effects are left", n)
	}
	next := w.connect(t)
	next.run(t, "BEGIN")
	next.wantTake(t, 10, "a", "b")
	next.run(t, "COMMIT")
}

// A taken event delays neither other consumers nor its sender.
func TestTakeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a", "b", "c")
	first, second := w.connect(t), w.connect(t)
	first.run(t, "BEGIN")
	first.wantTake(t, 1, "a")
	second.run(t, "BEGIN")
	second.wantTake(t, 1, "b")

	// Twice: a claim may see the event in its snapshot, or meet it at the key.
	again, fresh := newClaim("shop", "a", "another body"), newClaim("shop", "d", "body")
	claims := []driver.Claim{again, fresh}
	if string(fresh.Key[:]) < string(again.Key[:]) {
		claims = []driver.Claim{fresh, again}
	}
	results, err := w.store.Claim(t.Context(), &driver.ClaimParams{Claims: claims, LockTimeout: time.Millisecond})
	if err != nil {
		t.Fatalf("a claim beside an open take: %v", err)
	}
	for i, r := range results {
		if isNew := claims[i].EventID == "d"; r.Claimed != isNew || r.OtherBody == isNew {
			t.Errorf("event %q: %+v", claims[i].EventID, r)
		}
	}
	w.exec(t, `INSERT INTO hookonce.event (key, source, event_id, type, body_sha256, work)
		SELECT key, source, event_id, type, body_sha256, work FROM hookonce.event ON CONFLICT (key) DO NOTHING`)
	if err := w.store.CountDeliveries(t.Context(), &driver.CountDeliveriesParams{
		Counts: []driver.DeliveryCount{{Key: again.Key, Duplicates: 1}},
	}); err != nil {
		t.Errorf("counting a delivery beside an open take: %v", err)
	}
	first.run(t, "ROLLBACK")
	second.run(t, "COMMIT")
	first.run(t, "BEGIN")
	first.wantTake(t, 10, "a", "c", "d")
	first.run(t, "COMMIT")
	if n := get[int](t, w, "SELECT duplicates FROM hookonce.events WHERE event_id = 'a'"); n != 1 {
		t.Errorf("%d duplicates were counted, want 1", n)
	}
}

// Handlers in Go and consumers in SQL may share a source: neither takes an event of the other.
func TestTakeBesideHandlers(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a", "b", "c")
	p := &driver.TakeParams{Source: "shop", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Minute}
	run, err := w.store.Take(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	w.wantState(t, "a", state{State: "running"})
	s := w.connect(t)
	s.fails(t, lockedRow, "SELECT hookonce.fail('shop', 'a', 'x')")
	s.run(t, "BEGIN")
	s.wantTake(t, 1, "b")
	p.Limit = 10
	other, err := w.store.Take(t.Context(), p)
	if err != nil || len(other.Events()) != 1 || other.Events()[0].EventID != "c" {
		t.Fatalf("a handler took %v beside the consumer, error %v", other.Events(), err)
	}
	s.run(t, "COMMIT")
	if err := run.Finish(t.Context(), &driver.FinishParams{Results: []driver.WorkResult{
		{Key: run.Events()[0].Key, Outcome: driver.WorkSucceeded},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := other.Abandon(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "c")
	s.run(t, "COMMIT")
	for _, id := range []string{"a", "b", "c"} {
		w.wantState(t, id, state{State: "done", Attempts: 1, Processed: true})
	}
}
