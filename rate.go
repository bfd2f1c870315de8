package hookonce

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/limit"
)

// Rate is a number of things in a time. The zero value means no limit, or the
// default where one is named.
type Rate struct {
	Count int
	Per   time.Duration
}

// DefaultReplayRate is the pace of replays of many. What is replayed is due at
// once, and so before what arrives later: unpaced, a large replay would hold up
// live traffic until all of it is sent.
var DefaultReplayRate = Rate{Count: 100, Per: time.Second}

// Unpaced is a rate that holds nothing up.
var Unpaced = Rate{Count: maxRate, Per: time.Second}

// maxRate bounds the number in a rate.
const maxRate = 1_000_000_000

// ParseRate reads a rate as the settings have it: 100/s, 6000/m or 1/h. The error
// says what would be right, and does not quote s.
func ParseRate(s string) (Rate, error) {
	number, unit, _ := strings.Cut(s, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[strings.TrimSpace(unit)]
	count, err := strconv.Atoi(strings.TrimSpace(number))
	switch {
	case err != nil || per == 0:
		return Rate{}, errors.New("is no rate; write it as 100/s, 6000/m or 1/h")
	case count < 1 || count > maxRate:
		return Rate{}, fmt.Errorf("must be from 1 to %d in a time; leave it out for no limit", maxRate)
	}
	return Rate{Count: count, Per: per}, nil
}

// ParsePace reads the pace of a replay of many: as ParseRate does, or "none" for
// Unpaced, or "" for the zero Rate.
func ParsePace(s string) (Rate, error) {
	switch s {
	case "":
		return Rate{}, nil
	case "none":
		return Unpaced, nil
	}
	rate, err := ParseRate(s)
	if err != nil {
		return Rate{}, errors.New("is no pace; write it as 100/s, 6000/m or 1/h, or as none")
	}
	return rate, nil
}

func (r Rate) check() error {
	if r.Count < 0 || r.Count > 0 && r.Per <= 0 {
		return errors.New("rate: the count must not be negative, and its time must be positive")
	}
	return nil
}

// bucket returns a full token bucket of this rate.
func (r Rate) bucket() *limit.Bucket { return limit.New(r.Count, r.Per) }
