package hooksql_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
)

// TestSettingsOfEveryConnection takes several connections of each pool at once, to find a PRAGMA
// that is set on one of them only.
func TestSettingsOfEveryConnection(t *testing.T) {
	t.Parallel()
	writer, reader, err := hooksql.SQLiteDSN(filepath.Join(t.TempDir(), "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	// The writer first: it brings the file into WAL mode.
	for _, c := range []struct {
		name, dsn string
		want      map[string]string
	}{
		{"writer", writer, map[string]string{
			"busy_timeout": "100", "synchronous": "2", "journal_mode": "wal", "query_only": "0", "secure_delete": "1",
			"wal_autocheckpoint": "4000", "journal_size_limit": "67108864", "cache_size": "-65536",
		}},
		{"reader", reader, map[string]string{
			"busy_timeout": "5000", "synchronous": "2", "journal_mode": "wal", "query_only": "1",
		}},
	} {
		db := openDSN(t, c.dsn)
		for i := range 3 {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for pragma, want := range c.want {
				var got string
				if err := conn.QueryRowContext(t.Context(), `PRAGMA `+pragma).Scan(&got); err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("%s, connection %d: PRAGMA %s is %s, want %s", c.name, i, pragma, got, want)
				}
			}
		}
	}
}

// TestWriterBeginsImmediate: a transaction of the writer's pool has the write
// lock before its first statement.
func TestWriterBeginsImmediate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	openMigrated(t, path)
	tx, err := openPlain(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := openPlain(t, path).ExecContext(t.Context(), `DELETE FROM hookonce_event`); err == nil {
		t.Error("a second connection could write beside a transaction that has done nothing yet")
	}
}

// otherDriver is a driver that ignores the settings in the data source name, like one with another
// syntax.
const otherDriver = "sqlite-that-ignores-settings"

func TestOpenSQLiteRefusesWhatItCannotSet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store, err := hooksql.OpenSQLite(otherDriver, path)
	if err == nil || !strings.Contains(err.Error(), "PRAGMA") {
		t.Errorf("OpenSQLite with a driver that ignores the settings: got the error %v, want one that names the PRAGMA", err)
	}
	if store != nil {
		_ = store.Close()
	}
	if _, err := hooksql.OpenSQLite("no such driver", path); err == nil {
		t.Error("OpenSQLite with an unknown driver succeeded")
	}
	_, err = hooksql.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "no such folder", "hookonce.db"))
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("OpenSQLite in a folder that is not there: got the error %v, want %v", err, driver.ErrUnavailable)
	}
}

// TestOpenSQLiteAtOnce opens a new file many times at once, like a gateway with commands beside it.
func TestOpenSQLiteAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := filepath.Join(t.TempDir(), "hookonce.db")
		errs := make([]error, 6)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() {
				store, err := hooksql.OpenSQLite("sqlite", path)
				if err == nil {
					_, err = store.Apply(t.Context())
					err = errors.Join(err, store.Close())
				}
				errs[i] = err
			})
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWeaknesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	if got := weaknesses(t, store); len(got) != 0 {
		t.Errorf("a store as opened has the weaknesses %v", got)
	}
	// A program's own pools, with the usual advice for WAL.
	db := openDSN(t, "file:"+path+"?_pragma=synchronous(NORMAL)")
	if diff := cmp.Diff([]string{"synchronous"}, weaknesses(t, hooksql.NewSQLite(db, db))); diff != "" {
		t.Errorf("weaknesses of a pool with synchronous=NORMAL (-want +got):\n%s", diff)
	}
	db = openDSN(t, "file:"+filepath.Join(t.TempDir(), "delete.db")+"?_pragma=synchronous(FULL)")
	if diff := cmp.Diff([]string{"journal_mode"}, weaknesses(t, hooksql.NewSQLite(db, db))); diff != "" {
		t.Errorf("weaknesses of a pool without WAL (-want +got):\n%s", diff)
	}
}

// TestWeakFlush claims through pools of the caller's own, with the usual advice for WAL.
func TestWeakFlush(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	mustClaim(t, openMigrated(t, path), "before")
	db := openDSN(t, "file:"+path+"?_txlock=immediate&_pragma=synchronous(NORMAL)")
	db.SetMaxOpenConns(1)
	store := hooksql.NewSQLite(db, db)
	p := &driver.ClaimParams{Claims: []driver.Claim{newClaim("new")}}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, txErr := store.ClaimTx(t.Context(), tx, p)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	_, err = store.Claim(t.Context(), p)
	_, _, takeErr := store.TakeClaim(t.Context(), p)
	_, duplicateErr := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{newClaim("before")}})
	for name, err := range map[string]error{"ClaimTx": txErr, "Claim": err, "TakeClaim": takeErr, "Claim of a duplicate": duplicateErr} {
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "synchronous is 1") {
			t.Errorf("%s with synchronous=NORMAL: got the error %v", name, err)
		}
	}
	p.AllowUnsafe = []string{"synchronous"}
	if _, err := store.Claim(t.Context(), p); err != nil {
		t.Errorf("Claim that allows it: %v", err)
	}
	p.Claims[0] = newClaim("mended")
	p.AllowUnsafe = nil
	if _, err := db.ExecContext(t.Context(), "PRAGMA synchronous=FULL"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Claim(t.Context(), p); err != nil {
		t.Errorf("Claim after the setting was mended: %v", err)
	}
}

func weaknesses(t *testing.T, store driver.Store) []string {
	t.Helper()
	found, err := store.Weaknesses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for _, w := range found {
		settings = append(settings, w.Setting)
	}
	return settings
}

func TestNewSQLiteLeavesThePoolsOpen(t *testing.T) {
	t.Parallel()
	store, writer, reader := onOwnPools(t)
	mustClaim(t, store, "evt_1")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, db := range []*sql.DB{writer, reader} {
		if err := db.PingContext(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("a pool is closed: %v", err)
		}
	}
}

// TestCloseCopiesTheLog: after Close the one file holds everything.
func TestCloseCopiesTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, store, "evt_1")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db := openDSN(t, "file:"+path+"?immutable=1") // does not read the log
	var got int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_event`).Scan(&got); err != nil || got != 1 {
		t.Errorf("the file alone has %d events (error %v), want 1", got, err)
	}
}
