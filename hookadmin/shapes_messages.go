package hookadmin

import (
	"cmp"

	"github.com/hookonce/hookonce/driver"
)

// DeadLetterPage is the answer of GET /api/v1/dead-letters.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	// Next is the cursor of the next page; "" on the last one.
	Next          string `json:"next"`
	SearchedUntil Time   `json:"searched_until,omitzero"` // like EventPage.SearchedUntil
}

// DeadLetter is a dead message, or a dead event that has no dead message.
type DeadLetter struct {
	Source      string `json:"source"`
	EventID     string `json:"event_id"`
	Type        string `json:"type"`
	Destination string `json:"destination"` // "" for an event
	MessageID   string `json:"message_id"`  // "" for an event
	Route       string `json:"route"`       // "" for an event
	Attempts    int    `json:"attempts"`
	Generation  int    `json:"generation"`
	StatusCode  *int   `json:"status_code"` // of the last answer; null without one
	LastError   string `json:"last_error"`
	Signature   string `json:"signature"` // of the error, see driver.ErrorSignature
	ReceivedAt  Time   `json:"received_at"`
	FailedAt    Time   `json:"failed_at"`
}

// MessagePage is the answer of GET /api/v1/messages.
type MessagePage struct {
	Messages []ListedMessage `json:"messages"`
	// Next is the cursor of the next page; "" on the last one.
	Next          string `json:"next"`
	SearchedUntil Time   `json:"searched_until,omitzero"` // like EventPage.SearchedUntil
}

// ListedMessage is a message and its event.
type ListedMessage struct {
	Source     string `json:"source"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	ReceivedAt Time   `json:"received_at"`
	Message
}

// Replayed is the answer of POST /api/v1/events/{source}/{event_id}/replay.
type Replayed struct {
	Source     string `json:"source"`
	EventID    string `json:"event_id"`
	Generation int    `json:"generation"` // of the event after the replay
	Messages   int    `json:"messages"`   // messages that are due again, or new
	Skipped    int    `json:"skipped"`    // of a reroute: messages that no route makes, and that are not sent
	Stayed     bool   `json:"stayed"`     // of a reroute and of to: the event is as wanted already, and nothing was done
	Repeated   bool   `json:"repeated"`   // the same request was carried out before, and nothing was done
}

// Worked is the answer of POST /api/v1/dead-letters/replay and /discard.
type Worked struct {
	Replayed  *int `json:"replayed,omitempty"`  // of /replay only
	Discarded *int `json:"discarded,omitempty"` // of /discard only
	// RequestID is of /discard only: by it the discard can be undone.
	RequestID string `json:"request_id,omitempty"`
	// Passed counts dead letters that were left alone because they are no longer dead or another
	// session holds their lock, and ids without a dead letter.
	Passed int `json:"passed"`
	// Complete is false if a command was interrupted; it is true in every answer of the API.
	Complete bool `json:"complete"`
}

// Retried is the answer of POST /api/v1/messages/{id}/retry.
type Retried struct {
	ID      string `json:"id"`
	Retried bool   `json:"retried"` // true
}

// NewDeadLetterPage returns page as the API prints it.
func NewDeadLetterPage(page *driver.DeadLetterPage) *DeadLetterPage {
	out := &DeadLetterPage{
		DeadLetters: make([]DeadLetter, 0, len(page.DeadLetters)), Next: page.Next.String(), SearchedUntil: Time(page.SearchedUntil),
	}
	for i := range page.DeadLetters {
		d := &page.DeadLetters[i]
		out.DeadLetters = append(out.DeadLetters, DeadLetter{
			Source:      d.Source,
			EventID:     d.EventID,
			Type:        d.Type,
			Destination: d.Destination,
			MessageID:   d.MessageID,
			Route:       d.Route,
			Attempts:    d.Attempts,
			Generation:  d.Generation,
			StatusCode:  statusCode(d.StatusCode),
			LastError:   d.LastError,
			Signature:   d.Signature,
			ReceivedAt:  Time(d.ReceivedAt),
			FailedAt:    Time(d.FailedAt),
		})
	}
	return out
}

// NewMessagePage returns page as the API prints it.
func NewMessagePage(page *driver.MessagePage) *MessagePage {
	out := &MessagePage{
		Messages: make([]ListedMessage, 0, len(page.Messages)), Next: page.Next.String(), SearchedUntil: Time(page.SearchedUntil),
	}
	for i := range page.Messages {
		m := &page.Messages[i]
		out.Messages = append(out.Messages, ListedMessage{
			Source:     m.Source,
			EventID:    m.EventID,
			Type:       m.Type,
			ReceivedAt: Time(m.ReceivedAt),
			Message:    newMessage(&m.MessageDetail),
		})
	}
	return out
}

// NewReplayed returns the result of a replay as the API prints it.
func NewReplayed(source, eventID string, replayed *driver.Replayed) *Replayed {
	return &Replayed{
		Source:     source,
		EventID:    eventID,
		Generation: replayed.Generation,
		Messages:   replayed.Messages,
		Skipped:    replayed.Skipped,
		Stayed:     replayed.Stayed,
		Repeated:   replayed.Repeated,
	}
}

// NewWorked returns the result of a job as the API prints it.
func NewWorked(j *Job) *Worked {
	out := &Worked{Passed: int(j.Skipped + j.Failed), Complete: j.State == driver.JobDone}
	done := int(j.Done)
	if j.Action == driver.JobDiscard {
		out.Discarded, out.RequestID = &done, cmp.Or(j.RequestID, j.ID)
	} else {
		out.Replayed = &done
	}
	return out
}
