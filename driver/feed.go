package driver

import (
	"context"
	"fmt"
	"time"
)

// Feed is the live view of all processes: a short list of their latest deliveries, attempts and
// events, for people who look. It is no log: rows are written only while somebody looks, at most the
// newest MaxFeedRows are kept, none for longer than FeedKept, and a crash may lose all of them.
//
// Rows are numbered in the order of their commits. A reader that asks for the rows after a number
// never misses a row that was committed later with a lower one.
type Feed interface {
	// WatchFeed asks all processes to write rows until p.For has passed by the store's clock, and
	// returns the number of the newest row. Call it again before that time ends. If the last watch
	// has ended, a new one begins, and all earlier numbers are expired.
	WatchFeed(ctx context.Context, p *WatchFeedParams) (int64, error)

	// FeedWatched returns for how long rows are still wanted, and 0 without a viewer. It reads one row.
	FeedWatched(ctx context.Context) (time.Duration, error)

	// CollectFeed removes the rows that SQL consumers left, and returns them, the earliest first: the
	// functions take and fail write them while somebody looks. Each is returned once, without a Seq. A
	// store without SQL consumers has none.
	CollectFeed(ctx context.Context) ([]FeedRow, error)

	// AddFeed appends rows, in one commit, and removes those beyond MaxFeedRows. It ignores their
	// Seq. It returns for how long rows are still wanted; if that is 0, it stored none.
	AddFeed(ctx context.Context, p *AddFeedParams) (time.Duration, error)

	// ReadFeed returns the rows after p.After, oldest first.
	ReadFeed(ctx context.Context, p *ReadFeedParams) (*FeedPage, error)
}

// Bounds of the feed.
const (
	MaxFeedRows    = 10_000
	FeedKept       = 10 * time.Minute
	MaxFeedText    = 1024 // bytes of a text of a row
	MaxFeedDetails = 4096 // bytes of the details of a row
	// MaxFeedWatch is the longest time that one call of WatchFeed asks for. A watch that seems to last
	// longer was begun before a step of the database's clock, and has ended.
	MaxFeedWatch = 10 * time.Minute
)

// FeedKind is the kind of a row. Its number is the one in the tables.
type FeedKind int

const (
	// FeedDelivery is an event of an answered delivery, or a delivery without events.
	FeedDelivery FeedKind = iota
	// FeedEvent is a change of the work on an event.
	FeedEvent
	// FeedAttempt is an attempt to send a message.
	FeedAttempt
	// FeedRefused is a refused request.
	FeedRefused
)

// String returns the name of the kind in the API.
func (k FeedKind) String() string {
	if names := [...]string{"delivery", "event", "attempt", "refused"}; k >= 0 && int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("FeedKind(%d)", int(k))
}

// FeedRow is one row of the feed.
type FeedRow struct {
	Seq     int64     // its number; positive
	At      time.Time // of the observation, by the clock of the process
	Kind    FeedKind
	Source  string // "" if there is no such source
	EventID string // "" without an event
	Type    string
	Outcome string
	Details []byte // JSON object; at most MaxFeedDetails bytes
}

// WatchFeedParams are the parameters of Feed.WatchFeed.
type WatchFeedParams struct {
	For time.Duration // positive, at most MaxFeedWatch
	Now time.Time     // overrides the store's clock; only for tests
}

// Check returns an error if the parameters are out of bounds.
func (p *WatchFeedParams) Check() error {
	if p.For <= 0 || p.For > MaxFeedWatch {
		return fmt.Errorf("watching for %v: use more than 0 and at most %v", p.For, MaxFeedWatch)
	}
	return nil
}

// AddFeedParams are the parameters of Feed.AddFeed.
type AddFeedParams struct {
	Rows []FeedRow
	Now  time.Time // overrides the store's clock; only for tests
}

// Check returns an error that matches ErrBadRow if a store cannot store the parameters.
func (p *AddFeedParams) Check() error {
	if len(p.Rows) > MaxFeedRows {
		return fmt.Errorf("%w: %d rows for the feed at once, want at most %d", ErrBadRow, len(p.Rows), MaxFeedRows)
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		for _, text := range [...]string{r.Source, r.EventID, r.Type, r.Outcome} {
			if !IsText(text) || len(text) > MaxFeedText {
				return fmt.Errorf("%w: a text of the feed's row about %.40q must be valid UTF-8 without NUL, of at most %d bytes",
					ErrBadRow, r.EventID, MaxFeedText)
			}
		}
		if len(r.Details) > MaxFeedDetails {
			return fmt.Errorf("%w: the feed's row about %.40q has %d bytes of details, want at most %d",
				ErrBadRow, r.EventID, len(r.Details), MaxFeedDetails)
		}
	}
	return nil
}

// ReadFeedParams are the parameters of Feed.ReadFeed.
type ReadFeedParams struct {
	After int64     // the number of the last known row; 0 for none
	Limit int       // 1 to MaxFeedRows; 0 means MaxFeedRows
	Now   time.Time // overrides the store's clock; only for tests
}

// FeedPage is a part of the feed, as of one moment.
type FeedPage struct {
	// Watched reports whether rows are being written. If not, the other fields may be zero.
	Watched bool
	// Floor is the number before the oldest row. Rows may be missing after a lower number, and after
	// one that is higher than Last.
	Floor int64
	Last  int64 // the number of the newest row of the feed
	Rows  []FeedRow
}
