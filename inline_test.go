package hookonce_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

func TestInlineOnPGX(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onPGX, inlineTests[pgx.Tx]())
}

func TestInlineOnSQLite(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onSQLite, inlineTests[*sql.Tx]())
}

func inlineTests[T any]() []libraryTest[T] {
	return []libraryTest[T]{
		{"claim, effect and mark together", inlineTogether[T]},
		{"five failures", inlineFiveFailures[T]},
		{"immediate", inlineImmediate[T]},
		{"permanent", inlinePermanent[T]},
		{"a failure and then success", inlineRecovers[T]},
		{"copies wait for the first", inlineCopies[T]},
		{"a dead one is delivered again", inlineReopened[T]},
		{"what has no handler", inlineUnhandled[T]},
		{"dead messages of what had none", routedReopened[T]},
		{"the own transaction", ownTransaction[T]},
		{"the own transaction is rolled back", ownRolledBack[T]},
		{"copies in own transactions", ownCopies[T]},
		{"what Verify refuses", verifyRefuses[T]},
	}
}

func inline(c *hookonce.Config) { c.Sources[0].Inline = true }

var failed = result{Code: http.StatusInternalServerError}

func inlineTogether[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", effectOf(l))
	in := inbox(t, l, mux, inline) // not run: the work is in the answer
	deliverAll(t, in, "1", "2")
	if got := deliver(in, delivery("1", "{}")); got != duplicate {
		t.Errorf("the second delivery: %+v", got)
	}
	wantOutcome(t, l, "1", done)
	wantEffects(t, l, "1", "2")
}

func failing[T any](l *library[T], err error) *hookonce.Mux[T] {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		return err
	})
	return mux
}

func inlineFiveFailures[T any](t *testing.T, l *library[T]) {
	in := inbox(t, l, failing(l, errors.New("no stock")), inline)
	for i := range 4 {
		if got := deliver(in, delivery("1", `{"n":1}`)); got != failed {
			t.Errorf("delivery %d: %+v, want 500", i, got)
		}
	}
	if got := deliver(in, delivery("1", `{"n":1}`)); got != ok {
		t.Errorf("the fifth delivery: %+v, want 200", got)
	}
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 5, LastError: "no stock"})
	wantEffects(t, l)
	if body := ended(t, l, "1").Body; string(body) != `{"n":1}` {
		t.Errorf("the body of the dead letter is %q", body)
	}
}

func inlineImmediate[T any](t *testing.T, l *library[T]) {
	in := inbox(t, l, failing(l, errors.New("no stock")), func(c *hookonce.Config) {
		inline(c)
		c.Sources[0].DeadLetter = hookonce.Immediate
	})
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, LastError: "no stock"})
	wantEffects(t, l)
}

func inlinePermanent[T any](t *testing.T, l *library[T]) {
	in := inbox(t, l, failing(l, hookonce.Permanent(errors.New("no such order"))), inline)
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, LastError: "no such order"})
}

// A failed run leaves nothing behind: the retry is a first delivery.
func inlineRecovers[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	var runs atomic.Int32
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		if runs.Add(1) == 1 {
			panic("boom")
		}
		return nil
	})
	in := inbox(t, l, mux, inline)
	if got := deliver(in, delivery("1", "{}")); got != failed {
		t.Errorf("the first delivery: %+v, want 500", got)
	}
	if page, err := l.db.Events(t.Context(), &driver.EventFilter{}); err != nil || len(page.Events) != 0 {
		t.Errorf("after the failure there are events: %+v, %v", page, err)
	}
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", done)
	wantEffects(t, l, "1")
}

func inlineCopies[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	began, release := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if runs.Add(1) == 1 {
			close(began)
		}
		<-release
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, inline)
	const copies = 20
	answers := make([]result, copies)
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() { answers[i] = deliver(in, delivery("1", "{}")) })
	}
	<-began
	close(release)
	wg.Wait()
	count := make(map[result]int)
	for _, a := range answers {
		count[a]++
	}
	if diff := cmp.Diff(map[result]int{ok: 1, duplicate: copies - 1}, count); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("the handler ran %d times", n)
	}
	wantEffects(t, l, "1")
}

func inlineReopened[T any](t *testing.T, l *library[T]) {
	var mend atomic.Bool
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if !mend.Load() {
			return errors.New("no stock")
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		inline(c)
		c.Sources[0].DeadLetter = hookonce.Immediate
	})
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "dead", Attempts: 1, LastError: "no stock"})
	mend.Store(true)
	if got, want := deliver(in, delivery("1", "{}")), (result{Code: 200, Status: "duplicate", Reopened: true}); got != want {
		t.Errorf("the delivery of the dead event: %+v, want %+v", got, want)
	}
	wantOutcome(t, l, "1", outcome{State: "done", Attempts: 1, Generation: 1})
	wantEffects(t, l, "1")
}

func inlineUnhandled[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "issues", effectOf(l))
	in := inbox(t, l, mux, inline)
	deliverAll(t, in, "1")
	wantOutcome(t, l, "1", outcome{State: "done", Note: "no route"})
	wantEffects(t, l)
}

// own handles a delivery in a transaction of its own.
func own[T any](t *testing.T, l *library[T], in *hookonce.Inbox[T], r *http.Request, work func(tx T, ev *hookonce.Event) error) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d, err := in.Verify(w, r)
	if err != nil {
		in.Refuse(w, r, err)
		return w
	}
	tx, commit := l.begin(t)
	claimed, err := in.ClaimTx(r.Context(), tx, d)
	if err != nil {
		in.Refuse(w, r, err)
		return w
	}
	for i := range claimed {
		if !claimed[i].Claimed {
			continue
		}
		if err := work(tx, claimed[i].Event); err != nil {
			if err := l.rollback(t.Context(), tx); err != nil {
				t.Error(err)
			}
			in.Refuse(w, r, err)
			return w
		}
	}
	if err := commit(); err != nil {
		in.Refuse(w, r, err)
		return w
	}
	in.Accept(w, r, d, claimed)
	return w
}

func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, code int, body string) {
	t.Helper()
	if w.Code != code || body != "" && w.Body.String() != body+"\n" {
		t.Errorf("the answer is %d %s, want %d %s", w.Code, w.Body, code, body)
	}
}

func ownTransaction[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	work := func(tx T, ev *hookonce.Event) error { return l.insert(t.Context(), tx, ev.ID+" "+ev.Type) }
	wantAnswer(t, own(t, l, in, delivery("1", "{}"), work), 200, `{"status":"ok","event_id":"1"}`)
	wantAnswer(t, own(t, l, in, delivery("1", "{}"), work), 200, `{"status":"duplicate","event_id":"1"}`)
	wantOutcome(t, l, "1", done)
	wantEffects(t, l, "1 push")
}

func ownRolledBack[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	bad := func(tx T, ev *hookonce.Event) error {
		if err := l.insert(t.Context(), tx, ev.ID); err != nil {
			return err
		}
		return errors.New("no stock")
	}
	w := own(t, l, in, delivery("1", "{}"), bad)
	wantAnswer(t, w, 503, "")
	if w.Header().Get("Retry-After") == "" {
		t.Error("the 503 has no Retry-After")
	}
	good := func(tx T, ev *hookonce.Event) error { return l.insert(t.Context(), tx, ev.ID) }
	wantAnswer(t, own(t, l, in, delivery("1", "{}"), good), 200, `{"status":"ok","event_id":"1"}`)
	wantEffects(t, l, "1")
}

func ownCopies[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		wg.Go(func() {
			codes[i] = own(t, l, in, delivery("1", "{}"), func(tx T, ev *hookonce.Event) error {
				return l.insert(t.Context(), tx, ev.ID)
			}).Code
		})
	}
	wg.Wait()
	for _, code := range codes {
		if code != 200 && code != 503 {
			t.Errorf("the answers are %d", codes)
			break
		}
	}
	wantEffects(t, l, "1")
}

func verifyRefuses[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	forged := delivery("1", "{}")
	forged.Header.Set("X-Hub-Signature-256", "sha256=00")
	unknown := delivery("1", "{}")
	unknown.URL.Path = "/webhooks/other"
	nameless := delivery("", "{}")
	for name, c := range map[string]struct {
		r    *http.Request
		code int
	}{
		"forged": {forged, 401}, "unknown": {unknown, 404}, "without an id": {nameless, 400},
		"GET": {httptest.NewRequest(http.MethodGet, "/webhooks/gh", nil), 405},
	} {
		w := own(t, l, in, c.r, nil)
		if w.Code != c.code || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: the answer is %d %s, want %d", name, w.Code, w.Body, c.code)
		}
	}
}

// An event whose messages are dead, and that had no handler when it was claimed, is
// reopened by a delivery also where the source has become Inline, or is claimed in
// an own transaction.
func routedReopened[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", effectOf(l))
	crm := newSent()
	var refuse atomic.Bool
	refuse.Store(true)
	route := func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "crm", Sender: hookonce.SenderFunc(
			func(ctx context.Context, m *hookonce.Outgoing) error {
				if refuse.Load() {
					return hookonce.Permanent(errors.New("no"))
				}
				return crm.Send(ctx, m)
			})}}
		c.Routes = []hookonce.Route{{Name: "all", To: "crm"}}
	}
	routed := inbox[T](t, l, nil, route)
	running(t, routed)
	deliverAll(t, routed, "1", "2")
	for _, id := range []string{"1", "2"} {
		if ev := ended(t, l, id); ev.State != "dead" {
			t.Fatalf("event %s is %s", id, ev.State)
		}
	}
	refuse.Store(false)
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		route(c)
		inline(c)
	})
	if got, want := deliver(in, delivery("1", "{}")), (result{Code: 200, Status: "duplicate", Reopened: true}); got != want {
		t.Errorf("the delivery of the dead event: %+v, want %+v", got, want)
	}
	wantAnswer(t, own(t, l, in, delivery("2", "{}"), nil), 200, `{"status":"duplicate","event_id":"2","reopened":true}`)
	<-crm.got
	<-crm.got
	wantEffects(t, l)
}
