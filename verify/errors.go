package verify

import "errors"

// The reasons why a request does not verify. Error.Err matches one of them.
var (
	// ErrMissing means that a header, field or parameter that the scheme needs is absent or empty,
	// or holds no signature of the scheme's version.
	ErrMissing = errors.New("missing")
	// ErrRepeated means that a header, a key in it, a field or a parameter occurs more than once.
	ErrRepeated = errors.New("repeated")
	// ErrMalformed means that a signature, time or id does not have the scheme's form.
	ErrMalformed = errors.New("malformed")
	// ErrMismatch means that no signature or token matches any key, or that the request does not
	// meet a requirement of the scheme (Scheme.Require, JWT.Claims).
	ErrMismatch = errors.New("no signature matches")
	// ErrTooOld means that the signature matches, but its time is further in the past than the
	// tolerance.
	ErrTooOld = errors.New("signed too long ago")
	// ErrTooNew means that the signature matches, but its time is further in the future than the
	// tolerance.
	ErrTooNew = errors.New("signed too far in the future")

	// ErrNoKeys means that Verify got no key, or a key made for another scheme. The receiver is at
	// fault, not the sender.
	ErrNoKeys = errors.New("no usable key")
	// ErrZeroSecret is the error of ParseKey for a secret of zero bytes only. HMAC pads keys with zero
	// bytes, so it equals the empty key, which anyone can use.
	ErrZeroSecret = errors.New("the secret has only zero bytes, which protects nothing: make a new one")
	// ErrSecretForm means that ParseKey got a secret that is not in the form that its scheme needs, such as
	// base64. The error's text says which one.
	ErrSecretForm = errors.New("the secret is not in the form that the scheme needs")
	// ErrNoURL means that the scheme signs the public URL and Request.URL is empty. The receiver is
	// at fault, not the sender.
	ErrNoURL = errors.New("the public URL is not set")
)

// Error is the error of a request that does not verify. Its text holds no value of the request, no
// key and no expected signature.
type Error struct {
	Scheme string // Scheme.ID, or the family if that is ""
	Err    error  // matches one of the errors above
}

// Error returns the scheme and the reason.
func (e *Error) Error() string { return "scheme " + e.Scheme + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// secretFormError is an ErrSecretForm; its text names the form.
type secretFormError string

func (e secretFormError) Error() string { return "the secret is not " + string(e) }

func (e secretFormError) Unwrap() error { return ErrSecretForm }

// FieldError is one fault of a Scheme.
type FieldError struct {
	Field   string // the JSON name: "content", "timestamp.at"
	Problem string // the fault, and how to correct it
}

// Error returns the field and the problem.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }
