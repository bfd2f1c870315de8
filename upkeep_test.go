package hookonce_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// without returns the lines that hold text, without the time before it.
func (l *lines) without(text string) []string {
	var found []string
	for _, line := range l.all() {
		if _, after, ok := strings.Cut(line, "msg="); ok && strings.Contains(after, text) {
			found = append(found, strings.TrimSpace(after))
		}
	}
	return found
}

func wantLine(t *testing.T, log *lines, want string) {
	t.Helper()
	if got := log.without(want); len(got) != 1 {
		t.Errorf("%d lines with %q, want one, in:\n%s", len(got), want, strings.Join(log.all(), ""))
	}
}

// What upkeep does it tells with figures.
func TestPruneTellsWhatItDid(t *testing.T) {
	t.Parallel()
	log := &lines{}
	store := openStore(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.QuarantineRows = 2
		c.Logger = log.logger()
	})
	for i := range 5 {
		r := delivery(fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i))
		r.Header.Del("X-GitHub-Delivery") // verified, and no event
		if got := deliver(in, r); got.Code != 400 {
			t.Fatalf("%+v", got)
		}
	}
	deliver(in, delivery("kept", "{}"))
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "pruned events=0 bodies=0 quarantined=3")
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{Source: "gh"})
	if err != nil || len(page.Requests) != 2 {
		t.Errorf("%d requests in the quarantine, error %v, want the 2 newest", len(page.Requests), err)
	}
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "pruned") // nothing to tell the second time
}
