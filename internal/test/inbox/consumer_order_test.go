package inbox_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestConsumersInOrder delivers versions to a source with an order for SQL consumers, in any order. take returns them one at a time.
func TestConsumersInOrder(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	in := inbox(t, l, &hookonce.Mux[pgx.Tx]{}, func(c *hookonce.Config) {
		forConsumers(c)
		c.Sources[0].Consume = hookonce.ConsumeSQL
	})
	run(t, in)
	for _, v := range []string{"3", "1", "2"} {
		if got := deliver(in, versioned("a", v)); got != ok {
			t.Fatalf("version %s is answered %+v", v, got)
		}
	}
	deliver(in, delivery("without", `{}`))
	var all []string
	eventually.True(t, "four events are taken", func() bool {
		tx := l.begin(t)
		rows, err := tx.Query(t.Context(), "SELECT event_id FROM take('gh', 10)")
		if err != nil {
			t.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ids...)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(all) >= 4
	})
	all = slices.DeleteFunc(all, func(id string) bool { return id == "without" })
	if !slices.Equal(all, []string{"a-1", "a-2", "a-3"}) {
		t.Errorf("took %q", all)
	}
}
