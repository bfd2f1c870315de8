package proof

import (
	"fmt"
	"testing"
	"time"
)

func TestExactlyOncePgx(t *testing.T) {
	t.Parallel()
	exactlyOnce(t, withPgx, 3, 5*time.Second)
}

func TestExactlyOnceSQL(t *testing.T) {
	t.Parallel()
	exactlyOnce(t, withSQL, 3, 5*time.Second)
}

func TestExactlyOnceSQLite(t *testing.T) {
	t.Parallel()
	exactlyOnce(t, withSQLite, 2, time.Second)
}

// exactlyOnce runs a trial with the given number of worker processes.
func exactlyOnce(t *testing.T, variant string, workers int, handlerTimeout time.Duration) {
	t.Helper()
	tr := newTrial(t, newDatabase(t, variant), nil)
	for i := range workers {
		tr.addPlace(fmt.Sprintf("worker%d", i), settings{HandlerTimeout: handlerTimeout})
	}
	tr.run()
	tr.report(tr.check())
}
