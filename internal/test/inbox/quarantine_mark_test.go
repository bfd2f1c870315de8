package inbox_test

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/provider"
)

// A body with a byte order mark in front is read as well from the quarantine as from a sender: its id, its type, by routes
// and by HandleJSON. The mark stays in the stored body.
func TestRetryQuarantinedByteOrderMark(t *testing.T) {
	t.Parallel()
	const mark, doc = "\ufeff", `{"uid":"e1","kind":"push","ref":"main"}`
	byBody := provider.EventRules{ID: "body:uid", Type: "body:kind"}
	inForm := provider.EventRules{ID: "body:uid", Type: "body:kind", Document: "form:payload"}
	inBatch := provider.EventRules{ID: "item:uid", Type: "item:kind", Batch: "body:items"}
	for name, tt := range map[string]struct {
		request       *http.Request
		before, after provider.EventRules
		stored        string // "" for the sent body
	}{
		"plain":            {delivery("h", mark+doc), provider.EventRules{ID: "body:id"}, byBody, ""},
		"white space":      {delivery("h", mark+"\r\n "+doc), provider.EventRules{ID: "body:id"}, byBody, ""},
		"gzip":             {zipped(t, mark+doc), provider.EventRules{ID: "body:id"}, byBody, ""},
		"whole batch":      {delivery("h", mark+`{"items":[`+doc+`]}`), provider.EventRules{ID: "item:id", Batch: "body:list"}, inBatch, doc},
		"batch":            {delivery("h", mark+`{"items":[`+doc+`]}`), provider.EventRules{ID: "item:id", Batch: "body:items"}, inBatch, doc},
		"field of a form":  {delivery("h", "payload="+url.QueryEscape(mark+doc)), byBody, inForm, ""},
		"form":             {delivery("h", mark+"payload="+url.QueryEscape(doc)), byBody, inForm, ""},
		"form, other id":   {delivery("h", mark+"payload="+url.QueryEscape(mark+doc)), provider.EventRules{ID: "body:id", Document: "form:payload"}, inForm, ""},
		"the whole a text": {delivery("h", mark+doc), provider.EventRules{ID: "body:uid", Document: "form:payload"}, byBody, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, mux := onSQLite(t), &hookonce.Mux[*sql.Tx]{}
			hookonce.HandleJSON(mux, "gh", "push", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, push struct{ Ref string }) error {
				return l.insert(ctx, tx, ev.ID+" "+push.Ref)
			})
			engine := func(r provider.EventRules) *hookonce.Inbox[*sql.Tx] {
				return inbox(t, l, mux, func(c *hookonce.Config) {
					rules(r)(c)
					c.Sources[0].ContentEncodings = []string{"gzip"}
				})
			}
			sent, err := io.ReadAll(tt.request.Body)
			if err != nil {
				t.Fatal(err)
			}
			body, again := string(sent), tt.request.Clone(t.Context())
			tt.request.Body, again.Body = io.NopCloser(strings.NewReader(body)), io.NopCloser(strings.NewReader(body))
			if got := deliver(engine(tt.before), tt.request); got.Code != http.StatusBadRequest {
				t.Fatalf("answer %+v, want 400", got)
			}
			kept := oneQuarantined(t, l.db)
			wantUnreadable(t, engine(tt.before).Engine, l.db, kept, "")
			in := engine(tt.after)
			wantRetried(t, in.Engine, kept.Key, operate.RetriedRequest{EventIDs: []string{"e1"}, Claimed: 1})
			run(t, in)
			wantDone(t, l, "e1")
			wantEffects(t, l, "e1 main")
			if tt.stored == "" {
				tt.stored = body
			}
			if ev := eventState(t, l.db, "e1"); ev.Type != "push" || string(ev.Body) != tt.stored {
				t.Errorf("the event has type %q and body %q, want push and %q", ev.Type, ev.Body, tt.stored)
			}
			if got := deliver(in, again); got.Code != http.StatusOK || got.Status != "duplicate" && !strings.Contains(name, "batch") {
				t.Errorf("the next delivery is answered %+v, want a duplicate", got)
			}
			wantEffects(t, l, "e1 main")
		})
	}
}

// The database refuses an event whose body has a mark, and accepts it later.
func TestRetryRefusedByteOrderMark(t *testing.T) {
	t.Parallel()
	store, mend := picky(t)
	in := newEngine(t, store, idAt("body:uid"))
	deliver(in, delivery("h", "\ufeff"+`{"uid":"refused"}`))
	kept := oneQuarantined(t, store)
	wantUnreadable(t, in, store, kept, "no such encoding")
	mend()
	wantRetried(t, in, kept.Key, operate.RetriedRequest{EventIDs: []string{"refused"}, Claimed: 1})
}
