package inbox_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// The server refuses the admission of one event of many. The others are done. The one event has failed attempts and is dead in
// the end, and the log names it.
func TestAdmissionRefused(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	key := driver.EventKey("gh", "3-1")
	l.exec(t, fmt.Sprintf(`CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.object_version FOR EACH ROW
		WHEN (NEW.sending_id = {schema}.place_of('\x%x') AND OLD.sending_id IS DISTINCT FROM NEW.sending_id) EXECUTE FUNCTION {schema}.refuse()`, key[:]))
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "*", effectOf(l), byVersion)
	var log syncBuffer
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Workers = 1
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	const n = 10
	for i := range n {
		deliver(in, versioned(fmt.Sprint(i), "1"))
	}
	run(t, in)
	for i := range n {
		want := outcome{State: driver.StateDone, Attempts: 1}
		if i == 3 {
			want = outcome{State: driver.StateDead, Attempts: quickRetry.Attempts}
		}
		if got := ended(t, l, fmt.Sprintf("%d-1", i)); got.State != want.State || got.Attempts != want.Attempts {
			t.Errorf("%d-1 is %s after %d attempts, want %s, %d", i, got.State, got.Attempts, want.State, want.Attempts)
		}
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "not this one") && !(strings.Contains(line, "source=gh") && strings.Contains(line, "event_id=3-1")) {
			t.Errorf("the log does not name the event: %s", line)
		}
	}
	// The row is in order again.
	l.exec(t, `DROP TRIGGER refuse ON {schema}.object_version`)
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "3-1"}); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, l, "3-1"); got.State != driver.StateDone {
		t.Errorf("3-1 is %s after its replay", got.State)
	}
}

// Another session keeps the line of an event. Events of other lines, reserved with it, are done meanwhile. The event itself has
// no failed attempt.
func TestLockedLine(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "*", effectOf(l), byVersion)
	one := func(c *hookonce.Config) { c.Workers, c.Batch = 1, 10 }
	in := inbox(t, l, mux, one)
	deliver(in, versioned("a", "1"))
	stop := start(t, in)
	wantDone(t, l, "a-1")
	stop()
	other := l.begin(t)
	if _, err := other.Exec(t.Context(), "SELECT FROM object_version FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	deliver(in, versioned("a", "2"))
	deliver(in, versioned("b", "1"))
	deliver(in, versioned("b", "2"))
	run(t, inbox(t, l, mux, one))
	wantDone(t, l, "b-1", "b-2")
	if ev := eventState(t, l.db, "a-2"); ev.State != driver.StatePending || ev.Attempts != 0 {
		t.Errorf("a-2 is %s after %d attempts while its line is locked, want it pending", ev.State, ev.Attempts)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDone(t, l, "a-2")
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
