package inbox_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	tests := []struct {
		name, body string
		code       int
		want       string
	}{
		{"one is malformed", `{"items":[{"id":1},{"id":null},{"id":2}]}`, 200, `{"status":"ok","events":2,"duplicates":0,"malformed":1}`},
		{"two with one id", `{"items":[{"id":1},{"id":1}]}`, 200, `{"status":"ok","events":2,"duplicates":1}`},
		{"empty list", `{"items":[]}`, 200, `{"status":"ok","events":0,"duplicates":0}`},
		{"all are malformed", `{"items":[{},{}]}`, 400, ""},
		{"no list", `{}`, 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			newEngine(t, rig.OpenSQLite(t), items).ServeHTTP(w, delivery("batch", tt.body))
			got := strings.TrimSpace(w.Body.String())
			if w.Code != tt.code || tt.want != "" && got != tt.want {
				t.Errorf("answer %d %s, want %d %s", w.Code, got, tt.code, tt.want)
			}
		})
	}
}

// An entry that should hold a list of events and does not goes to the quarantine, with its own
// bytes.
func TestEntryWithoutItsListIsQuarantined(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Sources[0].Event = provider.EventRules{ID: "item:id", Batch: "body:entry[].changes"}
	})
	w := httptest.NewRecorder()
	in.ServeHTTP(w, delivery("batch", `{"entry":[{"changes":[{"id":1}]},{"id":"x"}]}`))
	if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != `{"status":"ok","events":1,"duplicates":0,"malformed":1}` {
		t.Errorf("answer %d %s, want 200 with one event and one malformed part", w.Code, got)
	}
	if got := string(eventState(t, store, "1").Body); got != `{"id":1}` {
		t.Errorf("the event has the body %s, want its item", got)
	}
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for i := range page.Requests {
		kept = append(kept, string(page.Requests[i].Body))
	}
	if diff := cmp.Diff([]string{`{"id":"x"}`}, kept); diff != "" {
		t.Errorf("the quarantine (-want +got):\n%s", diff)
	}
}

// A delivery of more events than a statement holds is stored in part when one of them cannot be stored.
// The retry finds the stored part as duplicates.
func TestDeliveryStoredInPart(t *testing.T) {
	t.Parallel()
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: rig.FailFor(driver.ErrUnavailable, "7")}
	in := newEngine(t, store, items)
	const n = 1200 // three statements
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"id":%d}`, i))
	}
	deliver := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, delivery("", `{"items":[`+strings.Join(list, ",")+`]}`))
		return w
	}
	if w := deliver(); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Fatalf("answer %d %s, want 503 with a time", w.Code, w.Body)
	}
	stored := 0
	for i := range n {
		if _, err := store.Event(t.Context(), "gh", fmt.Sprint(i)); err == nil {
			stored++
		}
	}
	if stored == 0 || stored == n {
		t.Fatalf("%d of %d events are stored, want a part", stored, n)
	}
	store.Before = rig.FailFor(nil)
	want := fmt.Sprintf(`{"status":"ok","events":%d,"duplicates":%d}`, n, stored)
	if w := deliver(); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("answer to the retry: %d %s, want 200 %s", w.Code, w.Body, want)
	}
}
