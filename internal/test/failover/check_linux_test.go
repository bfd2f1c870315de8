package failover

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// stored is an event as a database has it.
type stored struct {
	state   string
	effects int
}

// read reads all events of the database, and their effects.
func (n *node) read(ctx context.Context) (map[string]stored, error) {
	conn, err := n.connect(ctx, roleName)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT event_id, coalesce(e.state, 'no event'), coalesce(f.n, 0) FROM hookonce.events e
		FULL JOIN (SELECT event_id, count(*) AS n FROM public.effect GROUP BY event_id) f USING (event_id)`)
	if err != nil {
		return nil, err
	}
	all := make(map[string]stored)
	var id string
	var s stored
	_, err = pgx.ForEachRow(rows, []any{&id, &s.state, &s.effects}, func() error {
		if _, twice := all[id]; twice {
			return fmt.Errorf("%s is listed twice", id)
		}
		all[id] = s
		return nil
	})
	return all, err
}

// figures are the outcome of the checks.
type figures struct {
	acked, lost, doubled, again int
	faults                      []string // broken promises
}

func (f *figures) fault(format string, args ...any) {
	if len(f.faults) < 20 {
		f.faults = append(f.faults, fmt.Sprintf(format, args...))
	}
}

// check waits until all work is done, and compares the primary with what the senders and the destination
// know. The senders have finished.
func (l *load) check(primary *node) (f figures) {
	t := l.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
	defer cancel()
	var all map[string]stored
	eventually.True(t, "all work is done", func() bool {
		var err error
		if all, err = primary.read(ctx); err != nil {
			return false
		}
		for _, s := range all {
			if s.state != "done" {
				return false
			}
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range all {
		if l.events[id] == nil {
			f.fault("%s is in the database, but nobody delivered it", id)
		}
	}
	for id, ev := range l.events {
		s, found := all[id]
		if ev.acked {
			f.acked++
		}
		switch {
		case ev.acked && !found:
			f.lost++
			f.fault("%s was acknowledged, but is not in the database", id)
		case ev.source == toSQL && found && s.effects != 1:
			f.doubled++
			f.fault("%s has %d effects, want 1", id, s.effects)
		case ev.source == toSink && found && len(ev.keys) != 1:
			f.doubled++
			f.fault("%s reached the destination under %d webhook-ids, want 1", id, len(ev.keys))
		case ev.claimed > 1:
			f.doubled++
			f.fault("%s was answered ok %d times", id, ev.claimed)
		}
		if ev.requests > 1 {
			f.again++
		}
	}
	return f
}

// checkStandbys waits until the standbys are equal to the primary. An old primary among them changes nothing, and
// keeps nothing that only it had.
func (l *load) checkStandbys(c *cluster, primary *node) {
	t := l.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
	defer cancel()
	want, err := primary.read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		if n == primary {
			continue
		}
		eventually.Succeeds(t, n.name+" is like the primary "+primary.name, func() error {
			got, err := n.read(ctx)
			if different := differences(want, got); err == nil && len(different) > 0 {
				err = fmt.Errorf("different: %v", different)
			}
			return err
		})
	}
}

func differences(want, got map[string]stored) (found []string) {
	for id, s := range want {
		if got[id] != s {
			found = append(found, fmt.Sprintf("%s: %v instead of %v", id, got[id], s))
		}
	}
	for id, s := range got {
		if _, ok := want[id]; !ok {
			found = append(found, fmt.Sprintf("%s: %v, which the primary does not have", id, s))
		}
	}
	slices.Sort(found)
	return found[:min(10, len(found))]
}
