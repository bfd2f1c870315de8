package hookonce

import (
	"errors"
	"time"
)

// Permanent returns err marked as one that no further attempt can mend: the
// event, or the message that a Sender sends, is dead at once. It is nil if err is.
// Errors that wrap it count too.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// HookoncePermanent tells package hooktest what this is.
func (e *permanentError) HookoncePermanent() {}

// RetryAfter returns err marked such that the next attempt comes after d, instead
// of after the time that the schedule of retries says. It is nil if err is. Errors
// that wrap it count too. A d that is not positive means at once; what
// is due is found within a second.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, max(d, 0)}
}

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// HookonceRetryAfter tells package hooktest of the time.
func (e *retryAfterError) HookonceRetryAfter() time.Duration { return e.after }

func isPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// retryAfterOf returns the time that RetryAfter put on err.
func retryAfterOf(err error) (after time.Duration, ok bool) {
	var r *retryAfterError
	if !errors.As(err, &r) {
		return 0, false
	}
	return min(r.after, maxRetryMax), true
}
