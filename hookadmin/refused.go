package hookadmin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/tell"
)

// errorURN begins the instance of a problem; the error id follows.
const errorURN = "urn:hookonce:error:"

var refusedParameters = []string{"source", "reason", "remote", "id", "since", "until", "limit", "cursor"}

func (h *handling) listRefused(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, ParseRefusedFilter, h.engine.Operator().Refused, newRefusedPage)
}

// ParseRefusedFilter reads the parameters of GET /api/v1/refused, as ParseFilter does. id is an error
// id, alone or as the instance of a problem.
func ParseRefusedFilter(values url.Values, now time.Time) (*driver.RefusedFilter, error) {
	l, err := parseListing(values, refusedParameters, nil, now)
	if err != nil {
		return nil, err
	}
	reasons := tell.Kept()
	if reason := values.Get("reason"); reason != "" && !slices.Contains(reasons, reason) {
		return nil, &ParameterError{"reason", fmt.Sprintf("%q is unknown; use %s", reason, strings.Join(reasons, ", "))}
	}
	after, err := driver.ParseCursor(values.Get("cursor"))
	if err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return &driver.RefusedFilter{
		Source:  values.Get("source"),
		Reason:  values.Get("reason"),
		Remote:  values.Get("remote"),
		ErrorID: strings.TrimPrefix(values.Get("id"), errorURN),
		Since:   l.since,
		Until:   l.until,
		Limit:   l.limit,
		After:   after,
	}, nil
}

// RefusedPage is the answer of GET /api/v1/refused.
type RefusedPage struct {
	Refused []RefusedRequest `json:"refused"` // newest first
	// Next is the cursor of the next page; "" on the last one.
	Next string `json:"next"`
}

// RefusedRequest is a request that was answered 4xx or 503, but not a malformed one.
type RefusedRequest struct {
	ID      string `json:"id"` // the error id in the answer and in the log
	At      Time   `json:"at"`
	Source  string `json:"source"` // "" if there is no such source
	Reason  string `json:"reason"`
	Status  int    `json:"status"`
	Method  string `json:"method"`
	Remote  string `json:"remote"`  // the client's address
	Gateway string `json:"gateway"` // the name of the host that answered
	// Headers are redacted: most values are shown as their length.
	Headers map[string][]string `json:"headers"`
	// Body is the beginning of a body of valid UTF-8, otherwise null; BodyBase64 is that of any other
	// body, otherwise null.
	Body       *string `json:"body"`
	BodyBase64 []byte  `json:"body_base64"`
	BodySize   *int64  `json:"body_size,string"` // of the whole body; null if it was not read
}

func newRefusedPage(page *driver.RefusedPage) *RefusedPage {
	out := &RefusedPage{Refused: []RefusedRequest{}, Next: page.Next.String()}
	for i := range page.Requests {
		q := &page.Requests[i]
		r := RefusedRequest{
			ID: q.ErrorID, At: Time(q.At), Source: q.Source, Reason: q.Reason, Status: q.Status, Method: q.Method, Remote: q.Remote, Gateway: q.Gateway,
			Headers: map[string][]string{},
		}
		// Headers that cannot be read were changed by hand; the rest is still worth showing.
		if byName, err := headersOf(q.Headers); err == nil && byName != nil {
			r.Headers = byName
		}
		r.Body, r.BodyBase64 = bodyStart(q.Body)
		if q.BodySize >= 0 {
			r.BodySize = &q.BodySize
		}
		out.Refused = append(out.Refused, r)
	}
	return out
}

// bodyStart returns the beginning of a body as text or as bytes, as body does. The end of the
// beginning may split a character.
func bodyStart(raw []byte) (text *string, bytes []byte) {
	if len(raw) == driver.MaxRefusedBody {
		for cut := range utf8.UTFMax {
			if text, _ := body(raw[:len(raw)-cut]); text != nil {
				return text, nil
			}
		}
	}
	return body(raw)
}
