package app

import (
	"context"
	"errors"
	"fmt"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// quarantinePage is how many quarantined requests are read at a time: they come with their bodies.
const quarantinePage = 20

// QuarantineRetried counts the outcomes of retries of quarantined requests.
type QuarantineRetried struct {
	Retried                       int // requests that are no longer in the quarantine
	Claimed, Reopened, Duplicates int // events of these
	Kept                          int // parts of these that are now in the quarantine by themselves
	Unreadable                    int // requests that stay, with a new reason
	UnknownSource                 int // requests that stay, because the settings lack their source
	HandledElsewhere              int // requests that stay, because a program with handlers has to retry them
}

// Total returns the number of processed requests.
func (r *QuarantineRetried) Total() int { return r.Retried + r.Stay() }

// Stay returns the number of processed requests that are still in the quarantine.
func (r *QuarantineRetried) Stay() int { return r.Unreadable + r.UnknownSource + r.HandledElsewhere }

// RetryQuarantine retries the quarantined requests of a source, or of all sources if source is "",
// newest first. It calls progress after each. If it fails, or ctx ends, the result still counts the
// processed requests.
func RetryQuarantine(ctx context.Context, store driver.Store, engine *hookonce.Engine, source string, progress func(*QuarantineRetried)) (*QuarantineRetried, error) {
	result := new(QuarantineRetried)
	filter := driver.QuarantineFilter{Source: source, Limit: quarantinePage}
	for {
		page, err := store.Quarantined(ctx, &filter)
		if err != nil {
			return result, fmt.Errorf("listing the quarantine: %w", err)
		}
		for i := range page.Requests {
			if err := result.retry(ctx, engine, page.Requests[i].Key); err != nil {
				return result, err
			}
			progress(result)
		}
		if filter.After = page.Next; filter.After.IsZero() {
			return result, nil
		}
	}
}

func (r *QuarantineRetried) retry(ctx context.Context, engine *hookonce.Engine, key driver.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	retried, err := engine.RetryQuarantined(ctx, key)
	_, unreadable := errors.AsType[*hookonce.UnreadableError](err)
	switch {
	case err == nil:
		r.Retried++
		r.Claimed, r.Reopened = r.Claimed+retried.Claimed, r.Reopened+retried.Reopened
		r.Duplicates, r.Kept = r.Duplicates+retried.Duplicates, r.Kept+retried.Kept
	case unreadable:
		r.Unreadable++
	case errors.Is(err, hookonce.ErrUnknownSource):
		r.UnknownSource++
	case errors.Is(err, hookonce.ErrHandledElsewhere):
		r.HandledElsewhere++
	case errors.Is(err, driver.ErrNotFound): // removed since it was listed
	default:
		return err
	}
	return nil
}
