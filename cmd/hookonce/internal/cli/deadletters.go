package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// readDeadLetters reads the selection of dead letters from the command line.
func readDeadLetters(cmd *cobra.Command, args []string, all bool) (*hookadmin.DeadLettersRequest, error) {
	names := given(cmd, append([]filterFlag{{name: "all"}, cursorFlag}, deadLetterFilters...))
	if len(args) > 0 {
		if len(names) > 0 {
			return nil, newUsageError(cmd, fmt.Errorf("--%s does not apply to named events", names[0]))
		}
		ids := slices.Compact(slices.Sorted(slices.Values(args[1:])))
		return &hookadmin.DeadLettersRequest{Source: args[0], IDs: ids}, nil
	}
	if err := checkSelection(cmd, deadLetterFilters, all); err != nil {
		return nil, err
	}
	if f := cmd.Flags().Lookup(cursorFlag.name); f.Changed && f.Value.String() == "" {
		return nil, newUsageError(cmd, fmt.Errorf("--%s has no value, which would start from the beginning", f.Name))
	}
	if len(names) > 1 && slices.Contains(names, "message") {
		return nil, newUsageError(cmd, errors.New("--message names one message: leave the other filters out"))
	}
	query, err := readQuery(cmd, append(slices.Clone(deadLetterFilters), cursorFlag), hookadmin.ParseDeadLetterFilter)
	if err != nil {
		return nil, err
	}
	if slices.Contains(names, "id") && !slices.Contains(names, "source") {
		return nil, newUsageError(cmd, errors.New("--id needs --source, because event ids belong to one source"))
	}
	return &hookadmin.DeadLettersRequest{
		Source: query.Get("source"), Type: query.Get("type"), Destination: query.Get("destination"), Note: query.Get("note"),
		IDs: query["id"], MessageIDs: query["message_id"], Q: query.Get("q"), Since: query.Get("since"), Until: query.Get("until"),
		All: all, Cursor: query.Get("cursor"),
	}, nil
}

// workOnNamed runs w on the dead letters that selected names one by one; key names a discard. Each that is not dead is an
// error, and the rest are processed nevertheless.
func (p *program) workOnNamed(ctx context.Context, api *api, w *letterWork, selected *hookadmin.DeadLettersRequest, key string, asJSON bool) error {
	faults, err := api.takeOutMissing(ctx, w, selected)
	if err != nil {
		return err
	}
	if len(selected.IDs) == 0 && len(selected.MessageIDs) == 0 {
		return errors.Join(faults...) // an empty list would select every dead letter
	}
	if w.replays {
		key = "" // only a discard can be undone
	}
	worked, err := api.WorkOnDeadLetters(ctx, w.verb, key, selected)
	api.progress.end()
	faults = append(faults, p.printWorked(w, worked, asJSON))
	switch looked := say.Count(worked.Done+worked.Passed, "dead letter"); {
	case err != nil && ctx.Err() != nil:
		faults = append(faults, &app.Error{Err: fmt.Errorf("interrupted after %s", looked), Remedy: "run the same command again"})
	case err != nil:
		faults = append(faults, fmt.Errorf("stopped after %s: %w", looked, err))
	case worked.Passed > 0:
		faults = append(faults, &app.Error{Err: errors.New("not all were " + w.done), Remedy: "run the same command again in a moment"})
	}
	return errors.Join(faults...)
}

// workOnLetters runs w on the dead letters that match selected: in a job of the gateway, or here.
func (p *program) workOnLetters(ctx context.Context, api *api, w *letterWork, selected *hookadmin.DeadLettersRequest, b *bulk, asJSON bool) error {
	if api.engine == nil && selected.Cursor != "" {
		return newUsageError(b.cmd, errors.New("--cursor continues a run without a gateway, and one runs now: leave it out"))
	}
	plan := func() (*adminclient.Plan, error) { return api.PlanDeadLetters(ctx, adminclient.LettersQuery(selected)) }
	some, err := p.confirm(ctx, b, plan)
	if err != nil {
		return err
	}
	worked := &adminclient.LettersWorked{Complete: true}
	switch {
	case some && api.engine != nil:
		worked, err = api.workHere(ctx, w, selected, b.requestID)
	case some:
		worked, err = p.lettersByJob(ctx, api, adminclient.LettersJob(selected, w.verb), b)
	}
	api.progress.end()
	if fault, wrong := requestFault(b.cmd, err); wrong {
		return fault
	}
	resume := "run the same command again"
	switch {
	case api.engine == nil:
		resume = b.continued(adminclient.LettersQuery(selected))
	case worked.Next != "":
		resume = "continue with the same command and --cursor " + word(worked.Next)
	}
	looked := say.Count(worked.Done+worked.Passed, "dead letter")
	switch {
	case err == nil && worked.Done+worked.Passed == 0:
		defer warnOfSource(ctx, p.stderr, api.Client, selected.Source)
	case err != nil && ctx.Err() != nil:
		err = &app.Error{Err: fmt.Errorf("interrupted after %s", looked), Remedy: resume}
	case err != nil:
		err = stopped(looked, err, resume)
	}
	return errors.Join(p.printWorked(w, worked, asJSON), err)
}

func (p *program) printWorked(w *letterWork, worked *adminclient.LettersWorked, asJSON bool) error {
	if asJSON {
		return writeJSON(p.stdout, worked.Shape(w.verb))
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s\n", w.done, say.Count(worked.Done, "dead letter"))
	if err == nil && worked.Passed > 0 {
		_, err = fmt.Fprintf(p.stdout, "passed over %s: %s\n", say.Count(worked.Passed, "dead letter"), w.passed)
	}
	if err == nil && worked.RequestID != "" && worked.Done > 0 {
		_, err = fmt.Fprintf(p.stdout, "to undo it within %d minutes: hookonce dlq undo %s\n",
			int(driver.UndoTime.Minutes()), shown.Escape(word(worked.RequestID)))
	}
	return err
}

// workHere runs w in this process, on the database.
func (a *api) workHere(ctx context.Context, w *letterWork, selected *hookadmin.DeadLettersRequest, requestID string) (*adminclient.LettersWorked, error) {
	filter, err := hookadmin.ParseDeadLetterFilter(adminclient.LettersQuery(selected), time.Now())
	if err != nil {
		return new(adminclient.LettersWorked), err
	}
	rate, err := limit.ParsePace(selected.Rate)
	if err != nil {
		return new(adminclient.LettersWorked), err
	}
	work := a.engine.ReplayDead
	out := new(adminclient.LettersWorked)
	if !w.replays {
		work, out.RequestID = a.engine.Discard, requestID
	}
	worked, err := work(ctx, &hookonce.DeadLetters{Filter: *filter, Rate: hookonce.Rate(rate), Operation: requestID})
	out.Done, out.Passed, out.Complete, out.Next = worked.Done, worked.Passed, err == nil, worked.Next.String()
	return out, err
}

// lettersByJob has the gateway run a job on dead letters.
func (p *program) lettersByJob(ctx context.Context, api *api, q *hookadmin.JobRequest, b *bulk) (*adminclient.LettersWorked, error) {
	job, err := p.runJob(ctx, api, q, b)
	out := new(adminclient.LettersWorked)
	if job != nil {
		out.Done, out.Passed, out.Complete = int(job.Done), int(job.Skipped+job.Failed), err == nil
		if q.Action == driver.JobDiscard {
			out.RequestID = job.ID
		}
	}
	return out, err
}

// takeOutMissing removes the named events and messages that are not dead, or that w passes over, from
// selected, and returns an error for each.
func (a *api) takeOutMissing(ctx context.Context, w *letterWork, selected *hookadmin.DeadLettersRequest) (faults []error, err error) {
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
		return noEvent(source, eventID), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	if found {
		return noteNeeded(detail), nil
	}
	return &app.Error{
		Err:    fmt.Errorf("event %q of source %q has no dead letter: it is %s", eventID, source, detail.State),
		Remedy: "hookonce events show " + word(source) + " " + word(eventID),
	}, nil
}

// noteNeeded returns an error if only a replay that names the note runs a dead event again, or nil.
func noteNeeded(e *hookadmin.EventDetail) error {
	if e.State != driver.StateDead || e.Note != driver.NoteTxEnded {
		return nil
	}
	return &app.Error{
		Err: fmt.Errorf("event %q of source %q: %w", e.EventID, e.Source, driver.ErrNoteNeeded),
		Remedy: "correct the handler, look at the effects of the event, and if it is to run again: hookonce events replay " +
			word(e.Source) + " " + word(e.EventID) + " --note '" + driver.NoteTxEnded + "'",
	}
}

// messageNotDead returns an error that says why a message is not a dead letter, or nil if it is
// one.
func (a *api) messageNotDead(ctx context.Context, id string) (fault, err error) {
	page, err := a.Messages(ctx, one("message_id", id))
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for a message: %w", err)
	case len(page.Messages) == 0:
		return &app.Error{Err: fmt.Errorf("message %q: %w", id, driver.ErrNotFound), Remedy: "hookonce dlq list"}, nil
	case page.Messages[0].State != driver.StateDead:
		m := &page.Messages[0]
		return &app.Error{
			Err:    fmt.Errorf("message %q is not dead: it is %s", id, m.State),
			Remedy: "hookonce events show " + word(m.Source) + " " + word(m.EventID),
		}, nil
	}
	return nil, nil
}

// watched is a store that counts the processed dead letters and shows the progress.
type watched struct {
	driver.Store
	progress       *progress
	looked, worked int
}

// ReplayDead implements driver.Store.
func (s *watched) ReplayDead(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	done, err := s.Store.ReplayDead(ctx, p)
	s.count(done)
	return done, err
}

// Discard implements driver.Store.
func (s *watched) Discard(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	done, err := s.Store.Discard(ctx, p)
	s.count(done)
	return done, err
}

func (s *watched) count(done []bool) {
	for _, did := range done {
		s.looked++
		if did {
			s.worked++
		}
	}
	s.progress.show("%d dead letters, %d processed", s.looked, s.worked)
}
