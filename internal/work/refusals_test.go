package work

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// skips is a database that keeps the rows that its last statement passed over.
type skips struct {
	fakeDB
	last []driver.Key
}

func (s *skips) Take(_ context.Context, p *driver.TakeParams) (driver.Run[int], error) {
	s.last = p.Skip
	return nil, nil
}

func (s *skips) Reserve(_ context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	s.last = p.Skip
	return nil, nil
}

// TestRefusalsBySource checks that taking and reserving pass over the refused events of their own source alone.
func TestRefusalsBySource(t *testing.T) {
	t.Parallel()
	db := &skips{}
	w := New(db, &slowAndQuick{}, Options{
		Workers: 1, HandlerTimeout: time.Minute, Log: slog.New(slog.DiscardHandler), Source: func(string) *Source { return nil },
	})
	for _, source := range w.sources {
		w.passOver(source)(driver.RefusedEvent{Key: driver.EventKey(source, "evt_1"), EventID: "evt_1"})
	}
	for _, source := range w.sources {
		want := []driver.Key{driver.EventKey(source, "evt_1")}
		if _, err := w.take(t.Context(), &driver.TakeParams{Source: source, Limit: 1}); err != nil || !slices.Equal(db.last, want) {
			t.Errorf("Take of %s passes over %d rows, error %v; want its own", source, len(db.last), err)
		}
		if _, err := w.reserve(t.Context(), source, 1, time.Minute, driver.NoSuspects); err != nil || !slices.Equal(db.last, want) {
			t.Errorf("Reserve of %s passes over %d rows, error %v; want its own", source, len(db.last), err)
		}
	}
}
