package scale

import (
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// A group of sources with a schema of its own moves to another server by pg_dump, as docs/moving.md says. Each event from
// before is a duplicate there, new ones are sent once, and the group that stays does not notice.
func TestMoveOfAGroupOfSources(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	stays, moves := c.gateways[0], c.gateways[1]
	moves.schema = "moving"
	c.configure(t, changedSettings)
	for _, g := range c.gateways {
		c.start(t, g, thisBuild(t))
	}
	c.address = stays.public
	staying := c.load(t, "stripe", "/first", "/more")
	c.address = moves.public
	before := c.load(t, "late", "/first", "/more")
	before.waitMore(t, amount(t, 100, 2000))
	before.finish()
	moves.Stop(t)

	server := dbtest.StartServer(t, nil)
	moveSchema(t, moves.schema, c.database, server.DSN())
	moves.database = server.DSN()
	c.start(t, moves, thisBuild(t))
	for _, ev := range before.events {
		before.deliver(ev, true)
	}
	after := c.load(t, "late", "/first", "/more")
	after.waitMore(t, 100)
	after.finish()
	staying.waitMore(t, 50)
	c.checkMoved(t, server, before, after)
	n, faults := c.check(t, staying)
	mustBeKept(t, faults)
	mustBeUnnoticed(t, n)
}

// checkMoved checks that the server of a moved group has the events of loads, and that each came to each path once.
func (c *cluster) checkMoved(t *testing.T, server *dbtest.Server, loads ...*load) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	eventually.True(t, "no message is open", func() bool {
		return number(t, conn, "SELECT count(*) FROM moving.message WHERE state IN (0, 1)") == 0
	})
	effects, _, _ := c.sink.taken()
	events := 0
	for _, l := range loads {
		events += len(l.events)
		for _, fault := range l.faults {
			t.Error(fault)
		}
		for _, ev := range l.events {
			want := map[string]int{}
			for _, path := range ev.paths {
				want[path] = 1
			}
			if !ev.acked || ev.ok != 1 || !maps.Equal(effects[ev.id], want) {
				t.Errorf("%s: acknowledged: %v, claimed %d times, sent %v; want once to each of %v", ev.id, ev.acked, ev.ok, effects[ev.id], slices.Sorted(maps.Keys(want)))
			}
		}
	}
	if n := number(t, conn, "SELECT count(*) FROM moving.event"); n != events {
		t.Errorf("the new server has %d events, want %d", n, events)
	}
}

// moveSchema copies a schema to another server.
func moveSchema(t *testing.T, schema, from, to string) {
	t.Helper()
	programs, file := dbtest.Programs(t), filepath.Join(t.TempDir(), "dump.sql")
	for _, args := range [][]string{
		{"pg_dump", "--schema=" + schema, "--file=" + file, from},
		{"psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file=" + file, to},
	} {
		if out, err := exec.CommandContext(t.Context(), filepath.Join(programs, args[0]), args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
}
