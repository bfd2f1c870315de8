package proof

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/group"
)

func TestExactlyOncePgx(t *testing.T) {
	t.Parallel()
	exactlyOnce(t, withPgx, 3, 5*time.Second)
}

func TestExactlyOnceSQL(t *testing.T) {
	group.NeedLong(t) // its store is that of TestExactlyOncePgx over another client, as the conformance suite runs it
	t.Parallel()
	exactlyOnce(t, withSQL, 3, 5*time.Second)
}

// On SQLite an interrupted run is made up for seven seconds later. So only in a long run does an event end a
// process in every attempt.
func TestExactlyOnceSQLite(t *testing.T) {
	t.Parallel()
	exactlyOnce(t, withSQLite, 2, time.Second)
}

// exactlyOnce runs a trial with the given number of worker processes.
func exactlyOnce(t *testing.T, variant string, workers int, handlerTimeout time.Duration) []figure {
	t.Helper()
	tr := newTrial(t, newDatabase(t, variant), nil)
	tr.mayDieAgain = variant != withSQLite || group.Long()
	for i := range workers {
		tr.addPlace(fmt.Sprintf("worker%d", i), settings{HandlerTimeout: handlerTimeout, DieOnce: !tr.mayDieAgain})
	}
	tr.run()
	return tr.report(tr.check())
}
