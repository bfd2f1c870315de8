package adminclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/limit"
)

// EventReplay selects events to replay, one after the other.
type EventReplay struct {
	Query url.Values // the parameters of a listing; limit and cursor are ignored
	How   hookadmin.ReplayRequest
	// RequestID makes a second run skip the events that the first run replayed.
	RequestID string
	Rate      hookonce.Rate         // defaults to defaults.ReplayRate
	Progress  func(*EventsReplayed) // called after each event
}

// Job returns the request of a job for the same events.
func (e *EventReplay) Job(rate string, all bool) *hookadmin.JobRequest {
	mode := ""
	switch {
	case e.How.AsNew:
		mode = "as_new"
	case e.How.SameID:
		mode = "same_id"
	}
	q := e.Query
	return &hookadmin.JobRequest{
		Of: driver.JobOfEvents, Action: driver.JobReplay, Mode: mode, Rate: rate,
		Filter: hookadmin.JobFilter{
			Source: q.Get("source"), Type: q.Get("type"), State: q.Get("state"), Note: q.Get("note"), Q: q.Get("q"),
			Since: q.Get("since"), Until: q.Get("until"), All: all,
		},
	}
}

// EventsReplayed counts the outcomes of a replay.
type EventsReplayed struct {
	Replayed int
	Repeated int            // replayed earlier by the same request
	Passed   int            // no longer matching or locked, by a job
	Refused  map[string]int // by Refusal.Code, or RefusedByJob
	// LastError is the reason of the last refusal by a job.
	LastError string
}

// RefusedByJob is the code of all refusals of a job, which does not count them by reason.
const RefusedByJob = "job"

// Total returns the number of processed events.
func (r *EventsReplayed) Total() int {
	total := r.Replayed + r.Repeated + r.Passed
	for _, count := range r.Refused {
		total += count
	}
	return total
}

// Refusal is a reason that refuses one event, and lets the replay of others continue.
type Refusal struct {
	Code   string // Problem.Reason
	Reason string // for people, to follow "refused: "
}

// Refusals are the reasons that refuse an event.
var Refusals = []Refusal{
	{"open", "not finished yet"},
	{"redacted", "redacted: nothing is left to send"},
	{"body_pruned", "the body is past its retention"},
	{"request_reused", "already replayed in another mode with this request id"},
	{"note_needed", "may have taken effect, because the handler ended its transaction: set --note \"" + driver.NoteTxEnded + "\""},
	{"mode_needed", "already done: set --as-new or --same-id"},
	{"no_route", "no route of these settings matches"},
	{"undecided", "the condition of a route is still undecided"},
	{"locked", "in use by another session: run this again"},
	{"not_found", "removed in the meantime"},
}

// refusalOf returns the Refusal.Code of err, or "".
func refusalOf(err error) string {
	p, is := errors.AsType[*Problem](err)
	for _, refusal := range Refusals {
		if is && p.Reason == refusal.Code {
			return refusal.Code
		}
	}
	return ""
}

// putAway reports whether an event was discarded, and the query does not ask for such events.
func putAway(query url.Values, e *hookadmin.Event) bool {
	return e.Note == driver.NoteDiscarded && query.Get("note") == "" && query.Get("state") == "" && query.Get("id") == ""
}

// ReplayEvents replays the events that match the query, newest first, without those that an operator put
// away. If it fails, or ctx ends, the result still counts the processed events.
func (c *Client) ReplayEvents(ctx context.Context, which *EventReplay) (*EventsReplayed, error) {
	result := &EventsReplayed{Refused: make(map[string]int)}
	rate := cmp.Or(which.Rate, hookonce.Rate(defaults.ReplayRate))
	pace := limit.NewPace(rate.Count, rate.Per)
	query := maps.Clone(which.Query)
	query.Set("limit", strconv.Itoa(driver.MaxLimit))
	query.Del("cursor")
	for {
		page, err := c.Events(ctx, query)
		if err != nil {
			return result, fmt.Errorf("listing events: %w", err)
		}
		for i := range page.Events {
			if putAway(query, &page.Events[i]) {
				continue
			}
			if _, err := pace.Await(ctx, 1); err != nil {
				return result, err
			}
			if err := result.replay(ctx, c, which, &page.Events[i]); err != nil {
				return result, err
			}
			which.Progress(result)
		}
		if page.Next == "" {
			return result, nil
		}
		query.Set("cursor", page.Next)
	}
}

func (r *EventsReplayed) replay(ctx context.Context, c *Client, which *EventReplay, ev *hookadmin.Event) error {
	replayed, err := c.ReplaySafely(ctx, ev.Source, ev.EventID, which.RequestID, &which.How)
	refusal := refusalOf(err)
	switch {
	case err == nil && replayed.Repeated:
		r.Repeated++
	case err == nil:
		r.Replayed++
	case refusal != "":
		r.Refused[refusal]++
	default:
		return err
	}
	return nil
}

// ReplaySafely is ReplayEvent with retries if the commit's outcome is unknown or the database aborted
// the transaction because of a conflict. The request id makes that safe, and must not be "".
func (c *Client) ReplaySafely(ctx context.Context, source, eventID, requestID string, how *hookadmin.ReplayRequest) (*hookadmin.Replayed, error) {
	const tries = 3
	for try := 1; ; try++ {
		replayed, err := c.ReplayEvent(ctx, source, eventID, requestID, how)
		again := errors.Is(err, driver.ErrCommitUnknown) || errors.Is(err, driver.ErrSerialization)
		if !again || try == tries || ctx.Err() != nil {
			return replayed, err
		}
	}
}
