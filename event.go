package hookonce

import (
	"net/http"
	"time"
)

// Event is one thing that a source told us.
type Event struct {
	Source     string
	ID         string // the sender's id, as shown; parts of a composite one are joined by ':'
	Type       string // "" if the provider has none
	OccurredAt time.Time
	Header     http.Header // as received; shared credentials are replaced by "<secret>"
	Body       []byte      // as received, or inflated if it was compressed; one item of a batch
}
