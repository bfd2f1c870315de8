package hookonce

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/wire"
)

// Message is something to send to a destination. Make one for each call of
// EnqueueTx, which sets its ID.
type Message struct {
	// ID is the message's id, and the dedupe key that its destination sees
	// (webhook-id, Idempotency-Key), the same on every attempt. EnqueueTx makes one
	// where it is "". A message with an ID that was enqueued before, while its row
	// is kept (Config.DedupeWindow), is not enqueued again, which makes enqueueing
	// safe to repeat. At most 255 bytes of printable ASCII without '.' and spaces.
	ID string
	// Destination is the name of a destination. Messages to one that nobody has
	// set up wait until somebody has.
	Destination string
	// Type says what it is about. Of a message with a Cause it defaults to the
	// event's.
	Type string
	// Header is sent with it; Content-Type defaults to application/json. By HTTP,
	// hop-by-hop headers, Host, Cookie, Authorization, X-Forwarded-*, Webhook-*,
	// Idempotency-Key and Hookonce-* are left out, as of any event: what a
	// destination asks for belongs into its URL or Secret, or a Sender adds it.
	Header http.Header
	Body   []byte
	// Cause is the event that it comes from: it is shown with it, and the
	// destination is told. Inside a handler it defaults to the handler's event.
	Cause *Event
}

// Outbox writes messages in the user's own transaction. Make one with NewOutbox.
// It may be used concurrently.
type Outbox[T any] struct {
	db driver.Driver[T]
}

// NewOutbox returns the outbox of a database. It panics where db is nil.
func NewOutbox[T any](db driver.Driver[T]) *Outbox[T] {
	if db == nil {
		panic("hookonce: NewOutbox needs a database")
	}
	return &Outbox[T]{db}
}

// EnqueueTx writes messages in tx: they are sent, at least once and under one id,
// if and only if tx commits. Inside a handler, with the context and transaction
// it was given, they are shown with its event, and are sent at once after the
// commit; elsewhere they are found within the second. It sets the ID of
// messages that have none.
//
// The error says which message is at fault; then nothing was written. An error of
// PostgreSQL leaves tx such that it can only be rolled back.
func (o *Outbox[T]) EnqueueTx(ctx context.Context, tx T, messages ...*Message) error {
	if len(messages) == 0 {
		return nil
	}
	run := runningOf(ctx)
	rows := make([]driver.OutboxMessage, len(messages))
	for i, m := range messages {
		if err := m.check(); err != nil {
			return fmt.Errorf("hookonce: message %d: %w", i, err)
		}
		if m.ID == "" {
			m.ID = newMessageID()
		}
		header := http.Header{"Content-Type": {"application/json"}}
		for name, values := range m.Header {
			header[http.CanonicalHeaderKey(name)] = values
		}
		rows[i] = driver.OutboxMessage{
			ID: m.ID, Destination: m.Destination, Type: m.Type,
			Headers: wire.EncodeHeader(wire.VisibleHeader(header, nil, "")), Body: m.Body,
		}
		cause := m.Cause
		if cause == nil && run != nil {
			cause = run.event
		}
		if cause != nil {
			rows[i].Source, rows[i].EventID, rows[i].Cause = cause.Source, cause.ID, cause.key
			if m.Type == "" {
				rows[i].Type = cause.Type
			}
		}
		if err := rows[i].Check(); err != nil {
			return fmt.Errorf("hookonce: message %d: %w", i, err)
		}
	}
	if err := o.db.EnqueueTx(ctx, tx, rows); err != nil {
		return fmt.Errorf("hookonce: enqueueing: %w", err)
	}
	if run != nil {
		run.messages = append(run.messages, messages...)
	}
	return nil
}

func (m *Message) check() error {
	switch {
	case m == nil:
		return errors.New("it is nil")
	case m.Destination == "":
		return errors.New("it needs a destination")
	}
	return checkHeader(m.Header)
}

// checkHeader refuses what HTTP could not send.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\\"/[]?={}`, r)
		}) {
			return fmt.Errorf("%q cannot be the name of a header", name)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("the value of the header %s holds a control character", name)
			}
		}
	}
	return nil
}

// newMessageID returns a random id of 160 bits, of the form of driver.MessageID.
func newMessageID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the process instead
	return "msg_" + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
