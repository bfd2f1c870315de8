package dbtest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// beliefs are what the planner may take a table for, and the statements that make it do so: %[1]s is the table, and %[2]s is its
// name as a string. A table whose ANALYZE came while one transaction filled it looks empty until the next one.
var beliefs = []struct{ name, sql string }{
	{"unknown", `DELETE FROM pg_statistic WHERE starelid = %[2]s::regclass;
		UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid ` + withIndexes},
	{"empty", `UPDATE pg_class SET reltuples = 0, relpages = pg_relation_size(oid) / 8192 WHERE oid ` + withIndexes},
	{"analyzed", `ANALYZE %[1]s`},
}

const withIndexes = `IN (SELECT %[2]s::regclass UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = %[2]s::regclass)`

// Beliefs calls do once for each combination of beliefs that the planner may have of tables of a schema (quoted), and tells it
// the combination. Sessions plan their statements again. The schema is a new one, as of Postgres: statistics stay.
func Beliefs(t testing.TB, exec func(testing.TB, string, ...any), schema string, tables []string, do func(believed string)) {
	t.Helper()
	var combine func(i int, believed string)
	combine = func(i int, believed string) {
		if i == len(tables) {
			do(believed)
			return
		}
		table := schema + "." + tables[i]
		for _, b := range beliefs {
			exec(t, fmt.Sprintf(b.sql, table, "'"+table+"'"), pgx.QueryExecModeSimpleProtocol)
			combine(i+1, believed+tables[i]+" "+b.name+" ")
		}
	}
	combine(0, "")
}
