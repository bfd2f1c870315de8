package driver

import (
	"context"
	"fmt"
	"time"
)

// RefusedRequests are refused requests, for the operator: the newest MaxRefused of each source. They
// are apart from events, and no claim looks at them.
type RefusedRequests interface {
	// AddRefused stores requests, and removes those beyond MaxRefused of their sources, in one
	// commit. A request whose ErrorID is stored already is left out, so a call may be repeated.
	AddRefused(ctx context.Context, p *AddRefusedParams) error

	// Refused lists refused requests, newest first.
	Refused(ctx context.Context, f *RefusedFilter) (*RefusedPage, error)
}

// Bounds of the refused requests.
const (
	MaxRefused        = 1000    // for each source
	MaxRefusedBody    = 4 << 10 // bytes of a body
	MaxRefusedHeaders = 8 << 10 // bytes of the headers in their stored form
)

// RefusedRequest is a request that was answered 4xx or 5xx. Malformed ones are in the quarantine instead.
type RefusedRequest struct {
	ErrorID  string    // in the answer and in the log; unique
	At       time.Time // of the answer, by the clock of the process
	Source   string    // "" if there is no such source
	Reason   string
	Status   int
	Method   string
	Remote   string // the client's address
	Gateway  string // the name of the host that answered
	Headers  []byte // JSON object of name to list of values, which are redacted; at most MaxRefusedHeaders bytes
	Body     []byte // the beginning of the body, at most MaxRefusedBody bytes; empty if it was not read or may hold a secret
	BodySize int64  // of the whole body; -1 if it was not read
}

// Key returns the key of the request. It shares no key with events and bodies.
func (r *RefusedRequest) Key() Key { return RefusedKey(r.ErrorID) }

// RefusedKey returns the key of the refused request with an error id.
func RefusedKey(errorID string) Key { return hashStrings("refused", []string{errorID}) }

// AddRefusedParams are the parameters of RefusedRequests.AddRefused.
type AddRefusedParams struct {
	Requests []RefusedRequest
}

// Check returns an error that matches ErrBadRow if a store cannot store the parameters.
func (p *AddRefusedParams) Check() error {
	for i := range p.Requests {
		r := &p.Requests[i]
		for _, text := range [...]string{r.ErrorID, r.Source, r.Reason, r.Method, r.Remote, r.Gateway} {
			if !IsText(text) || len(text) > MaxFigureText {
				return fmt.Errorf("%w: a text of the refused request %.40q must be valid UTF-8 without NUL, of at most %d bytes",
					ErrBadRow, r.ErrorID, MaxFigureText)
			}
		}
		if len(r.Headers) > MaxRefusedHeaders || len(r.Body) > MaxRefusedBody {
			return fmt.Errorf("%w: the refused request %.40q has %d bytes of headers and %d of the body, want at most %d and %d",
				ErrBadRow, r.ErrorID, len(r.Headers), len(r.Body), MaxRefusedHeaders, MaxRefusedBody)
		}
	}
	return nil
}

// RefusedFilter selects refused requests. Zero fields select all.
type RefusedFilter struct {
	Source  string
	Reason  string
	Remote  string
	ErrorID string
	Since   time.Time // refused at or after
	Until   time.Time // refused before
	Limit   int       // 1 to 200; 0 means 50
	After   Cursor
}

// RefusedPage is one page of refused requests, newest first. Its Cursor holds At and Key.
type RefusedPage struct {
	Requests []RefusedRequest
	Next     Cursor // zero on the last page
}
