package figures

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Bounds of the refused requests that wait to be written, about 6 MiB. They are written once a
// second: a flood of refused requests becomes a few rows, and one source leaves room for the others.
const (
	maxRefused   = 512
	maxPerSource = 64
)

// RefusedStore is the part of driver.Store that keeps refused requests.
type RefusedStore = driver.RefusedRequests

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

// List lists refused requests as the store does, and those that wait to be written: while the disk is full, these are
// the ones that matter.
func (q *Refused) List(ctx context.Context, f *driver.RefusedFilter) (*driver.RefusedPage, error) {
	waiting := q.match(f) // first, so that a request that is written meanwhile is in both, not in none
	page, err := q.store.Refused(ctx, f)
	if err != nil || len(waiting) == 0 {
		return page, err
	}
	all := append(waiting, page.Requests...)
	slices.SortFunc(all, func(a, b driver.RefusedRequest) int { return compareRefused(b.At, b.Key(), a.At, a.Key()) })
	all = slices.CompactFunc(all, func(a, b driver.RefusedRequest) bool { return a.ErrorID == b.ErrorID })
	page.Requests = all
	if limit := driver.PageSize(f.Limit); len(all) > limit {
		last := &all[limit-1]
		page.Requests, page.Next = all[:limit], driver.Cursor{At: last.At, Key: last.Key()}
	}
	return page, nil
}

// match returns the waiting requests that f selects, with the times that a store would keep.
func (q *Refused) match(f *driver.RefusedFilter) []driver.RefusedRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	var found []driver.RefusedRequest
	for _, r := range q.waiting {
		r.At = r.At.UTC().Truncate(time.Microsecond)
		if passes(f.Source, r.Source) && passes(f.Reason, r.Reason) && passes(f.Remote, r.Remote) && passes(f.ErrorID, r.ErrorID) &&
			!r.At.Before(f.Since) && (f.Until.IsZero() || r.At.Before(f.Until)) &&
			(f.After.IsZero() || compareRefused(r.At, r.Key(), f.After.At, f.After.Key) < 0) {
			found = append(found, r)
		}
	}
	return found
}

// passes reports whether a text is the wanted one; "" wants any.
func passes(want, text string) bool { return want == "" || want == text }

// compareRefused compares two requests in the order of a listing, oldest first.
func compareRefused(at time.Time, key driver.Key, otherAt time.Time, other driver.Key) int {
	return cmp.Or(at.Compare(otherAt), bytes.Compare(key[:], other[:]))
}
