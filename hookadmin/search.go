package hookadmin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// maxHits is the most hits of a search.
const maxHits = 50

var searchParameters = []string{"q", "cursor"}

// The kinds of hits.
const (
	hitEvent       = "event"
	hitMessage     = "message"
	hitRefused     = "refused"
	hitQuarantined = "quarantined"
)

// SearchPage is the answer of GET /api/v1/search.
type SearchPage struct {
	Hits []Hit `json:"hits"` // by kind; those of a kind newest first
	// Next continues the search for a trace id; "" if it is complete, or q is no trace id.
	Next string `json:"next"`
	// SearchedUntil is absent, unless the search for a trace id ended at a bound; see EventPage.
	SearchedUntil Time `json:"searched_until,omitzero"`
}

// Hit is a thing that a search found.
type Hit struct {
	Kind        string `json:"kind"` // event, message, refused or quarantined
	Source      string `json:"source"`
	EventID     string `json:"event_id"`    // of an event, and of the event of a message; otherwise ""
	MessageID   string `json:"message_id"`  // of a message; otherwise ""
	ID          string `json:"id"`          // of a refused or quarantined request; otherwise ""
	Type        string `json:"type"`        // of an event, and of the event of a message; otherwise ""
	Destination string `json:"destination"` // of a message; otherwise ""
	State       string `json:"state"`       // of an event or a message; otherwise ""
	Reason      string `json:"reason"`      // of a refused or quarantined request; otherwise ""
	At          Time   `json:"at"`          // when the request arrived, or last arrived
}

func (h *handling) search(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	err := checkParameters(values, searchParameters)
	q := strings.TrimSpace(values.Get("q"))
	if err == nil && q == "" {
		err = &ParameterError{"q", "is required: an event id, a message id, an error id, the id of a quarantined request or a trace id"}
	}
	after, cursorErr := driver.ParseCursor(values.Get("cursor"))
	if err == nil && cursorErr != nil {
		err = &ParameterError{"cursor", cursorErr.Error()}
	}
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.find(ctx, q, after)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("searching: %w", err))
		return
	}
	writeJSON(w, found)
}

// find looks q up as every kind of id that it may be. With a cursor it only continues the search for a
// trace id.
func (h *handler) find(ctx context.Context, q string, after driver.Cursor) (*SearchPage, error) {
	page := &SearchPage{Hits: []Hit{}}
	if after.IsZero() {
		for _, look := range []func(context.Context, *SearchPage, string) error{h.findEvents, h.findMessage, h.findRefused, h.findQuarantined} {
			if err := look(ctx, page, q); err != nil {
				return nil, err
			}
		}
	}
	if id := traceID(q); id != "" && len(page.Hits) < maxHits {
		events, err := h.store.Events(ctx, &driver.EventFilter{TraceID: id, After: after, Limit: maxHits - len(page.Hits)})
		if err != nil {
			return nil, err
		}
		page.addEvents(events)
		page.Next, page.SearchedUntil = events.Next.String(), Time(events.SearchedUntil)
	}
	return page, nil
}

func (p *SearchPage) addEvents(events *driver.EventPage) {
	for i := range events.Events {
		e := &events.Events[i]
		p.Hits = append(p.Hits, Hit{Kind: hitEvent, Source: e.Source, EventID: e.EventID, Type: e.Type, State: e.State, At: Time(e.ReceivedAt)})
	}
}

func (h *handler) findEvents(ctx context.Context, page *SearchPage, q string) error {
	events, err := h.store.Events(ctx, &driver.EventFilter{ID: q, Sources: h.sources(), Limit: maxHits})
	if err == nil {
		page.addEvents(events)
	}
	return err
}

func (h *handler) findMessage(ctx context.Context, page *SearchPage, q string) error {
	messages, err := h.store.Messages(ctx, &driver.MessageFilter{MessageID: q, Limit: 1})
	if err != nil {
		return err
	}
	for i := range messages.Messages {
		m := &messages.Messages[i]
		page.Hits = append(page.Hits, Hit{
			Kind: hitMessage, Source: m.Source, EventID: m.EventID, MessageID: m.ID, Type: m.Type, Destination: m.Destination, State: m.State, At: Time(m.ReceivedAt),
		})
	}
	return nil
}

func (h *handler) findRefused(ctx context.Context, page *SearchPage, q string) error {
	refused, err := h.store.Refused(ctx, &driver.RefusedFilter{ErrorID: strings.TrimPrefix(q, errorURN), Limit: 1})
	if err != nil {
		return err
	}
	for i := range refused.Requests {
		r := &refused.Requests[i]
		page.Hits = append(page.Hits, Hit{Kind: hitRefused, Source: r.Source, ID: r.ErrorID, Reason: r.Reason, At: Time(r.At)})
	}
	return nil
}

func (h *handler) findQuarantined(ctx context.Context, page *SearchPage, q string) error {
	key, err := ParseQuarantineID(q)
	if err != nil {
		return nil // not such an id
	}
	found, err := h.store.QuarantinedRequest(ctx, key)
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	if err == nil {
		page.Hits = append(page.Hits, Hit{Kind: hitQuarantined, Source: found.Source, ID: hex.EncodeToString(found.Key[:]), Reason: found.Reason, At: Time(found.LastAt)})
	}
	return err
}

// traceparent is a trace id, alone or in the header of W3C Trace Context.
var traceparent = regexp.MustCompile(`^(?:[0-9a-f]{2}-)?([0-9a-f]{32})(?:-[0-9a-f]{16}-[0-9a-f]{2})?$`)

// traceID returns the trace id in q, or "".
func traceID(q string) string {
	m := traceparent.FindStringSubmatch(strings.ToLower(q))
	if m == nil || strings.Trim(m[1], "0") == "" {
		return ""
	}
	return m[1]
}
