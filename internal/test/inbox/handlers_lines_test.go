package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
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

// watched has room for one transaction of a handler. It counts looks for due events, and notes the reserved ones.
type watched struct {
	driver.Driver[pgx.Tx]
	looks    atomic.Int64
	mu       sync.Mutex
	reserved []string
}

func (w *watched) WorkLimits() driver.WorkLimits {
	limits := w.Driver.WorkLimits()
	limits.MaxTransactions = 1
	return limits
}

func (w *watched) DueSources(ctx context.Context, sources []string) ([]driver.DueSource, error) {
	w.looks.Add(1)
	return w.Driver.DueSources(ctx, sources)
}

func (w *watched) Reserve(ctx context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	events, err := w.Driver.Reserve(ctx, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		w.reserved = append(w.reserved, events[i].EventID)
	}
	return events, err
}

func (w *watched) hasReserved(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.reserved, id)
}

// An event is reserved for seconds. A worker does not reserve it and then wait for the end of another handler, because the
// reservation would run out, time and again.
func TestReservedInTime(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	db := &watched{Driver: l.db}
	l.db = db
	gate, began := make(chan struct{}), make(chan struct{})
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		if ev.ID == "x-1" {
			close(began)
			<-gate
		}
		return l.insert(ctx, tx, ev.ID)
	}, byVersion)
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers = 2 })
	run(t, in)
	deliver(in, versioned("x", "1"))
	eventually.Receive(t, "the handler has begun", began)
	deliver(in, versioned("y", "1"))
	looks := db.looks.Load()
	eventually.True(t, "the workers have looked again", func() bool { return db.looks.Load() > looks+3 })
	if db.hasReserved("y-1") {
		t.Error("the event is reserved while its worker waits")
	}
	close(gate)
	wantDone(t, l, "x-1", "y-1")
}
