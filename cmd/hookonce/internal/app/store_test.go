package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	weak := []driver.Weakness{
		{Setting: "fsync", Value: "off", Effect: "A power cut loses commits.", Remedy: "Set fsync=on."},
		{Setting: "synchronous_commit", Value: "local", Effect: "A failover loses commits.", Remedy: "Set it to on."},
	}
	tests := []struct {
		name      string
		found     []driver.Weakness
		allowed   []string
		hint      string // "" for no error
		warnings  int
		inMessage []string
	}{
		{name: "none"},
		{name: "none, one allowed", allowed: []string{"fsync"}},
		{
			name: "all refused", found: weak, hint: "allow_unsafe: [fsync, synchronous_commit]",
			inMessage: []string{"fsync is off", "A power cut loses commits.", "Set fsync=on.", "synchronous_commit is local"},
		},
		{
			name: "one allowed", found: weak, allowed: []string{"fsync"}, hint: "allow_unsafe: [synchronous_commit]",
			warnings: 1, inMessage: []string{"synchronous_commit is local"},
		},
		{name: "all allowed", found: weak, allowed: []string{"synchronous_commit", "fsync"}, warnings: 2},
		{name: "no pattern", found: weak[:1], allowed: []string{"*", "FSYNC", ""}, hint: "allow_unsafe: [fsync]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := &logBuffer{changed: make(chan struct{}, 1)}
			err := judge(tt.found, tt.allowed, slog.New(slog.NewTextHandler(log, nil)))
			if got := strings.Count(log.text(), "level=WARN"); got != tt.warnings {
				t.Errorf("%d warnings, want %d:\n%s", got, tt.warnings, log.text())
			}
			if tt.hint == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantHint(t, err, "may lose acknowledged events", tt.hint)
			for _, text := range tt.inMessage {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q, want %q in it", err, text)
				}
			}
		})
	}
}

func TestSharedFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	wantHint(t, judgeFileSystem("/mnt/x.db", "NFS", []string{"fsync"}), "/mnt/x.db is on a file system that other machines may share (NFS)",
		"allow_unsafe: [shared_filesystem]")
	if err := judgeFileSystem("/mnt/x.db", "NFS", []string{"shared_filesystem"}); err != nil {
		t.Error(err)
	}
	if err := judgeFileSystem("/var/x.db", "", nil); err != nil {
		t.Error(err)
	}
	if _, err := sharedFileSystem(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there has a file system")
	}
}

func TestOpenStoreMakesNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := settings(t, "database: sqlite:"+path)
	_, err := OpenStore(t.Context(), s)
	wantHint(t, err, path, "hookonce migrate up")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("the file: %v", err)
	}
	store, err := CreateStore(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store, err = OpenStore(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckSchema(t.Context(), store); err == nil {
		t.Error("opening a database migrated it")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// A file that is there keeps the mode that its owner chose.
func TestCreateStoreKeepsTheMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	store, err := CreateStore(t.Context(), settings(t, "database: sqlite:"+path))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestADatabaseURLIsNeverQuoted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://root:hunter2@db:port/x", "postgres://root:hunter2@db/x?sslmode=maybe", "postgres://root:hunt%zzer2@db/x",
	} {
		_, err := OpenStore(t.Context(), settings(t, "database: "+url))
		wantHint(t, err, "is not a PostgreSQL URL", "postgres://")
		if strings.Contains(err.Error(), "hunt") {
			t.Errorf("error %q", err)
		}
	}
}

// The server ends what a frozen gateway holds, and what nobody waits for.
func TestPoolHasItsTimeLimits(t *testing.T) {
	t.Parallel()
	dsn, _ := dbtest.Postgres(t)
	of := func(dsn string) map[string]string {
		store, err := OpenStore(t.Context(), settings(t, "database: "+dsn))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		got := make(map[string]string)
		for name := range workSettings {
			var value string
			if err := store.(*pooledStore).pool.QueryRow(t.Context(), "SHOW "+name).Scan(&value); err != nil {
				t.Fatal(err)
			}
			got[name] = value
		}
		return got
	}
	want := map[string]string{
		"application_name": "hookonce", "statement_timeout": "1min", "lock_timeout": "5s", "idle_in_transaction_session_timeout": "1min",
	}
	if diff := cmp.Diff(want, of(dsn)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	sign := "?"
	if strings.Contains(dsn, "?") {
		sign = "&"
	}
	want["statement_timeout"] = "7s"
	if diff := cmp.Diff(want, of(dsn+sign+"statement_timeout=7s")); diff != "" {
		t.Errorf("with its own in the URL (-want +got):\n%s", diff)
	}
}
