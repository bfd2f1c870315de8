package hookmigrate

import (
	"fmt"
	"strings"
)

// Grants returns the statements that give a role the rights of a gateway, or of a program that uses the library. The owner
// of the PostgreSQL schema runs them. They hold for the present tables: after a step, run them again. It panics if
// CheckSchemaName refuses the name of the schema.
func Grants(schema, role string) string {
	return granted(schema, role,
		"USAGE ON SCHEMA %s",
		"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s",
		"USAGE ON ALL SEQUENCES IN SCHEMA %s",
		"EXECUTE ON ALL FUNCTIONS IN SCHEMA %s",
	)
}

// ConsumerGrants is Grants for a program that only calls the SQL functions for applications and reads their views.
func ConsumerGrants(schema, role string) string {
	return granted(schema, role,
		"USAGE ON SCHEMA %s",
		"EXECUTE ON FUNCTION %[1]s.take, %[1]s.fail, %[1]s.enqueue",
		"SELECT ON %[1]s.events, %[1]s.dead_letters",
	)
}

func granted(schema, role string, rights ...string) string {
	if err := CheckSchemaName(schema); err != nil {
		panic("hookmigrate: " + err.Error())
	}
	role = `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
	var b strings.Builder
	for _, right := range rights {
		fmt.Fprintf(&b, "GRANT "+right+" TO %[2]s;\n", `"`+schema+`"`, role)
	}
	return b.String()
}
