package claims

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// hintedStore records the size and the MostlyKnown hint of each Claim. An event that it claimed once is
// a duplicate from then on.
type hintedStore struct {
	Store
	known map[driver.Key]bool
	calls []string
}

func (*hintedStore) ClaimConcurrency() int { return 1 }

func (s *hintedStore) Claim(_ context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	s.calls = append(s.calls, fmt.Sprintf("%d, mostly known: %v", len(p.Claims), p.MostlyKnown))
	results := make([]driver.ClaimResult, len(p.Claims))
	for i := range p.Claims {
		known := s.known[p.Claims[i].Key]
		results[i].Claimed, results[i].Duplicate = !known, known
		s.known[p.Claims[i].Key] = true
	}
	return results, nil
}

// The store is told when most events of a batch are probably duplicates: it can then look them up
// before it sends their bodies to the database.
func TestStormOfDuplicates(t *testing.T) {
	t.Parallel()
	store := &hintedStore{known: make(map[driver.Key]bool)}
	log := slog.New(slog.DiscardHandler)
	q := New(store, Options{Log: log, Claimed: func([]*driver.Claim) {}, Observe: func(int, time.Duration, error) {}})
	flush := func(ids ...string) {
		var units []*Unit
		for _, id := range ids {
			c := driver.Claim{Key: driver.EventKey("lab", id), Source: "lab", EventID: id}
			units = append(units, NewUnit([]driver.Claim{c}, false, time.Now().Add(time.Minute)))
		}
		q.flush(context.Background(), units)
		for _, u := range units {
			<-u.done
		}
	}
	flush("1", "2", "3")
	flush("1", "2", "3")      // the storm begins
	flush("1", "2", "4", "5") // half of these are new
	flush("1", "2", "6")      // so this batch has no hint
	flush("1")                // claiming one event costs no more than a look-up
	flush("1", "1", "2")      // copies count once
	want := []string{
		"3, mostly known: false", "3, mostly known: false", "4, mostly known: true", "3, mostly known: false",
		"1, mostly known: false", "2, mostly known: true",
	}
	if diff := cmp.Diff(want, store.calls); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}
