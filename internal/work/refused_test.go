package work_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/work"
)

// TestRefusedEvents has a trigger of the owner's that refuses all changes of the first 25 of 30 events. The others run, one at a
// time, and each refused one is logged and told of once: it rests.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	for name, refetch := range map[string]func(context.Context, *work.Event) ([]byte, error){
		"taken": nil, "reserved": func(context.Context, *work.Event) ([]byte, error) { return []byte("{}"), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			var ids, refused []string
			for i := range 30 {
				ids = append(ids, fmt.Sprintf("evt_%02d", i))
				if i < 25 {
					refused = append(refused, fmt.Sprintf("x'%x'", driver.EventKey("lab", ids[i])))
				}
			}
			claimInTurn(t, db, ids...)
			if _, err := db.Driver.(interface{ Writer() *sql.DB }).Writer().ExecContext(t.Context(), `CREATE TRIGGER refuse
				BEFORE UPDATE ON hookonce_event_state WHEN NEW.key IN (`+strings.Join(refused, ",")+`)
				BEGIN SELECT RAISE(ABORT, 'not this one'); END`); err != nil {
				t.Fatal(err)
			}
			log, told := &rig.Log{}, atomic.Int64{}
			w := newWorkers(db, insert, func(o *work.Options, src *work.Source) {
				o.Batch, o.Log, src.Refetch = 1, log.Logger(), refetch
				o.Refused = func(source string) {
					if source == "lab" {
						told.Add(1)
					}
				}
			})
			stop := run(t, w)
			eventually.True(t, "the other events have run", func() bool { return slices.Equal(db.names(t), ids[25:]) })
			stop()
			if told.Load() != 25 {
				t.Errorf("told of %d refused events, want 25", told.Load())
			}
			for _, id := range ids[:25] {
				log.WantOne(t, "the database refuses to change the row of an event; look for a trigger or a damaged row: hookonce doctor\" source=lab event_id="+id)
			}
		})
	}
}
