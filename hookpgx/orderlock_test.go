package hookpgx_test

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestLockOfALine ends a message while another session parks its follower, and has not committed. Without the lock of the line,
// the end would not see a parked message, and nobody would make it due.
func TestLockOfALine(t *testing.T) {
	t.Parallel()
	w := warm(t)
	line := driver.ObjectVersion{Object: driver.ObjectKey("stripe", "line", "x"), Source: "stripe"}
	claim := func(id string, version byte) driver.Claim {
		c := newClaim(id, "line")
		c.Messages[0].Order = &driver.Order{Line: line, Hold: true}
		c.Messages[0].Order.Line.Version = []byte{version}
		return c
	}
	lease := func() *driver.OrderedMessage {
		leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-line", Limit: 10, For: time.Hour, MaxAttempts: 3})
		if err != nil || len(leased.Messages) != 1 {
			t.Fatalf("leased %+v, %v, want one message", leased, err)
		}
		m := leased.Messages[0]
		return &driver.OrderedMessage{MessageLease: driver.MessageLease{ID: m.ID, Token: m.Token}}
	}
	admit := func(m *driver.OrderedMessage) driver.Verdict {
		got, err := w.Admit(t.Context(), &driver.AdmitParams{Messages: []driver.OrderedMessage{*m}})
		if err != nil {
			t.Error(err)
			return -1
		}
		return got[0].Verdict
	}
	store := func(c driver.Claim) {
		if _, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			t.Fatal(err)
		}
	}
	store(claim("first", 1))
	first := lease()
	if got := admit(first); got != driver.Admitted {
		t.Fatalf("the verdict about the first message is %d, want %d", got, driver.Admitted)
	}
	store(claim("second", 2))
	second := lease()

	// The session that parks the second message waits before its commit.
	conn, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	const lock = 7001
	w.exec(t, `
		CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(7001); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON {schema}.message DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.due_at > '9000-01-01') EXECUTE FUNCTION {schema}.wait()`)
	if _, err := conn.Exec(t.Context(), "SELECT pg_catalog.pg_advisory_lock($1)", lock); err != nil {
		t.Fatal(err)
	}
	waiting := func(sql string, args ...any) (n int) {
		if err := w.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	parked, ended := make(chan driver.Verdict, 1), make(chan error, 1)
	go func() { parked <- admit(second) }()
	eventually.True(t, "the parking session waits", func() bool {
		return waiting("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted", lock) > 0
	})
	go func() {
		_, err := w.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{
			{ID: first.ID, Token: first.Token, Outcome: driver.MessageSent, Line: &line},
		}})
		ended <- err
	}()
	var early error
	done := false
	eventually.True(t, "the session that ends the first message waits for the line, or is done", func() bool {
		select {
		case early = <-ended:
			done = true
			return true
		default:
		}
		return waiting("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0", w.schema+".complete_ordered") > 0
	})
	if _, err := conn.Exec(t.Context(), "SELECT pg_catalog.pg_advisory_unlock($1)", lock); err != nil {
		t.Fatal(err)
	}
	if got := <-parked; got != driver.Parked {
		t.Errorf("the verdict about the second message is %d, want %d", got, driver.Parked)
	}
	if !done {
		early = <-ended
	}
	if early != nil {
		t.Fatal(early)
	}
	if got := admit(lease()); got != driver.Admitted {
		t.Errorf("the verdict about the follower is %d, want %d", got, driver.Admitted)
	}
}

// TestLockedLine admits two messages while another session keeps the line of one. It waits without an attempt, the other goes.
func TestLockedLine(t *testing.T) {
	t.Parallel()
	w := warm(t)
	lease := func() (all []driver.Message) {
		leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-line", Limit: 10, For: time.Hour, MaxAttempts: 3})
		if err != nil {
			t.Fatal(err)
		}
		return leased.Messages
	}
	var claims []driver.Claim
	for _, id := range []string{"locked", "free"} {
		c := newClaim(id, "line")
		c.Messages[0].Order = &driver.Order{Line: driver.ObjectVersion{Object: driver.ObjectKey("stripe", "line", id), Source: "stripe"}}
		claims = append(claims, c)
		if id == "locked" {
			w.exec(t, "INSERT INTO {schema}.object_version (object, source, version, shown, applied_at) VALUES ($1, 'stripe', '', '', now())", c.Messages[0].Order.Line.Object[:])
		}
	}
	if _, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: claims}); err != nil {
		t.Fatal(err)
	}
	other, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context())
	if _, err := other.Exec(t.Context(), "SELECT FROM "+w.schema+".object_version FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var p driver.AdmitParams
	leased := lease()
	for i := range leased {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.MessageLease{ID: leased[i].ID, Token: leased[i].Token}})
	}
	got, err := w.Admit(t.Context(), &p)
	if err != nil || len(got) != 2 {
		t.Fatalf("Admit: %+v, %v, want two results", got, err)
	}
	for i := range got {
		want := driver.Admitted
		if leased[i].EventID == "locked" {
			want = driver.Parked
		}
		if got[i].Verdict != want {
			t.Errorf("the verdict about %q is %d, want %d", leased[i].EventID, got[i].Verdict, want)
		}
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the message is due again", func() bool { leased = lease(); return len(leased) > 0 })
	if m := leased[0]; m.EventID != "locked" || m.Attempt != 1 {
		t.Errorf("leased %q at attempt %d, want the one that waited, at its first", m.EventID, m.Attempt)
	}
}
