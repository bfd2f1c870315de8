package work

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// changedDB takes its event as another worker may have left it.
type changedDB struct {
	fakeDB
	now driver.TakenEvent
}

func (db *changedDB) Take(context.Context, *driver.TakeParams) (driver.Run[int], error) {
	return &changedRun{fakeRun{db: &db.fakeDB}, db.now}, nil
}

type changedRun struct {
	fakeRun
	event driver.TakenEvent
}

func (r *changedRun) Events() []driver.TakenEvent { return []driver.TakenEvent{r.event} }

// Between the look at an event and its turn another worker may have run it. Then it is left alone, and its
// row is free again at once.
func TestTurnOfAnotherWorker(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change  func(*driver.TakenEvent)
		suspect bool
		want    aloneResult
	}{
		"as it was":                  {func(*driver.TakenEvent) {}, false, aloneEnded},
		"it failed":                  {func(e *driver.TakenEvent) { e.Attempts++ }, false, aloneMissed},
		"it killed a process":        {func(e *driver.TakenEvent) { e.Crashes++ }, false, aloneMissed},
		"it was replayed":            {func(e *driver.TakenEvent) { e.Generation++ }, false, aloneMissed},
		"it was reserved":            {func(e *driver.TakenEvent) { e.DueAt = e.DueAt.Add(time.Minute) }, false, aloneMissed},
		"a suspect that is reserved": {func(e *driver.TakenEvent) { e.DueAt = e.DueAt.Add(time.Minute) }, true, aloneEnded},
		"a suspect that failed":      {func(e *driver.TakenEvent) { e.Attempts++ }, true, aloneMissed},
	} {
		db := &changedDB{now: fakeEvent}
		tt.change(&db.now)
		w := New(db, succeeding{}, Options{
			Workers: 1, Batch: 1, HandlerTimeout: time.Hour, Retry: driver.Retry{Attempts: 3},
			Log: slog.New(slog.DiscardHandler), Source: func(string) *Source { return nil },
			Wake: func(string) {}, Reopened: func() {}, Observe: func(*Observed) {},
		})
		seen := fakeEvent
		got := w.tryAlone(t.Context(), t.Context(), &seen, &prepared{}, tt.suspect, false)
		if freed := !db.abandoned.IsZero(); got != tt.want || freed != (tt.want == aloneMissed) {
			t.Errorf("%s: result %d, given back: %t; want %d, and only then given back", name, got, freed, tt.want)
		}
	}
}
