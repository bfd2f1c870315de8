package hookadmin

import (
	"context"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// replayPlan tells the effect of a replay of an event.
type replayPlan struct {
	Text     string
	Modes    []replayMode // of a done event: as new, or under the same ids
	NeedNote string       // the note to confirm, or ""
	Discard  bool         // the event is dead, so it can be discarded, too
}

// replayMode is one way to replay a done event.
type replayMode struct{ Value, Name, Text string }

// newReplayPlan returns the plan for an event, or nil if it is not finished or has no body.
func (h *handling) newReplayPlan(r *http.Request, ev *driver.EventDetail) *replayPlan {
	if ev.BodyPruned || ev.State == driver.StatePending || ev.State == driver.StateRunning {
		return nil
	}
	p := &replayPlan{Discard: ev.State == driver.StateDead}
	if ev.Note == driver.NoteTxEnded {
		p.NeedNote = ev.Note
	}
	if ev.Note == driver.NoteNoRoute {
		p.Text = "No route matched the event. It is matched again, with the present routes."
	}
	if ev.State != driver.StateDone {
		text, _ := h.foreseen(r, ev, driver.ReplayPlain)
		p.Text = strings.TrimSpace(p.Text + " " + text)
		return p
	}
	asNew, _ := h.foreseen(r, ev, driver.ReplayAsNew)
	sameID, handled := h.foreseen(r, ev, driver.ReplaySameID)
	if ev.Note == driver.NoteNoRoute { // it has no messages yet, so nothing can be skipped
		p.Modes = []replayMode{{"as_new", "As new", asNew}, {"same_id", "Same ids", sameID}}
		return p
	}
	asNew += " Destinations do the work again."
	if handled {
		asNew += " IdempotencyKey and the messages that the handler enqueues have new ids."
		sameID += " IdempotencyKey stays. A message that the handler enqueues with the content that it had keeps its id; other content is another message."
	}
	sameID += " Destinations that dedupe may skip messages that they have."
	p.Modes = []replayMode{{"as_new", "As new", asNew}, {"same_id", "Same ids", sameID}}
	return p
}

// foreseen tells the effect of a replay in a mode now, and whether the event is handled again.
func (h *handling) foreseen(r *http.Request, ev *driver.EventDetail, mode driver.ReplayMode) (text string, handled bool) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	plan, err := h.engine.Operator().Foresee(ctx, &ev.Event, mode)
	if err != nil {
		h.logAway(r, "planning a replay", err)
		return "Its effect cannot be read at present.", false
	}
	for reason := range plan.Refused {
		return "It is refused: " + visible(reason) + ".", false
	}
	var parts []string
	if plan.Handled > 0 {
		parts = append(parts, "The handler or SQL consumer runs again.")
	}
	for _, sends := range plan.Sends {
		to := visible(sends.Destination)
		if sends.Route != "" && sends.Route != sends.Destination {
			to += " (route " + visible(sends.Route) + ")"
		}
		parts = append(parts, messagesSent(sends.Messages)+" to "+to+".")
	}
	return strings.Join(parts, " "), plan.Handled > 0
}

func messagesSent(n int) string {
	if n == 1 {
		return "1 message is sent"
	}
	return say.Number(n) + " messages are sent"
}
