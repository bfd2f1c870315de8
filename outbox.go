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
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/wire"
)

// Message is a message to a destination. Make a new one for each call of EnqueueTx, which sets its
// ID.
type Message struct {
	// ID is the message's id and the dedupe key for its destination (webhook-id, Idempotency-Key),
	// the same on every attempt. EnqueueTx makes one if it is "". A message with an ID of your own is
	// enqueued once, also in a replay of its event, while its row is kept (Config.DedupeWindow). At most
	// 255 bytes of printable ASCII without '.' and spaces.
	ID          string
	Destination string // its name; messages to an unknown one wait until it is configured
	Type        string // of the event, as the destination sees it; defaults to the type of Cause
	// Header holds further headers; Content-Type defaults to application/json. Over HTTP, hop-by-hop headers, Host,
	// Cookie, Authorization, X-Forwarded-*, Webhook-*, Idempotency-Key and Hookonce-* are left out, as for any event.
	// Put a credential into the destination's URL or Secret, or let a Sender add it.
	Header http.Header
	Body   []byte
	// Cause is the event that the message comes from. It is shown with the message, and sent to the
	// destination. In a handler it defaults to the handler's event.
	Cause *Event
}

// Outbox writes messages in your own transaction. It is safe for concurrent use.
type Outbox[T any] struct {
	db driver.Driver[T]
}

// NewOutbox returns the outbox of a database. It panics if db is nil.
func NewOutbox[T any](db driver.Driver[T]) *Outbox[T] {
	if db == nil {
		panic("hookonce: NewOutbox needs a database")
	}
	return &Outbox[T]{db}
}

// EnqueueTx writes messages in tx. They are sent, at least once and under one id, if and only if tx
// commits. In a handler, with its context and transaction, they are shown with the handler's event
// and are sent at once after the commit; elsewhere within a second.
//
// EnqueueTx sets the ID of messages without one. Later runs of a handler's event give the same message
// the same ID, unless they replay it as new; see docs/library.md. Elsewhere the ID is random.
//
// The error names the message at fault; then nothing was written. After an error of PostgreSQL, tx
// can only be rolled back.
func (o *Outbox[T]) EnqueueTx(ctx context.Context, tx T, messages ...*Message) error {
	if len(messages) == 0 {
		return nil
	}
	run := runningOf(ctx)
	if run != nil {
		run.mu.Lock()
		defer run.mu.Unlock()
	}
	made := make(map[string]int) // as running.made, of this call
	rows := make([]driver.OutboxMessage, len(messages))
	for i, m := range messages {
		err := m.check()
		if err == nil {
			if m.ID == "" && run == nil {
				m.ID = newMessageID()
			}
			rows[i] = m.row(run)
			if m.ID == "" {
				rows[i].CauseGeneration = run.event.Generation
				rows[i].ID = run.defaultID(m, &rows[i], made)
			}
			err = rows[i].Check()
		}
		if err != nil {
			return fmt.Errorf("hookonce: message %d: %w", i, err)
		}
	}
	if err := o.db.EnqueueTx(ctx, tx, rows); err != nil {
		return fmt.Errorf("hookonce: %w", err) // it says what it did
	}
	for i, m := range messages {
		m.ID = rows[i].ID
	}
	if run != nil {
		run.messages = append(run.messages, messages...)
		for id, n := range made {
			run.made[id] += n
		}
	}
	return nil
}

// row returns m as it is stored, with the ID that it has. run may be nil.
func (m *Message) row(run *running) driver.OutboxMessage {
	row := driver.OutboxMessage{ID: m.ID, Destination: m.Destination, Type: m.Type, Body: m.Body}
	header, cause := m.header(), m.Cause
	if cause == nil && run != nil {
		cause = run.event
	}
	if cause != nil {
		if header.Get("Traceparent") == "" {
			continueTrace(header, cause.Header)
		}
		row.Source, row.EventID, row.Cause = cause.Source, cause.ID, cause.key
		if m.Type == "" {
			row.Type = cause.Type
		}
	}
	row.Headers = wire.EncodeHeader(wire.VisibleHeader(header, nil, nil))
	return row
}

// header returns the message's own headers.
func (m *Message) header() http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	for name, values := range m.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return header
}

// defaultID returns the id of m, which is stored as row, if it has none, and counts it in made. Trace headers
// differ between runs, so the id does not depend on them.
func (r *running) defaultID(m *Message, row *driver.OutboxMessage, made map[string]int) string {
	header := m.header()
	header.Del("Traceparent")
	header.Del("Tracestate")
	seen := *row
	seen.Headers = wire.EncodeHeader(wire.VisibleHeader(header, nil, nil))
	first := driver.EnqueuedID(r.event.identity(), r.event.keyGeneration, &seen, 0)
	equals := r.made[first] + made[first]
	made[first]++
	if equals == 0 {
		return first
	}
	return driver.EnqueuedID(r.event.identity(), r.event.keyGeneration, &seen, equals)
}

// continueTrace makes a message of header continue the trace of its cause.
func continueTrace(header, cause http.Header) {
	if traceparent := send.Traceparent(cause); traceparent != "" {
		header.Set("Traceparent", traceparent)
		if state := cause.Values("Tracestate"); len(state) > 0 {
			header["Tracestate"] = state
		}
	}
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

// checkHeader refuses headers that HTTP cannot send.
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

// newMessageID returns a random id of 160 bits, in the form of driver.MessageID.
func newMessageID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "msg_" + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
