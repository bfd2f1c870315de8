package hookonce

import (
	"time"

	"github.com/hookonce/hookonce/internal/limit"
)

// Rate is a count per time. The zero value means no limit, or the default where the documentation
// of a field names one.
type Rate struct {
	Count int
	Per   time.Duration
}

func (r Rate) check() error { return limit.Rate(r).Check() }

// bucket returns a full token bucket of this rate.
func (r Rate) bucket() *limit.Bucket { return limit.New(r.Count, r.Per) }
