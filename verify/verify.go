package verify

import (
	"net/http"
	"time"
)

// Request is a request as it was received. Only Verifier.Sign changes it.
type Request struct {
	Method string
	// URL is the public URL that the sender was given; "" if unknown. Schemes that sign it need it:
	// scheme, host and path are never taken from the request itself. The signature
	// covers URL with RawQuery in place of its own query.
	URL string
	// RawQuery is the query of the request. If URL has one, RawQuery must hold its parameters.
	RawQuery string
	// Header has canonical names, as net/http makes them.
	Header http.Header
	Body   []byte // the raw bytes, before any decoding
	// Now is the time of receipt. The signed time is compared with it.
	Now time.Time
}
