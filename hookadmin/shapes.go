package hookadmin

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
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
	Waiting     bool   `json:"waiting"` // it is running, and no message is being sent
	Note        string `json:"note"`
	Attempts    int    `json:"attempts"`
	Generation  int    `json:"generation"`
	Duplicates  int64  `json:"duplicates,string"`
	ReceivedAt  Time   `json:"received_at"`
	OccurredAt  Time   `json:"occurred_at"`
	ProcessedAt Time   `json:"processed_at"`
	LastError   string `json:"last_error"`
	// By is how it came: webhook, or reconcile if it never arrived and was found in the provider's list.
	By string `json:"by"`
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
	BodyPruned bool    `json:"body_pruned"` // body and headers were removed by retention, or redacted
	Redacted   bool    `json:"redacted"`    // an operator removed the payload

	// OtherBody is the first delivery with another body; null if there is none, and past retention.
	OtherBody *OtherBody `json:"other_body"`

	Deliveries Deliveries `json:"deliveries"`
	Messages   []Message  `json:"messages"` // by route, then id
	Attempts   []Attempt  `json:"attempts"` // oldest first; hides the count in Event
	History    []History  `json:"history"`  // oldest first
}

// History is a change of an event other than a delivery or an attempt.
type History struct {
	At Time `json:"at"`
	// Action is replayed, replayed_as_new, replayed_same_id, rerouted, sent_to, reopened, retried, discarded or redacted.
	Action     string `json:"action"`
	Generation int    `json:"generation"` // of the event, or of the message, after the change
	MessageID  string `json:"message_id"` // "" for a change of the whole event
	RequestID  string `json:"request_id"` // the Idempotency-Key of a replay or a redaction, or ""
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
	// FirstRemote and FirstGateway are those of the first delivery, as in Delivery.
	FirstRemote  string     `json:"first_remote"`
	FirstGateway string     `json:"first_gateway"`
	Recent       []Delivery `json:"recent"` // the newest 20, newest first
}

// Delivery is one delivery of an event.
type Delivery struct {
	At       Time   `json:"at"`
	By       string `json:"by"`      // webhook, or reconcile: not a delivery, but the claim from the provider's list
	Remote   string `json:"remote"`  // the client's address; "" if it is not known
	Gateway  string `json:"gateway"` // the name of the host that received it
	SameBody bool   `json:"same_body"`
}

// OtherBody is a delivery of an event whose body differs from the first.
type OtherBody struct {
	At      Time                `json:"at"`
	Headers map[string][]string `json:"headers"`
	// Body and BodyBase64 are the first 64 KiB, as in EventDetail.
	Body       *string `json:"body"`
	BodyBase64 []byte  `json:"body_base64"`
	BodySHA256 string  `json:"body_sha256"` // hex, of the whole body
	BodySize   int64   `json:"body_size,string"`
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
	InLine      bool   `json:"in_line"` // pending, and due once messages before it have ended, see routes with order
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
	// Response is the beginning of the answer to a failed attempt: text of UTF-8 without control
	// characters except tabs and line ends, otherwise null. ResponseBase64 is any other response,
	// otherwise null. Only the first and the last failed attempt of a message have one.
	Response       *string `json:"response"`
	ResponseBase64 []byte  `json:"response_base64"`
	ResponseType   string  `json:"response_type"` // its Content-Type; hostile text
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
		Waiting:     ev.Waiting,
		Note:        ev.Note,
		Attempts:    ev.Attempts,
		Generation:  ev.Generation,
		Duplicates:  ev.Duplicates,
		ReceivedAt:  Time(ev.ReceivedAt),
		OccurredAt:  Time(ev.OccurredAt),
		ProcessedAt: Time(ev.ProcessedAt),
		LastError:   ev.LastError,
		By:          by(ev.Reconciled),
	}
}

// Ways of an event to hookonce.
const (
	byWebhook   = "webhook"
	byReconcile = "reconcile"
)

func by(reconciled bool) string {
	if reconciled {
		return byReconcile
	}
	return byWebhook
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
		Redacted:     detail.Redacted(),
		Deliveries: Deliveries{
			Count:       detail.Deliveries.Count,
			FirstAt:     Time(detail.Deliveries.FirstAt),
			LastAt:      Time(detail.Deliveries.LastAt),
			OtherBodies: detail.Deliveries.OtherBodies,
			RepeatOf:    detail.Deliveries.RepeatOf,
			Repeats:     detail.Deliveries.Repeats,

			FirstRemote: detail.Deliveries.FirstRemote, FirstGateway: detail.Deliveries.FirstGateway,
			Recent: make([]Delivery, 0, len(detail.Recent)),
		},
		Messages: make([]Message, 0, len(detail.Messages)),
		Attempts: make([]Attempt, 0, len(detail.Tries)),
		History:  make([]History, 0, len(detail.History)),
	}
	var err error
	if out.Headers, err = headersOf(detail.Headers); err != nil {
		return nil, fmt.Errorf("stored headers of event %q of source %q: %w", detail.EventID, detail.Source, err)
	}
	if !detail.BodyPruned {
		out.Body, out.BodyBase64 = body(detail.Body)
	}
	for _, d := range detail.Recent {
		out.Deliveries.Recent = append(out.Deliveries.Recent, Delivery{At: Time(d.At), By: by(d.Remote == driver.RemoteReconcile), Remote: d.Remote, Gateway: d.Gateway, SameBody: d.SameBody})
	}
	if o := detail.OtherBody; o != nil {
		other := &OtherBody{At: Time(o.At), BodySHA256: hex.EncodeToString(o.SHA256[:]), BodySize: o.Size}
		if other.Headers, err = headersOf(o.Headers); err != nil {
			return nil, fmt.Errorf("stored headers of another body of event %q of source %q: %w", detail.EventID, detail.Source, err)
		}
		other.Body, other.BodyBase64 = body(o.Body)
		out.OtherBody = other
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

// headersOf decodes stored headers; nil stays nil.
func headersOf(stored []byte) (map[string][]string, error) {
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

// bytesOf returns what body or response got.
func bytesOf(text *string, bytes []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return bytes
}

func newMessage(m *driver.MessageDetail) Message {
	due, inLine := m.DueAt, m.DueAt.Equal(driver.ParkedUntil)
	if inLine {
		due = time.Time{}
	}
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
		DueAt:       Time(due),
		InLine:      inLine,
		LeasedUntil: Time(m.LeasedUntil),
		CreatedAt:   Time(m.CreatedAt),
		SentAt:      Time(m.SentAt),
		FailedAt:    Time(m.FailedAt),
	}
}

func newAttempt(a *driver.Attempt) Attempt {
	text, raw := response(a.Response)
	return Attempt{
		MessageID:   a.MessageID,
		Generation:  a.Generation,
		Number:      a.Number,
		Outcome:     a.Outcome,
		StatusCode:  statusCode(a.StatusCode),
		Error:       a.Error,
		At:          Time(a.At),
		TookSeconds: a.Took.Seconds(),

		Response: text, ResponseBase64: raw, ResponseType: a.ResponseType,
	}
}

// response returns raw as text if people can read it, otherwise as bytes. Both are nil without one.
func response(raw []byte) (text *string, bytes []byte) {
	unreadable := func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' }
	switch {
	case len(raw) == 0:
		return nil, nil
	case utf8.Valid(raw) && strings.IndexFunc(string(raw), unreadable) < 0:
		return new(string(raw)), nil
	}
	return nil, raw
}

func statusCode(code int) *int {
	if code == 0 {
		return nil
	}
	return &code
}

// shownWaiting is for people the state of a running event while messages wait and none is being sent.
const shownWaiting = "waiting"

// ShownState is State for people.
func (e *Event) ShownState() string {
	if e.Waiting {
		return shownWaiting
	}
	return e.State
}
