package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

func (p *program) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "events", Short: "List, show, follow, replay and redact events"}
	cmd.AddCommand(p.eventsListCommand(), p.eventsShowCommand(), p.eventsReplayCommand(), p.eventsRedactCommand(), p.eventsTailCommand())
	return cmd
}

func (p *program) eventsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, newest first",
		Args:  noArgs,
	}
	flags := addAPIFlags(cmd)
	filters := slices.Concat(eventFilters, pageFlags)
	addFilterFlags(cmd, filters)
	addJSONFlag(cmd, &asJSON)
	p.complete(flags, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, err := readQuery(cmd, filters, hookadmin.ParseFilter)
		if err != nil {
			return err
		}
		return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
			page, err := api.Events(ctx, query)
			if err != nil {
				return fmt.Errorf("listing events: %w", err)
			}
			if len(page.Events) == 0 {
				defer warnOfSource(ctx, p.stderr, api.Client, query.Get("source"))
			}
			if asJSON {
				return writeJSON(p.stdout, page)
			}
			return p.printEvents(page)
		})
	}
	return cmd
}

func (p *program) printEvents(page *hookadmin.EventPage) error {
	if len(page.Events) == 0 {
		return p.printNone("events", page.Next, page.SearchedUntil)
	}
	t := newTable(p.stdout, []narrowing{
		{"NOTE", 24},
		{"RECEIVED", brief},
		{"ATTEMPTS", brief},
		{"DUPLICATES", brief},
		{"TYPE", 16},
		{"NOTE", below},
		{"SOURCE", 12},
		{"EVENT ID", below},
		{"TYPE", 12},
		{"SOURCE", 8},
		{"TYPE", 8},
		{"DUPLICATES", out},
		{"ATTEMPTS", out},
		{"SOURCE", 5},
		{"TYPE", out},
	}, "RECEIVED", "SOURCE", "EVENT ID", "TYPE", "STATE", "ATTEMPTS", "DUPLICATES", "NOTE")
	for i := range page.Events {
		ev := &page.Events[i]
		t.row(at(ev.ReceivedAt), ev.Source, ev.EventID, orDash(ev.Type), ev.State, strconv.Itoa(ev.Attempts),
			strconv.FormatInt(ev.Duplicates, 10), remark(ev.Note, ev.LastError))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return p.printNext(page.Next, page.SearchedUntil)
}

// printNone says that a page has no rows: all were searched, or some.
func (p *program) printNone(things, next string, searched hookadmin.Time) error {
	if next == "" {
		fmt.Fprintf(p.stderr, "No %s.\n", things)
		return nil
	}
	fmt.Fprintf(p.stderr, "No %s so far.\n", things)
	return p.printNext(next, searched)
}

// printNext says how to list the next page; next is "" on the last one. searched is the time until
// which a search came, if it ended before the page was full.
func (p *program) printNext(next string, searched hookadmin.Time) error {
	if next == "" {
		return nil
	}
	if !time.Time(searched).IsZero() {
		_, err := fmt.Fprintf(p.stdout, "\nSearched back to %s. Search on: --cursor %s\n", at(searched), printable(word(next)))
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "\nThere are more: --cursor %s\n", printable(word(next)))
	return err
}

func (p *program) eventsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SOURCE EVENT_ID",
		Short: "Show one event: headers, body, every attempt",
		Args:  arguments("SOURCE", "EVENT_ID"),
	}
	flags := addAPIFlags(cmd)
	addJSONFlag(cmd, &asJSON)
	p.complete(flags, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
			found, err := api.Event(ctx, args[0], args[1])
			if errors.Is(err, driver.ErrNotFound) {
				return noEvent(args[0], args[1])
			}
			if err != nil {
				return fmt.Errorf("reading an event: %w", err)
			}
			if asJSON {
				return writeJSON(p.stdout, found)
			}
			return printEvent(p.stdout, found)
		})
	}
	return cmd
}

func noEvent(source, eventID string) error {
	return &app.Error{
		Err:    fmt.Errorf("event %q of source %q: %w", eventID, source, driver.ErrNotFound),
		Remedy: "hookonce events list --source " + word(source),
	}
}

// printEvent prints one event for people.
func printEvent(w io.Writer, found *hookadmin.EventDetail) error {
	t := newFacts(w)
	d := &found.Deliveries
	for _, line := range [][2]string{
		{"Source", found.Source},
		{"Event id", found.EventID},
		{"Type", orDash(found.Type)},
		{"State", found.State},
		{"Note", orDash(found.Note)},
		{"Generation", strconv.Itoa(found.Generation)},
		{"Received", at(found.ReceivedAt)},
		{"Occurred", at(found.OccurredAt)},
		{"Processed", at(found.ProcessedAt)},
		{"Failed", at(found.FailedAt)},
		{"Last error", orDash(found.LastError)},
		{"Deliveries", fmt.Sprintf("%d, the last at %s", d.Count, at(d.LastAt))},
		{"First from", fromClient(d.FirstRemote, d.FirstGateway)},
		{"Other bodies", fmt.Sprintf("%d of these deliveries", d.OtherBodies)},
		{"Repeats", repeats(d.Repeats)},
		{"Repeat of", orDash(d.RepeatOf)},
		{"Body SHA-256", found.BodySHA256},
	} {
		t.row(line[0]+":", line[1])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printDeliveries(w, found); err != nil {
		return err
	}
	if err := printMessages(w, found); err != nil {
		return err
	}
	if err := printPayload(w, found); err != nil {
		return err
	}
	return printOtherBody(w, found.OtherBody)
}

// repeats counts the deliveries of a body under other ids.
func repeats(n int64) string {
	if n == 1 {
		return "1 delivery of this body under another id"
	}
	return fmt.Sprintf("%d deliveries of this body under other ids", n)
}

// fromClient names the client and the gateway of a delivery.
func fromClient(remote, gateway string) string {
	if gateway == "" {
		return orDash(remote)
	}
	return orDash(remote) + ", received by " + gateway
}

// printDeliveries prints the newest deliveries of an event that was delivered more than once.
func printDeliveries(w io.Writer, found *hookadmin.EventDetail) error {
	if len(found.Deliveries.Recent) < 2 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w, []narrowing{{"GATEWAY", 16}, {"REMOTE", 16}}, "DELIVERED", "REMOTE", "GATEWAY", "BODY")
	for _, d := range found.Deliveries.Recent {
		body := "same"
		if !d.SameBody {
			body = "other"
		}
		t.row(at(d.At), orDash(d.Remote), orDash(d.Gateway), body)
	}
	return t.Flush()
}

// printOtherBody prints the first delivery with another body.
func printOtherBody(w io.Writer, o *hookadmin.OtherBody) error {
	if o == nil {
		return nil
	}
	fmt.Fprintf(w, "\nOther body, delivered at %s: %d bytes, SHA-256 %s\n", at(o.At), o.BodySize, printable(o.BodySHA256))
	return printHeadersAndBody(w, o.Headers, o.Body, o.BodyBase64)
}

// printResponses prints the kept answers to failed attempts.
func printResponses(w io.Writer, attempts []hookadmin.Attempt) error {
	for i := range attempts {
		a := &attempts[i]
		var text string
		switch {
		case a.Response != nil:
			text = printableLines(*a.Response)
		case a.ResponseBase64 != nil:
			text = escaped("It", a.ResponseBase64)
		default:
			continue
		}
		if _, err := fmt.Fprintf(w, "\nAnswer to attempt %d of %s (%s):\n%s\n", a.Number, printable(a.MessageID),
			printable(cmp.Or(a.ResponseType, "no content type")), text); err != nil {
			return err
		}
	}
	return nil
}

func printMessages(w io.Writer, found *hookadmin.EventDetail) error {
	if len(found.Messages) > 0 {
		fmt.Fprintln(w)
		t := newTable(w, []narrowing{
			{"LAST ERROR", 30},
			{"DUE", brief},
			{"ATTEMPTS", brief},
			{"MESSAGE", below},
			{"LAST ERROR", below},
			{"ROUTE", 12},
			{"DESTINATION", 12},
			{"ROUTE", out},
			{"ATTEMPTS", out},
		}, "MESSAGE", "ROUTE", "DESTINATION", "STATE", "ATTEMPTS", "DUE", "LAST ERROR")
		for i := range found.Messages {
			m := &found.Messages[i]
			t.row(m.ID, orDash(m.Route), m.Destination, m.State, strconv.Itoa(m.Attempts), at(m.DueAt), remark(m.Note, m.LastError))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(found.Attempts) > 0 {
		fmt.Fprintln(w)
		t := newTable(w, []narrowing{
			{"ERROR", 30}, {"AT", brief}, {"MESSAGE", 12}, {"ERROR", below}, {"MESSAGE", 8}, {"TOOK", out}, {"STATUS", out}, {"MESSAGE", out},
		}, "ATTEMPT", "AT", "MESSAGE", "OUTCOME", "STATUS", "TOOK", "ERROR")
		for i := range found.Attempts {
			a := &found.Attempts[i]
			t.row(strconv.Itoa(a.Number), at(a.At), cmp.Or(a.MessageID, "handler"), a.Outcome, status(a.StatusCode),
				seconds(a.TookSeconds), remark("", a.Error))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if err := printResponses(w, found.Attempts); err != nil {
			return err
		}
	}
	return printHistory(w, found)
}

func printHistory(w io.Writer, found *hookadmin.EventDetail) error {
	if len(found.History) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w, []narrowing{{"HISTORY", brief}, {"MESSAGE", 12}, {"REQUEST", 20}, {"MESSAGE", 8}, {"GENERATION", out}, {"REQUEST", 8}}, "HISTORY", "ACTION", "GENERATION", "MESSAGE", "REQUEST")
	for i := range found.History {
		h := &found.History[i]
		t.row(at(h.At), h.Action, strconv.Itoa(h.Generation), orDash(h.MessageID), orDash(h.RequestID))
	}
	return t.Flush()
}

func printPayload(w io.Writer, found *hookadmin.EventDetail) error {
	if found.BodyPruned {
		gone := "past their retention"
		if found.Redacted {
			gone = "redacted"
		}
		_, err := fmt.Fprintf(w, "\nHeaders and body are %s.\n", gone)
		return err
	}
	return printHeadersAndBody(w, found.Headers, found.Body, found.BodyBase64)
}

// printHeadersAndBody prints a request for people. body is nil if the bytes of raw are not text.
func printHeadersAndBody(w io.Writer, headers map[string][]string, body *string, raw []byte) error {
	fmt.Fprintln(w)
	t := newFacts(w, "HEADER", "VALUE")
	for _, name := range sortedNames(headers) {
		for _, value := range headers[name] {
			t.row(name, value)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if body == nil {
		_, err := fmt.Fprintf(w, "\n%s\n", escaped("The body", raw))
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", printableLines(*body))
	return err
}
