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

// maxPlanned is how far a plan counts.
const maxPlanned = 10_000

// Plan counts the things that a bulk change would change.
type Plan struct {
	Count  int
	More   bool // Count is where the counting ended
	Oldest time.Time
	Newest time.Time // times of receipt
	// Parts counts by destination, for dead letters, or by state, for events. A dead event has no
	// destination.
	Parts map[string]int
}

func (p *Plan) add(received hookadmin.Time, part string) {
	at := time.Time(received)
	if p.Count == 0 || at.Before(p.Oldest) {
		p.Oldest = at
	}
	if at.After(p.Newest) {
		p.Newest = at
	}
	p.Count++
	p.Parts[part]++
}

// PlanDeadLetters counts the dead letters that match the parameters of a listing.
func (c *Client) PlanDeadLetters(ctx context.Context, query url.Values) (*Plan, error) {
	return plan(query, func(query url.Values, p *Plan) (next string, err error) {
		page, err := c.DeadLetters(ctx, query)
		if err != nil {
			return "", err
		}
		for i := range page.DeadLetters {
			p.add(page.DeadLetters[i].ReceivedAt, page.DeadLetters[i].Destination)
		}
		return page.Next, nil
	})
}

// PlanEvents counts the events that match the parameters of a listing.
func (c *Client) PlanEvents(ctx context.Context, query url.Values) (*Plan, error) {
	return plan(query, func(query url.Values, p *Plan) (next string, err error) {
		page, err := c.Events(ctx, query)
		if err != nil {
			return "", err
		}
		for i := range page.Events {
			p.add(page.Events[i].ReceivedAt, page.Events[i].State)
		}
		return page.Next, nil
	})
}

// plan adds pages until the last one, or until maxPlanned.
func plan(query url.Values, add func(url.Values, *Plan) (string, error)) (*Plan, error) {
	p := &Plan{Parts: make(map[string]int)}
	query = maps.Clone(query)
	query.Set("limit", strconv.Itoa(driver.MaxLimit))
	for {
		next, err := add(query, p)
		if err != nil || next == "" {
			return p, err
		}
		if p.Count >= maxPlanned {
			p.More = true
			return p, nil
		}
		query.Set("cursor", next)
	}
}
