package hookonce

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// readSettings is a store that has only durability settings, or an error.
type readSettings struct {
	driver.Store
	weak []driver.Weakness
	err  error
}

func (s *readSettings) Weaknesses(context.Context) ([]driver.Weakness, error) { return s.weak, s.err }

// CheckDurability logs what is unsafe. For the upkeep only a look that failed is an error, which it logs too.
func TestUpkeepWatchesDurability(t *testing.T) {
	t.Parallel()
	store := &readSettings{}
	in := &Engine{store: store, log: slog.New(slog.DiscardHandler)}
	weak := []driver.Weakness{{Setting: "fsync"}}
	for _, tt := range []struct {
		name   string
		weak   []driver.Weakness
		err    error
		unsafe bool // from then on
	}{
		{"weak", weak, nil, true}, {"no answer", nil, driver.ErrUnavailable, true}, {"mended", nil, nil, false},
	} {
		store.weak, store.err = tt.weak, tt.err
		if err := in.watchDurability(t.Context()); !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
		}
		if err := in.durability.refusal(); (err != nil) != tt.unsafe {
			t.Errorf("%s: deliveries are refused for %v, want %t", tt.name, err, tt.unsafe)
		}
	}
}
