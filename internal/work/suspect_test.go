package work_test

import (
	"context"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/work"
)

// suspects is a store with a suspect of the source "lab". It tells how long each suspect is reserved.
type suspects struct {
	*database
	reserved chan time.Duration
}

func (s *suspects) DueSources(context.Context, []string) ([]driver.DueSource, error) {
	return []driver.DueSource{{Source: "lab", Suspect: true}}, nil
}

func (s *suspects) Reserve(ctx context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	if p.Suspects == driver.OnlySuspects {
		select {
		case s.reserved <- p.For:
		default:
		}
	}
	return s.database.Reserve(ctx, p)
}

// If the process is killed again, the reservation of its suspect stays. So it is short where nothing
// is fetched before the run.
func TestReservationOfASuspect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refetch         func(context.Context, *work.Event) ([]byte, error)
		shortest, limit time.Duration
	}{
		"without Refetch": {nil, time.Second, 5 * time.Second},
		"with Refetch":    {func(context.Context, *work.Event) ([]byte, error) { return nil, nil }, 30 * time.Second, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := &suspects{openDatabase(t), make(chan time.Duration, 1)}
			run(t, newWorkers(db, insert, func(_ *work.Options, src *work.Source) { src.Refetch = c.refetch }))
			if got := <-db.reserved; got < c.shortest || got > c.limit {
				t.Errorf("a suspect is reserved for %s, want %s to %s", got, c.shortest, c.limit)
			}
		})
	}
}
