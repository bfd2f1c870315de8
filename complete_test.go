package hookonce

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/send"
)

// pickyStore refuses every batch of outcomes that holds one of message "bad",
// until that is alone, and then takes it as lost.
type pickyStore struct {
	driver.Store
	recorded []string
}

func (s *pickyStore) Complete(_ context.Context, p *driver.CompleteParams) ([]bool, error) {
	held := make([]bool, len(p.Completions))
	bad := slices.ContainsFunc(p.Completions, func(c driver.Completion) bool { return c.ID == "bad" })
	if bad && len(p.Completions) > 1 {
		return nil, driver.ErrBadRow
	}
	for i := range p.Completions {
		held[i] = !bad
		s.recorded = append(s.recorded, p.Completions[i].ID)
	}
	return held, nil
}

func TestOneBadOutcomeCostsNoOther(t *testing.T) {
	t.Parallel()
	ids := []string{"0", "1", "2", "3", "4", "5", "6"}
	for place := range len(ids) + 1 {
		want := slices.Insert(slices.Clone(ids), place, "bad")
		var batch []driver.Completion
		for _, id := range want {
			batch = append(batch, driver.Completion{ID: id})
		}
		dest, err := newDestination(Destination{Name: "app", URL: "http://localhost/"})
		if err != nil {
			t.Fatal(err)
		}
		store := &pickyStore{}
		newRelay(store, slog.New(slog.DiscardHandler), dest, send.New(nil)).complete(t.Context(), batch)
		if diff := cmp.Diff(want, store.recorded); diff != "" {
			t.Errorf("bad one at %d: recorded (-want +got):\n%s", place, diff)
		}
	}
}
