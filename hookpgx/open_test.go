package hookpgx_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestOpenBoundsItsWork checks that the server ends idle transactions of a frozen process, and
// abandoned statements.
func TestOpenBoundsItsWork(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	of := func(given map[string]string) map[string]string {
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range given {
			config.ConnConfig.RuntimeParams[name] = value
		}
		store, err := hookpgx.Open(config, &hookpgx.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		got := make(map[string]string)
		for _, name := range []string{"application_name", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
			var value string
			if err := hookpgx.WorkPool(store).QueryRow(t.Context(), "SHOW "+name).Scan(&value); err != nil {
				t.Fatal(err)
			}
			got[name] = value
		}
		return got
	}
	want := map[string]string{
		"application_name": "hookonce", "statement_timeout": "1min", "lock_timeout": "5s", "idle_in_transaction_session_timeout": "1min",
	}
	if diff := cmp.Diff(want, of(nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want["statement_timeout"] = "7s"
	if diff := cmp.Diff(want, of(map[string]string{"statement_timeout": "7s"})); diff != "" {
		t.Errorf("with its own in the configuration (-want +got):\n%s", diff)
	}
}
