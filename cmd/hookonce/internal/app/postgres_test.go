package app

import (
	"os"
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

// The driver would wait for a pipe, and read a device without an end. It tells of a missing file itself.
func TestOddFilesOfPostgresAreRefused(t *testing.T) {
	for _, parameter := range []string{"sslrootcert", "sslkey", "passfile", "servicefile"} {
		wantHint(t, CheckPostgres("postgres://u@h/d?"+parameter+"="+os.DevNull), "the file of "+parameter+" cannot be read: it is not a regular file", "the setting database")
	}
	t.Setenv("PGPASSFILE", os.DevNull)
	wantHint(t, CheckPostgres("postgres://u@h/d"), "the file of passfile cannot be read", "PGPASSFILE")
	t.Setenv("PGPASSFILE", "/missing")
	if err := CheckPostgres("postgres://u@h/d?sslmode=disable"); err != nil {
		t.Errorf("a missing file: %v", err)
	}
}
