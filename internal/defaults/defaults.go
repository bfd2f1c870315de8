// Package defaults holds the defaults of the settings, for the library and for the settings file.
package defaults

import (
	"time"

	"github.com/hookonce/hookonce/internal/limit"
)

// Defaults of the settings for all sources.
const (
	DedupeWindow   = 30 * 24 * time.Hour
	Retention      = 30 * 24 * time.Hour
	Queue          = 8192
	BodyBytes      = 256 << 20
	QuarantineRows = 10_000
	Batch          = 200
)

// UnverifiedRate bounds the unverified requests of an address.
var UnverifiedRate = limit.Rate{Count: 100, Per: time.Second}

// ReplayRate is the pace of bulk replays. Replayed messages are due at once, and so before later
// arrivals: without a pace, a large replay would delay all live traffic.
var ReplayRate = limit.Rate{Count: 100, Per: time.Second}

// Defaults of a source. AckTimeout is the longest.
const (
	MaxBody        = 1 << 20
	AckTimeout     = 3 * time.Second
	InlineAttempts = 5
	RefetchTimeout = 10 * time.Second
	ReconcileDelay = 10 * time.Minute
)

// Defaults of a destination, and of handlers.
const (
	SendTimeout  = 15 * time.Second
	SendAttempts = 20
	FirstRetry   = 10 * time.Second
	MaxRetry     = 12 * time.Hour
	Concurrency  = 16
)
