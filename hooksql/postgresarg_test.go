package hooksql

import (
	"database/sql"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/internal/pgstore"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// argModes are the modes of pgx's database/sql driver. Some send arguments as binary, some as text,
// some as part of the statement.
var argModes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// withMode returns the DSN with one of argModes.
func withMode(t *testing.T, dsn, mode string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", mode)
	u.RawQuery = q.Encode()
	return u.String()
}

func poolOf(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	pool.SetMaxOpenConns(4)
	return pool
}

// openMode returns a DB on the shared server in one of argModes.
func openMode(t *testing.T, mode string) *testDB {
	t.Helper()
	dsn, _ := dbtest.Postgres(t)
	return newTestDB(poolOf(t, withMode(t, dsn, mode)))
}

// collect reads a result of one column.
func collect[E any](ctx interface{ Fatalf(string, ...any) }, query func() (pgstore.Rows, error)) []E {
	rows, err := query()
	if err != nil {
		ctx.Fatalf("the query failed: %v", err)
	}
	defer rows.Close()
	list := []E{}
	for rows.Next() {
		var element E
		if err := rows.Scan(&element); err != nil {
			ctx.Fatalf("scanning: %v", err)
		}
		list = append(list, element)
	}
	if err := rows.Err(); err != nil {
		ctx.Fatalf("the rows ended with: %v", err)
	}
	return list
}

// roundTrip sends arrays that gen draws, and compares the elements that come back.
func roundTrip[E any](t *testing.T, name, kind string, gen *rapid.Generator[E]) {
	for _, mode := range argModes {
		t.Run(name+"/"+mode, func(t *testing.T) {
			t.Parallel()
			db := openMode(t, mode)
			query := fmt.Sprintf("SELECT e FROM unnest($1::%s[]) WITH ORDINALITY AS u (e, n) ORDER BY n", kind)
			rapid.Check(t, func(rt *rapid.T) {
				want := rapid.SliceOfN(gen, 0, 8).Draw(rt, "elements")
				got := collect[E](rt, func() (pgstore.Rows, error) { return db.Query(t.Context(), query, any(want)) })
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatalf("sent and received differ (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPostgresArrays(t *testing.T) {
	t.Parallel()
	parts := rapid.SampledFrom([]string{
		`"`, `\`, `'`, `''`, `{`, `}`, `,`, ` `, "\t", "\n", "\r", "\v", "\x01", "\x7f", "NULL", "null", `\x`, `\N`, "$1", "--", "/*", ";",
		"ä", "世界", "🙂", "e\u0301", "\ufffd", "a", "0", "::", "E'",
	})
	text := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(parts, 0, 6), func(list []string) (s string) {
			for _, part := range list {
				s += part
			}
			return s
		}),
		rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 })),
	)
	roundTrip(t, "text", "text", text)
	// A nil element is NULL; an empty one is not.
	roundTrip(t, "bytea", "bytea", rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 40), rapid.Just([]byte(nil)), rapid.Just([]byte(`\x"{},NULL`)),
	))
	roundTrip(t, "bool", "bool", rapid.Bool())
	roundTrip(t, "bigint", "bigint", rapid.Int64())
	roundTrip(t, "int", "int", rapid.Int32())
	roundTrip(t, "smallint", "smallint", rapid.Int16())
}

// TestPostgresTimes sends times alone and in arrays. Both are truncated to a microsecond.
func TestPostgresTimes(t *testing.T) {
	t.Parallel()
	first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	east := time.FixedZone("east", 5*3600+1800)
	var list []*time.Time
	for _, at := range []time.Time{
		first, last, time.Unix(0, 0), time.Unix(1, 999999999), time.Unix(-1, 1), time.Date(2026, 7, 1, 3, 4, 5, 678901234, east),
	} {
		list = append(list, &at)
	}
	list = append(list, nil)
	for _, mode := range argModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := openMode(t, mode)
			got := collect[*time.Time](t, func() (pgstore.Rows, error) {
				return db.Query(t.Context(), "SELECT e FROM unnest($1::timestamptz[]) WITH ORDINALITY AS u (e, n) ORDER BY n", list)
			})
			for i, at := range list {
				alone := collect[*time.Time](t, func() (pgstore.Rows, error) {
					return db.Query(t.Context(), "SELECT $1::timestamptz", at)
				})
				for what, back := range map[string]*time.Time{"alone": alone[0], "in an array": got[i]} {
					switch {
					case at == nil && back == nil:
					case at == nil || back == nil || !back.Equal(at.Truncate(time.Microsecond)):
						t.Errorf("%v came back %s as %v", at, what, back)
					}
				}
			}
		})
	}
}

// TestPostgresScalars sends scalars, and NULL, into and out of all types that the statements use.
func TestPostgresScalars(t *testing.T) {
	t.Parallel()
	for _, mode := range argModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := openMode(t, mode)
			rows, err := db.Query(t.Context(), `SELECT $1::text, $2::bytea, $3::bool, $4::int, $5::bigint, $6::smallint,
				$7::bytea, $8::timestamptz, $9::text[], $10::bytea[], $11::text, $12::bytea`,
				`it's "\`, []byte{0, '\'', '\\', 0xff}, true, int32(-1<<31), int64(-1<<63), 7,
				[]byte(nil), (*time.Time)(nil), []string(nil), [][]byte(nil), nil, []byte{})
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var text string
			var bytes, null, empty []byte
			var yes bool
			var i4 int32
			var i8 int64
			var i2 int16
			var at *time.Time
			var texts, byteses, none *string
			if !rows.Next() {
				t.Fatalf("no row: %v", rows.Err())
			}
			if err := rows.Scan(&text, &bytes, &yes, &i4, &i8, &i2, &null, &at, &texts, &byteses, &none, &empty); err != nil {
				t.Fatal(err)
			}
			if text != `it's "\` || string(bytes) != "\x00'\\\xff" || !yes || i4 != -1<<31 || i8 != -1<<63 || i2 != 7 {
				t.Errorf("got %q, %q, %v, %d, %d, %d", text, bytes, yes, i4, i8, i2)
			}
			if null != nil || at != nil || texts != nil || byteses != nil || none != nil {
				t.Errorf("got %q, %v, %v, %v and %v for NULL", null, at, texts, byteses, none)
			}
			if empty == nil || len(empty) != 0 {
				t.Errorf("got %#v for no bytes, which is not NULL", empty)
			}
		})
	}
}

func TestPostgresArgOfAnotherType(t *testing.T) {
	t.Parallel()
	db := openMode(t, argModes[0])
	for _, arg := range []any{time.Time{}, 1.5, []any{1}, map[string]int{}} {
		rows, err := db.Query(t.Context(), "SELECT $1::text", arg)
		if err == nil {
			rows.Close()
			t.Errorf("a %T was sent", arg)
			continue
		}
		if got := db.Outcome(err); got != pgstore.NotSent {
			t.Errorf("the outcome of sending a %T is %v, want it not sent", arg, got)
		}
	}
}
