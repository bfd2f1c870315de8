package hookonce_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
)

// wantLine checks that want is in exactly one line of a log.
func wantLine(t *testing.T, log *lines, want string) {
	t.Helper()
	if text := strings.Join(log.all(), ""); strings.Count(text, want) != 1 {
		t.Errorf("want one line with %q in:\n%s", want, text)
	}
}

func TestPruneLogsItsCounts(t *testing.T) {
	t.Parallel()
	log := &lines{}
	store := openStore(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.QuarantineRows = 2
		c.Logger = log.logger()
	})
	for i := range 5 {
		r := delivery(fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i))
		r.Header.Del("X-GitHub-Delivery") // verified, but without an id
		if got := deliver(in, r); got.Code != 400 {
			t.Fatalf("delivery: %+v, want 400", got)
		}
	}
	deliver(in, delivery("kept", "{}"))
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "msg=pruned events=0 bodies=0 quarantined=3")
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{Source: "gh"})
	if err != nil || len(page.Requests) != 2 {
		t.Errorf("%d requests in the quarantine, error %v, want the 2 newest", len(page.Requests), err)
	}
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLine(t, log, "msg=pruned") // the second call pruned nothing and logs nothing
}

// Run warns of a trigger that drops rows. A delivery whose row it drops is no duplicate, and succeeds
// once the trigger is gone.
func TestForeignTriggers(t *testing.T) {
	t.Parallel()
	log := &lines{}
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER audit BEFORE INSERT ON hookonce_event BEGIN SELECT RAISE(IGNORE); END`); err != nil {
		t.Fatal(err)
	}
	in := newEngine(t, store, func(c *hookonce.Config) { c.Logger = log.logger() })
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = in.Run(ctx) }) // the log tells its errors
	waitFor(t, func() bool { return strings.Contains(strings.Join(log.all(), ""), "trigger audit on hookonce_event") })
	stop()
	wg.Wait()
	wantLine(t, log, "foreign triggers or rules on hookonce's tables")
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("while the trigger drops events: answer %+v, want 503", got)
	}
	if _, err := db.ExecContext(t.Context(), `DROP TRIGGER audit`); err != nil {
		t.Fatal(err)
	}
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("without the trigger: answer %+v, want 200 ok", got)
	}
}
