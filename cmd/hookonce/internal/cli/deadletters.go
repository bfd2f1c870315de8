package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// deadLetters is a selection of dead letters.
type deadLetters struct {
	filter hookadmin.JobFilter
	query  url.Values // the parameters of their listing; nil if filter names them one by one
}

// readDeadLetters reads the selection of dead letters from the command line.
func readDeadLetters(cmd *cobra.Command, args []string, all bool) (*deadLetters, error) {
	names := given(cmd, append([]filterFlag{{name: "all"}}, deadLetterFilters...))
	if len(args) > 0 {
		if len(names) > 0 {
			return nil, newUsageError(cmd, fmt.Errorf("--%s does not apply to named events", names[0]))
		}
		ids := slices.Compact(slices.Sorted(slices.Values(args[1:])))
		if len(ids) > hookadmin.MaxIDs {
			return nil, newUsageError(cmd, fmt.Errorf("%d events are named, more than %d: name fewer, or use filters", len(ids), hookadmin.MaxIDs))
		}
		return &deadLetters{filter: hookadmin.JobFilter{Source: args[0], IDs: ids}}, nil
	}
	if err := checkSelection(cmd, deadLetterFilters, all); err != nil {
		return nil, err
	}
	if len(names) > 1 && slices.Contains(names, "message") {
		return nil, newUsageError(cmd, errors.New("--message names one message: leave the other filters out"))
	}
	query, err := readQuery(cmd, deadLetterFilters, hookadmin.ParseDeadLetterFilter)
	if err != nil {
		return nil, err
	}
	if err := idNeedsSource(cmd, names); err != nil {
		return nil, err
	}
	selected := &deadLetters{filter: hookadmin.NewJobFilter(query, all), query: query}
	if len(selected.filter.IDs)+len(selected.filter.MessageIDs) > 0 {
		selected.query = nil
	}
	return selected, nil
}

// workOnLetters runs w on the selected dead letters. Each that is named and not dead is an error, and the
// rest are processed nevertheless.
func (p *program) workOnLetters(ctx context.Context, api *api, w *letterWork, selected *deadLetters, b *bulk, rate string, asJSON bool) error {
	var faults []error
	var err error
	some := true
	if selected.query == nil {
		faults, err = api.takeOutMissing(ctx, w, &selected.filter)
		if err == nil && len(selected.filter.IDs)+len(selected.filter.MessageIDs) == 0 {
			return errors.Join(faults...) // an empty list would select every dead letter
		}
	} else {
		some, err = p.confirm(ctx, b, func() (*adminclient.Plan, error) { return api.PlanDeadLetters(ctx, selected.query) })
	}
	if err != nil {
		return err
	}
	job := &hookadmin.Job{Action: w.verb, State: driver.JobDone}
	if some {
		job, err = p.runJob(ctx, api, &hookadmin.JobRequest{Action: w.verb, Rate: rate, Filter: selected.filter}, b)
	}
	if fault, wrong := api.requestFault(ctx, b.cmd, err); wrong {
		return fault
	}
	if job == nil {
		job = &hookadmin.Job{Action: w.verb}
	}
	faults = append(faults, p.printWorked(w, job, asJSON))
	resume := "run the same command again"
	if selected.query != nil {
		resume = b.continued(selected.query)
	}
	switch looked := say.Count(job.Done+job.Skipped+job.Failed, "dead letter"); {
	case err != nil && ctx.Err() != nil:
		faults = append(faults, app.Errorf("interrupted after %s", looked).Try(resume))
	case err != nil:
		faults = append(faults, stopped(looked, err, resume))
	case job.Failed > 0:
		faults = append(faults, app.Errorf("not %s: %d of %s", w.done, job.Failed, looked).Try("remove the listed reason, and run the command again"))
	case selected.query == nil && job.Skipped > 0:
		faults = append(faults, &app.Error{Err: errors.New("not all were " + w.done), Remedy: "run the same command again in a moment"})
	case selected.query != nil && job.Done+job.Skipped+job.Failed == 0:
		defer warnOfNames(ctx, p.stderr, api.Client, selected.query)
	}
	return errors.Join(faults...)
}

func (p *program) printWorked(w *letterWork, job *hookadmin.Job, asJSON bool) error {
	worked := hookadmin.NewWorked(job)
	if asJSON {
		return writeJSON(p.stdout, worked)
	}
	done := *cmp.Or(worked.Replayed, worked.Discarded)
	fmt.Fprintf(p.stdout, "%s %s\n", w.done, say.Count(done, "dead letter"))
	if job.Skipped > 0 {
		fmt.Fprintf(p.stdout, "passed over %s: %s\n", say.Count(job.Skipped, "dead letter"), w.passed)
	}
	p.printRefused(job)
	if worked.RequestID != "" && done > 0 {
		fmt.Fprintf(p.stdout, "to undo it within %d minutes: hookonce dlq undo %s\n",
			int(driver.UndoTime.Minutes()), shown.Escape(word(worked.RequestID)))
	}
	return p.written()
}

// takeOutMissing removes the named events and messages that are not dead, or that w passes over, from
// selected, and returns an error for each.
func (a *api) takeOutMissing(ctx context.Context, w *letterWork, selected *hookadmin.JobFilter) (faults []error, err error) {
	var dead, deadMessages []string
	for _, id := range selected.IDs {
		fault, err := a.notDead(ctx, w, selected.Source, id)
		switch {
		case err != nil:
			return nil, err
		case fault != nil:
			faults = append(faults, fault)
		default:
			dead = append(dead, id)
		}
	}
	for _, id := range selected.MessageIDs {
		fault, err := a.messageNotDead(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case fault != nil:
			faults = append(faults, fault)
		default:
			deadMessages = append(deadMessages, id)
		}
	}
	selected.IDs, selected.MessageIDs = dead, deadMessages
	return faults, nil
}

// notDead returns an error that says why an event has no dead letter for w, or nil if it has one.
func (a *api) notDead(ctx context.Context, w *letterWork, source, eventID string) (fault, err error) {
	page, err := a.DeadLetters(ctx, url.Values{"source": {source}, "id": {eventID}, "limit": {"1"}})
	if err != nil {
		return nil, fmt.Errorf("looking for dead letters: %w", err)
	}
	found := len(page.DeadLetters) > 0
	if found && !w.replays {
		return nil, nil
	}
	detail, err := a.Event(ctx, source, eventID)
	if errors.Is(err, driver.ErrNotFound) {
		return noEvent(ctx, a.Client, source, eventID), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	if found {
		return noteNeeded(detail), nil
	}
	return app.Errorf("event %q of source %q has no dead letter: it is %s", eventID, source, detail.State).
		Try("hookonce events show " + word(source) + " " + word(eventID)), nil
}

// noteNeeded returns an error if only a replay that names the note runs a dead event again, or nil.
func noteNeeded(e *hookadmin.EventDetail) error {
	if e.State != driver.StateDead || e.Note != driver.NoteTxEnded {
		return nil
	}
	return app.Errorf("event %q of source %q: %w", e.EventID, e.Source, driver.ErrNoteNeeded).
		Try("correct the handler, look at the effects of the event, and if it is to run again: hookonce events replay " +
			word(e.Source) + " " + word(e.EventID) + " --note '" + driver.NoteTxEnded + "'")
}

// messageNotDead returns an error that says why a message is not a dead letter, or nil if it is
// one.
func (a *api) messageNotDead(ctx context.Context, id string) (fault, err error) {
	page, err := a.Messages(ctx, one("message_id", id))
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for a message: %w", err)
	case len(page.Messages) == 0:
		return app.Errorf("message %q: %w", id, driver.ErrNotFound).Try("hookonce dlq list"), nil
	case page.Messages[0].State != driver.StateDead:
		m := &page.Messages[0]
		return app.Errorf("message %q is not dead: it is %s", id, m.State).
			Try("hookonce events show " + word(m.Source) + " " + word(m.EventID)), nil
	}
	return nil, nil
}
