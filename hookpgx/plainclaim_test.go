package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// newQueued returns a claim that the plain statement makes.
func newQueued(id string) driver.Claim {
	c := newClaim(id)
	c.Work = driver.WorkQueued
	return c
}

// short makes the claim function claim alone: it leaves nothing for the plain statement to wait.
const short = 50 * time.Millisecond

// openWatched returns a store that notes for each new event whether the claim function wrote it.
func openWatched(t *testing.T) *world {
	t.Helper()
	w := open(t, nil)
	w.exec(t, `
CREATE TABLE {schema}.claimed_by (event_id text NOT NULL, by_function boolean NOT NULL);
CREATE FUNCTION {schema}.note_path() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO {schema}.claimed_by VALUES (NEW.event_id, current_query() LIKE '%.claim(%');
	RETURN NULL;
END
$$;
CREATE TRIGGER note_path AFTER INSERT ON {schema}.event FOR EACH ROW EXECUTE FUNCTION {schema}.note_path();`)
	return w
}

// wantPath fails unless the events that were claimed since the last call were claimed by the function, or
// by the plain statement.
func (w *world) wantPath(t *testing.T, what string, byFunction bool, n int) {
	t.Helper()
	got := w.number(t, "WITH gone AS (DELETE FROM {schema}.claimed_by RETURNING by_function) SELECT count(*) FROM gone WHERE by_function = $1", byFunction)
	if got != n {
		t.Errorf("%s: %d events were claimed with by_function = %t, want %d", what, got, byFunction, n)
	}
}

func TestPathOfClaims(t *testing.T) {
	t.Parallel()
	w := openWatched(t)
	for name, test := range map[string]struct {
		change     func(*driver.Claim, *driver.ClaimParams)
		byFunction bool
	}{
		"queued":          {func(*driver.Claim, *driver.ClaimParams) {}, false},
		"without work":    {func(c *driver.Claim, _ *driver.ClaimParams) { c.Work = driver.WorkNone }, false},
		"with a clock":    {func(_ *driver.Claim, p *driver.ClaimParams) { p.Now = time.Now() }, false},
		"mostly known":    {func(_ *driver.Claim, p *driver.ClaimParams) { p.MostlyKnown = true }, false},
		"watched body":    {func(c *driver.Claim, _ *driver.ClaimParams) { c.BodyGuard = driver.BodyWatch }, true},
		"undecided":       {func(c *driver.Claim, _ *driver.ClaimParams) { c.Undecided = driver.NoteUndecided + "r" }, true},
		"with a message":  {func(c *driver.Claim, _ *driver.ClaimParams) { c.Messages = newClaim(c.EventID, "billing").Messages }, false},
		"brief lock wait": {func(_ *driver.Claim, p *driver.ClaimParams) { p.LockTimeout = short }, true},
	} {
		for n := 1; n <= 2; n++ {
			var all []driver.Claim
			for i := range n {
				all = append(all, newQueued(fmt.Sprint(name, n, i)))
			}
			p := claimOf(sortedClaims(all...)...)
			test.change(&p.Claims[0], p)
			got, err := w.Claim(t.Context(), p)
			if err != nil || !got[0].Claimed {
				t.Fatalf("%s: got %+v and the error %v", name, got, err)
			}
			w.wantPath(t, fmt.Sprintf("%s, %d claims", name, n), test.byFunction, n)
		}
	}
}

// TestPlainClaimWritesTheSameRows claims the same events by the plain statement and by the claim function.
func TestPlainClaimWritesTheSameRows(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 12, 30, 45, 123456000, time.UTC)
	var all []driver.Claim
	for i, change := range []func(*driver.Claim){
		func(*driver.Claim) {},
		func(c *driver.Claim) { c.Work = driver.WorkNone },
		func(c *driver.Claim) { c.Body, c.Headers = nil, nil },
		func(c *driver.Claim) { c.Body, c.Headers = []byte("\x00\xff\n"), []byte(`{"A":["ü"]}`) },
		func(c *driver.Claim) { c.Source, c.Type, c.Remote, c.Gateway = "ü", "", "2001:db8::1", "gw \u2603 1" },
		func(c *driver.Claim) { c.OccurredAt = at.Add(-789 * time.Nanosecond) },
		func(c *driver.Claim) { c.OccurredAt = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC) },
		func(c *driver.Claim) { c.OccurredAt = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC) },
		func(c *driver.Claim) { c.OccurredAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(c *driver.Claim) { c.OccurredAt = time.Date(1999, 12, 31, 23, 59, 59, 999999000, time.UTC) },
		func(c *driver.Claim) { c.Body = []byte(strings.Repeat("large ", 50_000)) },
		func(c *driver.Claim) {
			c.Work, c.Messages = driver.WorkNone, newClaim(c.EventID, "billing", "ü").Messages
		},
		func(c *driver.Claim) {
			c.Messages = newClaim(c.EventID, "audit", "billing", "paused").Messages
			c.Messages[1].LeaseFor, c.Messages[2].LeaseFor = 35*time.Second+time.Microsecond, time.Minute
		},
	} {
		c := newQueued(fmt.Sprint("evt_", i))
		change(&c)
		all = append(all, c)
	}
	all = sortedClaims(all...)
	rows := func(w *world) []string {
		t.Helper()
		got, err := w.pool.Query(t.Context(), strings.ReplaceAll(
			`SELECT to_jsonb(e)::text || coalesce(to_jsonb(s)::text, '') || coalesce((
				SELECT string_agg((to_jsonb(m) - 'token')::text, '' ORDER BY m.id) FROM {schema}.message m WHERE m.event_key = e.key
			), '') FROM {schema}.event e
			LEFT JOIN {schema}.event_state s USING (key) ORDER BY e.key`, "{schema}", w.schema))
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(got, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	claim := func(lockTimeout time.Duration, size int) []string {
		t.Helper()
		w := openWatched(t)
		if _, err := w.PauseDestination(t.Context(), &driver.PauseParams{Destination: "to-paused"}); err != nil {
			t.Fatal(err)
		}
		for batch := range slices.Chunk(all, size) {
			got, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: batch, LockTimeout: lockTimeout, Now: at})
			if err != nil || slices.ContainsFunc(got, func(r driver.ClaimResult) bool { return !r.Claimed }) {
				t.Fatalf("Claim: got %+v and the error %v", got, err)
			}
		}
		w.wantPath(t, fmt.Sprint("lock time-out ", lockTimeout), lockTimeout == short, len(all))
		return rows(w)
	}
	want := claim(short, len(all))
	for _, size := range []int{1, len(all)} {
		if diff := cmp.Diff(want, claim(0, size)); diff != "" {
			t.Errorf("rows of plain claims, %d at once (-function +plain):\n%s", size, diff)
		}
	}
}

// TestPlainClaimOfMixedBatch has new events, known ones with the same and another body, and a dead one.
func TestPlainClaimOfMixedBatch(t *testing.T) {
	t.Parallel()
	w := openWatched(t)
	known, other, dead := newQueued("known"), newQueued("other body"), newQueued("dead")
	for _, c := range []driver.Claim{known, other, dead} {
		w.mustClaim(t, true, c)
	}
	w.exec(t, "UPDATE {schema}.event_state SET state = 3, failed_at = now(), last_error = 'x' WHERE key = $1", dead.Key[:])
	other.BodyHash[0]++
	want := map[string]driver.ClaimResult{
		"known": {Duplicate: true}, "other body": {Duplicate: true, OtherBody: true}, "dead": {Duplicate: true, Dead: true},
	}
	for _, news := range [][]driver.Claim{{newQueued("new 1"), newQueued("new 2")}, {}} {
		batch := sortedClaims(append([]driver.Claim{known, other, dead}, news...)...)
		got, err := w.Claim(t.Context(), claimOf(batch...))
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range batch {
			expected, ok := want[c.EventID]
			if !ok {
				expected.Claimed = true
			}
			if diff := cmp.Diff(expected, got[i]); diff != "" {
				t.Errorf("result of %s (-want +got):\n%s", c.EventID, diff)
			}
		}
	}
	w.wantPath(t, "all", false, 5)
}

// TestPlainClaimWaitsForTheDisk has sessions with every level of synchronous_commit.
func TestPlainClaimWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"off": "on", "local": "local", "on": "on", "remote_apply": "remote_apply"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			dsn, schema := dbtest.Ready(t)
			config, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			config.ConnConfig.RuntimeParams["synchronous_commit"] = level
			w := connectWith(t, config, schema, nil)
			w.exec(t, storetest.WatchCommitsSQL)
			for name, all := range map[string][]driver.Claim{
				"one": {newQueued("1")}, "two": {newQueued("2"), newQueued("3")},
				"one without work": {newClaim("4")}, "with a message": {newClaim("5", "billing")}, "two with messages": {newClaim("6", "billing"), newClaim("7", "audit")},
			} {
				if _, err := w.Claim(t.Context(), claimOf(sortedClaims(all...)...)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{want}, w.levels(t)); diff != "" {
					t.Errorf("%s: synchronous_commit at the commit (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestPlainClaimOfHeldRows keeps rows of a known event in an open transaction that changes them. The plain
// statement would wait for its end; the claim function, which looks first, does not.
func TestPlainClaimOfHeldRows(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	for _, sql := range []string{
		"UPDATE {schema}.event SET headers = NULL, body = NULL WHERE key = $1", // as retention does
		"DELETE FROM {schema}.event WHERE key = $1",                            // as the end of the window does
		"SELECT FROM {schema}.event WHERE key = $1 FOR UPDATE",
		"UPDATE {schema}.event_state SET attempts = 1 WHERE key = $1",
	} {
		c, fresh := newQueued("known "+sql), newQueued("new "+sql)
		w.mustClaim(t, true, c)
		other := w.session(t)
		w.in(t, other, sql, c.Key[:])
		for _, batch := range [][]driver.Claim{{c}, sortedClaims(c, fresh)} {
			got, err := w.Claim(t.Context(), claimOf(batch...))
			if err != nil {
				t.Fatalf("Claim of %d events while another session has done %s: %v", len(batch), sql, err)
			}
			for i := range batch {
				if want := batch[i].EventID == fresh.EventID; got[i].Claimed != want || got[i].Duplicate == want {
					t.Errorf("Claim of %s: got %+v", batch[i].EventID, got[i])
				}
			}
		}
		if err := other.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlainClaimOfStuckKey has a key that another session has inserted and not committed.
func TestPlainClaimOfStuckKey(t *testing.T) {
	t.Parallel()
	w := openWatched(t)
	stuck := newQueued("stuck")
	other := w.session(t)
	w.in(t, other, "INSERT INTO {schema}.event (key, source, event_id, type, body_sha256, work) VALUES ($1, 'stripe', 'stuck', '', $2, 0)",
		stuck.Key[:], stuck.BodyHash[:])
	batch := sortedClaims(newQueued("a"), stuck, newQueued("b"))
	_, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: batch, LockTimeout: 400 * time.Millisecond})
	if !errors.Is(err, driver.ErrLockTimeout) || errors.Is(err, driver.ErrCommitUnknown) {
		t.Errorf("Claim of a batch with a stuck key: got the error %v, want %v", err, driver.ErrLockTimeout)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.event"); n != 0 {
		t.Errorf("the refused batch left %d events", n)
	}
	// The claim function goes on where the plain statement has given up.
	done := make(chan error, 1)
	go func() {
		_, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: batch, LockTimeout: eventually.Bound})
		done <- err
	}()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0"
	eventually.True(t, "the claim function waits for the stuck key", func() bool { return w.number(t, waiting, w.schema+".claim(") > 0 })
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.wantPath(t, "after the stuck key was free", true, 3)
}

// TestLostNames has sessions without the statement that the store prepared, or with another one of its name,
// as behind a pooler. Claims go on, without names.
func TestLostNames(t *testing.T) {
	t.Parallel()
	nameOf := func(t *testing.T, conn *pgx.Conn) (name string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT name FROM pg_prepared_statements WHERE name LIKE 'hookonce%' LIMIT 1", pgx.QueryExecModeSimpleProtocol).Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	run := func(t *testing.T, conn *pgx.Conn, sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(t *testing.T, w, second *world){
		"lost": func(t *testing.T, w, _ *world) {
			onReceive(t, w, func(conn *pgx.Conn) { run(t, conn, "DEALLOCATE ALL") })
		},
		"taken": func(t *testing.T, w, second *world) {
			second.mustClaim(t, true, newQueued("by the second"))
			var taken string
			onReceive(t, second, func(conn *pgx.Conn) { taken = nameOf(t, conn) })
			hookpgx.ReceivePool(w.Store).Reset()
			onReceive(t, w, func(conn *pgx.Conn) { run(t, conn, "PREPARE "+taken+" AS SELECT 1") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWatched(t)
			w.mustClaim(t, true, newQueued("before"))
			if hookpgx.IsUnnamed(w.Store) {
				t.Error("the names are gone before the session has lost one")
			}
			second := w.second(t)
			spoil(t, w, second)
			for _, id := range []string{"1", "2"} {
				w.mustClaim(t, true, newQueued(id))
				w.mustClaim(t, false, newQueued(id))
			}
			if !hookpgx.IsUnnamed(w.Store) {
				t.Error("the store still names its statements")
			}
			want := 3
			if name == "taken" {
				want++
			}
			w.wantPath(t, "named and unnamed", false, want)
		})
	}
}

// onReceive calls f with the one connection of the receiving pool.
func onReceive(t *testing.T, w *world, f func(*pgx.Conn)) {
	t.Helper()
	pool := hookpgx.ReceivePool(w.Store)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if n := pool.Stat().TotalConns(); n != 1 {
		t.Fatalf("the receiving pool has %d connections, want 1", n)
	}
	f(conn.Conn())
}

// TestLostReplyOfPlainClaim loses the reply to a claim whose statement is prepared, and to one that is not.
func TestLostReplyOfPlainClaim(t *testing.T) {
	t.Parallel()
	w, direct, proxy := proxied(t)
	for _, id := range []string{"first", "second"} {
		c := newQueued(id)
		drop := proxy.DropReply("state_new", dbtest.CutReset)
		if got, err := w.Claim(t.Context(), claimOf(c)); !errors.Is(err, driver.ErrCommitUnknown) || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Claim whose reply was lost: got %+v and the error %v, want %v", got, err, driver.ErrCommitUnknown)
		}
		eventually.Receive(t, "the server answers", drop.Done())
		if n := direct.number(t, "SELECT count(*) FROM {schema}.event_state WHERE key = $1", c.Key[:]); n != 1 {
			t.Errorf("the claim whose reply was lost left %d state rows, want 1", n)
		}
		w.mustClaim(t, false, c) // the sender's retry, on a fresh connection
	}
}

// TestPlainClaimWithoutASchema has a database that is not migrated.
func TestPlainClaimWithoutASchema(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	w := connect(t, dsn, schema, nil)
	if _, err := w.Claim(t.Context(), claimOf(newQueued("1"))); !errors.Is(err, driver.ErrSchema) {
		t.Errorf("got the error %v, want %v", err, driver.ErrSchema)
	}
}

// TestPlainClaimAfterItsContext has a context that ended before the claim: nothing is sent, and the memory
// of the connection serves the next claims.
func TestPlainClaimAfterItsContext(t *testing.T) {
	t.Parallel()
	w := openWatched(t)
	w.mustClaim(t, true, newQueued("before"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	large := newQueued("large")
	large.Body = []byte(strings.Repeat("x", 3<<20))
	for range 3 {
		if _, err := w.Claim(ended, claimOf(large)); err == nil {
			t.Fatal("no error after the end of the context")
		}
		w.mustClaim(t, true, newQueued(fmt.Sprint("after ", time.Now().UnixNano())))
	}
	w.mustClaim(t, true, large)
	w.wantPath(t, "all", false, 5)
	var refused *pgconn.PgError
	bad := newQueued("bad")
	bad.Type = "not \xff UTF-8"
	if _, err := w.Claim(t.Context(), claimOf(bad)); !errors.Is(err, driver.ErrBadRow) || !errors.As(err, &refused) {
		t.Errorf("a text that is not UTF-8: got the error %v, want %v", err, driver.ErrBadRow)
	}
}
