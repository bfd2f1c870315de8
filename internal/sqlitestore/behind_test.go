package sqlitestore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// badWrite is a write that fails at its commit, or at a statement.
type badWrite struct {
	name      string
	statement string
	committed bool
	answer    code
	want      error
}

const flushFailed = codeIOErr | 4<<8

func badWrites(statement string) []badWrite {
	return []badWrite{
		{"full", "", false, codeFull, driver.ErrFull},
		{"flush failed, rows there", "", true, flushFailed, driver.ErrCommitUnknown},
		{"flush failed, rows not there", "", false, flushFailed, driver.ErrCommitUnknown},
		{"full at a statement", statement, false, codeFull, driver.ErrFull},
		{"disk failed at a statement", statement, false, codeIOErr, driver.ErrUnavailable},
	}
}

// begin makes the write fail, the commit if it is the one of that number. failed tells of it.
func (b *badWrite) begin(f *faults, commit int) (failed *bool) {
	failed = new(bool)
	read := func(query string) error {
		if query != b.statement {
			return nil
		}
		*failed = true
		return b.answer
	}
	f.read.Store(&read)
	f.onCommit(func(real func() error) error {
		if commit--; commit != 0 || b.statement != "" {
			return real()
		}
		*failed = true
		if b.committed {
			if err := real(); err != nil {
				return err
			}
		}
		return b.answer
	})
	return failed
}

func (f *faults) end() {
	f.commit.Store(nil)
	f.read.Store(nil)
}

// counts returns how many rows each condition names.
func counts(t *testing.T, s *Store, of map[string]string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for name, condition := range of {
		var one int
		if err := s.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_`+condition).Scan(&one); err != nil {
			t.Fatal(err)
		}
		n[name] = one
	}
	return n
}

// TestOutcomesThatCannotBeWritten: their caller learns it, and records each of them once by a second call.
func TestOutcomesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	outcomes := []driver.Completion{
		{Outcome: driver.MessageSent, StatusCode: 200},
		{Outcome: driver.MessageRetry, Error: "no", Response: []byte("busy"), RetryIn: time.Hour},
		{Outcome: driver.MessageDead, Error: "no"},
		{Outcome: driver.MessageStale, Error: "old"},
	}
	for _, b := range badWrites(staleMessage) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			var f faults
			store := storeWith(t, &f)
			for i := range outcomes {
				if err := claim(t, store, fmt.Sprint("evt_", i)); err != nil {
					t.Fatal(err)
				}
			}
			leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: 9, For: time.Minute, MaxAttempts: 9})
			if err != nil || len(leased.Messages) != len(outcomes) {
				t.Fatalf("Lease: %+v, %v", leased, err)
			}
			p := &driver.CompleteParams{}
			for i, m := range leased.Messages {
				o := outcomes[i]
				o.ID, o.Token = m.ID, m.Token
				p.Completions = append(p.Completions, o)
			}
			b.begin(&f, 1)
			if held, err := store.Complete(t.Context(), p); held != nil || !errors.Is(err, b.want) || driver.FaultOfRows(err) {
				t.Errorf("Complete: got %v and the error %v, want %v", held, err, b.want)
			}
			f.end()
			held, err := store.Complete(t.Context(), p)
			if err != nil || len(held) != len(outcomes) {
				t.Fatalf("Complete again: got %v and the error %v", held, err)
			}
			for i := range held {
				if held[i] == b.committed {
					t.Errorf("outcome %d: the second call held the lease: %v", i, held[i])
				}
			}
			got := counts(t, store, map[string]string{
				"sent": "message WHERE state = 2 AND attempts = 1", "waits": "message WHERE state = 0 AND attempts = 1",
				"dead": "message WHERE state = 3 AND attempts = 1", "stale": "message WHERE state = 4 AND attempts = 0",
				"attempts": "attempt", "responses": "attempt_response",
			})
			want := map[string]int{"sent": 1, "waits": 1, "dead": 1, "stale": 1, "attempts": 2, "responses": 1}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPruneThatCannotBeWritten fails at one commit after the other. The caller learns it, unfinished events stay, and the next
// pass goes on.
func TestPruneThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, b := range badWrites(deleteEvent) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			commits := 0
			for pruneWithOneFailure(t, &b, commits+1) && b.statement == "" {
				commits++
			}
			if commits < 5 && b.statement == "" {
				t.Errorf("a pass has %d commits", commits)
			}
		})
	}
}

// pruneWithOneFailure reports whether a pass has so many commits.
func pruneWithOneFailure(t *testing.T, b *badWrite, commit int) bool {
	t.Helper()
	var f faults
	store := storeWith(t, &f)
	for i := range 6 { // the last two have a message that waits
		c := newClaim(fmt.Sprint("evt_", i))
		if c.Work = driver.WorkQueued; i < 4 {
			c.Messages, c.Work = nil, driver.WorkNone
		}
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			t.Fatal(err)
		}
	}
	p := &driver.PruneParams{Background: true, DedupeWindow: 2 * time.Hour, Retention: time.Hour, Chunk: 3, Now: time.Now().Add(90 * time.Minute)}
	if got, err := store.Prune(t.Context(), p); err != nil || got.Bodies != 4 {
		t.Fatalf("Prune of bodies: %+v, %v", got, err)
	}
	p.Now = p.Now.Add(48 * time.Hour)
	failed := b.begin(&f, commit)
	got, err := store.Prune(t.Context(), p)
	f.end()
	if *failed == (err == nil) || *failed && !errors.Is(err, b.want) {
		t.Errorf("the commit %d failed: %v. Prune: %+v, error %v; want %v", commit, *failed, got, err, b.want)
	}
	p.Background = false // it needs not wait until the turn of the failed pass has run out
	again, err := store.Prune(t.Context(), p)
	if err != nil {
		t.Errorf("Prune after the failed commit %d: %v", commit, err)
	}
	if !b.committed && got.Events+again.Events != 4 {
		t.Errorf("the commit %d failed: Prune told of %d and %d events, want four together", commit, got.Events, again.Events)
	}
	left := counts(t, store, map[string]string{"events": "event", "bodies": "event WHERE body IS NOT NULL", "messages": "message", "states": "event_state"})
	if diff := cmp.Diff(map[string]int{"events": 2, "bodies": 2, "messages": 2, "states": 2}, left); diff != "" {
		t.Errorf("rows after the failed commit %d (-want +got):\n%s", commit, diff)
	}
	return *failed
}
