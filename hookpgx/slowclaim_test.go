package hookpgx_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
)

// TestSlowBatch has a database that needs more than statement_timeout for a batch. Its events are
// claimed in smaller batches, and the answer is 200.
func TestSlowBatch(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	var mu sync.Mutex
	var claims []observe.Claim
	in, err := hookonce.NewEngine(w.Store, &hookonce.Config{
		Sources: []hookonce.Source{{
			Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "item:id", Batch: "body:"}, AckTimeout: time.Minute,
		}},
		Logger: slog.New(slog.DiscardHandler),
		Observer: &observe.Observer{Claim: func(o observe.Claim) {
			mu.Lock()
			defer mu.Unlock()
			claims = append(claims, o)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)
	w.exec(t, `
CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END';
CREATE TRIGGER slow BEFORE INSERT ON {schema}.event FOR EACH ROW EXECUTE FUNCTION {schema}.slow();`)
	const n = 250
	deliver := func(first int) {
		t.Helper()
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(`{"id":%d}`, first+i))
		}
		answer := httptest.NewRecorder()
		in.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/webhooks/lab", strings.NewReader("["+strings.Join(items, ",")+"]")))
		if stored := w.number(t, "SELECT count(*) FROM {schema}.event"); answer.Code != 200 || stored != first+n {
			t.Errorf("answer %d %s, %d events stored, want 200 and %d", answer.Code, answer.Body, stored, first+n)
		}
	}
	deliver(0)
	if len(claims) < 3 || !errors.Is(claims[0].Err, driver.ErrTimedOut) || claims[1].Size != n/2 {
		t.Errorf("claims %+v, want the first one to time out, and the next one of half its size", claims)
	}
	claims = nil
	deliver(n)
	for _, c := range claims {
		if c.Size > n/2 {
			t.Errorf("a claim of the next delivery has %d events, want at most %d", c.Size, n/2)
		}
	}
}
