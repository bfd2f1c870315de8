package pages

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/examplestest"
)

// paidOnce fails unless the README's program has paid one invoice, once. It reads the database as the program does.
func paidOnce(t *testing.T, w *world) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.folder, "shop.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eventually.True(t, "an invoice is paid", func() bool {
		return examplestest.Counts(t, db, "SELECT 'paid', count(*) FROM paid")["paid"] > 0
	})
	got := examplestest.Counts(t, db, "SELECT substr(invoice, 1, 3), count(*) FROM paid GROUP BY 1")
	if len(got) != 1 || got["in_"] != 1 {
		t.Errorf("paid: %v, want one invoice", got)
	}
}

// The README shows a part of a report of docs/five-minute-test.md, where internal/test/receivers holds it.
func TestReadmeReport(t *testing.T) {
	t.Parallel()
	for _, b := range blocksOf(read(t, "README.md")) {
		if !strings.HasPrefix(b.first(), "✗") {
			continue
		}
		for _, check := range strings.SplitAfter(b.text, "\n ✗") {
			if part := strings.TrimSuffix(check, " ✗"); !strings.Contains(read(t, "docs/five-minute-test.md"), part) {
				t.Errorf("README.md:%d: docs/five-minute-test.md does not have\n%s", b.line, part)
			}
		}
		return
	}
	t.Error("README.md has no report of probe")
}
