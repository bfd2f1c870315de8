package hookonce

import (
	"time"

	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
)

// Rate is a count per time. The zero value means no limit, or the default where the documentation
// of a field names one.
type Rate struct {
	Count int
	Per   time.Duration
}

// DefaultReplayRate is the default pace of bulk replays. Replayed messages are due at once, and so
// before later arrivals: without a pace, a large replay would delay all live traffic.
var DefaultReplayRate = Rate(operate.ReplayRate)

func (r Rate) check() error { return limit.Rate(r).Check() }

// bucket returns a full token bucket of this rate.
func (r Rate) bucket() *limit.Bucket { return limit.New(r.Count, r.Per) }
