package hooktest_test

import (
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooksql"
)

// openStore opens a store in a folder, and its writer, which the tests' own tables use too.
func openStore(t testing.TB) (*hooksql.Store, *sql.DB) {
	t.Helper()
	writer, store, closeAll := open(filepath.Join(t.TempDir(), "hookonce.db"))
	t.Cleanup(closeAll)
	return store, writer
}

// newInbox returns an Inbox that is not running.
func newInbox(t testing.TB, mux *hooksql.Mux, cfg *hookonce.Config) (*hookonce.Inbox[*sql.Tx], *hooksql.Store) {
	t.Helper()
	store, _ := openStore(t)
	cfg.Logger = slog.New(slog.DiscardHandler)
	in, err := hookonce.New(store, mux, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)
	return in, store
}
