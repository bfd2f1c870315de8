package guard

import (
	"errors"
	"time"
)

// MaxRetryAfter bounds the delay before a next attempt.
const MaxRetryAfter = 366 * 24 * time.Hour

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// Permanent marks err: no further attempt can succeed. It returns nil if err is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// RetryAfter marks err: the next attempt follows after d, or at once if d is not positive. It
// returns nil if err is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, max(d, 0)}
}

// IsPermanent reports whether err, or an error that it wraps, was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// RetryDelay returns the delay that RetryAfter put on err, at most MaxRetryAfter, and whether
// there is one.
func RetryDelay(err error) (after time.Duration, ok bool) {
	var r *retryAfterError
	if !errors.As(err, &r) {
		return 0, false
	}
	return min(r.after, MaxRetryAfter), true
}
