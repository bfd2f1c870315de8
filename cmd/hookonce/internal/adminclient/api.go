package adminclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/hookonce/hookonce/hookadmin"
)

const api = "/api/v1"

// get returns the answer of GET path?query.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	into := new(T)
	if err := c.Get(ctx, path, query, into); err != nil {
		return nil, err
	}
	return into, nil
}

// post returns the answer of POST path.
func post[T any](ctx context.Context, c *Client, path, key string, body any) (*T, error) {
	into := new(T)
	if err := c.Post(ctx, path, key, body, into); err != nil {
		return nil, err
	}
	return into, nil
}

// Events returns a page of events.
func (c *Client) Events(ctx context.Context, query url.Values) (*hookadmin.EventPage, error) {
	return get[hookadmin.EventPage](ctx, c, api+"/events", query)
}

// Event returns one event.
func (c *Client) Event(ctx context.Context, source, eventID string) (*hookadmin.EventDetail, error) {
	return get[hookadmin.EventDetail](ctx, c, api+"/events"+Path(source, eventID), nil)
}

// ReplayEvent replays one event. key makes a repetition safe.
func (c *Client) ReplayEvent(ctx context.Context, source, eventID, key string, how *hookadmin.ReplayRequest) (*hookadmin.Replayed, error) {
	return post[hookadmin.Replayed](ctx, c, api+"/events"+Path(source, eventID)+"/replay", key, how)
}

// RedactEvent removes the payload of one event. Repeating it is safe.
func (c *Client) RedactEvent(ctx context.Context, source, eventID string) (*hookadmin.Redacted, error) {
	return post[hookadmin.Redacted](ctx, c, api+"/events"+Path(source, eventID)+"/redact", "", struct{}{})
}

// DeadLetters returns a page of dead letters.
func (c *Client) DeadLetters(ctx context.Context, query url.Values) (*hookadmin.DeadLetterPage, error) {
	return get[hookadmin.DeadLetterPage](ctx, c, api+"/dead-letters", query)
}

// Messages returns a page of messages.
func (c *Client) Messages(ctx context.Context, query url.Values) (*hookadmin.MessagePage, error) {
	return get[hookadmin.MessagePage](ctx, c, api+"/messages", query)
}

// Quarantine returns a page of quarantined requests.
func (c *Client) Quarantine(ctx context.Context, query url.Values) (*hookadmin.QuarantinePage, error) {
	return get[hookadmin.QuarantinePage](ctx, c, api+"/quarantine", query)
}

// Quarantined returns one quarantined request.
func (c *Client) Quarantined(ctx context.Context, id string) (*hookadmin.QuarantinedRequest, error) {
	return get[hookadmin.QuarantinedRequest](ctx, c, api+"/quarantine"+Path(id), nil)
}

// RetryQuarantined retries one quarantined request.
func (c *Client) RetryQuarantined(ctx context.Context, id string) (*hookadmin.QuarantineRetried, error) {
	return post[hookadmin.QuarantineRetried](ctx, c, api+"/quarantine"+Path(id)+"/retry", "", nil)
}

// PauseDestination pauses a destination.
func (c *Client) PauseDestination(ctx context.Context, name string) (*hookadmin.DestinationPaused, error) {
	return post[hookadmin.DestinationPaused](ctx, c, api+"/destinations"+Path(name, "pause"), "", nil)
}

// ResumeDestination ends the pause of a destination.
func (c *Client) ResumeDestination(ctx context.Context, name string) (*hookadmin.DestinationPaused, error) {
	return post[hookadmin.DestinationPaused](ctx, c, api+"/destinations"+Path(name, "resume"), "", nil)
}

// RetryDestination makes waiting messages of a destination due now; maybe not all of them.
func (c *Client) RetryDestination(ctx context.Context, name string) (*hookadmin.DestinationRetried, error) {
	return post[hookadmin.DestinationRetried](ctx, c, api+"/destinations"+Path(name, "retry"), "", nil)
}

// Refused returns a page of refused requests.
func (c *Client) Refused(ctx context.Context, query url.Values) (*hookadmin.RefusedPage, error) {
	return get[hookadmin.RefusedPage](ctx, c, api+"/refused", query)
}

// RefusedGroups counts refused requests by address and reason.
func (c *Client) RefusedGroups(ctx context.Context, query url.Values) (*hookadmin.RefusedGroupPage, error) {
	return get[hookadmin.RefusedGroupPage](ctx, c, api+"/refused/groups", query)
}

// Sources returns the sources of the gateway.
func (c *Client) Sources(ctx context.Context) (*hookadmin.SourcePage, error) {
	return get[hookadmin.SourcePage](ctx, c, api+"/sources", nil)
}

// Search finds things by an exact id.
func (c *Client) Search(ctx context.Context, id string) (*hookadmin.SearchPage, error) {
	return get[hookadmin.SearchPage](ctx, c, api+"/search", url.Values{"q": {id}})
}

// Stats counts waiting and stuck work.
func (c *Client) Stats(ctx context.Context) (*hookadmin.Stats, error) {
	return get[hookadmin.Stats](ctx, c, api+"/stats", nil)
}

// Destinations returns the destinations of the gateway, and those that have messages.
func (c *Client) Destinations(ctx context.Context) (*hookadmin.DestinationPage, error) {
	return get[hookadmin.DestinationPage](ctx, c, api+"/destinations", nil)
}

// Gateway says which gateway answers.
func (c *Client) Gateway(ctx context.Context) (*hookadmin.Gateway, error) {
	return get[hookadmin.Gateway](ctx, c, api+"/gateway", nil)
}

// Warnings returns the warnings of the gateway.
func (c *Client) Warnings(ctx context.Context) (*hookadmin.WarningPage, error) {
	return get[hookadmin.WarningPage](ctx, c, api+"/warnings", nil)
}

// Ready returns nil if the gateway can claim deliveries.
func (c *Client) Ready(ctx context.Context) error {
	err := c.Get(ctx, "/readyz", nil, new(hookadmin.Health))
	if problem, is := errors.AsType[*Problem](err); is {
		if why := problem.Why(); why != "" {
			return fmt.Errorf("%w: %s", err, clause(why))
		}
	}
	return err
}
