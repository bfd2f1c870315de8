package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// Stale rules decide whether a handler runs. Refetch supplies the current state of the object.

func TestStaleAndRefetchOnPGX(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onPGX, staleAndRefetchTests[pgx.Tx]())
}

func TestStaleAndRefetchOnSQLite(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onSQLite, staleAndRefetchTests[*sql.Tx]())
}

func staleAndRefetchTests[T any]() []libraryTest[T] {
	return []libraryTest[T]{
		{"stale events are skipped", staleSkipped[T]},
		{"stale events in one batch", staleInBatch[T]},
		{"a failed version does not count", staleAfterFailure[T]},
		{"concurrent versions", staleConcurrent[T]},
		{"stale events, inline", staleInline[T]},
		{"refetch", refetched[T]},
		{"refetch, inline", refetchedInline[T]},
	}
}

// version returns a delivery about version v of an object.
func version(id, object string, v int) *http.Request {
	return delivery(id, fmt.Sprintf(`{"o":%q,"v":%d}`, object, v))
}

func staleSkipped[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "*", effectOf(l))
	in := inbox(t, l, mux, stale)
	run(t, in)
	for _, e := range []struct {
		id, object string
		version    int
		want       outcome
	}{
		{"1", "a", 5, done},
		{"2", "a", 3, outcome{State: "skipped", Note: "stale", LastError: "version 3 is older than 5"}},
		{"3", "a", 5, done}, // equal
		{"4", "b", 1, done}, // another object
		{"5", "a", 10, done},
		{"6", "a", 9, outcome{State: "skipped", Note: "stale", LastError: "version 9 is older than 10"}},
	} {
		if got := deliver(in, version(e.id, e.object, e.version)); got != ok {
			t.Fatalf("delivery: %+v, want ok", got)
		}
		wantOutcome(t, l, e.id, e.want)
	}
	other := version("7", "a", 1)
	other.Header.Set("X-GitHub-Event", "issues") // no rule for this type
	deliver(in, other)
	wantOutcome(t, l, "7", done)
	deliverAll(t, in, "8") // without a version
	wantOutcome(t, l, "8", done)
	wantEffects(t, l, "1", "3", "4", "5", "7", "8")

	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "2"}); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, l, "2", outcome{State: "done", Attempts: 1, Generation: 1})
	deliver(in, version("9", "a", 9)) // the replay did not lower the applied version
	wantOutcome(t, l, "9", outcome{State: "skipped", Note: "stale", LastError: "version 9 is older than 10"})
	wantEffects(t, l, "1", "2", "3", "4", "5", "7", "8")
}

func staleInBatch[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", effectOf(l))
	in := inbox(t, l, mux, stale)
	for i, v := range []int{2, 4, 3, 4, 5, 1} {
		deliver(in, version(fmt.Sprint(i), "a", v))
	}
	run(t, in)
	for i, want := range []string{"done", "done", "skipped", "done", "done", "skipped"} {
		if got := ended(t, l, fmt.Sprint(i)).State; got != want {
			t.Errorf("event %d is %s, want %s", i, got, want)
		}
	}
	wantEffects(t, l, "0", "1", "3", "4")
}

// A failed event was not applied, so an older version is not stale.
func staleAfterFailure[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if ev.ID == "newer" {
			return hookonce.Permanent(errors.New("no"))
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, stale)
	deliver(in, version("newer", "a", 2))
	deliver(in, version("older", "a", 1))
	run(t, in)
	wantOutcome(t, l, "newer", outcome{State: "dead", Attempts: 1, LastError: "no"})
	wantOutcome(t, l, "older", done)
}

// Many workers take the versions of a few objects in any order. The last version applied to each
// object is the highest.
func staleConcurrent[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	var order atomic.Int64
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		// The handler runs under the lock of the object, so the number gives the order.
		return l.insert(ctx, tx, fmt.Sprintf("%s %08d %s", string(ev.Body), order.Add(1), ev.ID))
	})
	settings := func(c *hookonce.Config) {
		stale(c)
		c.Workers, c.Batch = 4, 3
	}
	a, b := inbox(t, l, mux, settings), inbox(t, l, mux, settings)
	const objects, versions = 3, 20
	var wg sync.WaitGroup
	for o := range objects {
		for v := range versions {
			wg.Go(func() {
				shuffled := (v*7 + o) % versions
				if got := deliver(a, version(fmt.Sprintf("%d-%d", o, shuffled), fmt.Sprint(o), shuffled)); got != ok {
					t.Errorf("delivery: %+v, want ok", got)
				}
			})
		}
	}
	run(t, a)
	run(t, b)
	wg.Wait()
	for o := range objects {
		for v := range versions {
			ended(t, l, fmt.Sprintf("%d-%d", o, v))
		}
	}
	last, highest := make(map[string]string), make(map[string]int)
	for _, effect := range l.read(t) {
		var object string
		var v, n int
		var id string
		body, rest, _ := strings.Cut(effect, "} ")
		if _, err := fmt.Sscanf(body, `{"o":%q,"v":%d`, &object, &v); err != nil {
			t.Fatal(effect, err)
		}
		if _, err := fmt.Sscanf(rest, "%d %s", &n, &id); err != nil {
			t.Fatal(effect, err)
		}
		if n > highest[object] {
			highest[object], last[object] = n, id
		}
	}
	want := map[string]string{"0": "0-19", "1": "1-19", "2": "2-19"}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("the last applied versions (-want +got):\n%s", diff)
	}
}

func staleInline[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", effectOf(l))
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		stale(c)
		inline(c)
	})
	for i, v := range []int{2, 1, 2, 3} {
		if got := deliver(in, version(fmt.Sprint(i), "a", v)); got != ok {
			t.Errorf("delivery %d: %+v, want ok", i, got)
		}
	}
	wantOutcome(t, l, "1", outcome{State: "skipped", Note: "stale", LastError: "version 1 is older than 2"})
	wantEffects(t, l, "0", "2", "3")
}

func refetched[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	for _, source := range []string{"gh", "brief"} {
		hookonce.HandleJSON(mux, source, "push", func(ctx context.Context, tx T, ev *hookonce.Event, now struct{ State string }) error {
			return l.insert(ctx, tx, ev.ID+" "+now.State)
		})
	}
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Sources[0].RefetchTimeout = 30 * time.Second
		c.Sources[0].Refetch = func(ctx context.Context, ev *hookonce.Event) ([]byte, error) {
			switch {
			case ev.ID == "gone":
				return nil, hookonce.Permanent(errors.New("404"))
			case ev.ID == "flaky" && ev.Attempt == 1:
				panic("boom")
			case ev.ID == "slow" && ev.Attempt == 1:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []byte(`{"state":"paid"}`), nil
		}
		brief := c.Sources[0]
		brief.Name, brief.RefetchTimeout = "brief", 100*time.Millisecond
		c.Sources, c.Retry.Attempts = append(c.Sources, brief), 100
	})
	deliverAll(t, in, "good", "gone", "flaky")
	slow := delivery("slow", `{"id":"slow"}`)
	slow.URL.Path = "/webhooks/brief"
	if got := deliver(in, slow); got != ok {
		t.Fatalf("delivery: %+v, want ok", got)
	}
	run(t, in)
	wantOutcome(t, l, "good", done)
	wantOutcome(t, l, "gone", outcome{State: "dead", Attempts: 1, LastError: "404"})
	wantOutcome(t, l, "flaky", outcome{State: "done", Attempts: 2})
	eventually.True(t, "the slow event is done", func() bool {
		ev, err := l.db.Event(t.Context(), "brief", "slow")
		return err == nil && ev.State == "done" && ev.Attempts >= 2 // more on a slow machine
	})
	wantEffects(t, l, "good paid", "flaky paid", "slow paid")
}

func refetchedInline[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx T, ev *hookonce.Event) error {
		return l.insert(ctx, tx, ev.ID+" "+string(ev.Current))
	})
	var calls atomic.Int32
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		inline(c)
		c.Sources[0].Refetch = func(context.Context, *hookonce.Event) ([]byte, error) {
			if calls.Add(1) == 1 {
				return nil, errors.New("try later")
			}
			return []byte("paid"), nil
		}
	})
	if got := deliver(in, delivery("1", "{}")); got != failed {
		t.Errorf("the first delivery: %+v, want 500", got)
	}
	deliverAll(t, in, "1")
	wantEffects(t, l, "1 paid")
}
