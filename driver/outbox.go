package driver

import (
	"encoding/binary"
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
	Cause Key
	// CauseGeneration is the generation of the event Cause; 0 for an ID that the caller chose. A finished
	// message that was last enqueued in a lower one becomes due again, see Driver.EnqueueTx.
	CauseGeneration int
	Headers         []byte // JSON object of header name to list of values
	Body            []byte
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

// EnqueuedID returns the default id of a message that the handler of the event key enqueues.
// keyGeneration is the generation of the event's last replay as new. equals is the number of equal
// messages that this run of the handler enqueued before. The id depends on all that the destination
// sees, but not on the order of the messages. It has the form of MessageID, with 160 bits of a SHA-256:
// the sender of an event cannot make two contents that share an id.
func EnqueuedID(key Key, keyGeneration int, m *OutboxMessage, equals int) string {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], uint64(keyGeneration))
	binary.BigEndian.PutUint64(numbers[8:], uint64(equals))
	sum := hashStrings("enqueued", []string{
		string(key[:]), string(numbers[:]), m.Destination, m.Type, m.Source, m.EventID, string(m.Cause[:]), string(m.Headers), string(m.Body),
	})
	return messagePrefix + base32Lower.EncodeToString(sum[:2*messageKeySize])
}

// OutboxKey returns the key of the row with the content of message id.
func OutboxKey(id string) Key { return hashStrings("outbox", []string{id}) }
