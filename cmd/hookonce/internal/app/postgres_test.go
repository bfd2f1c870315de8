package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADatabaseURLIsNeverQuoted(t *testing.T) {
	t.Parallel()
	const noURL = "is not a PostgreSQL URL"
	for url, want := range map[string]string{
		"postgres://root:hunter2@db:port/x":          noURL,
		"postgres://root:hunt%zzer2@db/x":            "a raw '%' stands in the server's address",
		"postgres://root:hunter2@db/x?sslmode=maybe": "sslmode has a value that cannot be used",
	} {
		_, err := OpenStore(t.Context(), settings(t, "database: "+url))
		hint := map[bool]string{true: "postgres://", false: "verify-full"}[want == noURL]
		if strings.HasPrefix(want, "a raw") {
			hint = "%25"
		}
		wantHint(t, err, want, hint)
		if strings.Contains(err.Error(), "hunt") {
			t.Errorf("error %q", err)
		}
	}
}

// The driver would wait for a pipe, and read a device without an end. It tells of a missing file itself.
func TestOddFilesOfPostgresAreRefused(t *testing.T) {
	odd := filepath.ToSlash(t.TempDir()) // a folder, as odd as a pipe
	for _, parameter := range []string{"sslrootcert=" + os.DevNull, "sslkey=" + odd, "passfile=" + odd, "servicefile=" + odd + "&service=s"} {
		name, _, _ := strings.Cut(parameter, "=")
		wantHint(t, CheckPostgres("postgres://u@h/d?"+parameter), "the file of "+name+" cannot be read: it is not a regular file", "the setting database")
	}
	t.Setenv("PGPASSFILE", odd)
	wantHint(t, CheckPostgres("postgres://u@h/d"), "the file of passfile cannot be read", "PGPASSFILE")
	t.Setenv("PGSERVICEFILE", odd) // of no use without a service
	for _, url := range []string{"postgres://u:p@h/d", "postgres://u@h/d?password=p", "postgresql://u:p@h/d"} {
		if err := CheckPostgres(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, none := range []string{"/missing", os.DevNull} {
		t.Setenv("PGPASSFILE", none)
		if err := CheckPostgres("postgres://u@h/d?sslmode=disable"); err != nil {
			t.Errorf("%s: %v", none, err)
		}
	}
}
