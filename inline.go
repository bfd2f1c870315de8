package hookonce

import (
	"context"
	"net/http"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/provider"
)

// acceptInline handles the events of a verified delivery one by one, each in the transaction of its
// claim, and answers when all are done. Events without a handler are claimed by the queue.
func (in *Engine) acceptInline(ctx context.Context, d *delivery, unit *claims.Unit, malformed []provider.Malformed) *answer {
	if failure := in.claimInline(ctx, d, unit); failure != nil {
		a := refused(http.StatusInternalServerError, "The delivery was not handled. Send it again.", "an Inline handler failed", failure)
		a.outcome = deliveryFailed
		return a
	}
	return in.answerClaimed(ctx, d, unit, malformed)
}

// claimInline runs the handlers of acceptInline and fills in the results of unit. It returns the
// error of a handler whose event is not claimed.
func (in *Engine) claimInline(ctx context.Context, d *delivery, unit *claims.Unit) (failure error) {
	for i := range unit.Claims {
		c := &unit.Claims[i]
		if !in.handles(c.Source, c.Type) || c.Work == driver.WorkUndecided {
			unit.Results[i] = in.claimOne(ctx, d, c)
			continue
		}
		done := in.worker.Inline(ctx, d.source.work, c)
		in.claiming.note(done.Err)
		result := claims.Result{ClaimResult: done.ClaimResult, Err: done.Err}
		if done.Failure != nil && !done.Dead {
			failure = done.Failure
			result.Err = done.Failure
		}
		if result.Err == nil {
			in.claims.Count(c, &result)
		}
		unit.Results[i] = result
	}
	return failure
}

// claimOne claims one event by the queue, which counts it.
func (in *Engine) claimOne(ctx context.Context, d *delivery, c *driver.Claim) claims.Result {
	unit := d.unit([]driver.Claim{*c})
	if err := in.claims.Claim(ctx, unit); err != nil {
		return claims.Result{Err: err}
	}
	return unit.Results[0]
}
