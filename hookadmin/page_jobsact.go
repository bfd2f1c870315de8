package hookadmin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/say"
)

// actPlan plans a job for all rows that a page lists, and leads to its page, which asks.
func (h *handling) actPlan(w http.ResponseWriter, r *http.Request) {
	values := h.action(w, r, "action", "source", "type", "destination", "note", "signature", "id", "message_id", "q", "since", "until", "tz", "all", "of", "mode", "state")
	if values == nil {
		return
	}
	back := "../dead-letters" + queryOf(filtersOf(values, letterParameters))
	if values.Get("of") == driver.JobOfEvents {
		back = "../events" + queryOf(filtersOf(values, eventParameters))
	}
	filters, err := pageValues(values)
	var request *operate.Request
	if err == nil {
		filter := NewJobFilter(filters, values.Get("all") != "")
		request, err = (&JobRequest{Of: values.Get("of"), Action: values.Get("action"), Mode: values.Get("mode"), Filter: filter}).job("filter.", time.Now())
	}
	if err != nil {
		h.undone(w, r, back, "Nothing was planned: "+visible(err.Error())+".")
		return
	}
	request.RequestID = values.Get("key")
	ctx, cancel := changing(r)
	defer cancel()
	job, err := h.engine.Operator().PlanJob(ctx, request)
	if err != nil {
		h.undone(w, r, back, h.failedText(r, nil, "planning a job", err))
		return
	}
	redirect(w, "../jobs/"+url.PathEscape(job.ID))
}

// filtersOf returns the fields of a form that are filters of its page.
func filtersOf(values url.Values, parameters []string) url.Values {
	filters := url.Values{}
	for _, name := range parameters {
		if v := values.Get(name); v != "" {
			filters.Set(name, v)
		}
	}
	return filters
}

// actJob starts or cancels a job.
func (h *handling) actJob(w http.ResponseWriter, r *http.Request) {
	values := h.action(w, r, "id", "action", "count")
	if values == nil {
		return
	}
	id := values.Get("id")
	back := "../jobs/" + url.PathEscape(id)
	ctx, cancel := changing(r)
	defer cancel()
	change, text := h.engine.Operator().StartJob, "The job runs."
	if values.Get("action") == "cancel" {
		change, text = h.engine.Operator().CancelJob, "The job is cancelled. It can be resumed."
	} else if refused := h.countRefused(ctx, id, values.Get("count")); refused != "" {
		h.undone(w, r, back, refused)
		return
	}
	_, err := change(ctx, id)
	switch {
	case err == nil:
		h.done(w, r, back, "%s", text)
	case errors.Is(err, driver.ErrJobEnded):
		h.undone(w, r, back, "The job has ended.")
	case errors.Is(err, driver.ErrNotFound):
		h.undone(w, r, "../jobs", "There is no such job any more.")
	default:
		h.undone(w, r, back, h.failedText(r, nil, "changing a job", err))
	}
}

// countRefused returns why a planned job of many rows does not start, or "": the person has to type
// its count.
func (h *handler) countRefused(ctx context.Context, id, typed string) string {
	found, err := h.store.Job(ctx, id)
	if err != nil || found.State != driver.JobPlanned {
		return "" // the change tells
	}
	job := NewJob(found)
	if job.Count <= manyRows || typedCount(typed) == typedCount(say.Number(job.Count)) {
		return ""
	}
	return "Nothing was started: type " + say.Number(job.Count) + ", the number that match, to start."
}

// actUndo undoes a discard.
func (h *handling) actUndo(w http.ResponseWriter, r *http.Request) {
	values := h.action(w, r, "operation")
	if values == nil {
		return
	}
	const back = "../dead-letters"
	ctx, cancel := changing(r)
	defer cancel()
	job, err := h.undo(ctx, values.Get("operation"))
	switch {
	case err == nil && job.State != driver.JobDone:
		redirect(w, "../jobs/"+url.PathEscape(job.ID))
	case err == nil:
		forgetUndo(w, r)
		h.done(w, r, back, "%s", undoneText(NewUndone(NewJob(job))))
	default:
		if errors.Is(err, driver.ErrTooLate) || errors.Is(err, driver.ErrNotFound) {
			forgetUndo(w, r)
		}
		h.undone(w, r, back, h.failedText(r, ofUndo, "undoing a discard", err))
	}
}

func undoneText(undone *Undone) string {
	text := "Undone: " + say.Count(undone.Undone, "dead letter") + " back."
	if undone.Skipped > 0 {
		text += " " + say.Number(undone.Skipped) + " left alone: replayed, discarded again or removed since."
	}
	return text
}
