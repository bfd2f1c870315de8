package hooksql_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// TestListingsOfManyOpen has more open messages than one page sorts, so that the listing walks the
// events, beside a destination with few. Both ways must list the same.
func TestListingsOfManyOpen(t *testing.T) {
	t.Parallel()
	store := openMigrated(t, filepath.Join(t.TempDir(), "hookonce.db"))
	const batches, size = 21, 500 // more than 10,000
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range batches {
		claims := batchOf(func(n int) driver.Claim {
			c := newClaim(fmt.Sprintf("evt_%02d_%03d", i, n))
			if n == 0 {
				c.Messages = []driver.NewMessage{{ID: driver.MessageID(c.Key, 0, "rare"), Route: "rare", Destination: "rare"}}
			}
			return c
		}, size)
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: claims, Now: at.Add(time.Duration(i) * time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	all := messageIDs(t, store, driver.MessageFilter{State: driver.StatePending}, batches*size)
	if len(all) != batches*size {
		t.Errorf("listed %d pending messages, want %d", len(all), batches*size)
	}
	if diff := cmp.Diff(messageIDs(t, store, driver.MessageFilter{}, batches*size), all); diff != "" {
		t.Errorf("pending messages, and all (-all +pending):\n%s", diff)
	}
	var want []string
	for i := range batches {
		key := driver.EventKey("stripe", fmt.Sprintf("evt_%02d_000", batches-1-i))
		want = append(want, driver.MessageID(key, 0, "rare"))
	}
	for _, state := range []string{"", driver.StatePending} { // walked, and sorted
		f := driver.MessageFilter{Destination: "rare", State: state}
		if diff := cmp.Diff(want, messageIDs(t, store, f, 4)); diff != "" {
			t.Errorf("messages of a destination with few, state %q (-want +got):\n%s", state, diff)
		}
	}
	page, err := store.Events(t.Context(), &driver.EventFilter{State: driver.StateRunning, Limit: 200})
	if err != nil || len(page.Events) != 200 || page.Events[0].EventID[:7] != "evt_20_" {
		t.Errorf("running events: %d, error %v; want the first 200", len(page.Events), err)
	}
}

// messageIDs lists all pages of up to n messages.
func messageIDs(t *testing.T, store driver.Store, f driver.MessageFilter, n int) []string {
	t.Helper()
	var ids []string
	f.Limit = min(n, driver.MaxLimit)
	for {
		page, err := store.Messages(t.Context(), &f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Messages {
			ids = append(ids, page.Messages[i].ID)
		}
		if page.Next.IsZero() {
			break
		}
		f.After = page.Next
	}
	if slices.Contains(ids, "") {
		t.Error("a message without an id")
	}
	return ids
}

// TestQuarantineOfOneBatch pages through requests of one time. They are sorted by keys that SQLite
// does not know.
func TestQuarantineOfOneBatch(t *testing.T) {
	t.Parallel()
	store := openMigrated(t, filepath.Join(t.TempDir(), "hookonce.db"))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const batches, size = 3, 20
	want := map[driver.Key]bool{}
	for i := range batches {
		p := driver.QuarantineParams{Now: at.Add(time.Duration(i) * time.Second)}
		for n := range size {
			c := newClaim(fmt.Sprint(i, "-", n))
			source := fmt.Sprint("source-", n%2)
			p.Requests = append(p.Requests, driver.Quarantined{
				Source: source, BodyHash: c.BodyHash, Headers: c.Headers, Body: c.Body, Reason: "no id",
			})
			want[driver.BodyKey(source, c.BodyHash)] = true
		}
		if err := store.Quarantine(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 7, size, 200} {
		f := driver.QuarantineFilter{Limit: limit}
		seen := map[driver.Key]bool{}
		var last driver.QuarantinedRequest
		for {
			page, err := store.Quarantined(t.Context(), &f)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range page.Requests {
				if len(seen) > 0 && (q.LastAt.After(last.LastAt) || q.LastAt.Equal(last.LastAt) && string(q.Key[:]) >= string(last.Key[:])) {
					t.Errorf("limit %d: %s of %v comes after %s of %v", limit, q.Body, q.LastAt, last.Body, last.LastAt)
				}
				seen[q.Key], last = true, q
			}
			if page.Next.IsZero() {
				break
			}
			f.After = page.Next
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}
