package hooksql_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/group"
)

// The test binary runs itself as the process to kill.
const (
	childVariable = "HOOKONCE_TEST_CHILD"        // the file to work on
	childPrefix   = "HOOKONCE_TEST_CHILD_PREFIX" // of the ids it claims
)

// childMain claims events, and prints the id of each acknowledged one, until it is killed.
func childMain(path string) {
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		id := fmt.Sprint(os.Getenv(childPrefix), i)
		if err := claim(context.Background(), store, id); err != nil {
			panic(err)
		}
		if _, err := fmt.Println(id); err != nil { // unbuffered
			os.Exit(1) // the parent is gone
		}
	}
}

// TestKilledWhileClaiming kills a process at random moments, and looks for every event that it
// acknowledged.
func TestKilledWhileClaiming(t *testing.T) {
	t.Parallel()
	cycles := group.Rounds(8, 20)
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	total := 0
	for cycle := range cycles {
		// In half of the cycles no other process has the file open, so that the next process
		// recovers the log.
		if cycle == cycles/2 {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		acknowledged := killedAfter(t, path, fmt.Sprintf("cycle-%d-", cycle), 1+rand.IntN(150))
		total += len(acknowledged)
		beside := store
		if cycle >= cycles/2 {
			beside = open(t, path)
		}
		for _, id := range acknowledged {
			if !has(t, beside, id) {
				t.Errorf("event %s was acknowledged and is lost", id)
			}
		}
		if cycle >= cycles/2 {
			if err := beside.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var integrity string
	if err := openPlain(t, path).QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("integrity check: %q, error %v", integrity, err)
	}
	t.Logf("%d events were acknowledged in %d lives", total, cycles)
}

// TestFirstWriteFlushesTheLog acknowledges a duplicate of an event of a killed process. The log may not be flushed, so the
// database must hold the event before.
func TestFirstWriteFlushesTheLog(t *testing.T) {
	t.Parallel()
	t.Run("OpenSQLite", func(t *testing.T) {
		t.Parallel()
		flushes(t, func(path string) *hooksql.Store { return open(t, path) })
	})
	t.Run("NewSQLite", func(t *testing.T) {
		t.Parallel()
		flushes(t, func(path string) *hooksql.Store {
			writer, reader, err := hooksql.SQLiteDSN(path)
			if err != nil {
				t.Fatal(err)
			}
			return hooksql.NewSQLite(openDSN(t, writer), openDSN(t, reader))
		})
	})
}

func flushes(t *testing.T, open func(path string) *hooksql.Store) {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "hookonce.db")
	if err := openMigrated(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := killedAfter(t, path, "", 10)
	store := open(path)
	result, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{newClaim(acknowledged[0])}})
	if err != nil || !result[0].Duplicate {
		t.Fatalf("Claim: got %+v and the error %v, want a duplicate", result, err)
	}
	database, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(folder, "alone.db") // without the log
	if err := os.WriteFile(alone, database, 0o600); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := openPlain(t, alone).QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_event`).Scan(&n); err != nil || n < len(acknowledged) {
		t.Errorf("the database has %d of %d events, error %v", n, len(acknowledged), err)
	}
}

// killedAfter runs a child, kills it once it has acknowledged n events, and returns the ids of all
// acknowledged events.
func killedAfter(t *testing.T, path, prefix string, n int) []string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+path, childPrefix+"="+prefix)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, line[:len(line)-1])
		if len(ids) == n {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || len(ids) < n {
		t.Fatalf("the child ended by itself after %d of %d events: %v", len(ids), n, err)
	}
	return ids
}
