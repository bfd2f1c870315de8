package limit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is a count per time. The zero value means no limit, or a default.
type Rate struct {
	Count int
	Per   time.Duration
}

// maxRate bounds Rate.Count.
const maxRate = 1_000_000_000

// Unpaced is a rate that delays nothing.
var Unpaced = Rate{Count: maxRate, Per: time.Second}

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

// Pace returns r as ParsePace reads it. A time other than a second, a minute or an hour becomes an hour.
func (r Rate) Pace() (string, error) {
	if err := r.Check(); err != nil {
		return "", fmt.Errorf("rate: %w", err)
	}
	hourly := float64(r.Count) * float64(time.Hour) / float64(r.Per)
	switch unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]; {
	case r.Count == 0:
		return "", nil
	case r == Unpaced || unit == "" && hourly > maxRate:
		return "none", nil
	case unit != "":
		return fmt.Sprintf("%d/%s", r.Count, unit), nil
	case hourly < 1:
		return "", errors.New("rate: a pace has at least one an hour")
	}
	return fmt.Sprintf("%.0f/h", hourly), nil
}

// Check returns an error for a rate that is none.
func (r Rate) Check() error {
	if r.Count < 0 || r.Count > 0 && r.Per <= 0 {
		return errors.New("the count must not be negative, and its time must be positive")
	}
	return nil
}
