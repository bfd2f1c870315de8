package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/say"
)

// confirmPage is the content of confirm.html: the plan of an action that was not carried out yet.
type confirmPage struct {
	Root    string
	Form    form
	Plan    string
	Letters []string
	Names   []text // of the letters
	Back    string // the query of the page to go back to
	BackTo  string // its address
}

// actLetters replays or discards the dead letters that were ticked on a page. A replay is shown as a
// plan first; the form of the plan confirms it.
func (h *handling) actLetters(w http.ResponseWriter, r *http.Request) {
	values := h.action(w, r, "letter", "action", "back", "confirmed")
	if values == nil {
		return
	}
	query, err := url.ParseQuery(values.Get("back"))
	if err != nil {
		query = url.Values{}
	}
	back := "../dead-letters" + queryOf(query)
	selected, err := parseLetters(values["letter"])
	if err != nil {
		h.undone(w, r, back, "Nothing was changed: "+visible(err.Error())+".")
		return
	}
	switch values.Get("action") {
	case "replay":
		if values.Get("confirmed") == "" {
			h.planReplay(w, r, values, back)
			return
		}
		h.workOnLetters(w, r, selected, back, "", h.engine.ReplayDead)
	case "discard":
		h.workOnLetters(w, r, selected, back, values.Get("key"), h.engine.Discard)
	default:
		h.fail(w, r, http.StatusBadRequest, `The form is refused: the field "action" must be replay or discard. Nothing was changed.`, nil)
	}
}

// planReplay shows the selected dead letters and asks.
func (h *handling) planReplay(w http.ResponseWriter, r *http.Request, values url.Values, back string) {
	letters := values["letter"]
	content := &confirmPage{
		Root: rootFrom(r.URL.EscapedPath()), Form: h.newForm(r), Letters: letters, Back: values.Get("back"), BackTo: back,
		Plan: say.Count(len(letters), "dead letter") + " will be due again, under the same ids, with full attempts.",
	}
	for _, letter := range letters {
		kind, name, _ := strings.Cut(letter, "/")
		if source, id, ok := strings.Cut(name, "/"); kind == "e" && ok {
			name = source + " " + id
		}
		content.Names = append(content.Names, newText(name, 80))
	}
	h.render(w, r, http.StatusOK, "confirm.html", &page{Title: "Replay dead letters?", Content: content})
}

// workOnLetters carries an action out, and says how far it came. operation is the key of a discard,
// for Undo, and "" for a replay.
func (h *handling) workOnLetters(
	w http.ResponseWriter, r *http.Request, selected *selection, back, operation string,
	work func(context.Context, *hookonce.DeadLetters) (hookonce.Worked, error),
) {
	ctx, cancel := changing(r)
	defer cancel()
	done := "replayed"
	if operation != "" {
		done = "discarded"
	}
	var sum hookonce.Worked
	var all []hookonce.DeadLetters
	if len(selected.messages) > 0 {
		all = append(all, hookonce.DeadLetters{MessageIDs: selected.messages, Rate: hookonce.Rate(limit.Unpaced)})
	}
	for _, source := range selected.sources() {
		all = append(all, hookonce.DeadLetters{Filter: driver.MessageFilter{Source: source}, EventIDs: selected.events[source], Rate: hookonce.Rate(limit.Unpaced)})
	}
	for i := range all {
		all[i].Operation = operation
		worked, err := work(ctx, &all[i])
		sum.Done, sum.Passed = sum.Done+worked.Done, sum.Passed+worked.Passed
		if operation != "" && sum.Done > 0 && (err != nil || i == len(all)-1) {
			h.rememberUndo(w, r, operation, sum.Done)
		}
		if err != nil {
			text := h.failedText(r, nil, "working on dead letters", err)
			if sum.Done > 0 {
				text = fmt.Sprintf("%s %s, then it failed. %s", say.Count(sum.Done, "dead letter"), done, text)
			}
			h.undone(w, r, back, text)
			return
		}
	}
	text := say.Count(sum.Done, "dead letter") + " " + done + "."
	if sum.Passed > 0 {
		text += fmt.Sprintf(" %d left alone: no longer dead, or locked by another session.", sum.Passed)
	}
	switch {
	case sum.Done == 0:
		h.undone(w, r, back, text)
	case operation != "" && sum.Passed == 0:
		redirect(w, back) // the offer to undo says it
	default:
		h.done(w, r, back, "%s", text)
	}
}
