package verify

import "errors"

// Why a request does not verify; the Err of an *Error matches one of them.
var (
	// ErrMissing means that a header, field or parameter the scheme needs is
	// absent or empty, or holds no signature of the scheme's version.
	ErrMissing = errors.New("missing")
	// ErrRepeated means that a header, a key in it, a field or a parameter that
	// must occur exactly once occurs more often.
	ErrRepeated = errors.New("repeated")
	// ErrMalformed means that a signature, a time or an id does not have the
	// form that the scheme demands.
	ErrMalformed = errors.New("malformed")
	// ErrMismatch means that no signature or token matches any key, or that the
	// request does not say what the scheme requires besides.
	ErrMismatch = errors.New("no signature matches")
	// ErrTooOld means that the signature matches, and was made longer ago than
	// the tolerance.
	ErrTooOld = errors.New("signed too long ago")
	// ErrTooNew means that the signature matches, and claims to be made
	// further in the future than the tolerance.
	ErrTooNew = errors.New("signed too far in the future")

	// ErrNoKeys means that there was no key to check with, or one that another
	// Verifier made. The fault is the receiver's, not the sender's.
	ErrNoKeys = errors.New("no usable key")
	// ErrNoURL means that the scheme signs the public URL and the Request has
	// none. The fault is the receiver's, not the sender's.
	ErrNoURL = errors.New("the public URL is not set")
)

// Error is what Verify returns for a request that does not verify. Its text
// has nothing of the request's values, of a key or of an expected signature.
type Error struct {
	Scheme string // the ID of the scheme, or its family
	Err    error  // matches one of the sentinels
}

// Error returns the scheme and the reason.
func (e *Error) Error() string { return "scheme " + e.Scheme + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// FieldError is one fault of a Scheme.
type FieldError struct {
	Field   string // as in JSON: "content", "timestamp.at"
	Problem string // what is wrong, and what would be right
}

// Error returns the field and the problem.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }
