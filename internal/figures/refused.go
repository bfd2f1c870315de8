package figures

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// Bounds of the refused requests that wait to be written, about 6 MiB. They are written once a
// second: a flood of refused requests becomes a few rows, and one source leaves room for the others.
const (
	maxRefused   = 512
	maxPerSource = 64
)

// RefusedStore is the part of driver.Store that takes refused requests.
type RefusedStore interface {
	AddRefused(ctx context.Context, p *driver.AddRefusedParams) error
}

// Refused holds refused requests until they are written. Its methods may be called concurrently.
type Refused struct {
	store RefusedStore
	log   *slog.Logger

	writing sync.Mutex // held by Write

	mu       sync.Mutex
	waiting  []driver.RefusedRequest
	bySource map[string]int
	dropped  int
}

// NewRefused returns an empty Refused.
func NewRefused(store RefusedStore, log *slog.Logger) *Refused {
	return &Refused{store: store, log: log, bySource: make(map[string]int)}
}

// Room reports whether Offer would keep a request of source now. A caller that asks first saves the
// copying of a body.
func (q *Refused) Room(source string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room(source)
}

func (q *Refused) room(source string) bool {
	return len(q.waiting) < maxRefused && q.bySource[source] < maxPerSource
}

// Offer keeps the request that describe returns, if there is room for one of source; otherwise it
// counts the request as dropped. It does not wait for the store.
func (q *Refused) Offer(source string, describe func() driver.RefusedRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.room(source) {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, describe())
	q.bySource[source]++
}

// Write stores the requests. After a failure they wait for the next call, unless the store refuses
// them; storing a request twice does nothing.
func (q *Refused) Write(ctx context.Context) error {
	q.writing.Lock()
	defer q.writing.Unlock()
	q.mu.Lock()
	// Offer appends behind these.
	some, dropped := q.waiting[:len(q.waiting):len(q.waiting)], q.dropped
	q.dropped = 0
	q.mu.Unlock()
	if dropped > 0 {
		q.log.Info("refused requests not kept: too many at once", slog.Int("dropped", dropped))
	}
	if len(some) == 0 {
		return nil
	}
	err := q.store.AddRefused(ctx, &driver.AddRefusedParams{Requests: some})
	if err != nil && !errors.Is(err, driver.ErrBadRow) {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = q.waiting[len(some):]
	for i := range some {
		if q.bySource[some[i].Source]--; q.bySource[some[i].Source] == 0 {
			delete(q.bySource, some[i].Source)
		}
	}
	return err
}
