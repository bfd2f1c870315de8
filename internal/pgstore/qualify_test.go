package pgstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQualified(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"FROM unnest($1::text[]) AS i (key)":               "FROM pg_catalog.unnest($1::text[]) AS i (key)",
		"unnest(ARRAY(SELECT unnest(keys) FROM run))":      "pg_catalog.unnest(ARRAY(SELECT pg_catalog.unnest(keys) FROM run))",
		"unnest(ARRAY[$1, $2])":                            "pg_catalog.unnest(ARRAY[$1, $2])",
		"FROM unnest($1::text[], $2::bytea[]) AS i":        "FROM unnest($1::text[], $2::bytea[]) AS i",
		"SELECT count(key), count(*) FROM t":               "SELECT pg_catalog.count(key), pg_catalog.count(*) FROM t",
		"pg_catalog.format('%s', a), {schema}.count(a)":    "pg_catalog.format('%s', a), {schema}.count(a)",
		"now() - $2::bigint * interval '1 microsecond'":    "now() - $2::bigint::double precision * interval '1 microsecond'",
		"(extract(epoch FROM d.due_at) * 1000000)::bigint": "(extract(epoch FROM d.due_at)::double precision * 1000000::double precision)::bigint",
		"SELECT discount(a), amount FROM event_count(a)":   "SELECT discount(a), amount FROM event_count(a)",
	} {
		if diff := cmp.Diff(want, qualified(sql)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}
