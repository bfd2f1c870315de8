package hookpgx_test

import (
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestRefusedFunctions has a server that refuses functions of the log and of the cluster, as Aurora does without logical
// replication.
func TestRefusedFunctions(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Config: []string{"wal_writer_delay=10s"}})
	w := private(t, server)
	emit := "pg_logical_emit_message(boolean, text, text)"
	if newer := "pg_logical_emit_message(boolean, text, text, boolean)"; w.has(t, newer) {
		emit = newer
	}
	server.RefuseFunctions(t, "pg_current_wal_flush_lsn()", "pg_current_wal_insert_lsn()", "pg_control_system()", emit)
	w.wantDuplicatesFlushed(t, "_hidden")
	if n := w.number(t, "SELECT count(*) FROM {schema}.log_mark"); n != 0 {
		t.Errorf("log_mark keeps %d rows", n)
	}
	run := w.takeOne(t, "of a handler")
	mustDo(t, run, "SELECT 1")
	if err := run.Finish(t.Context(), succeeded(run)); err != nil {
		t.Errorf("Finish: %v", err)
	}
	w.wantEvent(t, "of a handler", driver.StateDone, 1)
}

// has reports whether the server has a function.
func (w *world) has(t *testing.T, signature string) bool {
	t.Helper()
	return w.number(t, "SELECT count(*) WHERE to_regprocedure($1) IS NOT NULL", signature) == 1
}
