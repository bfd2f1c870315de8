package hookonce

import (
	"context"
	"net/http"
)

// Sender sends messages of a destination by other means than HTTP: mail, a queue,
// the API of another service.
type Sender interface {
	// Send sends m once. nil means that it was taken; an error is a failed attempt,
	// see Permanent and RetryAfter. ctx ends after Destination.Timeout. Where the
	// process is killed in between, Send is called again with the same m.ID: pass it
	// on as the key by which the other side recognises repetitions. Send is called
	// by several goroutines at a time, Destination.Concurrency at most.
	//
	// One that does not return when ctx has ended is not waited for long: the attempt
	// has failed, and Send may be called again beside it. A panic is a failed attempt.
	Send(ctx context.Context, m *Outgoing) error
}

// SenderFunc is a function as a Sender.
type SenderFunc func(ctx context.Context, m *Outgoing) error

// Send calls f.
func (f SenderFunc) Send(ctx context.Context, m *Outgoing) error { return f(ctx, m) }

// Outgoing is a message that is being sent.
type Outgoing struct {
	ID          string // stable over all attempts
	Destination string
	Source      string // of the event it comes from; "" if it comes from none
	EventID     string
	Type        string
	Attempt     int // from 1
	Generation  int // 0 unless replayed
	// Header is as the event's was received, and as the message's own was enqueued;
	// shared credentials are replaced by "<secret>".
	Header http.Header
	Body   []byte // byte for byte; compressed where the header says so
}
