package proof

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/sqltest"
)

// Two Python processes without an SDK take the events that two workers without handlers receive. A
// consumer that crashes counts no attempt, so an event ends a process only on its first run, and
// succeeds later.
func TestExactlyOncePython(t *testing.T) {
	t.Parallel()
	exactlyOncePython(t)
}

func exactlyOncePython(t *testing.T) []figure {
	t.Helper()
	python := sqltest.Python(t)
	tr := newTrial(t, newDatabase(t, withPgx), nil)
	tr.mayDieAgain = false
	for i := range 2 {
		tr.addPlace(fmt.Sprintf("receiver%d", i), settings{Receiver: true, HandlerTimeout: time.Second})
	}
	for i := range 2 {
		tr.places = append(tr.places, &place{
			name: fmt.Sprintf("consumer%d", i), folder: tr.folder,
			command: func() *exec.Cmd {
				return exec.Command(python, filepath.Join("testdata", "consumer.py"), tr.db.address, tr.folder)
			},
		})
	}
	tr.run()
	return tr.report(tr.check())
}
