package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/jobs"
	"github.com/hookonce/hookonce/internal/lifecycle"
	"github.com/hookonce/hookonce/internal/tell"
)

// ReplayRequest names the event to replay, and how. See hookonce.ReplayRequest.
type ReplayRequest struct {
	Source    string
	EventID   string
	Mode      driver.ReplayMode
	To        string
	Note      string
	Stale     bool
	RequestID string
}

// ErrUnknownDestination is the error of a replay to a destination that is not in the settings.
var ErrUnknownDestination = errors.New("there is no such destination in the settings")

// inFlight is the time between two looks at a message that is being sent.
const inFlight = 100 * time.Millisecond

// Replay runs a finished event again. See hookonce.Engine.Replay.
func (o *Operator) Replay(ctx context.Context, r *ReplayRequest) (*driver.Replayed, error) {
	for {
		replayed, err := o.replay(ctx, r)
		if !errors.Is(err, driver.ErrSending) {
			return replayed, err
		}
		select {
		case <-time.After(inFlight):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (o *Operator) replay(ctx context.Context, r *ReplayRequest) (*driver.Replayed, error) {
	if err := CheckRequestID(r.RequestID); err != nil {
		return nil, err
	}
	if err := o.checkTo(r.Mode, r.To); err != nil {
		return nil, fmt.Errorf("hookonce: replay: %w", err)
	}
	began := time.Now()
	detail, err := o.store.Event(ctx, r.Source, r.EventID)
	if err != nil {
		return nil, fmt.Errorf("hookonce: replay: %w", err)
	}
	p := &driver.ReplayParams{Key: detail.Key, Mode: r.Mode, To: r.To, Note: r.Note, Stale: r.Stale, RequestID: r.RequestID}
	if err := o.opts.Decide(p, detail); err != nil {
		return nil, err
	}
	replayed, err := o.store.Replay(ctx, p)
	if errors.Is(err, driver.ErrBodyPruned) && detail.Redacted() {
		err = driver.ErrRedacted
	}
	if err != nil {
		return nil, fmt.Errorf("hookonce: replay event %q of source %q: %w", r.EventID, r.Source, err)
	}
	if !replayed.Repeated && !replayed.Stayed {
		o.log.Info("event replayed", slog.String("source", r.Source), slog.String("event_id", r.EventID),
			slog.Int("generation", replayed.Generation), slog.Int("messages", replayed.Messages),
			slog.String("how", lifecycle.Action(r.Mode)))
		o.opts.Tell.EventReplayed(detail, replayed, began)
	}
	o.opts.Wake()
	return replayed, nil
}

// RetryMessage makes a pending message due at once, and a dead or skipped one due again under its
// id, with a new generation and full attempts. The error matches driver.ErrNotFound; driver.ErrOpen
// for a message that is being sent; driver.ErrSent; or driver.ErrBodyPruned.
func (o *Operator) RetryMessage(ctx context.Context, id string) error {
	if err := o.store.RetryMessage(ctx, &driver.RetryMessageParams{ID: id}); err != nil {
		return fmt.Errorf("hookonce: retry message %q: %w", id, err)
	}
	log := o.log.With(slog.String("message_id", id))
	if page, err := o.store.Messages(ctx, &driver.MessageFilter{MessageID: id}); err == nil && len(page.Messages) == 1 {
		m := &page.Messages[0]
		log = log.With(slog.String("source", m.Source), slog.String("event_id", m.EventID))
		o.opts.Tell.Changed(tell.Retried, m.Source, m.EventID, m.Type, m.Destination, m.ID)
	}
	log.Info("message retried")
	o.opts.Wake()
	return nil
}

// RedactRequest names the event to redact. See hookonce.RedactRequest.
type RedactRequest struct {
	Source    string
	EventID   string
	RequestID string
}

// Redact removes the payload of a finished event. See hookonce.Engine.Redact.
func (o *Operator) Redact(ctx context.Context, r *RedactRequest) (*driver.Redacted, error) {
	if err := CheckRequestID(r.RequestID); err != nil {
		return nil, err
	}
	detail, err := o.store.Event(ctx, r.Source, r.EventID)
	if err != nil {
		return nil, fmt.Errorf("hookonce: redact: %w", err)
	}
	redacted, err := o.store.Redact(ctx, &driver.RedactParams{Key: detail.Key, RequestID: r.RequestID})
	if err != nil {
		return nil, fmt.Errorf("hookonce: redact event %q of source %q: %w", r.EventID, r.Source, err)
	}
	if !redacted.Repeated {
		o.log.Info("event redacted", slog.String("source", r.Source), slog.String("event_id", r.EventID))
	}
	return redacted, nil
}

// checkTo checks the destination of a replay.
func (o *Operator) checkTo(mode driver.ReplayMode, to string) error {
	switch {
	case (mode == driver.ReplayTo) != (to != ""):
		return errors.New("a destination is for ReplayTo, and only for that")
	case to != "" && !o.opts.Knows(to):
		return fmt.Errorf("destination %q: %w", to, ErrUnknownDestination)
	}
	return nil
}

// replayForJob replays an event once for each request id. It does not wait for messages that are being sent.
func (o *Operator) replayForJob(ctx context.Context, source, eventID string, how *jobs.How) (stayed bool, err error) {
	replayed, err := o.replay(ctx, &ReplayRequest{
		Source: source, EventID: eventID, Mode: how.Mode, To: how.To, Note: how.Note, RequestID: how.RequestID,
	})
	if errors.Is(err, ErrUnknownDestination) {
		err = jobs.Broken(err) // it would be tried for ever
	}
	return err == nil && replayed.Stayed, err
}

// workedForJob tells of the letters of a job's step, and wakes the relays and workers.
func (o *Operator) workedForJob(action string, letters []driver.DeadLetter) {
	outcome := tell.Discarded
	if action == driver.JobReplay {
		outcome = tell.Replayed
		defer o.opts.Wake()
	}
	counts := map[string]int{}
	for i := range letters {
		l := &letters[i]
		counts[l.Source]++
		o.opts.Tell.Changed(outcome, l.Source, l.EventID, l.Type, l.Destination, l.MessageID)
	}
	for source, n := range counts {
		o.opts.Tell.Operated(outcome, source, n)
	}
}
