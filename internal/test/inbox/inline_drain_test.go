package inbox_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// held returns a handler that says on began that it runs, waits for release, and inserts the event's id.
func held[T any](l *library[T]) (handle hookonce.HandlerFunc[T], began, release chan struct{}) {
	began, release = make(chan struct{}), make(chan struct{})
	return func(ctx context.Context, tx T, ev *hookonce.Event) error {
		close(began)
		<-release
		return l.insert(ctx, tx, ev.ID)
	}, began, release
}

// drain calls Drain. It returns when in refuses new deliveries.
func drain[T any](t *testing.T, in *hookonce.Inbox[T]) (drained chan struct{}) {
	t.Helper()
	drained = make(chan struct{})
	go func() { in.Drain(); close(drained) }()
	rig.WaitFor(t, func() bool {
		unsigned := delivery("unsigned", "{}")
		unsigned.Header.Del("X-Hub-Signature-256")
		return deliver(in, unsigned).Code == http.StatusServiceUnavailable
	})
	return drained
}

// A delivery whose handler runs when Drain is called is answered by its outcome.
func inlineDraining[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	handle, began, release := held(l)
	hookonce.Handle(mux, "gh", "push", handle)
	in := inbox(t, l, mux, inline)
	answered := make(chan result, 1)
	go func() { answered <- deliver(in, delivery("1", "{}")) }()
	<-began
	drained := drain(t, in)
	select {
	case <-drained:
		t.Error("Drain returned while a handler ran")
	default:
	}
	close(release)
	if got := <-answered; got != ok {
		t.Errorf("the delivery in progress: %+v, want ok", got)
	}
	<-drained
	if got := deliver(in, delivery("2", "{}")); got.Code != http.StatusServiceUnavailable {
		t.Errorf("a delivery after Drain: %+v, want 503", got)
	}
	wantEffects(t, l, "1")
}

// The handler of one event of a delivery runs when Drain is called. The queue claims the other event.
func inlineDrainingBatch[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	handle, began, release := held(l)
	hookonce.Handle(mux, "gh", "paid", handle)
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		inline(c)
		c.Sources[0].Event = provider.EventRules{ID: "item:id", Type: "item:type", Batch: "body:items"}
	})
	answered := make(chan result, 1)
	go func() {
		answered <- deliver(in, delivery("", `{"items":[{"id":"1","type":"paid"},{"id":"2","type":"sent"}]}`))
	}()
	<-began
	drained := drain(t, in)
	close(release)
	if got := <-answered; got != ok {
		t.Errorf("the delivery in progress: %+v, want ok", got)
	}
	<-drained
	wantEffects(t, l, "1")
	wantOutcome(t, l, "2", outcome{State: "done", Note: "no route"})
}

// signalReader tells of its first read.
type signalReader struct {
	io.Reader
	reading chan struct{}
}

func (r *signalReader) Read(p []byte) (int, error) {
	if r.reading != nil {
		close(r.reading)
		r.reading = nil
	}
	return r.Reader.Read(p)
}

// The body of a delivery arrives while Drain waits for a handler: the queue still claims it.
func TestDrainClaimsDeliveriesBesideHandlers(t *testing.T) {
	t.Parallel()
	l := onPGX(t) // SQLite would wait for the handler's transaction
	mux := &hookonce.Mux[pgx.Tx]{}
	handle, began, release := held(l)
	hookonce.Handle(mux, "slow", "push", handle)
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		slow := c.Sources[0]
		slow.Name, slow.Inline = "slow", true
		c.Sources = append(c.Sources, slow)
	})
	slow := delivery("1", "{}")
	slow.URL.Path = "/webhooks/slow"
	handled, answered := make(chan result, 1), make(chan result, 1)
	go func() { handled <- deliver(in, slow) }()
	<-began
	body, sender := io.Pipe()
	r, reading := delivery("2", "{}"), make(chan struct{})
	r.Body, r.ContentLength = io.NopCloser(&signalReader{body, reading}), -1
	go func() { answered <- deliver(in, r) }()
	<-reading
	drained := drain(t, in)
	if _, err := io.Copy(sender, strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	sender.Close()
	if got := <-answered; got != ok {
		t.Errorf("the delivery whose body came late: %+v, want ok", got)
	}
	close(release)
	if got := <-handled; got != ok {
		t.Errorf("the delivery whose handler ran: %+v, want ok", got)
	}
	<-drained
}
