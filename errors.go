package hookonce

import (
	"errors"
	"time"

	"github.com/hookonce/hookonce/internal/guard"
)

// ErrUnknownSource is the error of RetryQuarantined for a request whose source is not in the
// settings.
var ErrUnknownSource = errors.New("its source is not in the settings")

// ErrHandledElsewhere is the error of RetryQuarantined for a request that another process received
// for its handlers, or for the caller of Verify, if this process has no handlers for the source. A
// claim here would leave the events without that work.
var ErrHandledElsewhere = errors.New("another program handles the events of its source, and this one has no handlers for them")

// UnreadableError is the error of RetryQuarantined for a request that stays in the quarantine,
// because it still cannot be read or the database still refuses its events.
type UnreadableError struct {
	Reason string // as the quarantine shows it now
}

// Error returns the reason.
func (e *UnreadableError) Error() string { return "still unreadable: " + e.Reason }

// Permanent marks err as permanent: the event of the handler, or the message of the Sender, is dead
// at once. Errors that wrap the result are permanent too. It returns nil if err is nil.
func Permanent(err error) error { return guard.Permanent(err) }

// RetryAfter marks err with a delay: the next attempt follows after d instead of the delay of the
// retry schedule. A d that is not positive means at once; due work is found within a second. At most
// 366 days are used. Errors that wrap the result carry the delay too. It returns nil if err is nil.
func RetryAfter(d time.Duration, err error) error { return guard.RetryAfter(d, err) }
