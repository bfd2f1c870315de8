package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

func (p *program) dlqUndoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "undo REQUEST_ID",
		Short: "Take a discard back: its dead letters are dead again",
		Long: "Take a discard back, within ten minutes after its end: its dead letters are dead\n" +
			"again, as they were. dlq discard prints REQUEST_ID; the history in events show\n" +
			"names the job of a discard, which will do too. Letters that were undone before,\n" +
			"replayed, discarded again or pruned since are passed over. Repeating it is safe.",
		Example: "  hookonce dlq undo cli_2fdgr3lqh6",
		Args:    arguments("REQUEST_ID"),
	}
	flags := addAPIFlags(cmd)
	p.complete(flags, false)
	addJSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, restore := interruptible(cmd.Context())
		defer restore()
		return p.withAPI(ctx, flags, changes, func(ctx context.Context, api *api) error {
			return p.undoDiscard(ctx, api, args[0], asJSON)
		})
	}
	return cmd
}

// maxRequestID is the longest id of a request, in bytes.
const maxRequestID = 255

func (p *program) undoDiscard(ctx context.Context, api *api, id string, asJSON bool) error {
	if len(id) > maxRequestID {
		return notUndone(ctx, id, driver.ErrNotFound)
	}
	show, end := p.jobBar()
	undone, err := api.Undo(ctx, id, show)
	end()
	if undone.Undone+undone.Skipped == 0 && err != nil {
		return notUndone(ctx, id, err)
	}
	skipped := say.Count(undone.Skipped, "dead letter")
	switch {
	case asJSON:
		return errors.Join(writeJSON(p.stdout, undone), notUndone(ctx, id, err))
	case undone.Undone == 0 && undone.Skipped > 0:
		fmt.Fprintf(p.stdout, "nothing to undo: %s of this discard: undone before, replayed,\n"+
			"discarded again or pruned since, or locked by another session\n", skipped)
	default:
		fmt.Fprintf(p.stdout, "undid the discard of %s\n", say.Count(undone.Undone, "dead letter"))
		if undone.Skipped > 0 {
			fmt.Fprintf(p.stdout, "passed over %s: undone before, replayed, discarded again or\n"+
				"pruned since, or locked by another session\n", skipped)
		}
	}
	return errors.Join(p.written(), notUndone(ctx, id, err))
}

// notUndone turns the error of an undo into one for the operator.
func notUndone(ctx context.Context, id string, err error) error {
	discard := fmt.Sprintf("discard %q", id)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrNotFound):
		return app.Errorf("%s: %w", discard, driver.ErrNotFound).
			Try("give the request id that dlq discard printed; the discarded events: hookonce events list --note discarded")
	case errors.Is(err, driver.ErrTooLate):
		return app.Errorf("%s is more than %d minutes old: it cannot be undone", discard, int(driver.UndoTime.Minutes())).
			Try("replay its events; to list them: hookonce events list --note discarded")
	case errors.Is(err, driver.ErrOpen):
		return app.Errorf("%s is still running", discard).
			Try("interrupt the command that discards, or cancel the job in the dashboard; then run the same command again")
	case ctx.Err() != nil:
		return app.Errorf("interrupted").Try("run the same command again: repeating it is safe")
	}
	return fmt.Errorf("undoing %s: %w", discard, err)
}
