package pgstore

import (
	"regexp"
	"strings"
)

// polymorphic matches calls of functions for which pg_catalog has no exact match, because they are polymorphic or take
// their arguments by an implicit cast. It also matches those with a schema.
var polymorphic = regexp.MustCompile(`\.?\b(` + strings.Join([]string{
	"array_agg", "array_append", "array_length", "array_position", "array_remove", "array_to_string", "cardinality", "ceil", "concat",
	"count", "floor", "format", "generate_series", "json_agg", "json_build_object", "jsonb_agg", "jsonb_build_object", "lag", "lead", "max",
	"min", "round", "sum", "to_timestamp", "trunc", "unnest",
}, "|") + `)\(`)

// products end so, and have a factor on the left: a bigint for an interval, or an epoch, which is numeric from PostgreSQL 14
// on. pg_catalog has an exact match for double precision only.
var products = strings.NewReplacer(
	` * interval '1 microsecond'`, `::double precision * interval '1 microsecond'`,
	` * 1000000)::bigint`, `::double precision * 1000000::double precision)::bigint`,
)

// qualified returns SQL that calls functions and operators of pg_catalog whatever the schemas of the session's search_path
// hold. A role that may create in one of these, such as public, can plant a function or an operator whose argument types
// fit better, and it would run with the rights of this program.
func qualified(sql string) string {
	var b strings.Builder
	done := 0
	for _, at := range polymorphic.FindAllStringIndex(sql, -1) {
		// unnest of several arrays is syntax, and finds pg_catalog by itself.
		if call := sql[at[0]:at[1]]; call[0] == '.' || call == "unnest(" && hasSeveral(sql[at[1]:]) {
			continue
		}
		b.WriteString(sql[done:at[0]])
		b.WriteString("pg_catalog.")
		done = at[0]
	}
	b.WriteString(sql[done:])
	return products.Replace(b.String())
}

// hasSeveral reports whether a list of arguments, which ends with its parenthesis, has several.
func hasSeveral(arguments string) bool {
	depth := 0
	for _, r := range arguments {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			if depth--; depth < 0 {
				return false
			}
		case ',':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}
