package inbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// Run without a schema says what to do, and runs after it was done.
func TestRunNeedsTheSchema(t *testing.T) {
	t.Parallel()
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "empty.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	in := newEngine(t, store, nil)
	ctx, stop := context.WithCancel(eventually.Context(t))
	defer stop()
	if err := in.Run(ctx); !errors.Is(err, driver.ErrSchema) || !strings.Contains(err.Error(), "hookmigrate.Up") {
		t.Errorf("Run on an empty database: got the error %v, want %v with hookmigrate.Up", err, driver.ErrSchema)
	}
	tx, err := store.Writer().BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = hookonce.NewOutbox(store).EnqueueTx(ctx, tx, &hookonce.Message{Destination: "app"})
	if !errors.Is(err, driver.ErrSchema) || strings.Count(err.Error(), "enqueueing") != 1 {
		t.Errorf("EnqueueTx on an empty database: got the error %v, want %v, enqueueing once", err, driver.ErrSchema)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := hookmigrate.Up(ctx, store); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := in.Run(ctx); err != nil {
		t.Errorf("Run after hookmigrate.Up: %v", err)
	}
}
