package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

func (p *program) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "events", Short: "List, show, follow, replay and redact events"}
	cmd.AddCommand(p.eventsListCommand(), p.eventsShowCommand(), p.eventsReplayCommand(), p.eventsRedactCommand(), p.eventsTailCommand())
	return cmd
}

var eventList = &list[hookadmin.EventPage, hookadmin.Event]{
	things: "events", doing: "listing events",
	filters: slices.Concat(eventFilters, pageFlags), parse: checkedBy(hookadmin.ParseFilter), ask: (*adminclient.Client).Events,
	rows: func(page *hookadmin.EventPage) ([]hookadmin.Event, string, hookadmin.Time) {
		return page.Events, page.Next, page.SearchedUntil
	},
	narrow: []narrowing{
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
	},
	columns: []string{"RECEIVED", "SOURCE", "EVENT ID", "TYPE", "STATE", "ATTEMPTS", "DUPLICATES", "NOTE"},
	cells: func(ev *hookadmin.Event) []string {
		return []string{
			at(ev.ReceivedAt), ev.Source, ev.EventID, orDash(ev.Type), ev.ShownState(), strconv.Itoa(ev.Attempts),
			strconv.FormatInt(ev.Duplicates, 10), remarkOn(ev),
		}
	},
}

// remarkOn returns the note of an event. It also says that no delivery brought the event.
func remarkOn(ev *hookadmin.Event) string {
	note := cmp.Or(ev.Note, ev.LastError)
	if ev.By != "reconcile" {
		return orDash(note)
	}
	return strings.TrimSuffix("by reconcile, "+note, ", ")
}

func (p *program) eventsListCommand() *cobra.Command {
	return eventList.command(p, &cobra.Command{Use: "list", Short: "List events, newest first"})
}

func (p *program) eventsShowCommand() *cobra.Command {
	return (&show[hookadmin.EventDetail]{
		names: []string{"[SOURCE]", "EVENT_ID"}, doing: "reading an event", print: printEvent,
		ask: func(ctx context.Context, client *adminclient.Client, args []string) (*hookadmin.EventDetail, error) {
			if len(args) == 1 {
				source, err := sourceOf(ctx, client, args[0])
				if err != nil {
					return nil, err
				}
				args = []string{source, args[0]}
			}
			return client.Event(ctx, args[0], args[1])
		},
		absent: func(ctx context.Context, client *adminclient.Client, args []string, _ error) error {
			if len(args) == 1 {
				return see(runbook.Missing, app.Errorf("event %q: %w", args[0], driver.ErrNotFound).
					Try("hookonce events list"))
			}
			return noEvent(ctx, client, args[0], args[1])
		},
	}).command(p, &cobra.Command{Use: "show [SOURCE] EVENT_ID", Short: "Show one event: headers, body, every attempt"})
}

// sourceOf returns the only source with an event of this id.
func sourceOf(ctx context.Context, client *adminclient.Client, eventID string) (string, error) {
	page, err := client.Search(ctx, eventID)
	if err != nil {
		return "", err
	}
	var sources []string
	for i := range page.Hits {
		if hit := &page.Hits[i]; hit.Kind == "event" && hit.EventID == eventID {
			sources = append(sources, hit.Source)
		}
	}
	switch len(sources) {
	case 0:
		return "", driver.ErrNotFound
	case 1:
		return sources[0], nil
	}
	return "", app.Errorf("%d sources have an event %q: %s", len(sources), eventID, strings.Join(sources, ", ")).
		Try("hookonce events show " + word(sources[0]) + " " + word(eventID))
}

// noEvent is the error of an event that does not exist. It says whether the source does.
func noEvent(ctx context.Context, client *adminclient.Client, source, eventID string) error {
	about, remedy := "", "hookonce events list --source "+word(source)
	if near, unknown := unknownSource(ctx, client, source); unknown {
		about, remedy = "; there is no such source"+near, "hookonce sources list"
	}
	return see(runbook.Missing, app.Errorf("event %q of source %q: %w%s", eventID, source, driver.ErrNotFound, about).
		Try(remedy))
}

// printEvent prints one event for people.
func printEvent(w io.Writer, found *hookadmin.EventDetail) {
	t := newFacts(w)
	d := &found.Deliveries
	for _, line := range [][2]string{
		{"Source", found.Source},
		{"Event id", found.EventID},
		{"Type", orDash(found.Type)},
		{"State", found.ShownState()},
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
	t.Flush()
	printDeliveries(w, found)
	printMessages(w, found)
	printHistory(w, found)
	printPayload(w, found)
	if o := found.OtherBody; o != nil { // the first delivery with another body
		fmt.Fprintf(w, "\nOther body, delivered at %s: %d bytes\nSHA-256 %s\n", at(o.At), o.BodySize, shown.Escape(o.BodySHA256))
		printHeadersAndBody(w, o.Headers, o.Body, o.BodyBase64)
	}
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
	if remote == driver.RemoteReconcile {
		remote = "reconcile, which found it in the provider's list"
	}
	if gateway == "" {
		return orDash(remote)
	}
	return orDash(remote) + ", received by " + gateway
}

// printDeliveries prints the newest deliveries of an event that was delivered more than once.
func printDeliveries(w io.Writer, found *hookadmin.EventDetail) {
	if len(found.Deliveries.Recent) < 2 {
		return
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
	t.Flush()
}

// printResponses prints the kept answers to failed attempts.
func printResponses(w io.Writer, attempts []hookadmin.Attempt) {
	for i := range attempts {
		a := &attempts[i]
		var text string
		switch {
		case a.Response != nil:
			text = shown.EscapeLines(*a.Response)
		case a.ResponseBase64 != nil:
			text = escaped("It", a.ResponseBase64)
		default:
			continue
		}
		fmt.Fprintf(w, "\nAnswer to attempt %d of %s (%s):\n%s\n", a.Number, shown.Escape(a.MessageID),
			shown.Escape(cmp.Or(a.ResponseType, "no content type")), text)
	}
}

func printMessages(w io.Writer, found *hookadmin.EventDetail) {
	if len(found.Messages) > 0 {
		fmt.Fprintln(w)
		t := newTable(w, []narrowing{
			{"LAST ERROR", whole},
			{"DUE", brief},
			{"ATTEMPTS", brief},
			{"MESSAGE", below},
			{"ROUTE", 12},
			{"DESTINATION", 12},
			{"ROUTE", out},
			{"ATTEMPTS", out},
		}, "MESSAGE", "ROUTE", "DESTINATION", "STATE", "ATTEMPTS", "DUE", "LAST ERROR")
		for i := range found.Messages {
			m := &found.Messages[i]
			t.row(m.ID, orDash(m.Route), m.Destination, m.State, strconv.Itoa(m.Attempts), at(m.DueAt), remark(m.Note, m.LastError))
		}
		t.Flush()
	}
	if len(found.Attempts) > 0 {
		fmt.Fprintln(w)
		t := newTable(w, []narrowing{
			{"ERROR", whole}, {"AT", brief}, {"MESSAGE", 12}, {"MESSAGE", 8}, {"DESTINATION", 12}, {"MESSAGE", out}, {"TOOK", out}, {"STATUS", out},
		}, "ATTEMPT", "AT", "DESTINATION", "MESSAGE", "OUTCOME", "STATUS", "TOOK", "ERROR")
		to := make(map[string]string, len(found.Messages))
		for i := range found.Messages {
			to[found.Messages[i].ID] = found.Messages[i].Destination
		}
		for i := range found.Attempts {
			a := &found.Attempts[i]
			t.row(strconv.Itoa(a.Number), at(a.At), cmp.Or(to[a.MessageID], "handler"), orDash(a.MessageID), a.Outcome, status(a.StatusCode),
				say.BriefSeconds(a.TookSeconds), remark("", a.Error))
		}
		t.Flush()
		printResponses(w, found.Attempts)
	}
}

func printHistory(w io.Writer, found *hookadmin.EventDetail) {
	if len(found.History) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable(w, []narrowing{{"HISTORY", brief}, {"MESSAGE", 12}, {"REQUEST", 20}, {"MESSAGE", 8}, {"GENERATION", out}, {"REQUEST", 8}}, "HISTORY", "ACTION", "GENERATION", "MESSAGE", "REQUEST")
	for i := range found.History {
		h := &found.History[i]
		t.row(at(h.At), h.Action, strconv.Itoa(h.Generation), orDash(h.MessageID), orDash(h.RequestID))
	}
	t.Flush()
}

func printPayload(w io.Writer, found *hookadmin.EventDetail) {
	if found.BodyPruned {
		gone := "past their retention"
		if found.Redacted {
			gone = "redacted"
		}
		fmt.Fprintf(w, "\nHeaders and body are %s.\n", gone)
		return
	}
	printHeadersAndBody(w, found.Headers, found.Body, found.BodyBase64)
}

// printHeadersAndBody prints a request for people. body is nil if the bytes of raw are not text.
func printHeadersAndBody(w io.Writer, headers map[string][]string, body *string, raw []byte) {
	fmt.Fprintln(w)
	t := newFacts(w, "HEADER", "VALUE")
	for _, name := range sortedNames(headers) {
		for _, value := range headers[name] {
			t.row(name, value)
		}
	}
	t.Flush()
	text := escaped("The body", raw)
	if body != nil {
		text = shown.EscapeLines(*body)
	}
	fmt.Fprintf(w, "\n%s\n", text)
}
