package hookonce_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// wantLine checks that want is in exactly one line of a log.
func wantLine(t *testing.T, log *lines, want string) {
	t.Helper()
	if text := strings.Join(log.all(), ""); strings.Count(text, want) != 1 {
		t.Errorf("want one line with %q in:\n%s", want, text)
	}
}

func TestPruneLogsItsCounts(t *testing.T) {
	t.Parallel()
	log := &lines{}
	store := openStore(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.QuarantineRows = 2
		c.Logger = log.logger()
	})
	for i := range 5 {
		r := delivery(fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i))
		r.Header.Del("X-GitHub-Delivery") // verified, but without an id
		if got := deliver(in, r); got.Code != 400 {
			t.Fatalf("delivery: %+v, want 400", got)
		}
	}
	deliver(in, delivery("kept", "{}"))
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "msg=pruned events=0 bodies=0 quarantined=3")
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{Source: "gh"})
	if err != nil || len(page.Requests) != 2 {
		t.Errorf("%d requests in the quarantine, error %v, want the 2 newest", len(page.Requests), err)
	}
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "msg=pruned") // the second call pruned nothing and logs nothing
}
