package inbox_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// The answer and the log line of a refusal have the same error id.
func TestRefusalsAreLoggedWithTheirID(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Logger = log.Logger() })
	for _, r := range []*http.Request{delivery("1", "{}", forge), delivery("1", "{}", get), delivery("1", "{}", to("canary"))} {
		w := answered(in, r)
		id := w.Body.String()
		id = id[strings.LastIndex(id, ":")+1 : strings.LastIndex(id, `"`)]
		if !slices.ContainsFunc(log.Lines(), func(line string) bool { return strings.Contains(line, "error_id="+id) }) {
			t.Errorf("answer %d: no line has the error id %q", w.Code, id)
		}
	}
	if strings.Contains(log.Text(), "canary") {
		t.Error("the log holds the path of an unknown source, which can be any text")
	}
}

// picky makes a store refuse all events with "refused" in their ids, until it is mended.
func picky(t *testing.T) (_ *hooksql.Store, mend func()) {
	store := rig.OpenSQLite(t)
	exec := func(query string) {
		t.Helper()
		if _, err := store.Writer().ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TRIGGER picky BEFORE INSERT ON hookonce_event WHEN NEW.event_id LIKE '%refused%'
		BEGIN SELECT RAISE(ABORT, 'no such encoding'); END`)
	return store, func() { exec(`DROP TRIGGER picky`) }
}

// The database refuses an event. It is kept in the quarantine with the database's reason, and the
// answer does not blame the sender. Once the database accepts the event, the next delivery claims it.
func TestEventThatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	store, mend := picky(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		addSource(c, "keeping", func(s *hookonce.Source) { s.Malformed = hookonce.MalformedQuarantine })
		addSource(c, "batch", func(s *hookonce.Source) { s.Event = provider.EventRules{ID: "item:id", Batch: "body:"} })
	})
	answers := func(source, id, body string, code int, part string) {
		t.Helper()
		w := answered(in, delivery(id, body, to(source)))
		if w.Code != code || !strings.Contains(w.Body.String(), part) || (w.Header().Get("Retry-After") != "") != (code == 503) {
			t.Errorf("%s to %s: answer %d %s, Retry-After %q; want %d %s",
				id, source, w.Code, w.Body, w.Header().Get("Retry-After"), code, part)
		}
	}
	const kept = "It was kept for the operator. Send it again."
	answers("gh", "refused", "{}", 503, kept)
	answers("gh", "refused", "{}", 503, kept)
	answers("keeping", "refused", "{}", 200, `{"status":"quarantined"}`)
	answers("batch", "", `[{"id":"fine"},{"id":"refused"}]`, 200, `{"status":"ok","events":1,"duplicates":0,"malformed":1}`)
	answers("batch", "", `[{"id":"refused as well"}]`, 503, kept)

	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{Source: "gh"})
	if err != nil || len(page.Requests) != 1 || page.Requests[0].Count != 2 || !strings.Contains(page.Requests[0].Reason, "no such encoding") {
		t.Errorf("the quarantine of gh: %+v, error %v; want one request, seen twice, with the database's reason", page, err)
	}
	mend()
	answers("gh", "refused", "{}", 200, `{"status":"ok","event_id":"refused"}`)
}
