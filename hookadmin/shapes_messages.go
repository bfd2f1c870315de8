package hookadmin

import (
	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// DeadLetterPage is the answer of GET /api/v1/dead-letters.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	// Next is the cursor of the page that follows; "" on the last one.
	Next string `json:"next"`
}

// DeadLetter is a message, or an event itself, that is out of attempts or
// failed for good.
type DeadLetter struct {
	Source      string `json:"source"`
	EventID     string `json:"event_id"`
	Type        string `json:"type"`
	Destination string `json:"destination"` // "" for an event that is dead itself
	MessageID   string `json:"message_id"`  // "" for an event that is dead itself
	Route       string `json:"route"`       // "" for an event that is dead itself
	Attempts    int    `json:"attempts"`
	Generation  int    `json:"generation"`
	StatusCode  *int   `json:"status_code"` // of the last answer; null if there was none
	LastError   string `json:"last_error"`
	ReceivedAt  Time   `json:"received_at"`
	FailedAt    Time   `json:"failed_at"`
}

// MessagePage is the answer of GET /api/v1/messages.
type MessagePage struct {
	Messages []ListedMessage `json:"messages"`
	// Next is the cursor of the page that follows; "" on the last one.
	Next string `json:"next"`
}

// ListedMessage is a message with the event that it is of.
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
	Generation int    `json:"generation"` // of the event from now on
	Messages   int    `json:"messages"`   // how many are due again, or new
	Repeated   bool   `json:"repeated"`   // nothing was done: the same request was carried out before
}

// Worked is the answer of POST /api/v1/dead-letters/replay and /discard.
type Worked struct {
	Replayed  *int `json:"replayed,omitempty"`  // of /replay only
	Discarded *int `json:"discarded,omitempty"` // of /discard only
	// Passed is how many were left alone, because they were not dead any more
	// or another session had locked them; with ids of which nothing is dead.
	Passed int `json:"passed"`
	// Complete is false where the time for one request ran out.
	Complete bool `json:"complete"`
	// Next is the cursor with which the same request goes on; "" where it is
	// complete, or was for ids.
	Next string `json:"next"`
}

// Retried is the answer of POST /api/v1/messages/{id}/retry.
type Retried struct {
	ID      string `json:"id"`
	Retried bool   `json:"retried"` // true
}

// NewDeadLetterPage returns page in the shape of the API.
func NewDeadLetterPage(page *driver.DeadLetterPage) *DeadLetterPage {
	out := &DeadLetterPage{DeadLetters: make([]DeadLetter, 0, len(page.DeadLetters)), Next: page.Next.String()}
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
			ReceivedAt:  Time(d.ReceivedAt),
			FailedAt:    Time(d.FailedAt),
		})
	}
	return out
}

// NewMessagePage returns page in the shape of the API.
func NewMessagePage(page *driver.MessagePage) *MessagePage {
	out := &MessagePage{Messages: make([]ListedMessage, 0, len(page.Messages)), Next: page.Next.String()}
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

// NewReplayed returns what the replay of an event did in the shape of the API.
func NewReplayed(source, eventID string, replayed *driver.Replayed) *Replayed {
	return &Replayed{
		Source:     source,
		EventID:    eventID,
		Generation: replayed.Generation,
		Messages:   replayed.Messages,
		Repeated:   replayed.Repeated,
	}
}

// NewReplayedDead returns what became of dead letters that were to be replayed
// in the shape of the API. complete is false where some may be left.
func NewReplayedDead(worked hookonce.Worked, complete bool) *Worked {
	return &Worked{Replayed: &worked.Done, Passed: worked.Passed, Complete: complete, Next: worked.Next.String()}
}

// NewDiscarded returns what became of dead letters that were to be discarded in
// the shape of the API. complete is false where some may be left.
func NewDiscarded(worked hookonce.Worked, complete bool) *Worked {
	return &Worked{Discarded: &worked.Done, Passed: worked.Passed, Complete: complete, Next: worked.Next.String()}
}
