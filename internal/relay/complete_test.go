package relay

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// pickyStore refuses every batch with an outcome of the message "bad", until that outcome is alone;
// then it reports its lease as lost.
type pickyStore struct {
	Store
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

func TestOneBadOutcomeSpoilsNoOther(t *testing.T) {
	t.Parallel()
	ids := []string{"0", "1", "2", "3", "4", "5", "6"}
	for place := range len(ids) + 1 {
		want := slices.Insert(slices.Clone(ids), place, "bad")
		var batch []ending
		for _, id := range want {
			batch = append(batch, ending{Completion: driver.Completion{ID: id}, message: &driver.Message{ID: id}})
		}
		store := &pickyStore{}
		testRelay(store, destination(nil)).complete(t.Context(), batch)
		if diff := cmp.Diff(want, store.recorded); diff != "" {
			t.Errorf("bad outcome at %d: recorded (-want +got):\n%s", place, diff)
		}
	}
}

// stalledStore cannot record outcomes before a given time.
type stalledStore struct {
	Store
	until    time.Time
	recorded int
}

func (s *stalledStore) Complete(_ context.Context, p *driver.CompleteParams) ([]bool, error) {
	if time.Now().Before(s.until) {
		return nil, driver.ErrUnavailable
	}
	s.recorded += len(p.Completions)
	return []bool{true}, nil
}

// The relay tries to record an outcome for as long as its lease may hold. A process that stops has
// less time.
func TestOutcomesAreRecordedAfterAStall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stall    time.Duration
		stopping bool
		want     int
	}{
		"shorter than the lease":                  {19 * time.Second, false, 1},
		"longer than the lease":                   {25 * time.Second, false, 0},
		"while stopping, shorter than the margin": {4 * time.Second, true, 1},
		"while stopping, longer than the margin":  {19 * time.Second, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stopping {
					cancel()
				}
				store := &stalledStore{until: time.Now().Add(tt.stall)}
				r := testRelay(store, destination(nil))
				r.complete(ctx, []ending{{Completion: driver.Completion{ID: "1"}, message: &driver.Message{ID: "1"}}})
				if store.recorded != tt.want {
					t.Errorf("%d outcomes recorded, want %d", store.recorded, tt.want)
				}
			})
		})
	}
}

// countingHandler counts the loggers that are made from it, and drops lines below warnings.
type countingHandler struct {
	slog.Handler
	loggers atomic.Int64
}

func (h *countingHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler {
	h.loggers.Add(1)
	return h
}

func TestSentMessagesMakeNoLogger(t *testing.T) {
	t.Parallel()
	handler := &countingHandler{Handler: slog.DiscardHandler}
	r := testRelay(&pickyStore{}, destination(func(d *Destination) {
		d.Sender = func(context.Context, *driver.Message, http.Header, http.Header) error { return nil }
	}))
	r.log = slog.New(handler)
	r.dispatch(t.Context(), t.Context(), &sending{Message: &driver.Message{ID: "1", Attempt: 1}})
	r.complete(t.Context(), []ending{<-r.finished})
	if n := handler.loggers.Load(); n != 0 {
		t.Errorf("a sent message made %d loggers, want none", n)
	}
}
