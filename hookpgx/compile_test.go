package hookpgx_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// On a pool of the caller, the server may compile plans that look expensive. A statement that turns off plans may leave
// one that only looks so, and to compile that takes a third of a second each time.
func TestCallersPoolCompilesNothing(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Ready(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on",
		"auto_explain.log_nested_statements": "on", "auto_explain.log_level": "notice",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.MaxConns = 1
	var compiled atomic.Int64
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.Contains(n.Message, "JIT:") {
			compiled.Add(1)
			t.Logf("%.500s", n.Message)
		}
	}
	w := connectWith(t, config, schema, nil)
	w.queue(t, "evt_1", "evt_2")
	if _, err := w.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Minute, Retention: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if n := compiled.Load(); n > 0 {
		t.Errorf("the server has compiled the plans of %d statements", n)
	}
	w.exec(t, "SET jit_above_cost = 0")
	w.number(t, "SELECT count(*) FROM {schema}.event")
	if can := w.number(t, "SELECT pg_jit_available()::int"); can == 1 && compiled.Load() == 0 {
		t.Error("the test does not notice that the server compiles a plan")
	}
}
