package app

import (
	"strings"
	"testing"
)

func TestADatabaseURLIsNeverQuoted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://root:hunter2@db:port/x", "postgres://root:hunter2@db/x?sslmode=maybe", "postgres://root:hunt%zzer2@db/x",
	} {
		_, err := OpenStore(t.Context(), settings(t, "database: "+url))
		wantHint(t, err, "is not a PostgreSQL URL", "postgres://")
		if strings.Contains(err.Error(), "hunt") {
			t.Errorf("error %q", err)
		}
	}
}
