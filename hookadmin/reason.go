package hookadmin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
)

// reasons are the errors of the library that an answer names: by a word for programs and a status.
var reasons = []struct {
	err    error
	word   string
	status int
}{
	{driver.ErrNotFound, "not_found", http.StatusNotFound},
	{driver.ErrSending, "sending", http.StatusConflict}, // before the other, which it matches
	{driver.ErrOpen, "open", http.StatusConflict},
	{operate.ErrUnknownDestination, "unknown_destination", http.StatusUnprocessableEntity},
	{driver.ErrSent, "sent", http.StatusConflict},
	{driver.ErrRedacted, "redacted", http.StatusGone}, // before the other, which it matches
	{driver.ErrBodyPruned, "body_pruned", http.StatusGone},
	{operate.ErrRequestID, "request_id", http.StatusBadRequest},
	{driver.ErrRequestReused, "request_reused", http.StatusUnprocessableEntity},
	{driver.ErrNoteNeeded, "note_needed", http.StatusUnprocessableEntity},
	{driver.ErrModeNeeded, "mode_needed", http.StatusUnprocessableEntity},
	{driver.ErrUndecided, "undecided", http.StatusUnprocessableEntity},
	{driver.ErrNoRoute, "no_route", http.StatusUnprocessableEntity},
	{driver.ErrPassed, "passed", http.StatusUnprocessableEntity},
	{operate.ErrUnknownSource, "unknown_source", http.StatusConflict},
	{operate.ErrHandledElsewhere, "handled_elsewhere", http.StatusConflict},
	{driver.ErrTooLate, "too_late", http.StatusGone},
	{driver.ErrCommitUnknown, "in_doubt", http.StatusServiceUnavailable},
	{driver.ErrLockTimeout, "locked", http.StatusServiceUnavailable},
	{driver.ErrSerialization, "conflict", http.StatusServiceUnavailable},
}

// reasonOf returns the word and the status of err; "" and 0 if it has none.
func reasonOf(err error) (word string, status int) {
	if _, unreadable := errors.AsType[*operate.UnreadableError](err); unreadable {
		return "unreadable", http.StatusUnprocessableEntity
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word, r.status
		}
	}
	return "", 0
}

// ErrorOf returns the error that reason, the word of a problem, stands for, such as driver.ErrNotFound;
// nil if it stands for none.
func ErrorOf(reason string) error {
	for _, r := range reasons {
		if r.word == reason {
			return r.err
		}
	}
	return nil
}

// sentence is the text of an answer for an error. A page has another one where the API's is of no use to a
// person.
type sentence struct {
	err       error
	api, page string
}

// sentences are those of one kind of change. The first that matches an error counts.
type sentences []sentence

// refusal returns the answer of the API to a change that failed, or nil.
func (all sentences) refusal(err error) *refusal {
	for _, s := range all {
		if errors.Is(err, s.err) {
			_, status := reasonOf(s.err)
			return &refusal{status, s.api}
		}
	}
	return nil
}

// text returns the text of a page for a change that failed, or "".
func (all sentences) text(err error) string {
	for _, s := range all {
		if errors.Is(err, s.err) {
			return cmp.Or(s.page, s.api)
		}
	}
	return ""
}

const (
	bothModes = `Say {"as_new":true} for new ids, so that destinations do the work again, ` +
		`or {"same_id":true} for the old ids, so that destinations that dedupe may skip it. A handler runs again in both.`
	takenEffect  = "The handler of the event ended its transaction, so the event may have taken effect. "
	badRequestID = "The Idempotency-Key must be UTF-8 without control characters, at most 255 bytes long."
	bodyPruned   = "The body of the event is past its retention or redacted, so there is nothing to send."
)

var (
	ofReplay = sentences{
		{err: operate.ErrRequestID, api: badRequestID},
		{err: operate.ErrUnknownDestination, api: "There is no such destination in the settings."},
		{
			err: driver.ErrSending,
			api: "A message is being sent to a destination that no route makes any more. Nothing was changed: try again in a moment.",
		},
		{
			err: driver.ErrOpen,
			api: "The event is not finished. Replay it when it is done, dead or skipped. Its waiting messages can be retried now.",
		},
		{err: driver.ErrRedacted, api: "The payload of the event was redacted, so there is nothing to send."},
		{err: driver.ErrBodyPruned, api: bodyPruned},
		{
			err: driver.ErrRequestReused,
			api: "This Idempotency-Key was used for a replay of the event in another mode or to another destination, or to redact it. Use another key.",
		},
		{
			driver.ErrNoteNeeded,
			takenEffect + `Correct the handler, look at the effects, and say {"note":"` + driver.NoteTxEnded +
				`"} if the handler is to run again.`,
			takenEffect + "Confirm that you looked at the effects.",
		},
		{
			driver.ErrModeNeeded, "The event is done. " + bothModes,
			"The event is done by now. Choose whether its messages get new ids.",
		},
		{
			err: driver.ErrUndecided,
			api: "The condition of a route takes too long for this event. Simplify it in the settings, then replay the event.",
		},
		{err: driver.ErrNoRoute, api: "No route matches the event. Add one to the settings, then replay the event."},
		{
			driver.ErrPassed,
			`A higher version of the object was sent. Say {"stale":true} if this one is to follow it: the destination then has the older state.`,
			"A higher version of the object was sent. To send this one after it, use hookonce events replay with --stale.",
		},
	}
	ofRedact = sentences{
		{err: operate.ErrRequestID, api: badRequestID},
		{
			err: driver.ErrOpen,
			api: "The event, or a message that its handler enqueued, is not finished, and its body is still needed. " +
				"Redact it when it is done, dead or skipped.",
		},
		{err: driver.ErrRequestReused, api: "This Idempotency-Key was used for a replay of the event. Use another key."},
	}
	ofRetry = sentences{
		{err: driver.ErrOpen, api: "The message is being sent."},
		{err: driver.ErrSent, api: "The message was sent. To send it again, replay its event."},
		{err: driver.ErrBodyPruned, api: bodyPruned},
	}
	ofJob = sentences{
		{err: operate.ErrRequestID, api: badRequestID},
		{err: driver.ErrRequestReused, api: "This Idempotency-Key was used for another job. Use another key."},
		{err: operate.ErrUnknownDestination, api: "There is no such destination in the settings."},
	}
	ofUndo = sentences{
		{driver.ErrNotFound, "There is no discard with this request_id.", "There is no such discard any more."},
		{
			driver.ErrTooLate, fmt.Sprintf("The discard is more than %v old. Replay its events instead.", driver.UndoTime),
			fmt.Sprintf("The discard is more than %.0f minutes old. Replay its events instead.", driver.UndoTime.Minutes()),
		},
		{err: driver.ErrOpen, api: "The job is still discarding. Cancel it, then undo."},
	}
	ofQuarantine = sentences{
		{
			err: operate.ErrUnknownSource,
			api: "The source of the request is not in the settings. Add it, reload the gateway, then retry the request.",
		},
		{
			operate.ErrHandledElsewhere,
			"Another program handles the events of this source, and this one has no handlers for them. " +
				"Retry the request there, or have the sender deliver it again.",
			"Another program handles the events of this source. Retry the request there.",
		},
	}
)
