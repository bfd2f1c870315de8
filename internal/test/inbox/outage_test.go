package inbox_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// TestOutage fills the disk of the database, as SQLite sees it, and makes room again.
func TestOutage(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, nil)
	limit := func(pages int) {
		t.Helper()
		if _, err := store.Writer().ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages)); err != nil {
			t.Fatal(err)
		}
	}
	send := func(id string) int { return deliver(in, delivery(id, `{"x":"`+strings.Repeat("x", 50_000)+`"}`)).Code }
	want := func(refused int64) {
		t.Helper()
		since, answered := in.Operator().Outage()
		if answered != refused || since.IsZero() != (refused == 0) {
			t.Errorf("since %v %d deliveries were answered 503, want %d", since, answered, refused)
		}
	}
	if code := send("before"); code != http.StatusOK {
		t.Fatalf("answered %d before the disk is full", code)
	}
	want(0)
	inARow := 0
	for n := 0; inARow < 5; n++ {
		limit(1) // of a connection: the store leaves one that failed
		switch code := send(fmt.Sprint(n)); {
		case code == http.StatusServiceUnavailable:
			inARow++
		case code != http.StatusOK || n == 1000:
			t.Fatalf("delivery %d was answered %d", n, code)
		default: // a page in the file was free
			inARow = 0
		}
	}
	limit(1)
	if err := in.Ready(t.Context()); !errors.Is(err, driver.ErrFull) {
		t.Errorf("Ready: %v, want %v", err, driver.ErrFull)
	}
	want(5)
	listed := func() (ids []string) {
		t.Helper()
		f := &driver.RefusedFilter{Reason: "unavailable", Limit: 2}
		for {
			page, err := in.Operator().Refused(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Requests {
				ids = append(ids, r.ErrorID)
			}
			if f.After = page.Next; f.After.IsZero() {
				return ids
			}
		}
	}
	waiting := listed()
	if len(waiting) < 5 {
		t.Errorf("%d of the deliveries that were answered 503 are listed on a full disk", len(waiting))
	}
	limit(1_000_000)
	if code := send("after"); code != http.StatusOK {
		t.Errorf("answered %d after there is room", code)
	}
	want(0)
}
