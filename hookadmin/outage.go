package hookadmin

import (
	"context"
	"errors"
	"net/http"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
)

// outagePatience is how long a page waits for Config.Ready.
const outagePatience = 500 * time.Millisecond

// outage says on every page that deliveries cannot be claimed.
type outage struct {
	Why      string
	Since    Time // zero: not known
	Answered string
	Remedy   string
	See      *link // to the runbook, or nil
}

// outageNow returns nil while deliveries can be claimed, or if that is not known in time.
func (h *handling) outageNow(r *http.Request) *outage {
	ctx, cancel := context.WithTimeout(r.Context(), outagePatience)
	defer cancel()
	err := h.ready(ctx)
	since, answered := h.engine.Operator().Outage()
	if err == nil || ctx.Err() != nil && since.IsZero() {
		return nil
	}
	o := &outage{Why: readyText(err), Since: Time(since), Remedy: readyRemedy(err), See: h.entryLink(runbook.Unavailable)}
	if answered > 0 {
		o.Answered = countWord(answered, "delivery was", "deliveries were") + " answered 503; their senders repeat them."
	}
	return o
}

// readyText says why deliveries cannot be claimed, as awayText does: anybody may ask /readyz.
func readyText(err error) string {
	unsafe, isUnsafe := errors.AsType[*hookonce.UnsafeError](err)
	switch {
	case isUnsafe:
		return "A setting of the database may lose acknowledged events: " + unsafe.Weaknesses[0].Setting + "."
	case errors.As(err, new(*driver.ServerError)):
		return "The database server lacks what hookonce needs."
	case isContextError(err), passes(err), errors.Is(err, driver.ErrSchema):
		return awayText(err)
	}
	return ""
}

func readyRemedy(err error) string {
	switch {
	case errors.Is(err, driver.ErrFull):
		return "Free some space on it. Deliveries are accepted again by themselves."
	case errors.Is(err, driver.ErrReadOnly):
		return "Point the settings to the primary."
	}
	return "This shows more:"
}
