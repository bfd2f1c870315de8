package hookonce

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// hintedStore notes of each claim how many events it was for and whether they were said
// to be known; what it claimed once is a duplicate from then on.
type hintedStore struct {
	driver.Store
	known map[driver.Key]bool
	calls []string
}

func (s *hintedStore) Claim(_ context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	s.calls = append(s.calls, fmt.Sprintf("%d, mostly known: %v", len(p.Claims), p.MostlyKnown))
	results := make([]driver.ClaimResult, len(p.Claims))
	for i := range p.Claims {
		results[i].Claimed = !s.known[p.Claims[i].Key]
		s.known[p.Claims[i].Key] = true
	}
	return results, nil
}

// While most of what arrives was there already, the store is told so: it can then spare
// the database their bodies.
func TestStormOfDuplicates(t *testing.T) {
	t.Parallel()
	store := &hintedStore{known: make(map[driver.Key]bool)}
	log := slog.New(slog.DiscardHandler)
	q := &claimQueue{store: store, log: log, counts: newDeliveryCounts(store, log), claimed: func([]*driver.Claim) {}, observed: &observers{}}
	flush := func(ids ...string) {
		var units []*claimUnit
		for _, id := range ids {
			c := driver.Claim{Key: driver.EventKey("lab", id), Source: "lab", EventID: id}
			units = append(units, newClaimUnit(&source{}, []driver.Claim{c}, time.Now().Add(time.Minute)))
		}
		q.flush(units)
		for _, u := range units {
			<-u.done
		}
	}
	flush("1", "2", "3")
	flush("1", "2", "3")      // the storm begins
	flush("1", "2", "4", "5") // half of them are new
	flush("1", "2", "6")      // so nobody knew
	flush("1")                // alone, it costs as little to claim
	flush("1", "1", "2")      // copies count once
	want := []string{
		"3, mostly known: false", "3, mostly known: false", "4, mostly known: true", "3, mostly known: false",
		"1, mostly known: false", "2, mostly known: true",
	}
	if diff := cmp.Diff(want, store.calls); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}
