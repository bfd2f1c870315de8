package sqlitestore

import (
	"context"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// storeWith returns a migrated store whose writer has the faults.
func storeWith(t *testing.T, f *faults) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := New(openWith(t, f.register(), path), openWith(t, f.register(), path), hookmigrate.SQLite())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

func claim(t *testing.T, s *Store, id string) error {
	return claimUnder(t.Context(), s, id)
}

func claimUnder(ctx context.Context, s *Store, id string) error {
	_, err := s.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim(id)}})
	return err
}

func newClaim(id string) driver.Claim {
	key := driver.EventKey("stripe", id)
	return driver.Claim{
		Key: key, Source: "stripe", EventID: id, Body: []byte(id), BodyHash: sha256.Sum256([]byte(id)),
		Messages: []driver.NewMessage{{ID: driver.MessageID(key, 0, "r"), Route: "r", Destination: "d"}},
	}
}

func wantEvents(t *testing.T, s *Store, want ...string) {
	t.Helper()
	page, err := s.Events(t.Context(), &driver.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range page.Events {
		got = append(got, page.Events[i].EventID)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestCommitIsClassified lets COMMIT succeed or fail and then return a code. The rows must be as
// the error's class promises.
func TestCommitIsClassified(t *testing.T) {
	t.Parallel()
	const fsyncFailed = 10 | 4<<8
	for _, c := range []struct {
		name      string
		committed bool
		answer    error
		want      error
	}{
		{"busy", false, code(5), driver.ErrUnavailable},
		{"busy for a snapshot", false, code(517), driver.ErrUnavailable},
		{"full", false, code(13), driver.ErrUnavailable},
		{"flush failed, row there", true, code(fsyncFailed), driver.ErrCommitUnknown},
		{"flush failed, row not there", false, code(fsyncFailed), driver.ErrCommitUnknown},
		{"out of memory", false, code(7), driver.ErrCommitUnknown},
		{"no code", true, errors.New("connection is gone"), driver.ErrCommitUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var f faults
			store := storeWith(t, &f)
			f.onCommit(func(real func() error) error {
				if c.committed {
					if err := real(); err != nil {
						t.Error(err)
					}
				}
				return c.answer
			})
			if err := claim(t, store, "evt_1"); !errors.Is(err, c.want) || !errors.Is(err, c.answer) {
				t.Errorf("Claim: got the error %v, want %v", err, c.want)
			}
			f.commit.Store(nil)
			// The next claim must not commit rows of the last one.
			if err := claim(t, store, "evt_2"); err != nil {
				t.Fatal(err)
			}
			if c.committed {
				wantEvents(t, store, "evt_1", "evt_2")
			} else {
				wantEvents(t, store, "evt_2")
			}
		})
	}
}

// TestCallerLeavesDuringCommit has a COMMIT that hangs, as on a stalled disk: the caller's deadline
// holds, and the outcome is unknown.
func TestCallerLeavesDuringCommit(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	started, goOn := f.hangCommit()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	err := claimUnder(ctx, store, "evt_1")
	if !errors.Is(err, driver.ErrCommitUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("Claim: got the error %v, want %v", err, driver.ErrCommitUnknown)
	}
	// Other writes fail meanwhile, in time.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := claimUnder(ctx, store, "evt_2"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Claim beside a hanging commit: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	f.commit.Store(nil)
	close(goOn)
	if err := claim(t, store, "evt_3"); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, store, "evt_1", "evt_3")
}

// TestFailedRollback has a ROLLBACK that does nothing and fails: the next commit must not bring the
// rows of the failed call back.
func TestFailedRollback(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	f.onRollback(func(func() error) error { return code(10) })
	bad := newClaim("evt_1")
	bad.Messages = append(bad.Messages, bad.Messages[0])
	_, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{bad}})
	if !errors.Is(err, driver.ErrBadRow) {
		t.Fatalf("Claim: got the error %v, want %v", err, driver.ErrBadRow)
	}
	f.rollback.Store(nil)
	if err := claim(t, store, "evt_2"); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, store, "evt_2")
}

func TestPanicInATransactionGivesTheLockBack(t *testing.T) {
	t.Parallel()
	store := storeWith(t, &faults{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = store.write(t.Context(), "test", func(w *writeTx) error {
			if _, err := w.exec(insertState, 1, make([]byte, 32), "stripe", "", 0); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()
	if err := claim(t, store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, store, "evt_1")
}
