package hookadmin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/say"
)

// failedText returns the text that tells a person at a page about err: what happened, and what to do. The
// sentences of known come first. It logs the causes that are not the person's own.
func (h *handling) failedText(r *http.Request, known sentences, doing string, err error) string {
	if text := known.text(err); text != "" {
		return text
	}
	if errors.Is(err, driver.ErrNotFound) {
		return "There is no such " + h.endpoint.thing + " any more. Nothing was changed."
	}
	h.logger.WarnContext(r.Context(), doing+" failed", slog.Any("error", err))
	switch {
	case errors.Is(err, driver.ErrCommitUnknown), inDoubt(err):
		return "The database did not confirm the change in time: it may have happened. Look before you repeat it."
	case passes(err):
		return awayText(err) + " Nothing was changed. Try again."
	}
	return "An internal error occurred. Nothing was changed, as far as is known. The log has the reason."
}

// eventForm reads a form about one event, and returns where to go afterwards.
func (h *handling) eventForm(w http.ResponseWriter, r *http.Request, known ...string) (values url.Values, back string) {
	values = h.action(w, r, append(known, "source", "id")...)
	if values == nil {
		return nil, ""
	}
	h.logger = h.logger.With(slog.String("source", values.Get("source")), slog.String("event_id", values.Get("id")))
	return values, eventLink("../", values.Get("source"), values.Get("id"))
}

// actReplay replays one event: the form of its page.
func (h *handling) actReplay(w http.ResponseWriter, r *http.Request) {
	values, back := h.eventForm(w, r, "mode", "to", "note")
	if values == nil {
		return
	}
	how := values.Get("mode")
	q := ReplayRequest{AsNew: how == "as_new", SameID: how == "same_id", Reroute: how == "reroute", To: values.Get("to"), Note: values.Get("note")}
	mode, refused := q.mode()
	if refused != nil {
		h.undone(w, r, back, refused.detail)
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	replayed, err := h.engine.Replay(ctx, &hookonce.ReplayRequest{
		Source: values.Get("source"), EventID: values.Get("id"), Mode: mode, To: q.To, Note: q.Note, RequestID: values.Get("key"),
	})
	switch {
	case err == nil && replayed.Repeated:
		h.done(w, r, back, "This was done already, as generation %d.", replayed.Generation)
	case err == nil && replayed.Stayed:
		h.done(w, r, back, "The event stays as it is: no message was missing.")
	case err == nil && replayed.Skipped > 0:
		h.done(w, r, back, "Rerouted: %s due, %s not sent any more.", messagesAre(replayed.Messages), messagesAre(replayed.Skipped))
	case err == nil && replayed.Messages == 0:
		h.done(w, r, back, "Replayed: the event is handled again, as generation %d.", replayed.Generation)
	case err == nil:
		h.done(w, r, back, "Replayed: %s due, as generation %d.", messagesAre(replayed.Messages), replayed.Generation)
	default:
		h.undone(w, r, back, h.failedText(r, ofReplay, "replaying an event", err))
	}
}

func messagesAre(n int) string {
	if n == 1 {
		return "1 message is"
	}
	return say.Number(n) + " messages are"
}

// actRetry makes one message due now.
func (h *handling) actRetry(w http.ResponseWriter, r *http.Request) {
	values, back := h.eventForm(w, r, "message")
	if values == nil {
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	err := h.engine.Operator().RetryMessage(ctx, values.Get("message"))
	if err == nil {
		h.done(w, r, back, "The message is due now.")
		return
	}
	h.undone(w, r, back, h.failedText(r, ofRetry, "retrying a message", err))
}

// actDiscard gives up the dead letters of one event.
func (h *handling) actDiscard(w http.ResponseWriter, r *http.Request) {
	values, back := h.eventForm(w, r)
	if values == nil {
		return
	}
	h.changeLetters(w, r, back, values.Get("key"), driver.JobDiscard,
		&driver.JobSelection{Source: values.Get("source"), EventIDs: []string{values.Get("id")}})
}

// actRedact removes the payload of one event.
func (h *handling) actRedact(w http.ResponseWriter, r *http.Request) {
	values, back := h.eventForm(w, r, "sure")
	if values == nil {
		return
	}
	if values.Get("sure") != "yes" {
		h.undone(w, r, back, "Nothing was changed: confirm that the body and the headers are to be removed for good.")
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	redacted, err := h.engine.Redact(ctx, &hookonce.RedactRequest{Source: values.Get("source"), EventID: values.Get("id"), RequestID: values.Get("key")})
	if err == nil {
		h.done(w, r, back, "%s", strings.TrimSpace("Redacted: the body, the headers, the answers and the error texts are gone. "+redacted.Remains))
		return
	}
	h.undone(w, r, back, h.failedText(r, ofRedact, "redacting an event", err))
}

// actQuarantine reads a quarantined request again.
func (h *handling) actQuarantine(w http.ResponseWriter, r *http.Request) {
	values := h.action(w, r, "id")
	if values == nil {
		return
	}
	const back = "../quarantine"
	key, err := ParseQuarantineID(values.Get("id"))
	if err != nil {
		h.undone(w, r, back, h.failedText(r, nil, "retrying a quarantined request", err))
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	retried, err := h.engine.Operator().RetryQuarantined(ctx, key)
	still, unreadable := errors.AsType[*operate.UnreadableError](err)
	switch {
	case err == nil:
		h.done(w, r, back, "%s", quarantineOutcome(retried))
	case unreadable:
		h.undone(w, r, back, "The request stays in the quarantine: "+visible(still.Reason)+".")
	default:
		h.undone(w, r, back, h.failedText(r, ofQuarantine, "retrying a quarantined request", err))
	}
}

func quarantineOutcome(retried *operate.RetriedRequest) string {
	text := fmt.Sprintf("Read again: %s new, %d reopened, %d claimed before.",
		say.Count(retried.Claimed, "event"), retried.Reopened, retried.Duplicates)
	if retried.Kept > 0 {
		text += fmt.Sprintf(" %s of the batch still cannot be read.", say.Count(retried.Kept, "item"))
	}
	return text
}
