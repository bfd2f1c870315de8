package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// receiveInTx receives a delivery as a program does that claims in its own transaction.
func receiveInTx(t *testing.T, l *library[*sql.Tx], in *hookonce.Inbox[*sql.Tx], r *http.Request, work func(tx *sql.Tx, ev *hookonce.Event) error) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	d, err := in.Verify(w, r)
	if err != nil {
		in.Refuse(w, r, err)
		return w
	}
	tx := l.begin(t)
	claimed, err := in.ClaimTx(r.Context(), tx, d)
	for i := 0; err == nil && i < len(claimed); i++ {
		if claimed[i].Claimed && work != nil {
			err = work(tx, claimed[i].Event)
		}
	}
	if err != nil {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		in.Refuse(w, r, err)
		return w
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	in.Accept(w, r, d, claimed)
	return w
}

func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, code int, body string) {
	t.Helper()
	if w.Code != code || body != "" && w.Body.String() != body+"\n" || (w.Header().Get("Retry-After") != "") != (code == http.StatusServiceUnavailable) {
		t.Errorf("answer %d %s, Retry-After %q; want %d %s", w.Code, w.Body, w.Header().Get("Retry-After"), code, body)
	}
}

// The claim and the caller's effect are committed together, or not at all.
func TestClaimTx(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	in := inbox(t, l, nil, nil)
	insert := func(tx *sql.Tx, ev *hookonce.Event) error { return l.insert(t.Context(), tx, ev.ID+" "+ev.Type) }
	failing := func(tx *sql.Tx, ev *hookonce.Event) error { return errors.Join(insert(tx, ev), errNoStock) }
	wantAnswer(t, receiveInTx(t, l, in, delivery("1", "{}"), failing), 503, "")
	wantEffects(t, l)
	wantAnswer(t, receiveInTx(t, l, in, delivery("1", "{}"), insert), 200, `{"status":"ok","event_id":"1"}`)
	wantAnswer(t, receiveInTx(t, l, in, delivery("1", "{}"), insert), 200, `{"status":"duplicate","event_id":"1"}`)
	wantDone(t, l, "1")
	wantEffects(t, l, "1 push")
}

// Accept takes nothing but the results of ClaimTx for the same delivery.
func TestAcceptWithoutResults(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	in := inbox(t, l, nil, nil)
	claim := func(id string) (*http.Request, *hookonce.Delivery, []hookonce.Claimed) {
		r := delivery(id, "{}")
		d, err := in.Verify(httptest.NewRecorder(), r)
		if err != nil {
			t.Fatal(err)
		}
		tx := l.begin(t)
		claimed, err := in.ClaimTx(t.Context(), tx, d)
		if err := errors.Join(err, tx.Commit()); err != nil {
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

func TestRefusedByVerify(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	in := inbox(t, l, nil, nil)
	for code, r := range map[int]*http.Request{
		401: delivery("1", "{}", forge),
		404: delivery("1", "{}", to("other")),
		400: delivery("", "{}"), // without an id
		405: delivery("1", "{}", get),
	} {
		w := receiveInTx(t, l, in, r, nil)
		if w.Code != code || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("answer %d %s, want %d and a problem document", w.Code, w.Body, code)
		}
	}
}

// An event is claimed when the source has no handler, and its messages die. A later delivery
// reopens it, also when the source is Inline by then, or when the delivery is claimed with ClaimTx.
func TestReopeningWithoutAHandler(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	crm := newSent()
	var mended atomic.Bool
	route := func(c *hookonce.Config) {
		sendBy(c, func(ctx context.Context, m *hookonce.Outgoing) error {
			if mended.Load() {
				return crm.Send(ctx, m)
			}
			return hookonce.Permanent(errors.New("no"))
		})
	}
	routed := inbox(t, l, nil, route)
	run(t, routed)
	deliverAll(t, routed, "1", "2")
	for _, id := range []string{"1", "2"} {
		if ev := ended(t, l, id); ev.State != driver.StateDead {
			t.Fatalf("event %s is %s, want dead", id, ev.State)
		}
	}
	mended.Store(true)
	in := inbox(t, l, handling(effectOf(l)), func(c *hookonce.Config) { route(c); inline(c) })
	if got := deliver(in, delivery("1", "{}")); got != reopened {
		t.Errorf("delivering the dead event: %+v, want %+v", got, reopened)
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
	wantAnswer(t, receiveInTx(t, l, inbox(t, l, nil, nil), delivery("1", "{}"), nil), http.StatusServiceUnavailable, "")
}
