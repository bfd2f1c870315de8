package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/shown"
)

func (p *program) eventsRedactCommand() *cobra.Command {
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "redact SOURCE EVENT_ID",
		Short: "Remove the body, the headers and the answers of one event for good",
		Long: "Remove the payload of one finished event for good: its body and headers, the\n" +
			"other body, the responses and error texts of its attempts, and those of the\n" +
			"messages that its handlers enqueued. The identity, the hash of the body, states,\n" +
			"deliveries and history stay: later deliveries are duplicates, and the event\n" +
			"cannot be replayed. It asks first, unless --yes is set.\n" +
			"\n" +
			"On SQLite the bytes are overwritten in the file and gone from its log when the\n" +
			"command ends; if not, or on PostgreSQL, it says where they may remain. Backups\n" +
			"and logs of the gateway are not redacted.",
		Example: "  hookonce events redact stripe evt_1 --yes",
		Args:    arguments("SOURCE", "EVENT_ID"),
	}
	flags := addAPIFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask whether to remove it")
	addJSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.withAPI(cmd.Context(), flags, changes, func(ctx context.Context, api *api) error {
			return p.redactEvent(ctx, cmd, api, args[0], args[1], yes, asJSON)
		})
	}
	return cmd
}

func (p *program) redactEvent(ctx context.Context, cmd *cobra.Command, api *api, source, eventID string, yes, asJSON bool) error {
	if !yes {
		if _, err := api.Event(ctx, source, eventID); err != nil {
			return notRedacted(ctx, api.Client, source, eventID, err)
		}
		change := fmt.Sprintf("remove the payload of event %q of source %q for good", eventID, source)
		fmt.Fprintf(p.stderr, "This would %s.\n", change)
		if err := p.ask(ctx, cmd, change); err != nil {
			return err
		}
	}
	redacted, err := api.RedactEvent(ctx, source, eventID)
	if err != nil {
		return notRedacted(ctx, api.Client, source, eventID, err)
	}
	if asJSON {
		return writeJSON(p.stdout, redacted)
	}
	done := "redacted event"
	if redacted.Repeated {
		done = "nothing to do: redacted before: event"
	}
	fmt.Fprintf(p.stdout, "%s %q of source %q\n", done, eventID, source)
	if redacted.Remains != "" {
		fmt.Fprintln(p.stdout, shown.Escape(redacted.Remains))
	}
	return nil
}

// notRedacted turns the error of a redaction into one for the operator.
func notRedacted(ctx context.Context, client *adminclient.Client, source, eventID string, err error) error {
	event := fmt.Sprintf("event %q of source %q", eventID, source)
	show := "hookonce events show " + word(source) + " " + word(eventID)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return noEvent(ctx, client, source, eventID)
	case errors.Is(err, driver.ErrOpen):
		return app.Errorf("%s, or a message that its handler enqueued, is open: %w", event, driver.ErrOpen).
			Try("wait until all of it is done or dead: " + show)
	case errors.Is(err, driver.ErrLockTimeout):
		return app.Errorf("%s is in use: %w", event, driver.ErrLockTimeout).
			Try("run the same command again in a moment")
	case errors.Is(err, driver.ErrCommitUnknown):
		return app.Errorf("%s may have been redacted: %w", event, err).
			Try("run the same command again: repeating it is safe")
	}
	return fmt.Errorf("redacting an event: %w", err)
}
