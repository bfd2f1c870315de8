package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// The gateway runs behind PgBouncer with the plain URL, and with fewer sessions of the server than it
// has pools.
func TestBehindPgBouncer(t *testing.T) {
	group.Need(t, "pooler")
	t.Parallel()
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, "postgres")
			bouncer := dbtest.StartBouncer(t, db.url, dbtest.BouncerOptions{Mode: mode, PoolSize: 2})
			db.url = bouncer.DSN()
			w := newWorld(t, db, standardSettings)
			w.sink.answerWith(func(r *received) int {
				if r.eventID() == "refused" && r.header.Get("Hookonce-Replay") == "" {
					return http.StatusGone
				}
				return http.StatusOK
			})
			g := w.start(t)

			const n = 40
			g.acceptAll(t, n, func(i int) *delivery { return push(fmt.Sprint("gh-", i)) })
			if a := g.accept(t, push("gh-0")); a.short() != "200 duplicate" {
				t.Errorf("a second delivery of gh-0: %s, want 200 duplicate", a.short())
			}
			g.accept(t, newDelivery("bare", `{"id":"refused"}`))
			done := g.waitAllDone(t, "github")
			if len(done) != n {
				t.Errorf("%d events are done, want %d", len(done), n)
			}
			for _, ev := range done {
				if got := len(w.sink.requests(ev.EventID)); got != 1 {
					t.Errorf("%s was forwarded %d times, want once", ev.EventID, got)
				}
			}

			g.waitState(t, "bare", "refused", "dead")
			for _, args := range [][]string{
				{"events", "replay", "bare", "refused"}, {"migrate", "status"}, {"doctor"}, {"prune"},
			} {
				if out := w.run(t, args...); out.code != 0 {
					t.Errorf("hookonce %s: exit %d:\n%s%s", strings.Join(args, " "), out.code, out.stdout, out.stderr)
				}
			}
			g.waitState(t, "bare", "refused", "done")
			if t.Failed() {
				t.Logf("PgBouncer's log ends with:\n%s", bouncer.Log())
			}
		})
	}
}
