package adminclient

import (
	"context"
	"maps"
	"net/url"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

const (
	// maxPlanned is how far a plan counts.
	maxPlanned = 10_000
	// maxPlannedRequests is the same for quarantined requests, which are listed with their bodies.
	maxPlannedRequests = 1000
)

// Plan counts the things that a bulk change would change.
type Plan struct {
	Count  int
	More   bool // Count is where the counting ended
	Oldest time.Time
	Newest time.Time // times of receipt
	// Parts counts by destination, for dead letters, by state, for events, or by source, for quarantined
	// requests. A dead event has no destination.
	Parts map[string]int
	// Discarded events are not counted, because an operator put them away.
	Discarded int
	// Job is the planned job of a replay of events; it foretells the effect. Nil for other changes.
	Job *hookadmin.Job
}

// add counts a thing that was received once, or from first to last.
func (p *Plan) add(first, last hookadmin.Time, part string) {
	if at := time.Time(first); p.Count == 0 || at.Before(p.Oldest) {
		p.Oldest = at
	}
	if at := time.Time(last); at.After(p.Newest) {
		p.Newest = at
	}
	p.Count++
	p.Parts[part]++
}

// PlanDeadLetters counts the dead letters that match the parameters of a listing.
func (c *Client) PlanDeadLetters(ctx context.Context, query url.Values) (*Plan, error) {
	return plan(query, driver.MaxLimit, maxPlanned, func(query url.Values, p *Plan) (next string, err error) {
		page, err := c.DeadLetters(ctx, query)
		if err != nil {
			return "", err
		}
		for i := range page.DeadLetters {
			d := &page.DeadLetters[i]
			p.add(d.ReceivedAt, d.ReceivedAt, d.Destination)
		}
		return page.Next, nil
	})
}

// PlanEvents plans a replay of events, as a job that does nothing before RunJob with the same requestID.
func (c *Client) PlanEvents(ctx context.Context, requestID string, q *hookadmin.JobRequest) (*Plan, error) {
	job, err := post[hookadmin.Job](ctx, c, api+"/jobs", requestID, q)
	if err != nil {
		return nil, err
	}
	return &Plan{
		Count: int(job.Count), More: job.More, Oldest: time.Time(job.Oldest), Newest: time.Time(job.Newest),
		Parts: job.States, Discarded: job.Discarded, Job: job,
	}, nil
}

// Forget cancels a planned job that is not to run.
func (c *Client) Forget(ctx context.Context, job *hookadmin.Job) error {
	_, err := post[hookadmin.Job](ctx, c, api+"/jobs"+Path(job.ID, "cancel"), "", nil)
	return err
}

// PlanQuarantine counts the quarantined requests of a source, or of all sources if source is "".
func (c *Client) PlanQuarantine(ctx context.Context, source string) (*Plan, error) {
	return plan(url.Values{"source": {source}}, quarantinePage, maxPlannedRequests, func(query url.Values, p *Plan) (next string, err error) {
		page, err := c.Quarantine(ctx, query)
		if err != nil {
			return "", err
		}
		for i := range page.Requests {
			q := &page.Requests[i]
			p.add(q.FirstAt, q.LastAt, q.Source)
		}
		return page.Next, nil
	})
}

// plan adds pages of at most size things until the last one, or until limit things are counted.
func plan(query url.Values, size, limit int, add func(url.Values, *Plan) (string, error)) (*Plan, error) {
	p := &Plan{Parts: make(map[string]int)}
	query = maps.Clone(query)
	query.Set("limit", strconv.Itoa(size))
	return p, EachPage(query, func(query url.Values) (string, error) {
		next, err := add(query, p)
		if p.More = next != "" && p.Count >= limit; p.More {
			next = ""
		}
		return next, err
	})
}
