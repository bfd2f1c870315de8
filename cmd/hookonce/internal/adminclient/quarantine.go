package adminclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
)

// quarantinePage is how many quarantined requests are read at a time: they come with their bodies.
const quarantinePage = 20

// ErrUnreadable means that a quarantined request still cannot be read or stored.
var ErrUnreadable = errors.New("the request stays in the quarantine")

// QuarantineWork counts the outcomes of retries of quarantined requests.
type QuarantineWork struct {
	Retried                       int // requests that are no longer in the quarantine
	Claimed, Reopened, Duplicates int // events of these
	Kept                          int // parts of these that are now in the quarantine by themselves
	Unreadable                    int // requests that stay, with a new reason
	UnknownSource                 int // requests that stay, because the settings lack their source
	HandledElsewhere              int // requests that stay, because a program with handlers has to retry them
}

// Total returns the number of processed requests.
func (r *QuarantineWork) Total() int { return r.Retried + r.Stay() }

// Stay returns the number of processed requests that are still in the quarantine.
func (r *QuarantineWork) Stay() int { return r.Unreadable + r.UnknownSource + r.HandledElsewhere }

// RetryQuarantine retries the quarantined requests of a source, or of all sources if source is "",
// newest first. It calls progress after each. If it fails, or ctx ends, the result still counts the
// processed requests.
func (c *Client) RetryQuarantine(ctx context.Context, source string, progress func(*QuarantineWork)) (*QuarantineWork, error) {
	result := new(QuarantineWork)
	query := url.Values{"source": {source}, "limit": {strconv.Itoa(quarantinePage)}}
	return result, EachPage(query, func(query url.Values) (next string, err error) {
		page, err := c.Quarantine(ctx, query)
		if err != nil {
			return "", fmt.Errorf("listing the quarantine: %w", err)
		}
		for i := range page.Requests {
			if err := result.retry(ctx, c, page.Requests[i].ID); err != nil {
				return "", err
			}
			progress(result)
		}
		return page.Next, nil
	})
}

func (r *QuarantineWork) retry(ctx context.Context, c *Client, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	retried, err := c.RetryQuarantined(ctx, id)
	switch {
	case err == nil:
		r.Retried++
		r.Claimed, r.Reopened = r.Claimed+retried.Claimed, r.Reopened+retried.Reopened
		r.Duplicates, r.Kept = r.Duplicates+retried.Duplicates, r.Kept+retried.Kept
	case errors.Is(err, ErrUnreadable):
		r.Unreadable++
	case errors.Is(err, operate.ErrUnknownSource):
		r.UnknownSource++
	case errors.Is(err, operate.ErrHandledElsewhere):
		r.HandledElsewhere++
	case errors.Is(err, driver.ErrNotFound): // removed since it was listed
	default:
		return err
	}
	return nil
}
