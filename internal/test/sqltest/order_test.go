package sqltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// inLine returns a claim of the version of an object for a consumer, with the id object-version.
func inLine(object string, version int, hold bool) driver.Claim {
	id := fmt.Sprintf("%s-%d", object, version)
	c := newClaim("shop", id, "body of "+id)
	c.Order = &driver.Order{Hold: hold, Consumer: true, Line: driver.ObjectVersion{
		Object: driver.ObjectKey("shop", "\n", object), Source: "shop", Version: []byte{byte(version)}, Shown: fmt.Sprint(version),
	}}
	return c
}

// arrive claims versions of an object, one after the other.
func (w *world) arrive(t testing.TB, object string, versions ...int) {
	t.Helper()
	for _, v := range versions {
		if err := claim(t.Context(), w.store, inLine(object, v, true)); err != nil {
			t.Fatal(err)
		}
	}
}

// sweep settles all lines, as a gateway does every two seconds.
func (w *world) sweep(t testing.TB) {
	t.Helper()
	if _, _, err := w.store.SweepLines(t.Context(), driver.Key{}, 1000); err != nil {
		t.Fatal(err)
	}
}

func (w *world) wantStates(t testing.TB, states map[string]string) {
	t.Helper()
	for id, want := range states {
		if got := w.stateOf(t, "shop", id).State; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}

// take returns one event of an object at a time, over all consumers, the lowest version first. Its COMMIT makes the next one due.
func TestTakeInOrder(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.arrive(t, "a", 5, 3, 4)
	w.arrive(t, "b", 1)
	w.put(t, "shop", "free") // in no line
	first, second := w.connect(t), w.connect(t)
	first.run(t, "BEGIN")
	got := first.take(t, 10)
	slices.Sort(got)
	if !slices.Equal(got, []string{"a-3", "b-1", "free"}) {
		t.Errorf("took %q, want the lowest of each object", got)
	}
	if more := first.take(t, 10); len(more) > 0 {
		t.Errorf("took %q beside them, want none", more)
	}
	w.arrive(t, "b", 2) // while b is held
	second.run(t, "BEGIN")
	second.wantTake(t, 10)
	second.run(t, "ROLLBACK")
	first.run(t, "COMMIT")
	second.run(t, "BEGIN")
	got = second.take(t, 10)
	slices.Sort(got)
	if !slices.Equal(got, []string{"a-4", "b-2"}) {
		t.Errorf("took %q after the COMMIT, want the next of each object", got)
	}
	// A lower version comes while a higher one is held and given back: it goes first.
	w.arrive(t, "c", 5)
	first.run(t, "BEGIN")
	first.wantTake(t, 10, "c-5")
	w.arrive(t, "c", 4)
	first.run(t, "ROLLBACK")
	first.run(t, "BEGIN")
	first.wantTake(t, 10) // the next look at the lines finds c-4
	first.run(t, "ROLLBACK")
	w.sweep(t)
	first.run(t, "BEGIN")
	first.wantTake(t, 10, "c-4")
	first.run(t, "COMMIT")
	second.run(t, "COMMIT")
	// Versions below a done one are stale.
	w.arrive(t, "a", 1)
	w.wantStates(t, map[string]string{"a-1": "skipped", "a-3": "done", "a-4": "done", "a-5": "pending", "c-5": "pending"})
	if note := get[string](t, w, "SELECT note FROM hookonce.events WHERE event_id = 'a-1'"); note != driver.NoteStale {
		t.Errorf("the note of a-1 is %q", note)
	}
	for _, table := range []string{"taken_in_line", "take_call"} {
		if n := get[int](t, w, "SELECT count(*) FROM hookonce."+table); n > 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}

// A failed event keeps its line until its next attempt. A dead one holds it, or lets it go on.
func TestFailInOrder(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.connect(t)
	for object, hold := range map[string]bool{"a": true, "b": false} {
		for v := 1; v <= 2; v++ {
			if err := claim(t.Context(), w.store, inLine(object, v, hold)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.run(t, "SELECT hookonce.fail('shop', 'a-1', 'later', 9, '1 hour')")
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "b-1")
	s.run(t, "ROLLBACK")
	s.run(t, "SELECT hookonce.fail('shop', 'a-1', 'no', permanent => true)")
	s.run(t, "SELECT hookonce.fail('shop', 'b-1', 'no', permanent => true)")
	w.sweep(t)
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "b-2")
	s.run(t, "COMMIT")
	w.wantStates(t, map[string]string{"a-1": "dead", "a-2": "pending", "b-1": "dead", "b-2": "done"})
	if n, err := w.store.WaitingBehind(t.Context(), driver.EventPlace(driver.EventKey("shop", "a-1"))); err != nil || n != 1 {
		t.Errorf("%d wait behind a-1, %v, want 1", n, err)
	}
	if _, err := w.store.Replay(t.Context(), &driver.ReplayParams{Key: driver.EventKey("shop", "a-1")}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a-1", "a-2"} {
		s.run(t, "BEGIN")
		s.wantTake(t, 10, id)
		s.run(t, "COMMIT")
	}
	// A passed version is replayed only if the operator says so.
	again := &driver.ReplayParams{Key: driver.EventKey("shop", "a-1"), Mode: driver.ReplaySameID}
	if _, err := w.store.Replay(t.Context(), again); !errors.Is(err, driver.ErrPassed) {
		t.Errorf("a replay of a passed version: %v, want %v", err, driver.ErrPassed)
	}
	again.Stale = true
	if _, err := w.store.Replay(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	w.arrive(t, "a", 3)
	for _, id := range []string{"a-1", "a-3"} {
		s.run(t, "BEGIN")
		s.wantTake(t, 10, id)
		s.run(t, "COMMIT")
	}
}

// A claim waits for no line: its event is parked while another session keeps the line, or while pruning removes it. The sweep makes
// it due. A discarded dead letter lets its line go on.
func TestSweepInOrder(t *testing.T) {
	t.Parallel()
	w := open(t)
	s, other := w.connect(t), w.connect(t)
	w.arrive(t, "a", 1)
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "a-1")
	s.run(t, "COMMIT")
	other.run(t, "BEGIN")
	other.run(t, "DELETE FROM hookonce.object_version")
	w.arrive(t, "a", 2)
	other.run(t, "COMMIT")
	s.run(t, "BEGIN")
	s.wantTake(t, 10)
	s.run(t, "ROLLBACK")
	w.sweep(t)
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "a-2")
	s.run(t, "ROLLBACK")
	s.run(t, "SELECT hookonce.fail('shop', 'a-2', 'no', permanent => true)")
	w.arrive(t, "a", 3)
	s.run(t, "BEGIN")
	s.wantTake(t, 10)
	s.run(t, "ROLLBACK")
	if _, err := w.store.Discard(t.Context(), &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: driver.EventKey("shop", "a-2")}}}); err != nil {
		t.Fatal(err)
	}
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "a-3")
	s.run(t, "COMMIT")
}

// Consumers that commit, roll back, fail and lose their connections at random keep the order of each object, while versions
// arrive in any order from two gateways.
func TestTakeInOrderUnderLoad(t *testing.T) {
	t.Parallel()
	const objects, taking, senders = 6, 6, 2
	versions := group.Rounds(20, 100)
	w := open(t)
	w.exec(t, "CREATE TABLE hookonce.applied (n bigserial, event_id text)")
	held := &heldObjects{by: make(map[string]string)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for i := range taking {
		running.Go(func() {
			c := &orderedConsumer{loadConsumer{w: w, random: rand.New(rand.NewPCG(3, uint64(i)))}, held}
			if err := c.run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("consumer %d: %v", i, err)
			}
		})
	}
	running.Go(func() {
		for ctx.Err() == nil {
			if _, _, err := w.store.SweepLines(ctx, driver.Key{}, 500); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			<-time.After(50 * time.Millisecond)
		}
	})
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			random := rand.New(rand.NewPCG(4, uint64(i)))
			for _, n := range random.Perm(objects * versions) {
				if n%senders != i {
					continue
				}
				if err := claim(t.Context(), w.store, inLine(fmt.Sprint(n%objects), n/objects, true)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	eventually.True(t, "all events have ended", func() bool {
		return get[int](t, w, "SELECT count(*) FROM hookonce.event_state WHERE state NOT IN (2, 4)") == 0
	})
	cancel()
	running.Wait()
	if len(held.twice) > 0 {
		t.Errorf("two events of an object were held at once: %q", held.twice)
	}
	if done, applied := get[int](t, w, "SELECT count(*) FROM hookonce.event_state WHERE state = 2"), get[int](t, w, "SELECT count(DISTINCT event_id) FROM hookonce.applied"); done != applied {
		t.Errorf("%d events are done, and %d took effect", done, applied)
	}
	inverted := get[string](t, w, `SELECT coalesce(string_agg(a.event_id || ' after ' || a.before, ', '), '') FROM (
		SELECT event_id, lag(event_id) OVER (PARTITION BY split_part(event_id, '-', 1) ORDER BY n) AS before FROM hookonce.applied
	) a WHERE split_part(a.event_id, '-', 2)::int <= split_part(a.before, '-', 2)::int`)
	if inverted != "" {
		t.Errorf("out of order: %s", inverted)
	}
}

// heldObjects are the objects whose events consumers hold, from the end of take to just before the end of the transaction.
type heldObjects struct {
	mu    sync.Mutex
	by    map[string]string
	twice []string
}

func (h *heldObjects) hold(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		object, _, _ := strings.Cut(id, "-")
		if other := h.by[object]; other != "" {
			h.twice = append(h.twice, id+" beside "+other)
		}
		h.by[object] = id
	}
}

func (h *heldObjects) letGo(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		object, _, _ := strings.Cut(id, "-")
		delete(h.by, object)
	}
}

// orderedConsumer tells the object of each event and when its work on it begins and ends.
type orderedConsumer struct {
	loadConsumer
	held *heldObjects
}

func (c *orderedConsumer) run(ctx context.Context) (err error) {
	defer func() {
		if c.conn != nil {
			_ = c.conn.Close(context.WithoutCancel(ctx)) // it may be broken
		}
	}()
	for ctx.Err() == nil {
		if c.conn == nil {
			if c.conn, err = pgx.Connect(ctx, c.w.dsn); err != nil {
				return err
			}
		}
		if err := c.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *orderedConsumer) step(ctx context.Context) error {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, c.w.text("SELECT event_id FROM hookonce.take('shop', $1)"), 1+c.random.IntN(4))
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	c.held.hold(ids)
	if _, err := tx.Exec(ctx, c.w.text("INSERT INTO hookonce.applied (event_id) SELECT unnest($1::text[])"), ids); err != nil {
		return err
	}
	<-time.After(time.Duration(c.random.IntN(10)) * time.Millisecond) // any other consumer may come meanwhile
	c.held.letGo(ids)
	switch how := c.random.IntN(10); {
	case how == 0 && len(ids) > 0:
		return c.fail(ctx, tx, ids[0])
	case how == 1:
		return tx.Rollback(ctx)
	case how == 2:
		_, err := c.w.pool.Exec(ctx, "SELECT pg_terminate_backend($1, 10000)", c.conn.PgConn().PID())
		_ = c.conn.Close(ctx) // killed
		c.conn = nil
		return err
	}
	return tx.Commit(ctx)
}

// One line of very many events costs take and its COMMIT no more than others do. Without order, they look at no line.
func TestPlansInOrder(t *testing.T) {
	t.Parallel()
	w := openNew(t)
	w.exec(t, `WITH n AS (
			SELECT n, sha256(convert_to('long' || n, 'UTF8')) AS key, sha256(CASE WHEN n <= $1::int THEN 'long' ELSE n::text END::bytea) AS line
			FROM generate_series(1, $1::int + 300) n
		), filled AS (
			INSERT INTO hookonce.event (key, source, event_id, type, headers, body, body_sha256, work)
			SELECT key, 'shop', 'long-' || n, 'thing', '{}', 'body', sha256('body'), 1 FROM n
		), states AS (
			INSERT INTO hookonce.event_state (key, source, type, in_line, due_at)
			SELECT key, 'shop', 'thing', true, CASE WHEN n = 1 OR n > $1::int THEN now() - interval '1 minute' ELSE hookonce.parked() END FROM n
		), places AS (
			INSERT INTO hookonce.ordered_message (message_id, line, source, destination, version, received_at, hold)
			SELECT hookonce.place_of(key), line, 'shop', chr(10) || 'shop', decode(lpad(to_hex(n), 8, '0'), 'hex'), now(), true FROM n
		)
		INSERT INTO hookonce.object_version (object, source, version, shown, applied_at, sending_id)
		SELECT line, 'shop', '', '', now(), hookonce.place_of(key) FROM n WHERE n = 1 OR n > $1::int`, planRows)
	w.put(t, "other", "free", "free too")
	s := w.connect(t)
	tables := []string{"event", "event_state", "ordered_message", "object_version"}
	dbtest.Beliefs(t, w.exec, w.schema, tables, func(believed string) {
		s.run(t, "BEGIN")
		before := s.rowsRead(t)
		got := s.take(t, 10)
		s.run(t, "SET CONSTRAINTS ALL IMMEDIATE")
		if read := s.rowsRead(t) - before; read > planBound || len(got) != 10 {
			t.Errorf("take and its commit read %d rows for %d events, want at most %d for 10: %s", read, len(got), planBound, believed)
		}
		s.run(t, "ROLLBACK")
		s.run(t, "BEGIN")
		const looks = `SELECT coalesce(sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)), 0)::bigint FROM pg_stat_xact_all_tables
			WHERE schemaname = $1 AND relname IN ('ordered_message', 'object_version')`
		count := func() (n int64) {
			if err := s.QueryRow(t.Context(), looks, strings.Trim(w.schema, `"`)).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before = count()
		if got := s.taken(t, "other", 10); len(got) != 2 {
			t.Errorf("took %d events without order, want 2", len(got))
		}
		s.run(t, "SET CONSTRAINTS ALL IMMEDIATE")
		if n := count() - before; n > 0 {
			t.Errorf("take without order looks %d times at lines: %s", n, believed)
		}
		s.run(t, "ROLLBACK")
	})
}
