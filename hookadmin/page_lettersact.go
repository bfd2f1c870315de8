package hookadmin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
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
		h.changeLetters(w, r, back, values.Get("key"), driver.JobReplay, selected)
	case "discard":
		h.changeLetters(w, r, back, values.Get("key"), driver.JobDiscard, selected)
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

// changeLetters replays or discards the dead letters of sel, and says how many. After a long change the page of
// its job follows. key names the change.
func (h *handling) changeLetters(w http.ResponseWriter, r *http.Request, back, key, action string, sel *driver.JobSelection) {
	ctx, cancel := changing(r)
	defer cancel()
	job, err := h.engine.Operator().Do(ctx, &operate.Request{
		Of: driver.JobOfDeadLetters, Action: action, Select: *sel, RequestID: key,
	})
	if err != nil {
		h.undone(w, r, back, h.failedText(r, ofJob, "working on dead letters", err))
		return
	}
	if job.State != driver.JobDone {
		redirect(w, "../jobs/"+url.PathEscape(job.ID))
		return
	}
	text := say.Count(job.Done, "dead letter") + " " + map[string]string{driver.JobReplay: "replayed", driver.JobDiscard: "discarded"}[action] + "."
	if job.Skipped > 0 {
		text += fmt.Sprintf(" %d left alone: no longer dead, or locked by another session.", job.Skipped)
	}
	if job.Failed > 0 {
		text += fmt.Sprintf(" %d refused, the last: %s.", job.Failed, job.LastError)
	}
	if action == driver.JobDiscard && job.Done > 0 {
		h.rememberUndo(w, r, job.ID, int(job.Done))
	}
	switch {
	case job.Done == 0:
		h.undone(w, r, back, text)
	case action == driver.JobDiscard && job.Skipped+job.Failed == 0:
		redirect(w, back) // the offer to undo says it
	default:
		h.done(w, r, back, "%s", text)
	}
}
