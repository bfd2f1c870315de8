package hookonce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
)

// ReplayRequest names the event to replay, and how.
type ReplayRequest struct {
	Source  string
	EventID string // as shown in listings
	// Mode says whether the messages get new ids. A dead or skipped event needs none and keeps its
	// ids; a done event needs one.
	Mode driver.ReplayMode
	To   string // of driver.ReplayTo: the name of a destination in the settings
	// Note must be driver.NoteTxEnded for an event that is dead with this note, or was when it was discarded: its
	// handler ended its transaction, so the event may have taken effect. Other notes need not be named.
	Note string
	// Stale replays events and messages with an Order although a higher version of their object was handled or sent.
	// Without it the error matches driver.ErrPassed then.
	Stale bool
	// RequestID makes the request repeatable, if it is not "": a second request with it for the same event returns the
	// first result and does nothing. At most 255 bytes without control characters.
	RequestID string
}

// Replay runs a finished event again, with a new generation and full attempts: its dead parts, or,
// if it has none, all of it. An event that matched no route, or whose routes were undecided, is
// matched again with the present routes. driver.ReplayReroute and driver.ReplayTo also concern events
// that are not finished; a reroute waits for a message that is being sent to a wrong destination.
//
// Nothing changes if the error matches driver.ErrNotFound, driver.ErrOpen for a pending or running event,
// driver.ErrBodyPruned (also driver.ErrRedacted), driver.ErrNoteNeeded, driver.ErrModeNeeded,
// driver.ErrUndecided, driver.ErrNoRoute or driver.ErrPassed, or if no destination has the name To. After
// driver.ErrCommitUnknown a request with a RequestID can safely be repeated.
func (in *Engine) Replay(ctx context.Context, r *ReplayRequest) (*driver.Replayed, error) {
	return in.operator.Replay(ctx, (*operate.ReplayRequest)(r))
}

// DeadLetters selects dead letters, for ReplayDead and Discard.
type DeadLetters struct {
	// Filter selects the dead letters; its State, Sources, Limit, Scan and After are ignored.
	Filter driver.MessageFilter
	// EventIDs and MessageIDs, if not empty, narrow the selection to these events and messages;
	// Filter.Source is then the source of the events. They have at most 1 MiB, as JSON.
	EventIDs   []string
	MessageIDs []string
	// Operation is the id of the request, if it is not "": a repeated call with it goes on where the first one
	// ended, and its result counts both. Undo finds a discard by it. The error matches driver.ErrRequestReused
	// for another selection or rate. At most 255 bytes without control characters.
	Operation string
	// Rate is the pace, evenly spaced, at least one an hour. Defaults to 100 a second for ReplayDead: replayed
	// messages are due before later arrivals, and would delay them. Discard has none.
	Rate Rate
}

// Worked is the result of ReplayDead, Discard or Undo.
type Worked struct {
	Done int // number of dead letters that were replayed, discarded or undone
	// Passed is the number of others: ids without a dead letter, and letters that are not dead any more, are locked by
	// another session, have driver.NoteTxEnded in a replay, or, in Undo, were replayed, discarded again or pruned since.
	Passed int
}

// work replays or discards the letters, in a job.
func (d *DeadLetters) work(ctx context.Context, in *Engine, action string) (Worked, error) {
	pace, err := limit.Rate(d.Rate).Pace()
	if err != nil {
		return Worked{}, err
	}
	f := &d.Filter
	sel := driver.JobSelection{
		Source: f.Source, Type: f.Type, Destination: f.Destination, Note: f.Note, Signature: f.Signature, Text: f.Text,
		EventIDs: d.EventIDs, MessageIDs: d.MessageIDs,
	}
	if !f.Since.IsZero() {
		sel.Since = &f.Since
	}
	if !f.Until.IsZero() {
		sel.Until = &f.Until
	}
	switch listed := len(d.EventIDs)+len(d.MessageIDs) > 0; {
	case f.EventID != "" && (f.MessageID != "" || listed), f.MessageID != "" && listed:
		return Worked{}, errors.New("hookonce: dead letters: give Filter.EventID, Filter.MessageID, or lists of ids")
	case f.EventID != "":
		sel.EventIDs = []string{f.EventID}
	case f.MessageID != "":
		sel.MessageIDs = []string{f.MessageID}
	}
	return worked(in.operator.DoAll(ctx, &operate.Request{
		Of: driver.JobOfDeadLetters, Action: action, Rate: pace, Select: sel, RequestID: d.Operation,
	}))
}

func worked(job *driver.Job, err error) (Worked, error) {
	if job == nil {
		return Worked{}, err
	}
	return Worked{Done: int(job.Done), Passed: int(job.Skipped + job.Failed)}, err
}

// ReplayDead makes dead letters due again under their ids, with a new generation and full attempts,
// newest events first. Events with driver.NoteTxEnded stay dead: only Replay runs them again. It is a job in the
// database, which works in steps, each in one transaction, until the letters that were dead at the beginning
// are done. When ctx ends, the job is cancelled, and Worked says how far it came. If the process is killed,
// the engines that run on the database go on.
func (in *Engine) ReplayDead(ctx context.Context, which *DeadLetters) (Worked, error) {
	return which.work(ctx, in, driver.JobReplay)
}

// Discard gives dead letters up: they become skipped, with the note driver.NoteDiscarded, and their
// identities stay claimed. It works as ReplayDead does.
func (in *Engine) Discard(ctx context.Context, which *DeadLetters) (Worked, error) {
	return which.work(ctx, in, driver.JobDiscard)
}

// Undo makes the letters dead again that a request or job discarded, as they were before. operation is the
// DeadLetters.Operation, or the id of a job or of its request. The error matches driver.ErrNotFound;
// driver.ErrTooLate if the last one was discarded more than driver.UndoTime ago; or driver.ErrOpen while
// the job runs. After another error, repeating it is safe.
func (in *Engine) Undo(ctx context.Context, operation string) (Worked, error) {
	request, err := in.operator.UndoRequest(ctx, operation)
	if err != nil {
		return Worked{}, err
	}
	return worked(in.operator.DoAll(ctx, request))
}

// RedactRequest names the event to redact.
type RedactRequest struct {
	Source  string
	EventID string // as shown in listings
	// RequestID is noted in the history of the event, if it is not "". It must differ from that of a
	// replay of the event. At most 255 bytes without control characters.
	RequestID string
}

// Redact removes the payload of a finished event: bodies and headers, also of messages that its handlers
// enqueued, and responses and errors of attempts. Identity, hashes, states and history stay, so later
// deliveries are duplicates, and the event cannot be replayed. Redacting twice does nothing.
//
// Nothing changes if the error matches driver.ErrNotFound, driver.ErrRequestReused, or driver.ErrOpen while
// the event or one of the messages is not finished. After driver.ErrCommitUnknown it can be repeated.
func (in *Engine) Redact(ctx context.Context, r *RedactRequest) (*driver.Redacted, error) {
	return in.operator.Redact(ctx, (*operate.RedactRequest)(r))
}

// Arm lets a source learn one secret that its provider hands over, within the time long, at most 24 h; 0
// disarms the source. The secret is then in force beside those of the settings and those learned before;
// with replace it replaces the latter. It is stored in the database, readable by every role that may read
// the table. The error matches driver.ErrNotFound if there is no such source.
func (in *Engine) Arm(ctx context.Context, source string, long time.Duration, replace bool) (*driver.SourceSecrets, error) {
	switch src := in.setup.Load().sources[source]; {
	case src == nil:
		return nil, fmt.Errorf("hookonce: source %q: %w", source, driver.ErrNotFound)
	case !src.canLearn():
		return nil, fmt.Errorf("hookonce: source %q: %w", source, operate.ErrNoSecretDelivered)
	case long < 0 || long > operate.MaxArmed:
		return nil, fmt.Errorf("hookonce: source %q: it can be armed for up to %s", source, operate.MaxArmed)
	}
	return in.store.Arm(ctx, &driver.ArmParams{Source: source, For: long, Replace: replace})
}
