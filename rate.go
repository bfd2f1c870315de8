package hookonce

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

// Rate is a count per time. The zero value means no limit, or the default where the documentation
// of a field names one.
type Rate struct {
	Count int
	Per   time.Duration
}

// DefaultReplayRate is the default pace of bulk replays. Replayed messages are due at once, and so
// before later arrivals: without a pace, a large replay would delay all live traffic.
var DefaultReplayRate = Rate{Count: 100, Per: time.Second}

// Unpaced is a rate that delays nothing.
var Unpaced = Rate{Count: maxRate, Per: time.Second}

// maxRate bounds Rate.Count.
const maxRate = 1_000_000_000

// ParseRate parses a rate of the settings: 100/s, 6000/m or 1/h. The error says how to write one
// and does not quote s.
func ParseRate(s string) (Rate, error) {
	number, unit, _ := strings.Cut(s, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[strings.TrimSpace(unit)]
	count, err := strconv.Atoi(strings.TrimSpace(number))
	switch {
	case err != nil || per == 0:
		return Rate{}, errors.New("is not a rate; write it as 100/s, 6000/m or 1/h")
	case count < 1 || count > maxRate:
		return Rate{}, fmt.Errorf("must have a count from 1 to %d; leave it out for no limit", maxRate)
	}
	return Rate{Count: count, Per: per}, nil
}

// ParsePace parses the pace of a bulk replay: a rate as for ParseRate, "none" for Unpaced, or ""
// for the zero Rate.
func ParsePace(s string) (Rate, error) {
	switch s {
	case "":
		return Rate{}, nil
	case "none":
		return Unpaced, nil
	}
	rate, err := ParseRate(s)
	if err != nil {
		return Rate{}, errors.New("is not a pace; write it as 100/s, 6000/m or 1/h, or as none")
	}
	return rate, nil
}

// JobRate returns the pace of a job, with its default.
func JobRate(spec *driver.JobSpec) (Rate, error) {
	rate, err := ParsePace(spec.Rate)
	switch {
	case err != nil:
		return Rate{}, fmt.Errorf("rate: %q %w", spec.Rate, err)
	case rate.Count > 0:
		return rate, nil
	case spec.Action == driver.JobReplay:
		return DefaultReplayRate, nil
	}
	return Unpaced, nil
}

func (r Rate) check() error {
	if r.Count < 0 || r.Count > 0 && r.Per <= 0 {
		return errors.New("rate: the count must not be negative, and its time must be positive")
	}
	return nil
}

// bucket returns a full token bucket of this rate.
func (r Rate) bucket() *limit.Bucket { return limit.New(r.Count, r.Per) }
