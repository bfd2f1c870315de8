package inbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// items makes gh send batches: the items of body:items, each with its id.
func items(c *hookonce.Config) {
	c.Sources[0].Event = provider.EventRules{ID: "item:id", Batch: "body:items"}
}

func TestMalformedItemsDoNotHarmOthers(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), items)
	for _, tt := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"one is malformed", `{"items":[{"id":1},{"id":null},{"id":2}]}`, 200, `{"status":"ok","events":2,"duplicates":0,"malformed":1}`},
		{"two with one id", `{"items":[{"id":3},{"id":3}]}`, 200, `{"status":"ok","events":2,"duplicates":1}`},
		{"empty list", `{"items":[]}`, 200, `{"status":"ok","events":0,"duplicates":0}`},
		{"all are malformed", `{"items":[{},{}]}`, 400, ""},
		{"no list", `{}`, 400, ""},
	} {
		w := answered(in, delivery("batch", tt.body))
		if got := strings.TrimSpace(w.Body.String()); w.Code != tt.code || tt.want != "" && got != tt.want {
			t.Errorf("%s: answer %d %s, want %d %s", tt.name, w.Code, got, tt.code, tt.want)
		}
	}
}

// An entry that should hold a list of events and does not goes to the quarantine, with its own
// bytes.
func TestEntryWithoutItsListIsQuarantined(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, rules(provider.EventRules{ID: "item:id", Batch: "body:entry[].changes"}))
	w := answered(in, delivery("batch", `{"entry":[{"changes":[{"id":1}]},{"id":"x"}]}`))
	if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != `{"status":"ok","events":1,"duplicates":0,"malformed":1}` {
		t.Errorf("answer %d %s, want 200 with one event and one malformed part", w.Code, got)
	}
	if got := string(eventState(t, store, "1").Body); got != `{"id":1}` {
		t.Errorf("the event has the body %s, want its item", got)
	}
	if got := string(oneQuarantined(t, store).Body); got != `{"id":"x"}` {
		t.Errorf("the quarantine has %s, want the entry", got)
	}
}

// A delivery of more events than a statement holds is stored in part when one of them cannot be stored.
// The retry finds the stored part as duplicates.
func TestDeliveryStoredInPart(t *testing.T) {
	t.Parallel()
	inner := rig.OpenSQLite(t)
	store := &rig.FaultStore{Store: inner, Before: rig.FailFor(driver.ErrUnavailable, "7")}
	in := newEngine(t, store, items)
	const n = 600 // two statements
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"id":%d}`, i))
	}
	body := `{"items":[` + strings.Join(list, ",") + `]}`
	if w := answered(in, delivery("", body)); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Fatalf("answer %d %s, want 503 with a time", w.Code, w.Body)
	}
	stored := 0
	if err := inner.Reader().QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_event`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if stored == 0 || stored == n {
		t.Fatalf("%d of %d events are stored, want a part", stored, n)
	}
	store.Before = rig.FailFor(nil)
	want := fmt.Sprintf(`{"status":"ok","events":%d,"duplicates":%d}`, n, stored)
	if w := answered(in, delivery("", body)); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("answer to the retry: %d %s, want 200 %s", w.Code, w.Body, want)
	}
}
