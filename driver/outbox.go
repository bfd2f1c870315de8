package driver

import (
	"errors"
	"fmt"
	"strings"
)

// MaxMessageID is the maximum size of the id of an enqueued message, in bytes.
const MaxMessageID = 255

// OutboxMessage is a message that does not come from a claim; it has a body of its own.
type OutboxMessage struct {
	ID          string // at most 255 bytes of printable ASCII without '.'
	Destination string
	// Source, EventID and Type describe its origin; they may be "".
	Source  string
	EventID string
	Type    string
	// the event whose handler wrote it; zero if there is none
	Cause   Key
	Headers []byte // JSON object of header name to list of values
	Body    []byte
}

// Check returns an error if m has an id or a text that a store cannot store.
func (m *OutboxMessage) Check() error {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' || r == '.' }
	if m.ID == "" || len(m.ID) > MaxMessageID || strings.ContainsFunc(m.ID, notPrintable) {
		return fmt.Errorf("its id must be 1 to %d characters of printable ASCII without '.' and spaces", MaxMessageID)
	}
	for _, text := range [...]string{m.Destination, m.Source, m.EventID, m.Type} {
		if !IsText(text) {
			return errors.New("its destination, source, event id or type is not valid UTF-8, or contains a NUL")
		}
	}
	return nil
}

// OutboxKey returns the key of the row with the content of message id.
func OutboxKey(id string) Key { return hashStrings("outbox", []string{id}) }
