package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

func TestClaimTxOnPGX(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onPGX, claimTxTests[pgx.Tx]())
}

func TestClaimTxOnSQLite(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onSQLite, claimTxTests[*sql.Tx]())
}

func claimTxTests[T any]() []libraryTest[T] {
	return []libraryTest[T]{
		{"the effect commits with the claim", claimTxCommits[T]},
		{"the transaction is rolled back", claimTxRollsBack[T]},
		{"concurrent deliveries of one event", claimTxConcurrently[T]},
		{"refused by Verify", claimTxRefused[T]},
		{"dead events that had no handler are reopened", claimTxReopens[T]},
		{"Accept without the results of ClaimTx", claimTxWithoutResults[T]},
	}
}

// receiveInTx receives a delivery as a program does that claims in its own transaction.
func receiveInTx[T any](t *testing.T, l *library[T], in *hookonce.Inbox[T], r *http.Request, work func(tx T, ev *hookonce.Event) error) *httptest.ResponseRecorder {
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
		t.Errorf("answer %d %s, want %d %s", w.Code, w.Body, code, body)
	}
}

func claimTxCommits[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	insert := func(tx T, ev *hookonce.Event) error { return l.insert(t.Context(), tx, ev.ID+" "+ev.Type) }
	wantAnswer(t, receiveInTx(t, l, in, delivery("1", "{}"), insert), 200, `{"status":"ok","event_id":"1"}`)
	wantAnswer(t, receiveInTx(t, l, in, delivery("1", "{}"), insert), 200, `{"status":"duplicate","event_id":"1"}`)
	wantOutcome(t, l, "1", done)
	wantEffects(t, l, "1 push")
}

func claimTxRollsBack[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	failing := func(tx T, ev *hookonce.Event) error {
		if err := l.insert(t.Context(), tx, ev.ID); err != nil {
			return err
		}
		return errors.New("no stock")
	}
	w := receiveInTx(t, l, in, delivery("1", "{}"), failing)
	wantAnswer(t, w, 503, "")
	if w.Header().Get("Retry-After") == "" {
		t.Error("the 503 has no Retry-After")
	}
	insert := func(tx T, ev *hookonce.Event) error { return l.insert(t.Context(), tx, ev.ID) }
	wantAnswer(t, receiveInTx(t, l, in, delivery("1", "{}"), insert), 200, `{"status":"ok","event_id":"1"}`)
	wantEffects(t, l, "1")
}

// claimTxWithoutResults passes Accept anything but the results of ClaimTx for the delivery.
func claimTxWithoutResults[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	claim := func(id string) (*http.Request, *hookonce.Delivery, []hookonce.Claimed) {
		r := delivery(id, "{}")
		d, err := in.Verify(httptest.NewRecorder(), r)
		if err != nil {
			t.Fatal(err)
		}
		tx, commit := l.begin(t)
		claimed, err := in.ClaimTx(t.Context(), tx, d)
		if err := errors.Join(err, commit()); err != nil {
			t.Fatal(err)
		}
		return r, d, claimed
	}
	r, d, claimed := claim("1")
	_, _, others := claim("2")
	for name, claimed := range map[string][]hookonce.Claimed{
		"nil": nil, "zero": {{}}, "without a result": {{Event: d.Events[0], Claimed: true}}, "of another delivery": others, "too many": append(claimed, others...),
	} {
		w := httptest.NewRecorder()
		in.Accept(w, r, d, claimed)
		if w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("Accept with %s: answer %d %s, want 503 with Retry-After", name, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	in.Accept(w, r, d, claimed)
	wantAnswer(t, w, 200, `{"status":"ok","event_id":"1"}`)
}

func claimTxConcurrently[T any](t *testing.T, l *library[T]) {
	in := inbox[T](t, l, nil, nil)
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		wg.Go(func() {
			codes[i] = receiveInTx(t, l, in, delivery("1", "{}"), func(tx T, ev *hookonce.Event) error {
				return l.insert(t.Context(), tx, ev.ID)
			}).Code
		})
	}
	wg.Wait()
	for _, code := range codes {
		if code != 200 && code != 503 {
			t.Errorf("answers %d, want only 200 and 503", codes)
			break
		}
	}
	wantEffects(t, l, "1")
}

func claimTxRefused[T any](t *testing.T, l *library[T]) {
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
		"forged": {forged, 401}, "unknown source": {unknown, 404}, "without an id": {nameless, 400},
		"GET": {httptest.NewRequest(http.MethodGet, "/webhooks/gh", nil), 405},
	} {
		w := receiveInTx(t, l, in, c.r, nil)
		if w.Code != c.code || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: answer %d %s, want %d and a problem document", name, w.Code, w.Body, c.code)
		}
	}
}

// An event is claimed when the source has no handler, and its messages die. A later delivery
// reopens it, also when the source is Inline by then, or when the delivery is claimed with ClaimTx.
func claimTxReopens[T any](t *testing.T, l *library[T]) {
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
	run(t, routed)
	deliverAll(t, routed, "1", "2")
	for _, id := range []string{"1", "2"} {
		if ev := ended(t, l, id); ev.State != "dead" {
			t.Fatalf("event %s is %s, want dead", id, ev.State)
		}
	}
	refuse.Store(false)
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		route(c)
		inline(c)
	})
	if got, want := deliver(in, delivery("1", "{}")), (result{Code: 200, Status: "duplicate", Reopened: true}); got != want {
		t.Errorf("delivering the dead event: %+v, want %+v", got, want)
	}
	wantAnswer(t, receiveInTx(t, l, in, delivery("2", "{}"), nil), 200, `{"status":"duplicate","event_id":"2","reopened":true}`)
	<-crm.got
	<-crm.got
	wantEffects(t, l)
}

// unconfirmedStore is a real store on a server that cancels waits for its standbys.
type unconfirmedStore struct{ driver.Driver[*sql.Tx] }

func (unconfirmedStore) Confirm(context.Context) error { return driver.ErrCommitUnknown }

func TestAcceptOfAnUnconfirmedCommit(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	l.db = unconfirmedStore{l.db}
	in := inbox(t, l, nil, nil)
	w := receiveInTx(t, l, in, delivery("1", "{}"), func(*sql.Tx, *hookonce.Event) error { return nil })
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q, want 503 and a time", w.Code, w.Header().Get("Retry-After"))
	}
}
