package e2e

import (
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"

	"github.com/hookonce/hookonce/internal/test/group"
)

// All of PostgreSQL is killed at random moments and started again, many times. The gateways keep
// running.
func TestDatabaseKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	l := newLoad(t, privateDatabase(t, server), loadSettings, "a", "b")
	l.startAll()
	l.killAtLeast(group.Rounds(3, 30), withoutDatabase, func() {
		l.waitRandomMoment(200)
		server.Kill(t)
		l.figures.kills++
		server.Restart(t)
	})
	l.finish()
	mustHave(t, withoutDatabase(l.check()))
}

// withoutDatabase are the faults of a load whose database is killed.
func withoutDatabase(f figures) map[string]int {
	return map[string]int{
		"a delivery was answered 503":                             f.unavailable,
		"a message that the destination had taken was sent again": f.again,
	}
}
