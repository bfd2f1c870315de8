package hookadmin

import (
	"net/http"
	"net/url"
	"time"

	"github.com/hookonce/hookonce/driver"
)

var errorParameters = []string{"source", "destination", "signature", "since", "until", "limit", "cursor"}

func (h *handling) listErrors(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, ParseGroupFilter, h.store.ErrorGroups, NewErrorPage)
}

// ParseGroupFilter reads the parameters of GET /api/v1/errors, as ParseFilter does. since and until
// select failures.
func ParseGroupFilter(values url.Values, now time.Time) (*driver.GroupFilter, error) {
	l, err := parseListing(values, errorParameters, nil, now)
	if err != nil {
		return nil, err
	}
	f := &driver.GroupFilter{
		Source: values.Get("source"), Destination: values.Get("destination"), Signature: values.Get("signature"),
		Since: l.since, Until: l.until, Limit: l.limit,
	}
	if f.Source != "" && f.Destination != "" {
		return nil, &ParameterError{"destination", "is not allowed with source: the groups of messages have a destination, those of events a source"}
	}
	if f.After, err = driver.ParseGroupCursor(values.Get("cursor")); err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return f, nil
}

// ErrorPage is the answer of GET /api/v1/errors.
type ErrorPage struct {
	Errors []ErrorGroup `json:"errors"` // by destination and signature, then by source and signature
	// Next is the cursor of the next page; "" on the last one.
	Next string `json:"next"`
}

// ErrorGroup is a group of dead letters whose errors have the same signature.
type ErrorGroup struct {
	Source      string `json:"source"`      // "" for messages
	Destination string `json:"destination"` // "" for events that are dead themselves
	Signature   string `json:"signature"`   // see driver.ErrorSignature
	Count       int64  `json:"count,string"`
	More        bool   `json:"more"`       // there are more than Count
	FirstAt     Time   `json:"first_at"`   // of the failures
	LastAt      Time   `json:"last_at"`    // of the failures
	LastError   string `json:"last_error"` // of the letter that failed last
}

// NewErrorPage returns page as the API prints it.
func NewErrorPage(page *driver.GroupPage) *ErrorPage {
	out := &ErrorPage{Errors: make([]ErrorGroup, 0, len(page.Groups)), Next: page.Next.String()}
	for i := range page.Groups {
		g := &page.Groups[i]
		out.Errors = append(out.Errors, ErrorGroup{
			Source: g.Source, Destination: g.Destination, Signature: g.Signature, Count: int64(g.Count), More: g.More,
			FirstAt: Time(g.FirstAt), LastAt: Time(g.LastAt), LastError: g.Sample,
		})
	}
	return out
}
