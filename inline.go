package hookonce

import (
	"context"
	"net/http"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/provider"
)

// acceptInline handles the events of a verified delivery one by one, each in the transaction of its
// claim, and answers when all are done. Events without a handler are claimed by the queue.
func (in *Engine) acceptInline(ctx context.Context, d *delivery, unit *claims.Unit, malformed []provider.Malformed) *answer {
	if failure := in.claimInline(ctx, d, unit); failure != nil {
		a := refused(http.StatusInternalServerError, "The delivery was not handled. Send it again.", "an Inline handler failed", failure)
		a.Outcome = tell.Failed
		return a
	}
	return in.answerClaimed(ctx, d, unit, malformed)
}

// claimInline runs the handlers of acceptInline and fills in the results of unit. It returns the
// error of a handler whose event is not claimed.
func (in *Engine) claimInline(ctx context.Context, d *delivery, unit *claims.Unit) (failure error) {
	// First, because the queue closes once the handlers in progress have ended.
	in.claimUnhandled(ctx, d, unit)
	for i := range unit.Claims {
		c := &unit.Claims[i]
		if !in.runsInline(c) {
			continue
		}
		done := in.worker.Inline(ctx, d.source.work, c)
		in.health.claiming.note(done.Err)
		result := claims.Result{ClaimResult: done.ClaimResult, Err: done.Err}
		if done.Failure != nil && !done.Dead {
			failure = done.Failure
			result.Err = done.Failure
		}
		if result.Err == nil {
			in.claims.Count(c, &result)
			if result.Claimed {
				in.tell.Claimed(c)
			}
		}
		unit.Results[i] = result
	}
	return failure
}

// runsInline reports whether the handler of an event of an Inline source runs with its claim.
func (in *Engine) runsInline(c *driver.Claim) bool {
	return in.handles(c.Source, c.Type) && c.Undecided == ""
}

// claimUnhandled claims the events of unit that do not run Inline by the queue, which counts them.
func (in *Engine) claimUnhandled(ctx context.Context, d *delivery, unit *claims.Unit) {
	var places []int
	var queued []driver.Claim
	for i := range unit.Claims {
		if c := &unit.Claims[i]; !in.runsInline(c) {
			places, queued = append(places, i), append(queued, *c)
		}
	}
	if len(queued) == 0 {
		return
	}
	by := d.unit(queued)
	err := in.claims.Claim(ctx, by)
	for i, place := range places {
		if err != nil {
			unit.Results[place].Err = err // by may not be final
		} else {
			unit.Results[place] = by.Results[i]
		}
	}
}
