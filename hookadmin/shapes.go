package hookadmin

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
)

// Time is a time as the API prints it: RFC 3339 in UTC with microseconds, or null for the zero
// time.
type Time time.Time

// timeLayout keeps trailing zeros, so that texts sort like times.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// String returns t as text, or "" for the zero time.
func (t Time) String() string {
	if time.Time(t).IsZero() {
		return ""
	}
	return time.Time(t).UTC().Format(timeLayout)
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.String())
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(text []byte) error { return (*time.Time)(t).UnmarshalJSON(text) }

// EventPage is the answer of GET /api/v1/events.
type EventPage struct {
	Events []Event `json:"events"`
	// Next is the cursor of the next page; "" on the last one.
	Next string `json:"next"`
	// SearchedUntil is absent, unless the page ended before it was full: later events were all looked
	// at, and Next continues the search with earlier ones.
	SearchedUntil Time `json:"searched_until,omitzero"`
}

// Event is an event in a listing.
type Event struct {
	Source      string `json:"source"`
	EventID     string `json:"event_id"`
	Type        string `json:"type"`
	State       string `json:"state"`
	Note        string `json:"note"`
	Attempts    int    `json:"attempts"`
	Generation  int    `json:"generation"`
	Duplicates  int64  `json:"duplicates,string"`
	ReceivedAt  Time   `json:"received_at"`
	OccurredAt  Time   `json:"occurred_at"`
	ProcessedAt Time   `json:"processed_at"`
	LastError   string `json:"last_error"`
}

// EventDetail is the answer of GET /api/v1/events/{source}/{event_id}: the keys of Event, and the
// keys below. Here attempts is a list, and attempt_count its length.
type EventDetail struct {
	Event
	AttemptCount int  `json:"attempt_count"`
	FailedAt     Time `json:"failed_at"`

	// Headers are the sender's headers by name; null past retention.
	Headers map[string][]string `json:"headers"`
	// Body is a body of valid UTF-8, otherwise null; BodyBase64 is any other body, otherwise null.
	// Both are null past retention.
	Body       *string `json:"body"`
	BodyBase64 []byte  `json:"body_base64"`
	BodySHA256 string  `json:"body_sha256"` // hex; kept past retention
	BodyPruned bool    `json:"body_pruned"` // retention removed body and headers

	Deliveries Deliveries `json:"deliveries"`
	Messages   []Message  `json:"messages"` // by route, then id
	Attempts   []Attempt  `json:"attempts"` // oldest first; hides the count in Event
	History    []History  `json:"history"`  // oldest first
}

// History is a change of an event other than a delivery or an attempt.
type History struct {
	At Time `json:"at"`
	// Action is replayed, replayed_as_new, replayed_same_id, reopened, retried or discarded.
	Action     string `json:"action"`
	Generation int    `json:"generation"` // of the event, or of the message, after the change
	MessageID  string `json:"message_id"` // "" for a change of the whole event
	RequestID  string `json:"request_id"` // the Idempotency-Key of a replay, or ""
}

// Deliveries sums up the deliveries of an event.
type Deliveries struct {
	Count       int64 `json:"count,string"` // at least 1
	FirstAt     Time  `json:"first_at"`
	LastAt      Time  `json:"last_at"`
	OtherBodies int64 `json:"other_bodies,string"` // deliveries whose body differed from the first
	// RepeatOf is the id of an earlier event with the same body; "" if there is none or bodies are
	// not compared.
	RepeatOf string `json:"repeat_of"`
	Repeats  int64  `json:"repeats,string"` // deliveries of this body under other ids
}

// Message is the message of an event for one route.
type Message struct {
	ID          string `json:"id"`
	Route       string `json:"route"`
	Destination string `json:"destination"`
	State       string `json:"state"`
	Note        string `json:"note"`
	Generation  int    `json:"generation"`
	Attempts    int    `json:"attempts"`
	StatusCode  *int   `json:"status_code"` // of the last answer; null without one
	LastError   string `json:"last_error"`
	DueAt       Time   `json:"due_at"`
	LeasedUntil Time   `json:"leased_until"`
	CreatedAt   Time   `json:"created_at"`
	SentAt      Time   `json:"sent_at"`
	FailedAt    Time   `json:"failed_at"`
}

// Attempt is one outcome of sending a message.
type Attempt struct {
	MessageID   string  `json:"message_id"`
	Generation  int     `json:"generation"`
	Number      int     `json:"number"`  // from 1
	Outcome     string  `json:"outcome"` // sent, retry or dead
	StatusCode  *int    `json:"status_code"`
	Error       string  `json:"error"`
	At          Time    `json:"at"`
	TookSeconds float64 `json:"took_seconds"`
}

// NewEventPage returns page as the API prints it.
func NewEventPage(page *driver.EventPage) *EventPage {
	out := &EventPage{Events: make([]Event, 0, len(page.Events)), Next: page.Next.String(), SearchedUntil: Time(page.SearchedUntil)}
	for i := range page.Events {
		out.Events = append(out.Events, newEvent(&page.Events[i]))
	}
	return out
}

func newEvent(ev *driver.Event) Event {
	return Event{
		Source:      ev.Source,
		EventID:     ev.EventID,
		Type:        ev.Type,
		State:       ev.State,
		Note:        ev.Note,
		Attempts:    ev.Attempts,
		Generation:  ev.Generation,
		Duplicates:  ev.Duplicates,
		ReceivedAt:  Time(ev.ReceivedAt),
		OccurredAt:  Time(ev.OccurredAt),
		ProcessedAt: Time(ev.ProcessedAt),
		LastError:   ev.LastError,
	}
}

// NewEventDetail returns detail as the API prints it. It fails if the stored headers are not a JSON
// object of lists of strings.
func NewEventDetail(detail *driver.EventDetail) (*EventDetail, error) {
	out := &EventDetail{
		Event:        newEvent(&detail.Event),
		AttemptCount: detail.Event.Attempts,
		FailedAt:     Time(detail.FailedAt),
		BodySHA256:   hex.EncodeToString(detail.BodySHA256[:]),
		BodyPruned:   detail.BodyPruned,
		Deliveries: Deliveries{
			Count:       detail.Deliveries.Count,
			FirstAt:     Time(detail.Deliveries.FirstAt),
			LastAt:      Time(detail.Deliveries.LastAt),
			OtherBodies: detail.Deliveries.OtherBodies,
			RepeatOf:    detail.Deliveries.RepeatOf,
			Repeats:     detail.Deliveries.Repeats,
		},
		Messages: make([]Message, 0, len(detail.Messages)),
		Attempts: make([]Attempt, 0, len(detail.Tries)),
		History:  make([]History, 0, len(detail.History)),
	}
	var err error
	if out.Headers, err = headers(detail.Headers); err != nil {
		return nil, fmt.Errorf("stored headers of event %q of source %q: %w", detail.EventID, detail.Source, err)
	}
	if !detail.BodyPruned {
		out.Body, out.BodyBase64 = body(detail.Body)
	}
	for i := range detail.Messages {
		out.Messages = append(out.Messages, newMessage(&detail.Messages[i]))
	}
	for i := range detail.Tries {
		out.Attempts = append(out.Attempts, newAttempt(&detail.Tries[i]))
	}
	for _, h := range detail.History {
		out.History = append(out.History, History{
			At: Time(h.At), Action: h.Action, Generation: h.Generation, MessageID: h.MessageID, RequestID: h.RequestID,
		})
	}
	return out, nil
}

// headers decodes stored headers; nil stays nil.
func headers(stored []byte) (map[string][]string, error) {
	if stored == nil {
		return nil, nil
	}
	var byName map[string][]string
	err := json.Unmarshal(stored, &byName)
	return byName, err
}

// body returns raw as text if it is valid UTF-8, otherwise as bytes.
func body(raw []byte) (text *string, bytes []byte) {
	if utf8.Valid(raw) {
		return new(string(raw)), nil
	}
	return nil, raw
}

func newMessage(m *driver.MessageDetail) Message {
	return Message{
		ID:          m.ID,
		Route:       m.Route,
		Destination: m.Destination,
		State:       m.State,
		Note:        m.Note,
		Generation:  m.Generation,
		Attempts:    m.Attempts,
		StatusCode:  statusCode(m.StatusCode),
		LastError:   m.LastError,
		DueAt:       Time(m.DueAt),
		LeasedUntil: Time(m.LeasedUntil),
		CreatedAt:   Time(m.CreatedAt),
		SentAt:      Time(m.SentAt),
		FailedAt:    Time(m.FailedAt),
	}
}

func newAttempt(a *driver.Attempt) Attempt {
	return Attempt{
		MessageID:   a.MessageID,
		Generation:  a.Generation,
		Number:      a.Number,
		Outcome:     a.Outcome,
		StatusCode:  statusCode(a.StatusCode),
		Error:       a.Error,
		At:          Time(a.At),
		TookSeconds: a.Took.Seconds(),
	}
}

func statusCode(code int) *int {
	if code == 0 {
		return nil
	}
	return &code
}
