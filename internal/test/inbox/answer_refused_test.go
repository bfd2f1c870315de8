package inbox_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// The database refuses an event. It is kept in the quarantine with the database's reason, and the
// answer does not blame the sender. Once the database accepts the event, the next delivery claims it.
func TestEventThatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	store, exec := openWithSQL(t)
	exec(`CREATE TRIGGER picky BEFORE INSERT ON hookonce_event WHEN NEW.event_id LIKE '%refused%'
		BEGIN SELECT RAISE(ABORT, 'no such encoding'); END`)
	log := &rig.Log{}
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Logger = log.Logger()
		keeping, batch := c.Sources[0], c.Sources[0]
		keeping.Name, keeping.Malformed = "keeping", hookonce.MalformedQuarantine
		batch.Name, batch.Event = "batch", provider.EventRules{ID: "item:id", Batch: "body:"}
		c.Sources = append(c.Sources, keeping, batch)
	})
	answered := func(source, id, body string, code int, part string) {
		t.Helper()
		r := delivery(id, body)
		r.URL.Path = "/webhooks/" + source
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		if w.Code != code || !strings.Contains(w.Body.String(), part) || (w.Header().Get("Retry-After") != "") != (code == 503) {
			t.Errorf("%s to %s: answer %d %s, Retry-After %q; want %d %s",
				id, source, w.Code, w.Body, w.Header().Get("Retry-After"), code, part)
		}
	}
	const kept = "It was kept for the operator. Send it again."
	answered("gh", "refused", "{}", 503, kept)
	answered("gh", "refused", "{}", 503, kept)
	answered("keeping", "refused", "{}", 200, `{"status":"quarantined"}`)
	answered("batch", "", `[{"id":"fine"},{"id":"refused"}]`, 200, `{"status":"ok","events":1,"duplicates":0,"malformed":1}`)
	answered("batch", "", `[{"id":"refused as well"}]`, 503, kept)

	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{Source: "gh"})
	if err != nil || len(page.Requests) != 1 || page.Requests[0].Count != 2 || !strings.Contains(page.Requests[0].Reason, "no such encoding") {
		t.Errorf("the quarantine of gh: %+v, error %v; want one request, seen twice, with the database's reason", page, err)
	}
	exec(`DROP TRIGGER picky`)
	answered("gh", "refused", "{}", 200, `{"status":"ok","event_id":"refused"}`)
}

// A batch of more events than one transaction takes is answered 2xx only if all are stored. The events
// of a transaction that was committed before a failure are duplicates in the next delivery.
func TestBatchInSeveralTransactions(t *testing.T) {
	t.Parallel()
	store := &rig.FaultStore{Store: rig.OpenSQLite(t)}
	store.Before = func(context.Context, *driver.ClaimParams) error {
		if store.Calls.Load() == 2 {
			return driver.ErrUnavailable
		}
		return nil
	}
	in := newEngine(t, store, items)
	var all []string
	for i := range 600 {
		all = append(all, fmt.Sprintf(`{"id":%d}`, i))
	}
	body := `{"items":[` + strings.Join(all, ",") + `]}`
	for _, want := range []struct {
		code int
		part string
	}{{503, ""}, {200, `{"status":"ok","events":600,"duplicates":512}`}} {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, delivery("b", body))
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.part) {
			t.Errorf("answer %d %s, want %d %s", w.Code, w.Body, want.code, want.part)
		}
	}
}
