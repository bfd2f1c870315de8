package hookpgx_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// explained holds the plans that a server logs.
type explained struct {
	pool *pgxpool.Pool // its plans are logged too

	mu    sync.Mutex
	plans []explainedPlan
	err   error
}

type explainedPlan struct {
	Plan planNode
	JIT  json.RawMessage // nil if the plan was not compiled
}

// planNode is a node of a plan in the format of EXPLAIN (ANALYZE, FORMAT JSON).
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name,omitempty"`
	Index    string     `json:"Index Name,omitempty"`
	Rows     float64    `json:"Actual Rows"`
	Removed  float64    `json:"Rows Removed by Filter,omitempty"`
	Loops    float64    `json:"Actual Loops"`
	Hit      float64    `json:"Shared Hit Blocks,omitempty"`  // with its children
	Read     float64    `json:"Shared Read Blocks,omitempty"` // with its children
	Plans    []planNode `json:"Plans,omitempty"`
}

// count adds the number of rows that the node and its children read from each table, except for the server's own: they
// are as large as the schemas of all tests. The entries of a bitmap count as rows of its index.
func (n *planNode) count(read map[string]float64) {
	if n.Type == "Bitmap Index Scan" {
		read[n.Index] += n.Rows * n.Loops
	}
	if n.Relation != "" && n.Type != "ModifyTable" && !strings.HasPrefix(n.Relation, "pg_") {
		read[n.Relation] += (n.Rows + n.Removed) * n.Loops
	}
	for i := range n.Plans {
		n.Plans[i].count(read)
	}
}

// openExplained returns a store whose connections log the plan of each statement. Direct access to its database does not:
// the server would log the plans of generated columns and triggers once for each row that a test writes.
func openExplained(t *testing.T, opts *hookpgx.Options) (*world, *explained) {
	t.Helper()
	dsn, schema := dbtest.Postgres(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"session_preload_libraries":     "auto_explain",
		"auto_explain.log_min_duration": "0",
		"auto_explain.log_analyze":      "on",
		"auto_explain.log_buffers":      "on",
		"auto_explain.log_format":       "json",
		// Claims and the like run inside of functions.
		"auto_explain.log_nested_statements": "on",
		"client_min_messages":                "log",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	if opts != nil {
		config.MaxConns = int32(opts.ReceiveConns)
	}
	plans := &explained{}
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { plans.add(n.Message) }
	w := connectWith(t, config, schema, opts)
	if _, err := hookmigrate.Up(t.Context(), w.Store); err != nil {
		t.Fatal(err)
	}
	plans.pool = w.pool
	if w.pool, err = pgxpool.New(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	return w, plans
}

func (e *explained) add(message string) {
	_, text, found := strings.Cut(message, "plan:\n")
	if !found {
		return
	}
	var plan explainedPlan
	err := json.Unmarshal([]byte(text), &plan)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.err = err
	}
	e.plans = append(e.plans, plan)
}

// bound fails the test if run reads more than planRows of one table.
func (e *explained) bound(t *testing.T, what string, run func() error) {
	t.Helper()
	e.boundOf(t, "", what, run)
}

// boundOf does the same for one table; "" means all tables. Counting the messages of a state up to
// a limit may read them in any order.
func (e *explained) boundOf(t *testing.T, only, what string, run func() error) {
	t.Helper()
	plans := e.of(t, run)
	if len(plans) == 0 {
		t.Errorf("%s: the server logged no plan", what)
	}
	for i := range plans {
		read := map[string]float64{}
		plans[i].Plan.count(read)
		for table, rows := range read {
			if rows > planRows && (only == "" || only == table) {
				text, err := json.MarshalIndent(&plans[i].Plan, "", " ")
				t.Errorf("%s: %.0f rows of %s were read, by this plan (%v):\n%s", what, rows, table, err, text)
			}
		}
	}
}

// of returns the plans of the statements of run.
func (e *explained) of(t *testing.T, run func() error) []explainedPlan {
	t.Helper()
	e.mu.Lock()
	e.plans = nil
	e.mu.Unlock()
	if err := run(); err != nil {
		t.Error(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		t.Fatal(e.err)
	}
	return e.plans
}
