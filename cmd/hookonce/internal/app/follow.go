package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
)

const (
	followPause = time.Second
	// followTimeout bounds one poll of the database.
	followTimeout = 30 * time.Second
	// followOverlap is the minimum overlap. An event becomes visible after its received time: that
	// time is set by the claiming statement, and the commit comes later.
	followOverlap = 10 * time.Second
)

// Follow shows the newest events that the filter selects, and then each new event, once and oldest
// first. It ignores the filter's Until, Limit and After.
type Follow struct {
	Store    driver.Store
	Settings *config.Settings
	Filter   driver.EventFilter
	Newest   int
	// Show receives the new events; its error stops Run.
	Show func([]driver.Event) error
	// Trouble is called once at the beginning of each outage of the database.
	Trouble func(error)
}

// Run follows until ctx ends, and then returns nil. It retries while the database is unavailable.
func (f *Follow) Run(ctx context.Context) error {
	follower := newFollower(f.Store, &f.Filter, overlap(f.Settings))
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	look := func(ctx context.Context) ([]driver.Event, error) { return follower.begin(ctx, f.Newest) }
	troubled := false
	for {
		events, err := lookWithin(ctx, look)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			troubled, look = false, follower.step
			if err := f.Show(events); err != nil {
				return err
			}
		case !errors.Is(err, driver.ErrUnavailable) || lastingRemedy(err) != "":
			return fmt.Errorf("following events: %w", err)
		case !troubled:
			troubled = true
			f.Trouble(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func lookWithin(ctx context.Context, look func(context.Context) ([]driver.Event, error)) ([]driver.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	return look(ctx)
}

// overlap returns twice the longest time that the settings allow between receiving an event and
// making it visible.
func overlap(settings *config.Settings) time.Duration {
	longest := followOverlap
	for i := range settings.Engine.Sources {
		longest = max(longest, 2*settings.Engine.Sources[i].AckTimeout)
	}
	return longest
}

// follower polls every event received since a floor, which trails the database's clock by overlap,
// and remembers the events that it has returned since then. So it finds events that become visible
// after newer ones, and returns each event once.
type follower struct {
	store   driver.Store
	filter  driver.EventFilter
	overlap time.Duration

	since time.Time // from the operator's filter; zero for all
	floor time.Time // every event received before it has been returned
	seen  map[driver.Key]time.Time
}

func newFollower(store driver.Store, filter *driver.EventFilter, overlap time.Duration) *follower {
	f := &follower{store: store, filter: *filter, overlap: overlap, since: filter.Since, seen: make(map[driver.Key]time.Time)}
	f.filter.Limit, f.filter.Until = driver.MaxLimit, time.Time{}
	return f
}

// begin returns the newest n events.
func (f *follower) begin(ctx context.Context, n int) ([]driver.Event, error) {
	floor, err := f.nextFloor(ctx)
	if err != nil {
		return nil, err
	}
	f.filter.Since = f.since
	events, err := f.list(ctx, func(events []driver.Event) bool {
		return len(events) >= n && (len(events) == 0 || events[len(events)-1].ReceivedAt.Before(floor))
	})
	if err != nil {
		return nil, err
	}
	f.remember(events)
	f.moveTo(floor)
	events = events[:min(n, len(events))]
	slices.Reverse(events)
	return events, nil
}

// step returns the events that are new since the last call.
func (f *follower) step(ctx context.Context) ([]driver.Event, error) {
	floor, err := f.nextFloor(ctx)
	if err != nil {
		return nil, err
	}
	if f.filter.Since = f.floor; f.since.After(f.floor) {
		f.filter.Since = f.since
	}
	events, err := f.list(ctx, func([]driver.Event) bool { return false })
	if err != nil {
		return nil, err
	}
	events = slices.DeleteFunc(events, func(ev driver.Event) bool {
		_, told := f.seen[ev.Key]
		return told
	})
	f.remember(events)
	f.moveTo(floor)
	slices.Reverse(events)
	return events, nil
}

// nextFloor returns the floor after a poll that begins now, in the precision of a store. If the
// clock is set back, the floor stays.
func (f *follower) nextFloor(ctx context.Context) (time.Time, error) {
	now, err := f.store.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	floor := now.Add(-f.overlap).Truncate(time.Microsecond)
	if floor.Before(f.floor) {
		floor = f.floor
	}
	return floor, nil
}

// list returns the selected events, newest first, page by page until enough returns true.
func (f *follower) list(ctx context.Context, enough func([]driver.Event) bool) ([]driver.Event, error) {
	var events []driver.Event
	filter := f.filter
	for {
		page, err := f.store.Events(ctx, &filter)
		if err != nil {
			return nil, err
		}
		events = append(events, page.Events...)
		if filter.After = page.Next; filter.After.IsZero() || enough(events) {
			return events, nil
		}
	}
}

func (f *follower) remember(events []driver.Event) {
	for i := range events {
		f.seen[events[i].Key] = events[i].ReceivedAt
	}
}

func (f *follower) moveTo(floor time.Time) {
	f.floor = floor
	for key, receivedAt := range f.seen {
		if receivedAt.Before(floor) {
			delete(f.seen, key)
		}
	}
}
