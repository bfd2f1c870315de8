package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

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

// The server ends idle transactions of a frozen gateway, and abandoned statements.
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
