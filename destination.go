package hookonce

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"sync"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/send"
)

// Sender sends the messages of a destination by other means than HTTP: mail, a queue, the API of
// another service.
type Sender interface {
	// Send sends m once. It returns nil if the other side took the message; an error is a failed attempt, see Permanent
	// and RetryAfter. ctx ends after Destination.Timeout. If the process is killed meanwhile, Send is called again with
	// the same m.ID. Pass it on as a key, so that the other side knows repetitions. Send is called concurrently, by up to
	// Destination.Concurrency goroutines.
	//
	// A Send that does not return within a second after ctx has ended is a failed attempt; it may
	// be called again while the old call still runs. A panic is a failed attempt.
	//
	// A Sender may have three more methods. Close() error is called when no Send is in progress, after the Engine has
	// ended or a Reload has replaced the Sender; a later Send must still work, and is followed by another Close.
	// Equal(Sender) bool reports whether a Sender of new settings is the same, so that a Reload keeps the old one.
	// Address() string is shown where the URL of other destinations is, so it holds no secret.
	Send(ctx context.Context, m *Outgoing) error
}

// SenderFunc is a function as a Sender.
type SenderFunc func(ctx context.Context, m *Outgoing) error

// Send calls f.
func (f SenderFunc) Send(ctx context.Context, m *Outgoing) error { return f(ctx, m) }

// Outgoing is a message that is being sent.
type Outgoing struct {
	ID          string // the same on every attempt
	Destination string
	Source      string // of the event that caused it; "" if none did
	EventID     string
	Type        string
	Attempt     int // from 1
	Generation  int // 0 unless replayed
	// Header is the header of the event as received, or of the message as enqueued. Shared
	// credentials are replaced by "<secret>".
	Header http.Header
	// HTTPHeader is the header that the message would have over HTTP, in canonical form: the sender's
	// header without credentials and claims about the connection, then webhook-id, the signature of
	// Destination.Secret, and those of hookonce.
	HTTPHeader http.Header
	Body       []byte // byte for byte; compressed if the header says so
}

// destination is a Destination ready to use.
type destination struct {
	Destination
	relayed *relay.Destination
	closing *senderUse // nil unless its Sender can be closed
}

// newDestination checks d and fills in its defaults. It returns before, which may be nil, if that
// is the same destination. It keeps the circuit of before if that has the same target.
func newDestination(d Destination, before *destination, at place) *destination {
	if d.Name == "" {
		at.fault("", "it needs a name")
	}
	d.checkTarget(at)
	notNegative(at, "timeout", d.Timeout)
	if d.Timeout > driver.LongestTimeout { // a message stays leased for it, also if its process dies
		at.fault("timeout", "it must not be longer than %s", say.Setting(driver.LongestTimeout))
	}
	notNegative(at, "concurrency", d.Concurrency)
	d.Rate.check(at, "rate")
	setDefault(&d.Timeout, defaults.SendTimeout)
	setDefault(&d.Concurrency, defaults.Concurrency)
	d.Retry.setDefaults()
	d.Retry.check(at.at(at.pathOf("retry")))
	if before != nil && before.same(d) {
		return before
	}
	ready := &destination{Destination: d}
	if c, ok := d.Sender.(io.Closer); ok {
		ready.closing = &senderUse{closer: c}
	}
	ready.relayed = ready.forRelay(before)
	return ready
}

// forRelay returns d as its relay needs it.
func (d *destination) forRelay(before *destination) *relay.Destination {
	out := &relay.Destination{
		Name: d.Name, Timeout: d.Timeout, Retry: driver.Retry(d.Retry), Concurrency: d.Concurrency, Rate: d.Rate.bucket(),
		HTTP: send.Target{
			Name: d.Name, URL: d.URL, Secret: d.Secret, Timeout: d.Timeout, AllowPrivate: d.AllowPrivate, Fresh: d.FreshConnections,
		},
	}
	if before != nil && before.sameTarget(d.Destination) && before.relayed.Circuit.Fits(out.Retry) {
		out.Circuit = before.relayed.Circuit
	} else {
		out.Circuit = relay.NewCircuit(out.Retry)
	}
	if sender := d.Sender; sender != nil {
		out.Sender = func(ctx context.Context, m *driver.Message, header, httpHeader http.Header) error {
			d.closing.begin()
			defer d.closing.end()
			return sender.Send(ctx, &Outgoing{
				ID: m.ID, Destination: m.Destination, Source: m.Source, EventID: m.EventID, Type: m.Type,
				Attempt: m.Attempt, Generation: m.Generation, Header: header, HTTPHeader: httpHeader, Body: m.Body,
			})
		}
	}
	return out
}

// checkTarget checks the settings that say where messages go.
func (d *Destination) checkTarget(at place) {
	if d.Sender != nil {
		if f, ok := d.Sender.(SenderFunc); ok && f == nil {
			at.fault("", "its Sender is a nil function")
		}
		if d.URL != "" {
			at.fault("url", "it has a URL and a Sender: leave one out")
		}
		if d.FreshConnections {
			at.fault("connections", "it is for http and https; leave it out with other URLs and with a Sender")
		}
		if d.AllowPrivate {
			at.fault("", "AllowPrivate is for HTTP; leave it out with a Sender")
		}
	} else if d.URL == "" {
		at.fault("url", "the destination has no URL")
	} else if err := send.CheckURL(d.URL); err != nil {
		at.fault("url", "%s", err)
	} else if !d.AllowPrivate && send.IsPrivate(d.URL) {
		at.fault("url", "its address is not public: set AllowPrivate, which permits it")
	}
	if d.Secret != "" {
		weak, err := send.CheckSecret(d.Secret)
		at.judge("secret", weak, err)
	}
}

// same reports whether other is certainly the same. Senders that cannot be compared, such as
// functions, are never the same.
func (d Destination) same(other Destination) bool {
	if !d.sameTarget(other) {
		return false
	}
	d.Sender, other.Sender = nil, nil
	return d == other
}

// sameTarget reports whether d and other certainly send to the same place, so that the circuit of
// one serves the other.
func (d Destination) sameTarget(other Destination) bool {
	if d.Sender == nil || other.Sender == nil {
		return d.Sender == nil && other.Sender == nil && d.URL == other.URL
	}
	if s, ok := d.Sender.(interface{ Equal(other Sender) bool }); ok {
		return s.Equal(other.Sender)
	}
	return reflect.ValueOf(d.Sender).Comparable() && reflect.ValueOf(other.Sender).Comparable() && d.Sender == other.Sender
}

// senderUse closes a Sender that is no longer used, after its last Send. A nil senderUse does nothing.
type senderUse struct {
	closer io.Closer

	mu      sync.Mutex
	sends   int // in progress
	retired bool
}

func (u *senderUse) begin() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sends++
}

// end closes the Sender if it is retired: a relay that is ending may have begun a Send since.
func (u *senderUse) end() {
	if u == nil {
		return
	}
	u.close(func() { u.sends-- })
}

// retire closes the Sender once no Send is in progress.
func (u *senderUse) retire() {
	if u == nil {
		return
	}
	u.close(func() { u.retired = true })
}

// close closes the Sender if nothing uses it after a change.
func (u *senderUse) close(change func()) {
	u.mu.Lock()
	change()
	unused := u.retired && u.sends == 0
	u.mu.Unlock()
	if unused {
		_ = u.closer.Close() // nothing depends on how the connection ends
	}
}
