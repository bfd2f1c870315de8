package sqlitestore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// TestBuriedAreReturnedThoughTheLeaseFails has a lease that buries one message, and whose next
// transaction fails. The lease must return the buried message, because no later call does.
func TestBuriedAreReturnedThoughTheLeaseFails(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	for _, id := range []string{"evt_1", "evt_2"} {
		if err := claim(t, store, id); err != nil {
			t.Fatal(err)
		}
	}
	lease := func(after time.Duration, limit int) (*driver.Leased, error) {
		return store.Lease(t.Context(), &driver.LeaseParams{
			Destination: "d", Limit: limit, For: time.Minute, MaxAttempts: 1, Now: time.Now().Add(after),
		})
	}
	if first, err := lease(time.Second, 2); err != nil || len(first.Messages) != 2 {
		t.Fatalf("Lease: %+v, %v", first, err)
	}
	commits := 0
	f.onCommit(func(real func() error) error {
		if commits++; commits > 1 {
			return code(codeFull)
		}
		return real()
	})
	var buried []string
	for _, wantErr := range []error{nil, driver.ErrUnavailable} {
		got, err := lease(time.Hour, 1)
		if !errors.Is(err, wantErr) {
			t.Fatalf("Lease: got the error %v, want %v", err, wantErr)
		}
		if got != nil {
			for _, m := range got.Buried {
				buried = append(buried, m.EventID)
			}
		}
	}
	f.commit.Store(nil)
	rest, err := lease(time.Hour, 1)
	if err != nil || len(rest.Messages) > 0 {
		t.Fatalf("Lease: %+v, %v", rest, err)
	}
	for _, m := range rest.Buried {
		buried = append(buried, m.EventID)
	}
	if len(buried) != 2 || buried[0] == buried[1] {
		t.Errorf("buried %q, want both events once", buried)
	}
}

// TestNowFailsLikeClaims has a commit that hangs: claims fail then, and so must Now.
func TestNowFailsLikeClaims(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	started, goOn := f.hangCommit()
	claimed := make(chan error, 1)
	go func() { claimed <- claim(t, store, "evt_1") }()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if now, err := store.Now(ctx); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Now: got %v and the error %v, want %v", now, err, driver.ErrUnavailable)
	}
	close(goOn)
	if err := <-claimed; err != nil {
		t.Error(err)
	}
	if _, err := store.Now(t.Context()); err != nil {
		t.Errorf("Now: %v", err)
	}
}

// TestHistoryGoesWithItsEvent checks that nothing of a pruned event is left.
func TestHistoryGoesWithItsEvent(t *testing.T) {
	t.Parallel()
	store := storeWith(t, &faults{})
	if err := claim(t, store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: 1, For: time.Minute, MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := leased.Messages[0]
	if _, err := store.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{
		{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "no"},
	}}); err != nil {
		t.Fatal(err)
	}
	done, err := store.Discard(t.Context(), &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: m.Key, MessageID: m.ID}}})
	if err != nil || !done[0] {
		t.Fatalf("Discard: %v, %v", done, err)
	}
	if _, err := store.Prune(t.Context(), &driver.PruneParams{
		DedupeWindow: time.Hour, Retention: time.Hour, Now: time.Now().Add(2 * time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, table := range []string{"event", "message", "attempt", "history"} {
		var n int
		if err := store.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_`+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		left[table] = n
	}
	if diff := cmp.Diff(map[string]int{"event": 0, "message": 0, "attempt": 0, "history": 0}, left); diff != "" {
		t.Errorf("rows left (-want +got):\n%s", diff)
	}
}

// TestBodiesCannotBeReadForAWhile has a disk that fails to read a body after a lease, and after a reservation. The buried message is
// told of, and the others are due again without an attempt.
func TestBodiesCannotBeReadForAWhile(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	for _, id := range []string{"evt_1", "evt_2", "evt_3", "evt_4"} {
		c := newClaim(id)
		c.Work = driver.WorkQueued
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			t.Fatal(err)
		}
	}
	lease := func(limit int) (*driver.Leased, error) {
		return store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: limit, For: 0, MaxAttempts: 1})
	}
	if first, err := lease(1); err != nil || len(first.Messages) != 1 || first.Messages[0].EventID != "evt_1" {
		t.Fatalf("Lease: %+v, %v", first, err)
	}
	for table, key := range map[string]string{"hookonce_message": "event_key", "hookonce_event_state": "key"} {
		if _, err := store.writer.ExecContext(t.Context(), `CREATE TRIGGER refuse_`+table+` BEFORE UPDATE ON `+table+`
			WHEN (SELECT event_id FROM hookonce_event WHERE key = NEW.`+key+`) = 'evt_2' BEGIN SELECT RAISE(ABORT, 'not this one'); END`); err != nil {
			t.Fatal(err)
		}
	}
	reads := 0
	read := func(query string) error {
		if query != selectBody {
			return nil
		}
		if reads++; reads == 1 {
			return nil // of the first message
		}
		return code(codeIOErr)
	}
	f.read.Store(&read)
	leased, err := lease(10)
	if err != nil || len(leased.Buried) != 1 || len(leased.Messages) != 0 || len(leased.Refused) != 1 {
		t.Errorf("Lease: %+v, %v; want one message buried and one refused", leased, err)
	}
	read = func(query string) error {
		switch {
		case query == selectBody:
			return code(codeIOErr)
		case strings.Contains(query, bodyColumns):
			return code(codeCorrupt)
		}
		return nil
	}
	reserve := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 10, For: time.Hour}
	if reserved, err := store.Reserve(t.Context(), reserve); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Reserve: %+v, %v; want that the database is unavailable", reserved, err)
	}
	f.read.Store(nil)
	if reserved, err := store.Reserve(t.Context(), reserve); err != nil || len(reserved) != 3 {
		t.Errorf("Reserve: %+v, %v; want the three events that are not refused", reserved, err)
	}
	if leased, err = lease(10); err != nil || len(leased.Messages) != 2 || leased.Messages[0].Attempt != 1 || string(leased.Messages[1].Body) != "evt_4" {
		t.Errorf("Lease: %+v, %v; want evt_3 and evt_4, both for the first time", leased, err)
	}
}
