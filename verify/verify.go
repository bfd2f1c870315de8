package verify

import (
	"net/http"
	"time"
)

// Request is a request as it was received. Nothing in this package but
// Verifier.Sign changes it.
type Request struct {
	Method string
	// URL is the public URL that the sender was given, for schemes that sign
	// it; scheme, host and path are never rebuilt from what the request itself says.
	// "" if unknown. Where it has no query, RawQuery is signed behind it; where it
	// has one, RawQuery must be the same or "".
	URL      string
	RawQuery string
	// Header has names in canonical form, as net/http makes them.
	Header http.Header
	Body   []byte // the raw bytes, before any decoding
	// Now is when the request was received, which its signed time is compared
	// with.
	Now time.Time
}
