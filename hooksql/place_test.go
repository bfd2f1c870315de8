//go:build !windows

// Windows refuses to move or delete an open file.

package hooksql_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// A store in a folder that the test moves files out of. The folder itself is in another one.
func placed(t *testing.T) (store *hooksql.Store, path string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(folder, "hookonce.db")
	store = openMigrated(t, path)
	mustClaim(t, store, "before")
	return store, path
}

// writes are the writes that must fail while the file is not in its place, and Now, which
// decides on readiness.
func writes(store *hooksql.Store, id string) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Claim": func(ctx context.Context) error { return claim(ctx, store, id) },
		"TakeClaim": func(ctx context.Context) error {
			_, _, err := store.TakeClaim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim(id)}})
			return err
		},
		"CountDeliveries": func(ctx context.Context) error {
			return store.CountDeliveries(ctx, &driver.CountDeliveriesParams{
				Counts: []driver.DeliveryCount{{Key: newClaim("before").Key, Duplicates: 1}},
			})
		},
		"Lease": func(ctx context.Context) error {
			_, err := store.Lease(ctx, &driver.LeaseParams{Destination: "d", Limit: 1, For: 1, MaxAttempts: 1})
			return err
		},
		"Now": func(ctx context.Context) error {
			_, err := store.Now(ctx)
			return err
		},
	}
}

func wantUnavailable(t *testing.T, store *hooksql.Store, text string) {
	t.Helper()
	for name, write := range writes(store, "lost") {
		if err := write(t.Context()); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got the error %v, want %v with %q", name, err, driver.ErrUnavailable, text)
		}
	}
	if has(t, store, "lost") {
		t.Error("an event was claimed into a file that is not in its place")
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// SQLite goes on in a file that is gone from its path. The next process would not
// find the claims.
func TestFileNotInItsPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		take func(t *testing.T, path string) (back func())
		text string
	}{
		{"moved", func(t *testing.T, path string) func() {
			rename(t, path, path+".moved")
			return func() { rename(t, path+".moved", path) }
		}, "move it back"},
		{"in a moved folder", func(t *testing.T, path string) func() {
			folder := filepath.Dir(path)
			rename(t, folder, folder+".moved")
			return func() { rename(t, folder+".moved", folder) }
		}, "move it back"},
		{"without its log", func(t *testing.T, path string) func() {
			rename(t, path+"-wal", path+"-wal.moved")
			return func() { rename(t, path+"-wal.moved", path+"-wal") }
		}, "hookonce.db-wal"},
		{"without the index of its log", func(t *testing.T, path string) func() {
			rename(t, path+"-shm", path+"-shm.moved")
			return func() { rename(t, path+"-shm.moved", path+"-shm") }
		}, "hookonce.db-shm"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, path := placed(t)
			back := tt.take(t, path)
			wantUnavailable(t, store, tt.text)
			back()
			mustClaim(t, store, "after")
			if _, err := store.Now(t.Context()); err != nil {
				t.Errorf("Now after the file was moved back: %v", err)
			}
		})
	}
}

// A store never goes on after another file stood at its path, also not if the first one is back: a
// connection may have opened the other one meanwhile.
func TestFileReplaced(t *testing.T) {
	t.Parallel()
	store, path := placed(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rename(t, path, path+".moved")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	wantUnavailable(t, store, "replaced by another file")
	rename(t, path+".moved", path)
	wantUnavailable(t, store, "replaced by another file")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	if !has(t, again, "before") {
		t.Error("the event from before is not in the file")
	}
	mustClaim(t, again, "after")
}

// Files are checked also in a caller's transaction, and when the store did nothing before it.
func TestFileNotInItsPlaceInClaimTx(t *testing.T) {
	t.Parallel()
	_, path := placed(t)
	db := openPlain(t, path)
	store := open(t, path)
	inTx := func(id string) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := store.ClaimTx(t.Context(), tx, &driver.ClaimParams{Claims: []driver.Claim{newClaim(id)}}); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := inTx("first"); err != nil {
		t.Fatal(err)
	}
	rename(t, path, path+".moved")
	if err := inTx("second"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("ClaimTx: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	rename(t, path+".moved", path)
	if err := inTx("third"); err != nil {
		t.Error(err)
	}
}

// In a caller's transaction the store cannot see the log of its connection, so Confirm checks it after
// the commit.
func TestConfirmWithoutTheLog(t *testing.T) {
	t.Parallel()
	store, path := placed(t)
	confirm := func(id string) error {
		tx, err := store.Writer().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := store.ClaimTx(t.Context(), tx, &driver.ClaimParams{Claims: []driver.Claim{newClaim(id)}}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		return store.Confirm(t.Context())
	}
	if err := confirm("first"); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		rename(t, path+suffix, path+suffix+".moved")
		if err := confirm("without " + suffix); !errors.Is(err, driver.ErrCommitUnknown) {
			t.Errorf("Confirm without %s: got the error %v, want %v", suffix, err, driver.ErrCommitUnknown)
		}
		rename(t, path+suffix+".moved", path+suffix)
		if err := confirm("with " + suffix); err != nil {
			t.Error(err)
		}
	}
}

// A handler may hold the writer for longer than a sender waits for its answer.
func TestConfirmWhileTheWriterIsBusy(t *testing.T) {
	t.Parallel()
	store, path := placed(t)
	mustClaim(t, store, "1")
	tx, err := store.Writer().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	ctx := eventually.Context(t)
	if err := store.Confirm(ctx); err != nil {
		t.Error(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		rename(t, path+suffix, path+suffix+".moved")
		if err := store.Confirm(ctx); !errors.Is(err, driver.ErrCommitUnknown) {
			t.Errorf("Confirm without hookonce.db%s: got the error %v, want %v", suffix, err, driver.ErrCommitUnknown)
		}
		rename(t, path+suffix+".moved", path+suffix)
	}
}

// A connection that the pool closed and opened again may find a new log: the last connection to a
// file deletes it.
func TestNewConnectionWithANewLog(t *testing.T) {
	t.Parallel()
	store, writer, reader := onOwnPools(t)
	mustClaim(t, store, "1")
	for _, pool := range []*sql.DB{writer, reader} {
		pool.SetMaxIdleConns(0)
	}
	mustClaim(t, store, "2")
	mustClaim(t, store, "3")
}

// The runbook promises this for a log that was deleted.
func TestCloseSavesTheDeletedLog(t *testing.T) {
	t.Parallel()
	store, path := placed(t)
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	wantUnavailable(t, store, "hookonce.db-wal")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if !has(t, open(t, path), "before") {
		t.Error("the event of the deleted log is lost")
	}
}

// The log is unlinked after the transaction began: its commit is in no file that the next process reads.
func TestLogGoneBeforeTheCommit(t *testing.T) {
	t.Parallel()
	store, path := placed(t)
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{queued("taken")}}); err != nil {
		t.Fatal(err)
	}
	run, err := store.Take(t.Context(), takeOne(false))
	if err != nil || run == nil {
		t.Fatalf("Take: got %v and the error %v, want a run", run, err)
	}
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := run.Finish(t.Context(), outcome(run, driver.WorkSucceeded)); err == nil || !strings.Contains(err.Error(), "-wal") {
		t.Errorf("Finish: got the error %v, want that the log is gone", err)
	}
}
