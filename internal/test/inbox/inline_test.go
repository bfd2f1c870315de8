package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/provider"
)

func inline(c *hookonce.Config) { c.Sources[0].Inline = true }

var (
	failed   = result{Code: http.StatusInternalServerError}
	reopened = result{Code: http.StatusOK, Status: "duplicate", Reopened: true}
)

// failing returns a Mux with a handler of pushes that inserts the event's id, and fails with *failure
// if that is not nil.
func failing(l *library[*sql.Tx], failure *atomic.Pointer[error]) *hookonce.Mux[*sql.Tx] {
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		if err := failure.Load(); err != nil {
			return *err
		}
		return nil
	})
	return mux
}

var errNoStock = errors.New("no stock")

// The inbox does not run: the handler runs before the answer. A failed run leaves no event and no
// effect. The last failure that the source allows makes a dead event, which the next delivery reopens.
func TestInlineAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deadLetter hookonce.DeadLetterPolicy
		failures   int // the last one is answered 200
	}{"default": {hookonce.DeadLetterPolicy{}, 5}, "immediate": {hookonce.Immediate, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := onSQLite(t)
			var failure atomic.Pointer[error]
			in := inbox(t, l, failing(l, &failure), func(c *hookonce.Config) {
				inline(c)
				c.Sources[0].DeadLetter = tt.deadLetter
			})
			answers := func(id string, all ...result) {
				t.Helper()
				for i, want := range all {
					if got := deliver(in, delivery(id, "{}")); got != want {
						t.Errorf("delivery %d of %s: %+v, want %+v", i, id, got, want)
					}
				}
			}
			answers("good", ok, duplicate)
			wantDone(t, l, "good")
			failure.Store(&errNoStock)
			for range tt.failures - 1 {
				answers("bad", failed)
			}
			if page, err := l.db.Events(t.Context(), &driver.EventFilter{}); err != nil || len(page.Events) != 1 {
				t.Errorf("events after the failures: %+v, error %v; want the good one", page, err)
			}
			answers("bad", ok)
			wantOutcome(t, l, "bad", outcome{State: driver.StateDead, Attempts: tt.failures, LastError: "no stock"})
			wantEffects(t, l, "good")
			failure.Store(nil)
			answers("bad", reopened, duplicate)
			wantOutcome(t, l, "bad", outcome{State: driver.StateDone, Attempts: 1, Generation: 1})
			wantEffects(t, l, "bad", "good")
		})
	}
}

func TestInlineEventWithoutAHandler(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "issues", effectOf(l))
	in := inbox(t, l, mux, inline)
	deliverAll(t, in, "1")
	deliver(in, delivery("1", "{}"))
	wantOutcome(t, l, "1", outcome{State: driver.StateDone, Note: driver.NoteNoRoute})
	wantEffects(t, l)
	runEnded(t, in)
	if n := ended(t, l, "1").Deliveries.Count; n != 2 {
		t.Errorf("%d deliveries were counted, want 2", n)
	}
}

// A retry of a quarantined request runs the handler. While the handler fails, the request stays.
func TestInlineRetryFromTheQuarantine(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	var failure atomic.Pointer[error]
	of := func(location string) *hookonce.Inbox[*sql.Tx] {
		return inbox(t, l, failing(l, &failure), func(c *hookonce.Config) { inline(c); idAt(location)(c) })
	}
	if got := deliver(of("body:id"), delivery("h", `{"uid":"1"}`)); got.Code != http.StatusBadRequest {
		t.Fatalf("answered %+v, want 400", got)
	}
	kept := oneQuarantined(t, l.db)
	in := of("body:uid")
	failure.Store(&errNoStock)
	if _, err := in.Operator().RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, errNoStock) {
		t.Errorf("a retry whose handler fails: error %v, want %v", err, errNoStock)
	}
	wantEffects(t, l)
	if diff := cmp.Diff(kept, oneQuarantined(t, l.db)); diff != "" {
		t.Errorf("the request in the quarantine (-want +got):\n%s", diff)
	}
	failure.Store(nil)
	wantRetried(t, in.Engine, kept.Key, operate.RetriedRequest{EventIDs: []string{"1"}, Claimed: 1})
	wantOutcome(t, l, "1", outcome{State: driver.StateDone, Attempts: 2})
	wantEffects(t, l, "1")
}

// signalReader tells of its first read.
type signalReader struct {
	io.Reader
	reading chan struct{}
}

func (r *signalReader) Read(p []byte) (int, error) {
	if r.reading != nil {
		close(r.reading)
		r.reading = nil
	}
	return r.Reader.Read(p)
}

// The handler of one event of a delivery runs when Drain is called, and the body of another delivery
// arrives after that. Both are answered by their outcome, and the queue claims all other events.
func TestDrainBesideAHandler(t *testing.T) {
	t.Parallel()
	l := onPGX(t) // on SQLite the queue would wait for the handler's transaction
	handle, began, release := held(l, "1")
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "paid", handle)
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		addSource(c, "late", nil)
		inline(c)
		c.Sources[0].Event = provider.EventRules{ID: "item:id", Type: "item:type", Batch: "body:items"}
	})
	first, second := make(chan result, 1), make(chan result, 1)
	go func() {
		first <- deliver(in, delivery("", `{"items":[{"id":"1","type":"paid"},{"id":"2","type":"sent"}]}`))
	}()
	<-began
	body, sender := io.Pipe()
	late, reading := delivery("3", "{}", to("late")), make(chan struct{})
	late.Body, late.ContentLength = io.NopCloser(&signalReader{body, reading}), -1
	go func() { second <- deliver(in, late) }()
	<-reading
	drained := make(chan struct{})
	go func() { in.Drain(); close(drained) }()
	eventually.True(t, "the engine drains", func() bool {
		err := in.Ready(t.Context())
		return err != nil && err.Error() == "hookonce: draining"
	})
	if got := deliver(in, delivery("4", "{}")); got.Code != http.StatusServiceUnavailable {
		t.Errorf("a delivery during the drain: %+v, want 503", got)
	}
	if _, err := io.Copy(sender, strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	sender.Close()
	if got := <-second; got != ok {
		t.Errorf("the delivery whose body came late: %+v, want ok", got)
	}
	select {
	case <-drained:
		t.Error("Drain returned while a handler ran")
	default:
	}
	close(release)
	if got := <-first; got != ok {
		t.Errorf("the delivery whose handler ran: %+v, want ok", got)
	}
	<-drained
	wantEffects(t, l, "1")
	wantOutcome(t, l, "2", outcome{State: driver.StateDone, Note: driver.NoteNoRoute})
}
